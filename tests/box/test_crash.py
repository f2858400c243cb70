"""Crash safety: kern killed at any moment takes its box with it, the next kern run removes what it left, and neighbours live on."""

import fcntl
import os
import random
import shutil
import signal
import subprocess
import time

import kerntest
from kerntest import BoxCase, as_root, as_root_and_user, as_user

ROUNDS = 200  # as root, and again as the user
MARK = str(1000000 + os.getpid())


def marked():
    """Processes of boxes of this run: they sleep for a telling number of seconds."""
    return kerntest.running("sleep", MARK)


class Crash(BoxCase):
    def directories(self):
        return self.me.run_directories()

    def everything(self):
        return {**kerntest.leaks(self.directories()), **({"boxes": marked()} if marked() else {})}

    def sweep(self, **keywords):
        """One more kern run, as short as they come."""
        self.assertEqual(self.rooted("true", **keywords).code, 0)

    def assert_swept(self):
        """Who was not quite dead yet when the last run looked is swept by one more."""
        kerntest.eventually(lambda: not self.everything(), seconds=3)
        if self.everything():
            kerntest.eventually(lambda: not kerntest.our_processes())
            self.sweep()
            kerntest.eventually(lambda: not self.everything())
        left = self.everything()
        if left:
            self.clean_up()
        self.assertEqual(left, {})

    def hold(self, name, owner):
        """The state file of a box whose supervisor is process `owner`, locked as by its last processes."""
        self.sweep()
        path = next(f"{place}/boxes/{name}" for place in self.directories() if os.path.isdir(place + "/boxes"))
        with open(path, "w", encoding="ascii") as file:
            file.write(f"pid {owner}\n")
            kerntest.give(path, self.me)
            os.chmod(path, 0o600)
            held = os.dup(file.fileno())
        fcntl.flock(held, fcntl.LOCK_EX)
        return held


@as_root_and_user
class KilledAtRandom(Crash):
    def variants(self):
        folder, config = self.folder(), self.file("[box]\nnice = 3\n", "kern.toml")
        yield from ([], ["--init"], ["--rootfs", self.root], ["--rootfs", self.root, "--bind-rootfs"], ["-m", "64m"],
                    ["-v", f"{folder}:/v", "--tmpfs", "/t"], ["--ro", "--cap-drop", "ALL"], ["--net"], ["vcpu:heavy"],
                    ["--config", config], ["--security-profile", "untrusted"], ["named"])

    def test_nothing_is_left(self):
        dice = random.Random(2)
        variants = list(self.variants())
        neighbour = self.start("box", "neighbour", "-q", "--rootfs", self.root, "--", "sh", "-c",
                               "echo up; read x; echo alive", stdin=-1)
        neighbour.line()
        for count in range(ROUNDS):
            options = variants[count % len(variants)]
            running = self.start("box", "-q", *options, "--", "sleep", MARK)
            time.sleep(dice.random() * 0.03)
            if count % 10 == 9:  # now and then a box that is starting beside the one that dies
                other = self.start("box", "-q", "--rootfs", self.root, "--", "echo", "ok")
                running.signal(signal.SIGKILL)
                result = other.wait()
                self.assertEqual((result.code, result.out), (0, "ok\n"), result)
            running.signal(signal.SIGKILL)
            running.process.wait()
            self._reap(running)
        self.assertTrue(kerntest.eventually(lambda: not marked()), "boxes outlive their kern")
        self.sweep()
        def others():
            return {key: found for key, found in self.everything().items() if key not in ("processes", "groups")}  # the neighbour's
        if others():  # those that were not quite dead yet when the sweep looked
            kerntest.eventually(lambda: self.sweep() or not others())
        self.assertEqual(others(), {})
        result = neighbour.wait("\n")
        self.assertEqual((result.code, result.out), (0, "alive\n"), result)
        self.assert_swept()


@as_root_and_user
class Lifeline(Crash):
    def kill_and_look(self, *command, options=()):
        running = self.start("box", "-q", "--rootfs", self.root, *options, "--", *command)
        running.line()
        self.assertTrue(kerntest.eventually(marked))
        running.signal(signal.SIGKILL)
        running.process.wait()
        self.assertTrue(kerntest.eventually(lambda: not marked()), "the box outlives its kern")
        self.sweep()
        self.assert_swept()

    def test_a_plain_command(self):
        self.kill_and_look("sh", "-c", f"echo up; exec sleep {MARK}")

    def test_grandchildren_in_sessions_of_their_own(self):
        self.kill_and_look("sh", "-c", f"setsid sh -c 'trap \"\" TERM HUP; sleep {MARK} & sleep {MARK}' & echo up; wait")

    def test_an_entrypoint_like_gosu(self):
        """It changes ids and clears the parent-death signal, which takes PR_SET_PDEATHSIG's effect away."""
        for options in ((), ("--init",)):
            for word in ("7", "0") if self.me.is_root else ("0",):
                with self.subTest(options=options, word=word):
                    self.kill_and_look("sh", "-c", f"echo up; exec probe gosu {word} sleep {MARK}", options=options)

    def test_a_command_that_ignores_everything(self):
        self.kill_and_look("sh", "-c", f"probe gosu 0 & echo up; sleep {MARK}")

    def test_the_whole_session_of_kern_is_killed(self):
        running = self.start("box", "-q", "--rootfs", self.root, "--", "sh", "-c", f"echo up; exec sleep {MARK}",
                             start_new_session=True)
        running.line()
        os.killpg(running.pid, signal.SIGKILL)
        running.process.wait()
        self.assertTrue(kerntest.eventually(lambda: not marked()))
        self.sweep()
        self.assert_swept()

    def test_a_name_is_free_again(self):
        running = self.start("box", "phoenix", "-q", "--rootfs", self.root, "--", "sh", "-c", f"echo up; exec sleep {MARK}")
        running.line()
        running.signal(signal.SIGKILL)
        running.process.wait()
        kerntest.eventually(lambda: not marked())
        self.assertEqual(self.kern("box", "phoenix", "--rootfs", self.root, "--", "true").code, 0)
        self.assert_swept()

    def test_the_last_of_a_killed_box_is_waited_for(self):
        gone = subprocess.Popen(["true"])
        gone.wait()
        held = self.hold("slow", gone.pid)
        running = self.start("box", "slow", "-q", "--rootfs", self.root, "--", "true")
        time.sleep(0.3)
        self.assertIsNone(running.process.poll())
        os.close(held)
        self.assertEqual(running.wait().code, 0)

    def test_a_living_one_keeps_its_name(self):
        held = self.hold("living", os.getpid())
        self.addCleanup(os.close, held)
        result = self.kern("box", "living", "--rootfs", self.root, "--", "true")
        self.assert_failed(result, 1, "a box of that name is running")
        os.unlink(next(path for path in (f"{place}/boxes/living" for place in self.directories()) if os.path.exists(path)))


@as_root
class GroupsStayWrittenDown(Crash):
    """The record is all that leads to a group: it goes last."""

    def ended_at_once(self, *options):
        """Who ends a box at once sends two signals, and where they meet kern is not known."""
        dice = random.Random(3)
        for _ in range(ROUNDS // 2):
            running = self.start("box", "-q", *options, "--", "true")
            time.sleep(dice.random() * 0.012)
            running.signal(signal.SIGTERM)
            running.signal(signal.SIGQUIT)
            result = running.wait()
            self.assertNotIn("still running", result.err)
            self.assertNotIn("did not end", result.err)
        self.assertTrue(kerntest.eventually(lambda: not self.everything()), self.everything())

    def test_two_signals_at_once(self):
        self.ended_at_once()

    def test_two_signals_at_once_with_all_groups(self):
        self.ended_at_once("--cpus", "1", "--cpuset-cpus", "0", "--io-weight", "50")

    def freeze(self, pid):
        """A frozen process of version 1 does not even end by SIGKILL, and keeps its groups busy."""
        if not os.path.exists("/sys/fs/cgroup/freezer/cgroup.procs"):
            self.skipTest("no hierarchy of version 1 that freezes")
        group = f"/sys/fs/cgroup/freezer/kerntest-{os.getpid()}"
        os.mkdir(group)
        self.addCleanup(subprocess.run, ["rmdir", group], check=True)
        self.addCleanup(kerntest.eventually, lambda: not marked())
        self.addCleanup(self.thaw, group)
        kerntest.write(group + "/cgroup.procs", str(pid))
        kerntest.write(group + "/freezer.state", "FROZEN")
        self.assertTrue(kerntest.eventually(lambda: self.state_of(group) == "FROZEN"))
        return group

    @staticmethod
    def state_of(group):
        with open(group + "/freezer.state", encoding="ascii") as file:
            return file.read().strip()

    @staticmethod
    def thaw(group):
        kerntest.write(group + "/freezer.state", "THAWED")

    def killed_and_frozen(self, *options):
        running = self.start("box", "-q", "--rootfs", self.root, *options, "--", "sh", "-c", f"echo up; exec sleep {MARK}")
        running.line()
        self.assertTrue(kerntest.eventually(lambda: len(marked()) == 1))
        group = self.freeze(marked()[0])
        running.signal(signal.SIGKILL)
        running.process.wait()
        self._reap(running)
        return group

    def thawed(self, group):
        self.thaw(group)
        self.assertTrue(kerntest.eventually(lambda: not marked()))
        self.assert_swept()

    def test_a_busy_group_is_for_a_later_sweep(self):
        group = self.killed_and_frozen()
        before = time.monotonic()
        self.kern("recover")
        self.assertLess(time.monotonic() - before, 10)
        self.sweep()
        left = kerntest.group_leaks()
        self.assertTrue(left)
        told = self.kern("recover", "--dry-run").out
        for path in left:
            self.assertIn(f"group {path}\n", told)
        self.thawed(group)

    def test_a_busy_group_outlives_the_next_box_of_its_name(self):
        group = self.killed_and_frozen("phoenix")
        result = self.kern("box", "phoenix", "-q", "--rootfs", self.root, "--", "true")
        self.assertEqual(result.code, 0, result)
        self.assertTrue(kerntest.group_leaks())
        self.thawed(group)

    def test_a_busy_group_keeps_nobody_waiting(self):
        group = self.killed_and_frozen()
        for _ in range(2):  # its groups were three seconds' worth of waiting, in a kern that could not even see its deadline
            result = self.rooted("sleep", "60", options=["--timeout", "0.5"])
            self.assertEqual(result.fault, "timeout", result)
            self.assertLess(result.report["usage"]["wall_ms"], 1500, result)
        self.thawed(group)

    def test_a_group_without_a_record(self):
        """Only kern recover takes it, and only if it is empty, kern's by its name, and of a kern that does not live."""
        parent = next((place for place in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup") if os.path.exists(place + "/cgroup.procs")), None)
        gone = subprocess.Popen(["true"])
        gone.wait()
        names = [f"kern.lost.{gone.pid}", f"kern.lost.{os.getpid()}", f"kern.full.{gone.pid}", f"other.lost.{gone.pid}", "kern.lost",
                 f"kern.known.{gone.pid}", f"kern.deep.{gone.pid}"]
        paths = [f"{parent}/{name}" for name in names] + [f"{parent}/kern.deep.{gone.pid}/sub"]
        for path in paths:
            os.mkdir(path)
            self.addCleanup(lambda path=path: os.path.isdir(path) and os.rmdir(path))
        held = self.hold("known", os.getpid())
        self.addCleanup(lambda: os.unlink("/run/kern/boxes/known"))
        self.addCleanup(os.close, held)
        sleeper = subprocess.Popen(["sleep", "60"])
        self.addCleanup(sleeper.wait)
        self.addCleanup(sleeper.kill)
        kerntest.write(paths[2] + "/cgroup.procs", str(sleeper.pid))
        told = self.kern("recover", "--dry-run").out
        self.assertEqual(told, f"empty group without a record\n  group {paths[0]}\n"
                               "would clear up after 0 killed boxes, 0.0M of disk\n")
        self.sweep()
        self.assertEqual([path for path in paths if os.path.isdir(path)], paths)
        self.kern("recover")
        self.assertEqual([path for path in paths if os.path.isdir(path)], paths[1:])


@as_user
class TwoRegistries(Crash):
    """One user has one registry, whatever way they logged in."""

    def setUp(self):
        """Before the user logs in there is no /run/user/UID, and kern's state goes to /tmp."""
        self.runtime = f"/run/user/{self.me.uid}"
        if not kerntest.IS_ROOT or os.path.exists(self.runtime):
            self.skipTest("only root can play a login")
        self.addCleanup(shutil.rmtree, self.runtime, ignore_errors=True)

    def log_in(self):
        os.makedirs(self.runtime, 0o755)
        os.chmod(self.runtime, 0o700)
        kerntest.give(self.runtime, self.me)
        return {"XDG_RUNTIME_DIR": self.runtime}

    def check_sweep(self, sweeper):
        boxes = []
        for env in (dict, self.log_in):
            boxes.append(self.start("box", "-q", "--rootfs", self.root, "--", "sh", "-c", f"echo up; exec sleep {MARK}",
                                    env=env()))
            boxes[-1].line()
        time.sleep(0.1)  # their control sockets
        for running in boxes:
            running.signal(signal.SIGKILL)
            running.process.wait()
        kerntest.eventually(lambda: not marked())
        self.assertTrue(kerntest.eventually(
            lambda: len({os.path.dirname(p) for p in kerntest.state_leaks(self.directories())}) == 2))
        self.sweep(env=sweeper)
        self.assert_swept()

    def test_both_are_swept(self):
        self.check_sweep({"XDG_RUNTIME_DIR": self.runtime})

    def test_both_are_swept_without_the_variable(self):
        self.check_sweep({})

    def test_a_name_is_taken_in_both(self):
        running = self.start("box", "mine", "-q", "--", "sh", "-c", "echo up; sleep 60")
        running.line()
        result = self.kern("box", "mine", "--", "true", env=self.log_in())
        running.signal(signal.SIGTERM)
        running.wait()
        self.assert_failed(result, 1, '"mine"')

    def test_a_directory_of_somebody_else_is_refused(self):
        for mode in (0o777, 0o755):
            with self.subTest(mode):
                runtime = self.folder(0o700)
                os.mkdir(runtime + "/kern")
                os.chmod(runtime + "/kern", mode)
                kerntest.give(runtime + "/kern", self.me)
                result = self.box("true", env={"XDG_RUNTIME_DIR": runtime})
                self.assertIn(result.code, (1, 125), result)
                self.assert_failed(result, result.code, "run directory")


@as_root
class SweepIsCareful(Crash):
    """What stands in the state of a dead box is a claim, not an order."""

    def test_a_forged_entry_removes_nothing_else(self):
        self.sweep()
        victim = f"/sys/fs/cgroup/pids/kerntest-{os.getpid()}"
        if not os.path.isdir("/sys/fs/cgroup/pids"):
            victim = f"/sys/fs/cgroup/kerntest-{os.getpid()}"
        os.mkdir(victim)
        self.addCleanup(lambda: os.path.isdir(victim) and os.rmdir(victim))
        outside = self.file("keep", "outside")
        path = f"/run/kern/boxes/forged-{os.getpid()}"
        kerntest.write(path, f"pid 1\ngroup {victim}\ngroup /sys/fs/cgroup\nsocket ../../../{outside}\nsocket ../id-blocks\n"
                             f"group {outside}\nnosuch {outside}\n" + "x" * 9000, 0o600)
        self.assertEqual(self.rooted("sleep", "0.2").code, 0)
        self.assertTrue(kerntest.eventually(lambda: not os.path.exists(path)))
        self.assertTrue(os.path.isdir(victim))
        self.assertTrue(os.path.exists(outside))
        self.assertTrue(os.path.exists("/run/kern/id-blocks"))

    def test_a_living_box_is_never_swept(self):
        running = self.start("box", "-q", "--rootfs", self.root, "-m", "64m", "--", "sh", "-c", "echo up; read x; echo alive",
                             stdin=-1)
        running.line()
        groups = len(kerntest.group_leaks())
        for _ in range(3):
            self.assertEqual(self.rooted("sleep", "0.1").code, 0)
        self.assertEqual(len(kerntest.group_leaks()), groups)
        result = running.wait("\n")
        self.assertEqual((result.code, result.out), (0, "alive\n"))


if __name__ == "__main__":
    kerntest.main()

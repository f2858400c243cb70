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

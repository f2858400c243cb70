"""Crash safety: kern killed at any moment takes its box with it, the next kern run removes what it left, and neighbours live on."""

import os
import random
import signal
import time

import kerntest
from kerntest import BoxCase, as_root, as_root_and_user, as_user

ROUNDS = 200  # as root, and again as the user
MARK = "98765"


def marked(mark=MARK):
    """Processes of boxes of this run: they sleep for a telling number of seconds."""
    def is_marked(pid):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return mark.encode() in file.read().split(b"\0")
    return kerntest.processes(is_marked)


class Crash(BoxCase):
    def directories(self):
        return self.me.run_directories()

    def everything(self):
        return {**kerntest.leaks(self.directories()), **({"boxes": marked()} if marked() else {})}

    def sweep(self, **keywords):
        """One more kern run, as short as they come."""
        self.assertEqual(self.rooted("true", **keywords).code, 0)

    def assert_swept(self):
        kerntest.eventually(lambda: not self.everything(), seconds=3)
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
        neighbour = self.start("box", "neighbour", "-q", "--rootfs", self.root, "--", "sh", "-c", "echo up; read x; echo alive",
                               stdin=-1)
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
        others = {**self.everything()}
        others.pop("processes", None), others.pop("groups", None)  # the neighbour's
        self.assertEqual(others, {})
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


@as_user
class TwoRegistries(Crash):
    """One user has one registry, whatever way they logged in."""

    def directories(self):
        return self.me.run_directories(self.runtime)

    def test_both_are_swept(self):
        self.runtime = self.folder(0o700)
        envs = ({"XDG_RUNTIME_DIR": self.runtime}, {})
        for sweeper in envs:
            for env in envs:
                running = self.start("box", "-q", "--rootfs", self.root, "--", "sh", "-c", f"echo up; exec sleep {MARK}",
                                     env=env)
                running.line()
                time.sleep(0.1)  # its control socket
                running.signal(signal.SIGKILL)
                running.process.wait()
            kerntest.eventually(lambda: not marked())
            self.assertEqual(len({os.path.dirname(p) for p in kerntest.state_leaks(self.directories())}), 2)
            self.sweep(env=sweeper)
            self.assert_swept()

    def test_a_name_is_taken_in_both(self):
        self.runtime = self.folder(0o700)
        running = self.start("box", "mine", "-q", "--", "sh", "-c", "echo up; sleep 60", env={"XDG_RUNTIME_DIR": self.runtime})
        running.line()
        self.assert_failed(self.kern("box", "mine", "--", "true"), 1, '"mine"')
        running.signal(signal.SIGTERM)
        running.wait()

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
        victim = "/sys/fs/cgroup/pids/kerntest-victim"
        if not os.path.isdir("/sys/fs/cgroup/pids"):
            victim = "/sys/fs/cgroup/kerntest-victim"
        os.mkdir(victim)
        self.addCleanup(lambda: os.path.isdir(victim) and os.rmdir(victim))
        outside = self.file("keep", "outside")
        path = f"/run/kern/boxes/forged-{os.getpid()}"
        kerntest.write(path, f"pid 1\ngroup {victim}\ngroup /sys/fs/cgroup\nsocket ../../../{outside}\nsocket ../ids\n"
                             f"group {outside}\nnosuch {outside}\n" + "x" * 9000, 0o600)
        self.assertEqual(self.rooted("sleep", "0.2").code, 0)
        self.assertTrue(kerntest.eventually(lambda: not os.path.exists(path)))
        self.assertTrue(os.path.isdir(victim))
        self.assertTrue(os.path.exists(outside))
        self.assertTrue(os.path.isdir("/run/kern/ids"))

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

"""The logs of detached boxes: both streams, following, rotation, and a disk that is full."""

import os
import subprocess

import kerntest
from kerntest import as_root, as_root_and_user
from lifekit import LifeCase


@as_root_and_user
class Logs(LifeCase):
    def test_both_streams(self):
        name = self.detach("sh", "-c", "echo one; echo two >&2; printf three")
        self.succeed("wait", name)
        done = self.kern("logs", name)
        self.assertEqual((done.code, done.out, done.err), (0, "one\nthree", "two\n"))

    def test_its_worker_has_nothing_of_the_page_shared_with_the_box(self):
        """It reads what a stranger wrote, and kern believes what stands there."""
        self.detach("sleep", "60")
        with open(f"/proc/{self.supervisor}/task/{self.supervisor}/children", encoding="ascii") as file:
            children = file.read().split()
        filtered = []
        for pid in children:
            with open(f"/proc/{pid}/status", encoding="utf-8") as file:
                filtered += [pid] if "\nSeccomp:\t2\n" in file.read() else []
        self.assertEqual(len(filtered), 1, "the worker of the log")
        with open(f"/proc/{filtered[0]}/maps", encoding="utf-8") as file:
            self.assertEqual([line for line in file if line.split()[1].endswith("s")], [])

    def test_both_streams_to_one_file(self):
        name = self.detach("sh", "-c", "echo one; sleep 0.02; echo two >&2; sleep 0.02; echo three")
        self.succeed("wait", name)
        env = {"PATH": kerntest.BOX_PATH, "HOME": self.me.home}
        done = subprocess.run([kerntest.KERN, "logs", name], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=True, cwd="/", **self.me.popen)
        self.assertEqual(done.stdout, "one\ntwo\nthree\n")

    def test_tail_since_and_timestamps(self):
        name = self.detach("sh", "-c", "for i in 1 2 3 4 5; do echo $i; done")
        self.succeed("wait", name)
        self.assertIn("(default: all)", self.succeed("logs", "--help"))
        self.assertEqual(self.succeed("logs", "--tail", "2", name), "4\n5\n")
        self.assertEqual(self.succeed("logs", "-n", "0", name), "")
        self.assertEqual(self.succeed("logs", "--since", "1h", name), "1\n2\n3\n4\n5\n")
        self.assertEqual(self.succeed("logs", "--since", "2100-01-01", name), "")
        stamped = self.succeed("logs", "--timestamps", name).splitlines()
        self.assertRegex(stamped[0], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z 1$")
        self.assertEqual(self.succeed("logs", "--since", stamped[3].split()[0], name), "4\n5\n")
        self.assertEqual(self.kern("logs", "--since", "nonsense", name).code, 1)

    def test_follow_ends_with_the_box(self):
        name = self.detach("sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.2; done")
        self.assertEqual(self.succeed("logs", "-f", name), "1\n2\n3\n")

    def test_a_flood_is_rotated(self):
        name = self.detach("sh", "-c", "seq 1 200000", options=["--log-max", "256k"])
        self.succeed("wait", name)
        lines = self.succeed("logs", name).splitlines()
        self.assertEqual(lines[-1], "200000")
        self.assertEqual(lines, [str(i) for i in range(200001 - len(lines), 200001)])
        run = next(run for run in self.me.run_directories() if os.path.exists(os.path.join(run, "logs", name)))
        sizes = [os.path.getsize(os.path.join(run, "logs", name, part)) for part in "01"]
        self.assertLessEqual(sum(sizes), 256 * 1024)
        self.assertGreater(sum(sizes), 100 * 1024)

    def test_long_lines_and_odd_bytes(self):
        name = self.detach("sh", "-c", "head -c 30000 /dev/zero | tr '\\0' x; echo; printf 'a\\033b\\n'")
        self.succeed("wait", name)
        self.assertEqual(self.succeed("logs", name), "x" * 30000 + "\na\033b\n")

    def test_a_terminal_without_anybody(self):
        name = self.detach("sh", "-c", "tty; stty size", options=["-t"])
        self.succeed("wait", name)
        self.assertEqual(self.succeed("logs", name), "/dev/pts/0\n24 80\n")

    def test_a_foreground_box_has_none(self):
        name = self.name()
        running = self.start("box", name, "--rootfs", self.root, "--", "sh", "-c", "echo ready; exec sleep 60")
        running.line()
        self.assert_failed(self.kern("logs", name), 1, f"box '{name}' has no log", hint="-d")
        self.succeed("stop", name)
        running.wait()


@as_root
class FullDisk(LifeCase):
    def test_a_log_that_finds_no_room(self):
        """Lines are lost, nothing is stopped, and what fits is kept."""
        logs = os.path.join(self.me.run_directories()[0], "logs")
        self.detach("true")  # makes the folder
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "none", logs], check=False).returncode != 0:
            self.skipTest("no file system can be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", logs], check=True)
        name = self.detach("sh", "-c", "echo first; yes 0123456789 | head -c 1000000; echo last >/tmp/last; exec sleep 60")
        self.assertTrue(kerntest.eventually(lambda: self.kern("exec", name, "cat", "/tmp/last", report=False).out == "last\n"))
        self.assertEqual(self.row(name)["status"], "running")
        out = self.succeed("logs", name)
        self.assertLess(len(out), 1000000)
        self.assertIn("0123456789\n", out)
        self.assertEqual(self.kern("stop", name).code, 0)
        self.assertEqual(self.succeed("wait", name), "143\n")


if __name__ == "__main__":
    kerntest.main()

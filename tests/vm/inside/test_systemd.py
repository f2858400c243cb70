"""Caps under systemd: of root, of a user below their manager, of a user in a login session, of a user's service of the
system. Runs in the tests' virtual machine, as root."""

import json
import os
import subprocess
import unittest

KERN = os.environ["KERN"]
USER_UNIT = "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/kern.slice/kern-boxes.service"
ROOT_UNIT = "/sys/fs/cgroup/kern.slice/kern-boxes.service"
PREFIX = {
    "root": [],
    # below the user's own manager
    "manager": ["systemd-run", "--machine=box@.host", "--user", "--quiet", "--pipe", "--wait"],
    # as sshd does
    "session": ["systemd-run", "--quiet", "--pipe", "--wait", "-p", "User=box", "-p", "PAMName=login", "-p", "WorkingDirectory=/"],
    # a system service that runs as a user
    "service": ["systemd-run", "--quiet", "--pipe", "--wait", "-p", "User=box"],
    "delegated": ["systemd-run", "--quiet", "--pipe", "--wait", "-p", "User=box", "-p", "Delegate=yes"],
}


def run(how, *words):
    return subprocess.run([*PREFIX[how], *words], capture_output=True, text=True, check=False, timeout=90)


def shell(how, script):
    return run(how, "/bin/bash", "-c", script.replace("kern ", KERN + " "))


def stop_units():
    subprocess.run(["systemctl", "stop", "kern-boxes.service"], check=False, capture_output=True)
    subprocess.run(["systemctl", "--machine=box@.host", "--user", "stop", "kern-boxes.service"], check=False, capture_output=True)


class Systemd(unittest.TestCase):
    maxDiff = None

    def report(self, how, *options, command=("cat", "/sys/fs/cgroup/memory.max"), code=0):
        path = "/root/report" if how == "root" else "/home/box/report"
        done = run(how, KERN, "box", "--report", path, *options, "--", *command)
        self.assertEqual(done.returncode, code, done)
        with open(path, encoding="utf-8") as file:
            return json.load(file), done

    def test_each_caller_gets_a_unit_and_caps_that_bind(self):
        for how, unit in (("root", ROOT_UNIT), ("manager", USER_UNIT), ("session", USER_UNIT)):
            with self.subTest(how):
                stop_units()
                # The first one asks for the unit, the second one finds it.
                done = shell(how, "cd /; for i in 1 2; do kern box --require-limits -m 64m --cpus 0.5 --report fd:3 -- "
                                  "cat /sys/fs/cgroup/memory.max 3>&1 || exit 1; done")
                cap, first, again, second = done.stdout.splitlines()
                self.assertEqual((cap, again, done.stderr), ("67108864", "67108864", ""), done)
                for limits in (json.loads(first)["limits"], json.loads(second)["limits"]):
                    for name in ("memory", "pids", "cpu"):
                        self.assertEqual((limits[name]["enforced"], limits[name]["by"]), (True, "scope"), limits)
                self.assertTrue(os.path.isdir(unit))
                self.assertEqual([name for name in os.listdir(unit) if name.startswith("kern.")], [])

    def test_the_caps_survive_what_the_manager_does(self):
        script = "kern box --cpus 0.5 -- sh -c 'sleep 3; cat /sys/fs/cgroup/cpu.max' & sleep 1; systemctl {} daemon-reload; " \
                 "systemd-run {} --quiet --scope true; wait"
        for how, flag in (("root", ""), ("session", "--user")):
            with self.subTest(how):
                done = shell(how, script.format(flag, flag))
                self.assertEqual(done.stdout, "50000 100000\n", done)

    def test_out_of_memory_ends_the_box_alone(self):
        report, _ = self.report("session", "-m", "64m", code=137,
                                command=["python3", "-c", "x = b'x' * (200 << 20)"])
        self.assertEqual((report["fault"]["type"], report["usage"]["oom_kills"]), ("oom", 1))
        self.assertGreater(report["usage"]["peak_memory_bytes"], 60 << 20)
        self.assertLessEqual(report["usage"]["peak_memory_bytes"], 64 << 20)

    def test_a_kern_that_was_killed_leaves_nothing(self):
        for how, unit in (("root", ROOT_UNIT), ("session", USER_UNIT)):
            with self.subTest(how):
                shell(how, "kern box -q -- sleep 60 & sleep 1; kill -9 $!; sleep 0.5; kern box -q -- sleep 0.5")
                self.assertEqual([name for name in os.listdir(unit) if name.startswith("kern.")], [])

    def test_many_first_boxes_at_once(self):
        stop_units()
        done = shell("session", "for i in 1 2 3 4 5 6; do kern box --require-limits -- true & done; "
                                "code=0; for j in $(jobs -p); do wait $j || code=1; done; exit $code")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)

    def test_what_is_not_delegated_is_said_in_one_line(self):
        done = run("service", KERN, "box", "--", "true")
        self.assertEqual(done.returncode, 0, done)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done)
        self.assertTrue(lines[0].startswith("kern: warning: memory and pids caps not enforced"), done)
        self.assertIn("Delegate=", lines[0])

    def test_a_delegated_service(self):
        done = shell("delegated", "cd /; for i in 1 2; do kern box --require-limits -m 64m --cpus 0.5 -- cat /sys/fs/cgroup/memory.max; done; "
                                  "cat /proc/self/cgroup")
        lines = done.stdout.splitlines()
        self.assertEqual(lines[:2], ["67108864"] * 2, done)
        self.assertTrue(lines[2].endswith(".service/supervisors"), done)
        self.assertEqual(done.stderr, "", done)

    def test_without_a_scope(self):
        stop_units()
        done = run("session", "env", "KERN_NO_SCOPE=1", KERN, "box", "--", "true")
        self.assertIn("not enforced", done.stderr)
        self.assertFalse(os.path.exists(USER_UNIT))


if __name__ == "__main__":
    unittest.main()

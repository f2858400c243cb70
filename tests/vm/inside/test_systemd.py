"""Caps under systemd: of root, of a user in their manager's own tree, of a user in a session like that of ssh."""

import json
import os
import subprocess
import unittest

KERN = os.environ["KERN"]


def kern_as(how, *words):
    """Runs kern as a system service ("root"), below the user's manager ("manager"), or in a session ("session")."""
    words = [KERN, *words]
    if how == "manager":
        words = ["systemd-run", "--machine=box@.host", "--user", "--quiet", "--pipe", "--wait", *words]
    elif how == "session":
        words = ["systemd-run", "--quiet", "--pipe", "--wait", "-p", "User=box", "-p", "PAMName=login",
                 "-p", "WorkingDirectory=/home/box", *words]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)


class Systemd(unittest.TestCase):
    def assert_binds(self, how):
        report = "/root/report" if how == "root" else "/home/box/report"
        done = kern_as(how, "box", "--require-limits", "-m", "64m", "--report", report, "--", "cat",
                       "/sys/fs/cgroup/memory.max")
        self.assertEqual((done.returncode, done.stdout), (0, "67108864\n"), done)
        with open(report, encoding="utf-8") as file:
            limits = json.load(file)["limits"]
        self.assertTrue(limits["memory"]["enforced"] and limits["pids"]["enforced"], limits)

    def test_root(self):
        self.assert_binds("root")

    def test_a_user_below_the_own_manager(self):
        self.assert_binds("manager")


if __name__ == "__main__":
    unittest.main()

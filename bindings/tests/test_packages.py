"""The packages as somebody installs them: the wheel into a virtual environment, the tarballs into node_modules, no KERN_BIN
and no kern on PATH. They drive the kern that they brought."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
CODE = "print(sum(range(100)))"


def run(words, cwd=None, **more):
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": tempfile.gettempdir(), "LANG": "C.UTF-8", **more}
    done = subprocess.run(words, env=environment, cwd=cwd, capture_output=True, text=True, timeout=100, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="kern-pack-")
        cls.made = run([sys.executable, os.path.join(HERE, "..", "pack"), "--build", os.environ["KERN_BUILD"], "--out", cls.folder]).split()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_wheel(self):
        wheel = next(name for name in self.made if name.endswith(".whl"))
        try:
            run([sys.executable, "-m", "venv", self.folder + "/venv"])
        except AssertionError as problem:
            self.skipTest(f"no virtual environments: {str(problem)[-200:]}")
        run([self.folder + "/venv/bin/pip", "install", "--no-index", "--disable-pip-version-check", wheel])
        python = self.folder + "/venv/bin/python"
        self.assertEqual(run([python, "-c", f"import kern_sandbox as k; r = k.run_code({CODE!r}, image='host'); print(r.stdout, r.fault)"], self.folder),
                         "4950\n None\n")
        self.assertTrue(run([python, "-c", "from kern_sandbox._binary import find_kern; print(find_kern())"]).endswith("/kern_sandbox/kern/bin/kern\n"))
        self.assertIn("KERN_MCP_IMAGE", run([self.folder + "/venv/bin/kern-mcp", "--help"]))
        self.assertIn("kern-sandbox 0.1.0", run([self.folder + "/venv/bin/pip", "--disable-pip-version-check", "list"]).replace("  ", " ").replace("  ", " "))

    def test_npm(self):
        if shutil.which("node", path="/usr/local/bin:/usr/bin:/bin") is None:
            self.skipTest("there is no node")
        place = self.folder + "/npm"
        for name in self.made:
            if name.endswith(".tgz"):
                with tarfile.open(name) as archive:
                    package = json.load(archive.extractfile("package/package.json"))["name"]
                    for member in archive.getmembers():
                        member.name = member.name.replace("package", package, 1)
                        archive.extract(member, place + "/node_modules")
        code = f"const k = require('kern-sandbox'); k.runCode({json.dumps(CODE)}, {{image: 'host'}}).then(r => console.log(r.stdout, r.fault))"
        self.assertEqual(run(["node", "-e", code], place), "4950\n null\n")
        code = "import k, { runCode } from 'kern-sandbox'; console.log(runCode === k.runCode, typeof k.Sandbox)"
        self.assertEqual(run(["node", "--input-type=module", "-e", code], place), "true function\n")

    def test_the_same_twice(self):
        with tempfile.TemporaryDirectory() as other:
            again = run([sys.executable, os.path.join(HERE, "..", "pack"), "--build", os.environ["KERN_BUILD"], "--out", other]).split()
            for one, two in zip(self.made, again):
                with open(one, "rb") as first, open(two, "rb") as second:
                    self.assertEqual(first.read(), second.read(), one)


if __name__ == "__main__":
    unittest.main()

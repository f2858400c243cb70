"""The clients on an image, and the published Python client with this kern. Both run as somebody with a store of their own."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "python")]
import images

KERN = os.environ["KERN"]
HOME = tempfile.mkdtemp(prefix="kern-images-")
os.environ.update(KERN_BIN=KERN, XDG_DATA_HOME=HOME + "/data", XDG_CACHE_HOME=HOME + "/cache")
import kern_sandbox
from kern_sandbox import Sandbox, SandboxError, run_code

PUBLISHED = r"""
import os, tempfile, time
import kern_sandbox as k

def same(found, wanted):
    assert found == wanted, (found, wanted)

same(k.run_code("print(sum(range(100)))").stdout, "4950\n")
same([r.text for r in k.run_code("x = 1\nx + 5").results], ["6"])
same(k.run_code("while True: pass", timeout_s=1).fault.type, "timeout")
if os.environ["CAPS"] == "1":
    same(k.run_code("bytearray(400 << 20)", memory_mb=128).fault.type, "oom")
same(k.run_code("import ctypes; ctypes.CDLL(None).ptrace(0, 0, 0, 0)").fault.type, "escape_blocked")
same(k.run_code("1 / 0").fault, None)
same(k.run_code("import os; print(os.environ['A'])", env={"A": "b"}).stdout, "b\n")
same(k.run_code("print(open('s').read())", setup="echo hi > s").stdout, "hi\n\n")
with k.Sandbox() as box:
    box.write_file("a.txt", "hi")
    result = box.run_code("print(open('a.txt').read()); open('b', 'w').write('x')")
    same((result.stdout, [(f.path, f.change) for f in result.files]), ("hi\n", [("b", "created")]))
    same(box.run(["no-such-program"]).fault.type, "exec_failed")
    same(bytes(box.read_file("b")), b"x")
    box.snapshot(os.environ["HOME"] + "/s.tar.gz")
    with box.kernel() as cell:
        cell.run_code("x = 5")
        same(cell.run_code("print(x)").stdout, "5\n")
with k.Sandbox(prewarm=1) as box:
    time.sleep(1)
    same(box.run_code("print(1)").stdout, "1\n")
folder = tempfile.mkdtemp()
with k.Sandbox(persist=True, name="kern-published", workspace=folder) as box:
    box.run_code("open('/tmp/z', 'w').write('1')")
    same(box.run_code("print(open('/tmp/z').read())").stdout, "1\n")
    box.destroy()
os.rmdir(folder) if not os.listdir(folder) else None
print("all the same")
"""


def setUpModule():
    images.import_image(KERN)


def tearDownModule():
    end = time.monotonic() + 30  # a cache may still be in the making
    while subprocess.run(["pgrep", "-f", "kern-pyc-"], capture_output=True, check=False).returncode == 0 and time.monotonic() < end:
        time.sleep(0.2)
    shutil.rmtree(HOME, ignore_errors=True)


class Images(unittest.TestCase):
    def test_the_default_image(self):
        result = run_code("import os; print(sorted(os.listdir('/home')) if os.path.exists('/home') else 'no home')\n6 * 7", pyc_cache=False)
        self.assertEqual((result.stdout, result.results[0].text, result.fault), ("no home\n", "42", None))
        self.assertTrue(result.report["image"]["digest"].startswith("sha256:"))
        self.assertEqual(run_code("echo $BASH_VERSION", language="bash", pyc_cache=False).exit_code, 0)
        self.assertEqual(run_code("1", language="node", image=result.report["image"]["ref"] or "python:3.12-slim", pyc_cache=False).fault.type, "exec_failed")

    def test_an_image_that_is_not_here(self):
        result = run_code("1", image="no-such-host.invalid/x:1")
        self.assertEqual((result.fault.type, result.exit_code), ("startup_failed", 1))
        self.assertIn('image="host"', result.fault.message)
        self.assertIn("kern load", result.fault.message)

    def test_the_library_is_compiled_once(self):
        code = "import json, sys; print(sys.pycache_prefix, json.__cached__, __import__('os').path.exists(json.__cached__))"
        self.assertTrue(run_code(code).stdout.startswith("None "))
        cache = HOME + "/cache/kern-sandbox/pyc"
        end = time.monotonic() + 100
        while not any(os.path.exists(f"{cache}/{name}/.done") for name in os.listdir(cache)) and time.monotonic() < end:
            time.sleep(0.2)
        with Sandbox() as sandbox:
            self.assertRegex(sandbox.run_code(code).stdout, r"^/.kern-pyc /.kern-pyc/usr/lib/\S+ True\n$")
            self.assertIn("Read-only", sandbox.run_code("open('/.kern-pyc/x', 'w')").stderr)
            with sandbox.kernel() as cell:
                self.assertIn("/.kern-pyc", cell.run_code(code).stdout)
        self.assertTrue(run_code(code, pyc_cache=False).stdout.startswith("None "))
        if shutil.which("node"):
            client = os.path.join(HERE, "..", "node", "lib", "index.js")
            done = subprocess.run(["node", "-e", f"require({client!r}).runCode({code!r}).then(r => process.stdout.write(r.stdout))"],
                                  capture_output=True, text=True, check=True)
            self.assertTrue(done.stdout.startswith("/.kern-pyc "))

    def test_the_example(self):
        build = os.path.join(HERE, "..", "..", "examples", "precompiled-image", "build")
        done = subprocess.run([build, "python:3.12-slim", "my-python"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = run_code("import json, os; print(os.path.exists(json.__cached__))", image="my-python", pyc_cache=False)
        self.assertEqual((result.stdout, result.fault), ("True\n", None))

    def test_setup_needs_an_image_too(self):
        with self.assertRaisesRegex(SandboxError, "setup failed"):
            Sandbox(image="no-such-host.invalid/x:1", setup="true").open()

    def test_the_published_client(self):
        packages = os.path.join(os.environ["KERN_BUILD"], "bindings", "packages")
        if not os.path.exists(packages + "/published.stamp"):
            self.skipTest("it is not installed, see the test bindings.packages")
        caps = (run_code("pass", image="host").report["limits"].get("memory") or {}).get("enforced") is True
        done = subprocess.run([packages + "/published/bin/python", "-c", PUBLISHED], env={**os.environ, "CAPS": str(int(caps)), "HOME": HOME},
                              cwd=HOME, capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "all the same\n"), done.stderr)
        with Sandbox(image="host") as sandbox:  # its snapshot is ours to restore
            sandbox.restore(HOME + "/s.tar.gz")
            self.assertEqual(sandbox.read_file("a.txt"), b"hi")


if __name__ == "__main__":
    unittest.main()

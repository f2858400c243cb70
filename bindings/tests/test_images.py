"""The clients on an image, and the published Python client with this kern. Both run as somebody with a store of their own."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "python"), os.path.join(HERE, "..", "..", "tests", "box")]
import images
import registry_kit

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


CAPS = None


def by_node(words, options):
    """What the Node client makes of it, in the Python client's spelling of the fault."""
    client = os.path.join(HERE, "..", "node", "lib", "index.js")
    done = subprocess.run(["node", "-e", f"require({client!r}).runCode(...{json.dumps([words, options])}).then((r) => console.log(JSON.stringify(r)))"],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def caps():
    """Whether memory caps bind here."""
    global CAPS
    if CAPS is None:
        CAPS = (run_code("pass", image="host").report["limits"].get("memory") or {}).get("enforced") is True
    return CAPS


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

    def test_a_slow_pull_is_no_call_s_time(self):
        if not os.path.exists(images.BUSYBOX):
            self.skipTest("this machine has no busybox to make an image of")
        with open(images.BUSYBOX, "rb") as file:
            files = {name: b"" for name in ("bin/", "etc/", "tmp/", "workspace/", "proc/", "dev/")}
            files["bin/sh"] = file.read()

        def slow(_request, path):
            if "/blobs/" in path:
                time.sleep(2)
            return False

        with registry_kit.Registry(fault=slow) as registry:
            for name in ("one", "two"):
                registry.add(registry_kit.Image([{**files, "etc/name": name.encode()}]), name)
            os.makedirs(HOME + "/config/kern")
            with open(HOME + "/config/kern/kern.toml", "w", encoding="utf-8") as file:
                file.write(f'[registry]\nplain-http = ["{registry.name}"]\n')
            with unittest.mock.patch.dict(os.environ, {"XDG_CONFIG_HOME": HOME + "/config"}):
                with Sandbox(image=registry.name + "/one", timeout_s=1) as sandbox:
                    result = sandbox.run_code("echo hi", language="sh")
                    self.assertEqual((result.stdout, result.fault), ("hi\n", None))
                if shutil.which("node"):
                    found = by_node("echo hi", {"language": "sh", "image": registry.name + "/two", "timeoutS": 1})
                    self.assertEqual((found["stdout"], found["fault"]), ("hi\n", None))

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

    def test_node(self):
        if not os.path.exists(images.NODE):
            self.skipTest("this machine has no Node to make an image of")
        images.import_image(KERN, "node:20-slim", images.write_node_root)
        with Sandbox(image="node:20-slim", memory_mb=256) as sandbox:
            code = "require('fs').writeFileSync('made.txt', 'x'); console.log(process.argv.length, [1, 2].map((n) => n * 2))"
            result = sandbox.run_code(code, language="node")
            self.assertEqual((result.stdout, result.code_stderr, result.fault, result.exit_code), ("1 [ 2, 4 ]\n", "", None, 0))
            self.assertEqual([(file.path, file.change) for file in result.files], [("made.txt", "created")])
            result = sandbox.run_code("throw new Error('mine')", language="node")
            self.assertEqual((result.exit_code, result.fault), (1, None))
            self.assertIn("Error: mine", result.code_stderr)
            long = f"const x = '{'r' * 200000}';\nconsole.log(x.length)"
            self.assertEqual(sandbox.run_code(long, language="node").stdout, "200000\n")
            self.assertEqual(sandbox.run_code("while (true);", language="node", timeout_s=2).fault.type, "timeout")
            self.assertEqual(sandbox.run_code("echo $((6 * 7))", language="bash").stdout, "42\n")
            result = sandbox.run_code("print(1)")
            self.assertEqual((result.fault.type, result.exit_code), ("exec_failed", 127))
            self.assertIn("python3", result.fault.message)
            self.assertIn("node:20-slim", result.fault.message)
            with self.assertRaisesRegex(SandboxError, "exec_failed"):
                sandbox.kernel()
        if caps():
            hog = "const kept = []; while (true) kept.push(Buffer.alloc(16 << 20, 1))"
            self.assertEqual(run_code(hog, language="node", image="node:20-slim", memory_mb=128).fault.type, "oom")
        if shutil.which("node"):
            found = by_node("console.log(6 * 7)", {"language": "node", "image": "node:20-slim"})
            self.assertEqual((found["stdout"], found["fault"]), ("42\n", None))

    def test_alpine(self):
        if not os.path.exists(images.BUSYBOX):
            self.skipTest("this machine has no busybox to make an image of")
        images.import_image(KERN, "alpine:3.19", images.write_busybox_root)
        with Sandbox(image="alpine:3.19", memory_mb=64) as sandbox:
            result = sandbox.run_code("echo $0; for i in 1 2; do printf %s $i; done > f; cat f | wc -c", language="sh")
            self.assertEqual((result.stdout, result.fault), ("sh\n2\n", None))
            self.assertEqual(sandbox.run(["ls", "/workspace"]).stdout, "f\n")
            for language, binary in (("python", "python3"), ("bash", "bash"), ("node", "node")):
                result = sandbox.run_code("1", language=language)
                self.assertEqual((result.fault.type, result.exit_code), ("exec_failed", 127), language)
                self.assertIn(binary, result.fault.message)
                self.assertIn("alpine:3.19", result.fault.message)
                if shutil.which("node"):
                    found = by_node("1", {"language": language, "image": "alpine:3.19"})
                    self.assertEqual((found["fault"]["type"], found["exitCode"]), ("exec_failed", 127), language)
            result = sandbox.run_code("nosuchcommand", language="sh")
            self.assertEqual((result.exit_code, result.fault), (127, None))
            if caps():  # a shell that handles the end of its child hides nothing
                result = sandbox.run_code("dd if=/dev/zero of=/dev/null bs=400M count=1 || echo handled", language="sh")
                self.assertEqual(result.fault.type, "oom")

    def test_setup_needs_an_image_too(self):
        with self.assertRaisesRegex(SandboxError, "setup failed"):
            Sandbox(image="no-such-host.invalid/x:1", setup="true").open()

    def test_the_published_client(self):
        packages = os.path.join(os.environ["KERN_BUILD"], "bindings", "packages")
        if not os.path.exists(packages + "/published.stamp"):
            self.skipTest("it is not installed, see the test bindings.packages")
        done = subprocess.run([packages + "/published/bin/python", "-c", PUBLISHED], env={**os.environ, "CAPS": str(int(caps())), "HOME": HOME},
                              cwd=HOME, capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "all the same\n"), done.stderr)
        with Sandbox(image="host") as sandbox:  # its snapshot is ours to restore
            sandbox.restore(HOME + "/s.tar.gz")
            self.assertEqual(sandbox.read_file("a.txt"), b"hi")


if __name__ == "__main__":
    unittest.main()

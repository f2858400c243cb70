"""The READMEs of both packages keep their word: each program in them is run, as one session a page."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
BINDINGS = os.path.dirname(HERE)


def blocks(page, kind):
    with open(os.path.join(BINDINGS, page), encoding="utf-8") as file:
        return re.findall(rf"^```{kind}\n(.*?)^```$", file.read(), re.MULTILINE | re.DOTALL)


def run(words, **more):
    environment = {**os.environ, "KERN_BIN": os.environ["KERN"]}
    environment.update(more)
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=100, check=False)


class Pages(unittest.TestCase):
    def test_python(self):
        done = run([sys.executable, "-c", "\n".join(blocks("python/README.md", "python"))], PYTHONPATH=os.path.join(BINDINGS, "python"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("4950\n None", done.stdout)
        self.assertIn("4.0", done.stdout)

    def test_notes(self):
        done = run([sys.executable, "-c", "\n".join(blocks("python/SANDBOX-NOTES.md", "python"))], PYTHONPATH=os.path.join(BINDINGS, "python"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_node(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(folder + "/node_modules")
            os.symlink(os.path.join(BINDINGS, "node"), folder + "/node_modules/kern-sandbox")
            path = folder + "/page.js"
            with open(path, "w", encoding="utf-8") as file:
                file.write("(async () => {\n" + "\n".join(blocks("node/README.md", "js")) + "\n})();\n")
            done = run(["node", "--preserve-symlinks", path])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("4950\n null", done.stdout)
        self.assertIn("4.0", done.stdout)


class Mcp(unittest.TestCase):
    def test_the_configurations_are_json(self):
        with open(os.path.join(BINDINGS, "..", "docs", "MCP.md"), encoding="utf-8") as file:
            found = re.findall(r"^```text\n(\{.*?)^```$", file.read(), re.MULTILINE | re.DOTALL)
        self.assertEqual(len(found), 2)
        for text in found:
            self.assertIn("kern-mcp", str(json.loads(text)))


class Copies(unittest.TestCase):
    def test_both_packages_drive_the_same_program(self):
        for name in ("boot.py", "helper.py", "serve.py", "warm.py"):
            texts = []
            for folder in ("python/kern_sandbox", "node/lib"):
                with open(os.path.join(BINDINGS, folder, "driver", name), encoding="utf-8") as file:
                    texts.append(file.read())
            self.assertEqual(*texts)


if __name__ == "__main__":
    unittest.main()

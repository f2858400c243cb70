"""The documents keep their word: each `console` block is run, with what it prints held against the page; each `toml`
block is validated; each `sh` block names scripts that exist; each link leads somewhere. Runs with an installed copy
of kern, as root (when the tests do) and as a user whom the tests make and remove.

In a console block, "$ " begins a command, "> " goes on with it, the rest is its output (stdout and stderr). "..." stands
for anything: alone in a line for any lines. The blocks of one page are one session in a folder of its own."""

import fnmatch
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import unittest

BUILD = os.environ["KERN_BUILD"]
SOURCE = os.environ["KERN_SOURCE"]
USER = "kerndocs"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
UNCAPPED = re.compile(r"^kern: warning: .* not enforced: .*\n", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def pages():
    yield "README.md"
    yield "SECURITY.md"
    for name in sorted(os.listdir(os.path.join(SOURCE, "docs"))):
        if name.endswith(".md"):
            yield "docs/" + name


def blocks(page, kind):
    with open(os.path.join(SOURCE, page), encoding="utf-8") as file:
        return [text for found, text in BLOCK.findall(file.read()) if found == kind]


def steps(text):
    """[command, expected output] pairs of a console block."""
    found = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append([line[2:], ""])
        elif line.startswith("> "):
            found[-1][0] += "\n" + line[2:]
        else:
            found[-1][1] += line + "\n"
    return found


def fits(expected, actual):
    pattern = re.sub(r"([\[*?])", r"[\1]", expected).replace("...", "*")
    # A line of dots may stand for no line at all.
    return fnmatch.fnmatchcase(actual, pattern) or fnmatch.fnmatchcase(actual, pattern.replace("*\n", "*"))


class Place:
    """An installed kern, and a home for who runs it."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="kern-docs-")
        os.chmod(self.folder, 0o755)
        subprocess.run(["cmake", "--install", BUILD, "--prefix", self.folder + "/kern"], check=True, capture_output=True)
        shutil.copytree(os.path.join(SOURCE, "plugins/example"), self.folder + "/example")

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)


class Documents(unittest.TestCase):
    identity = {}
    owner = None

    @classmethod
    def setUpClass(cls):
        cls.place = Place()

    @classmethod
    def tearDownClass(cls):
        cls.place.remove()

    def session(self, page):
        home = tempfile.mkdtemp(dir=self.place.folder)
        shutil.copytree(self.place.folder + "/example", home + "/plugins/example")
        if self.owner:
            for folder, names, files in os.walk(home):
                for name in [folder] + [os.path.join(folder, file) for file in names + files]:
                    os.chown(name, self.owner.pw_uid, self.owner.pw_gid)
        environment = {"HOME": home, "LANG": "C.UTF-8", "TMPDIR": "/tmp",
                       "PATH": f"{self.place.folder}/kern/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
                       "PKG_CONFIG_PATH": f"{self.place.folder}/kern/lib/pkgconfig",
                       "CMAKE_PREFIX_PATH": f"{self.place.folder}/kern"}
        for text in blocks(page, "console"):
            for command, expected in steps(text):
                with self.subTest(page=page, command=command):
                    result = subprocess.run(
                        ["bash", "-c", command],
                        env=environment, cwd=home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT, text=True, timeout=120, check=False, **self.identity)
                    # The pages are written for a machine where limits bind; whether they do is not theirs to say.
                    actual = UNCAPPED.sub("", result.stdout.replace(home, "~"))
                    if not fits(expected, actual):
                        self.fail(f"{page}\n$ {command}\n--- the page says\n{expected}--- kern says\n{actual}")

    def check_toml(self, page):
        for text in blocks(page, "toml"):
            with self.subTest(page=page), tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
                file.write(text)
                file.flush()
                result = subprocess.run([self.place.folder + "/kern/bin/kern", "validate", file.name],
                                        capture_output=True, text=True, check=False)
                self.assertEqual(result.returncode, 0, text + result.stdout + result.stderr)

    def check_words(self, page):
        for text in blocks(page, "sh"):
            for line in text.splitlines():
                self.assertTrue(os.access(os.path.join(SOURCE, line.split()[0]), os.X_OK), f"{page}: {line}")
        with open(os.path.join(SOURCE, page), encoding="utf-8") as file:
            content = file.read()
        for link in LINK.findall(content):
            target = os.path.join(SOURCE, os.path.dirname(page), link)
            self.assertTrue(os.path.exists(target), f"{page}: a link leads to {link}, which is not there")
        kinds = {kind for kind, _ in BLOCK.findall(content)}
        self.assertLessEqual(kinds, {"console", "toml", "sh", "text", "c"}, f"{page}: blocks nobody checks")


class AsUser(Documents):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("not root: the other class ran as this user")
        super().setUpClass()
        subprocess.run(["useradd", "--no-create-home", USER], check=True)
        cls.owner = pwd.getpwnam(USER)
        cls.identity = {"user": cls.owner.pw_uid, "group": cls.owner.pw_gid, "extra_groups": []}

    @classmethod
    def tearDownClass(cls):
        subprocess.run(["userdel", USER], check=False)
        super().tearDownClass()


def add(page):
    name = re.sub(r"\W", "_", page)
    for case in (Documents, AsUser):
        setattr(case, f"test_{name}_commands", lambda self: self.session(page))
    setattr(Documents, f"test_{name}_toml", lambda self: self.check_toml(page))
    setattr(Documents, f"test_{name}_words", lambda self: self.check_words(page))


for document in pages():
    add(document)

if __name__ == "__main__":
    unittest.main()

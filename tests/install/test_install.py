"""What `cmake --install` puts where, with DESTDIR and another prefix; that the installed kern works from its new place,
as root and as a user whom the tests make and remove; and that a plugin built outside the tree against the installed
header is opened when a kern.toml declares it."""

import os
import pwd
import re
import shutil
import subprocess
import tempfile
import unittest

BUILD = os.environ["KERN_BUILD"]
SOURCE = os.environ["KERN_SOURCE"]
USER = "kerninstall"
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

EXPECTED = """bin/kern
lib/kern/cgroup.so lib/kern/creds.so lib/kern/example.so lib/kern/namespace.so lib/kern/net.so lib/kern/rootfs.so
lib/kern/audit.so lib/kern/timens.so lib/kern/gpu.so
lib/kern/seccomp.so lib/kern/seccomp_json.so lib/kern/vcpu.so
include/kern/plugin.h lib/pkgconfig/kern-plugin.pc lib/cmake/kern-plugin/kern-plugin-config.cmake
bin/kern-plugin-test lib/libkern-plugin-test.a share/kern/new/plugin.c.in share/man/man3/kern-plugin.3
share/man/man3/kern-plugin-box.3 share/man/man3/kern_add_bind.3
share/man/man1/kern.1 share/man/man1/kern-box.1 share/man/man5/kern.toml.5
share/bash-completion/completions/kern share/zsh/site-functions/_kern share/fish/vendor_completions.d/kern.fish
share/doc/kern/etc/kern.toml.example share/doc/kern/LICENSE share/doc/kern/README.md share/doc/kern/docs/ARCHITECTURE.md
share/doc/kern/plugins/example/example.c""".split()


def run(*command, **keywords):
    keywords.setdefault("env", {"PATH": PATH, "HOME": "/nonexistent"})
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False,
                          stdin=subprocess.DEVNULL, **keywords)


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="kern-install-")
        os.chmod(cls.folder, 0o755)
        cls.prefix = cls.folder + "/opt/kern"
        result = run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        if result.returncode != 0:
            raise AssertionError(result.stdout + result.stderr)
        cls.users = [("who runs the tests", {})]
        if os.geteuid() == 0:
            subprocess.run(["useradd", "--no-create-home", USER], check=True)
            account = pwd.getpwnam(USER)
            cls.users.append((USER, {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}))

    @classmethod
    def tearDownClass(cls):
        if os.geteuid() == 0:
            subprocess.run(["userdel", USER], check=False)
        shutil.rmtree(cls.folder)

    def kern(self, *words, identity=None, **keywords):
        return run(self.prefix + "/bin/kern", *words, **(identity or {}), **keywords)

    def home(self, identity):
        """A home of the user's own: kern.toml and plugins must belong to who runs kern."""
        folder = tempfile.mkdtemp(dir=self.folder)
        os.chmod(folder, 0o755)
        os.makedirs(folder + "/.config/kern")
        if identity:
            for name in ("", "/.config", "/.config/kern"):
                os.chown(folder + name, identity["user"], identity["group"])
        return folder

    def test_files_stand_where_they_belong(self):
        missing = [name for name in EXPECTED if not os.path.isfile(f"{self.prefix}/{name}")]
        self.assertEqual(missing, [])
        # The only headers are the public ones, and nothing of the tests is installed.
        headers = [name for _, _, files in os.walk(self.prefix + "/include") for name in files]
        self.assertEqual(sorted(headers), ["cleanup.h", "foundation.h", "plugin.h", "plugin_test.h", "sys.h"])
        binaries = os.listdir(self.prefix + "/bin")
        self.assertEqual(sorted(binaries), ["kern", "kern-plugin-test"])

    def test_nothing_is_writable_by_others_or_names_the_build(self):
        for folder, _, files in os.walk(self.prefix):
            for name in files:
                path = os.path.join(folder, name)
                self.assertEqual(os.stat(path).st_mode & 0o022, 0, path)
                if name.endswith((".pc", ".1", ".5", ".h", "_kern", ".fish")):
                    with open(path, encoding="utf-8") as file:
                        self.assertNotIn(SOURCE, file.read(), path)

    def test_destdir(self):
        root = self.folder + "/stage"
        result = run("cmake", "--install", BUILD, "--prefix", "/usr", env={"PATH": PATH, "DESTDIR": root})
        self.assertEqual(result.returncode, 0, result.stderr)
        missing = [name for name in EXPECTED if not os.path.isfile(f"{root}/usr/{name}")]
        self.assertEqual(missing, [])
        result = run(root + "/usr/bin/kern", "box", "-q", "--", "echo", "from a staged folder")
        self.assertEqual((result.stdout, result.stderr, result.returncode), ("from a staged folder\n", "", 0))

    def test_a_box_from_the_new_place(self):
        for who, identity in self.users:
            with self.subTest(who=who):
                result = self.kern("box", "-q", "vcpu:heavy", "--", "sh", "-c", "echo $HOME; exit 7", identity=identity)
                self.assertEqual((result.stdout, result.stderr, result.returncode), ("/root\n", "", 7))

    def test_a_moved_installation_finds_its_plugins(self):
        moved = self.folder + "/moved"
        shutil.copytree(self.prefix, moved)
        result = run(moved + "/bin/kern", "box", "-q", "--", "echo", "moved")
        self.assertEqual((result.stdout, result.stderr, result.returncode), ("moved\n", "", 0))
        shutil.move(moved + "/lib/kern/rootfs.so", moved + "/rootfs.so")
        result = run(moved + "/bin/kern", "box", "-q", "--", "echo", "moved")
        self.assertNotEqual(result.returncode, 0, "the plugins of another place were used")
        self.assertIn("rootfs", result.stderr)

    def test_the_example_is_what_a_missing_kern_toml_means(self):
        with open(self.prefix + "/share/doc/kern/etc/kern.toml.example", encoding="utf-8") as file:
            example = file.read()
        self.assertEqual(self.kern("validate", file.name).returncode, 0)
        self.assertIn(example, self.kern("examples").stdout)

    def test_links_of_the_documents_lead_somewhere(self):
        pages = [os.path.join(folder, file) for folder, _, files in os.walk(self.prefix + "/share/doc/kern")
                 for file in files if file.endswith(".md")]
        self.assertGreater(len(pages), 10)
        for page in pages:
            with open(page, encoding="utf-8") as file:
                links = re.findall(r"\]\(([^)#\s]+)", file.read())
            broken = [link for link in links
                      if "://" not in link and not os.path.exists(os.path.join(os.path.dirname(page), link))]
            self.assertEqual(broken, [], page)

    def test_man_pages(self):
        if shutil.which("man", path=PATH) is None:
            self.skipTest("there is no man")
        for page in ("man1/kern.1", "man1/kern-box.1", "man5/kern.toml.5", "man3/kern-plugin.3", "man3/kern-plugin-box.3"):
            result = run("man", "--warnings", "-l", f"{self.prefix}/share/man/{page}",
                         env={"PATH": PATH, "MANWIDTH": "80", "LANG": "C.UTF-8"})
            self.assertEqual((result.stderr, result.returncode), ("", 0), page)
            self.assertIn("NAME", result.stdout)

    def build_plugin(self, folder, name, replace=()):
        """The example plugin as somebody would make it a plugin of their own, outside the tree."""
        work = f"{folder}/{name}-source"
        shutil.copytree(self.prefix + "/share/doc/kern/plugins/example", work)
        for file in ("example.c", "example_manifest.h"):
            with open(f"{work}/{file}", encoding="utf-8") as source:
                text = source.read()
            text = text.replace('.name = "example"', f'.name = "{name}"').replace('.profile = "greeting"', f'.profile = "{name}"')
            text = text.replace(".version = KERN_VERSION", '.version = "1.0"')
            for old, new in replace:
                text = text.replace(old, new)
            with open(f"{work}/{file}", "w", encoding="utf-8") as source:
                source.write(text)
        environment = {"PATH": PATH, "PKG_CONFIG_PATH": self.prefix + "/lib/pkgconfig"}
        flags = run("pkg-config", "--cflags", "--libs", "kern-plugin", env=environment)
        self.assertEqual(flags.returncode, 0, flags.stderr)
        self.assertEqual(run("pkg-config", "--modversion", "kern-plugin", env=environment).stdout.strip(),
                         self.kern("--version").stdout.split()[1])
        result = run("cc", "-std=c17", "-Wall", "-Wextra", "-Werror",
                     *flags.stdout.split(), "-o", f"{folder}/{name}.so", "example.c", cwd=work)
        self.assertEqual(result.returncode, 0, result.stderr)
        return f"{folder}/{name}.so"

    def test_a_project_with_cmake(self):
        folder = self.home({})
        shutil.copytree(self.prefix + "/share/doc/kern/plugins/example", folder + "/src")
        with open(folder + "/src/CMakeLists.txt", "w", encoding="utf-8") as file:
            file.write("cmake_minimum_required(VERSION 3.16)\nproject(hello C)\n"
                       "add_compile_definitions(KERN_VERSION=\"1\")\n"
                       "find_package(kern-plugin 0.1 REQUIRED)\nkern_add_plugin(hello example.c)\n")
        for words in (["-S", folder + "/src", "-B", folder + "/b", f"-DCMAKE_PREFIX_PATH={self.prefix}"],
                      ["--build", folder + "/b"]):
            result = run("cmake", *words)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        result = run("cmake", "--install", folder + "/b", env={"PATH": PATH, "DESTDIR": folder + "/stage"})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertTrue(os.path.isfile(f"{folder}/stage{self.prefix}/lib/kern/hello.so"), result.stdout)

    def declare(self, folder, text, identity):
        path = folder + "/.config/kern/kern.toml"
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o644)
        if identity:
            os.chown(path, identity["user"], identity["group"])
        return {"PATH": PATH, "HOME": folder}

    def test_a_plugin_from_outside_the_tree(self):
        for who, identity in self.users:
            with self.subTest(who=who):
                folder = self.home(identity)
                plugin = self.build_plugin(folder, "hello")
                if identity:
                    os.chown(plugin, identity["user"], identity["group"])
                environment = self.declare(
                    folder, f'[[plugin]]\nname = "hello"\npath = "{plugin}"\n\n'
                            '[[hello]]\nname = "world"\ntext = "hello, world"\npath = "/etc/hello"\n', identity)
                result = self.kern("box", "-q", "hello:world", "--", "cat", "/etc/hello", identity=identity, env=environment)
                self.assertEqual((result.stdout, result.stderr, result.returncode), ("hello, world\n", "", 0))
                result = self.kern("validate", identity=identity, env=environment)
                self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_hook_that_fails_gives_125_and_a_teardown(self):
        folder = self.home({})
        torn = '(void)fputs("torn down\\n", stdout);\n    const struct example_state *state = data;'
        marks = ("const struct example_state *state = data;", torn)
        prepare = self.build_plugin(folder, "badprepare", [
            marks, ("int result = add_greeting(", "int result = kern_fail(err, EIO, \"no greeting today\"); if (result == 0) result = add_greeting(")])
        enter = self.build_plugin(folder, "badenter", [
            marks, (".prepare = example_prepare", ".prepare = example_prepare, .enter = example_enter"),
            ("KERN_PLUGIN(EXAMPLE", "static int example_enter(kern_box *box, void *data, struct kern_error *err)\n"
             "{\n    (void)box;\n    (void)data;\n    return kern_fail(err, EIO, \"no entry today\");\n}\n\nKERN_PLUGIN(EXAMPLE")])
        for name, path, words in (("badprepare", prepare, "no greeting today"), ("badenter", enter, "no entry today")):
            with self.subTest(name=name):
                environment = self.declare(folder, f'[[plugin]]\nname = "{name}"\npath = "{path}"\n\n'
                                                   f'[[{name}]]\nname = "x"\n', {})
                result = self.kern("box", "-q", f"{name}:x", "--", "echo", "ran", env=environment)
                self.assertEqual((result.stdout, result.returncode), ("torn down\n", 125), result.stderr)
                self.assertIn(f"kern: {name}: {name[3:]}: ", result.stderr)
                self.assertIn(words, result.stderr)


class Dependencies(unittest.TestCase):
    """scripts/deps before anything is installed, for a user whom sudo refuses: the line says so, not that a network is missing."""

    def test_sudo_that_refuses(self):
        with tempfile.TemporaryDirectory(prefix="kern-deps-") as folder:
            os.chmod(folder, 0o755)
            for name, code in (("dpkg-query", 1), ("apt-get", 100), ("sudo", 1)):
                with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
                    file.write(f"#!/bin/sh\nexit {code}\n")
                os.chmod(f"{folder}/{name}", 0o755)
            shutil.copy(SOURCE + "/scripts/deps", folder)
            nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
            result = run("bash", folder + "/deps", "build", env={"PATH": folder + ":" + PATH}, **nobody)
        self.assertEqual(result.returncode, 1)
        self.assertIn("scripts/deps: sudo does not make you root", result.stderr)
        self.assertIn("as root: apt-get update", result.stderr)
        self.assertNotIn("is there a network", result.stderr)


if __name__ == "__main__":
    unittest.main()

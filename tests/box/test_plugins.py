"""Plugins of third parties: one built outside the tree against the public header, declared in kern.toml and serving hello:NAME;
its hooks failing and crashing at each stage in turn; and files that kern must not load."""

import os
import shutil
import subprocess
import unittest

import kerntest
from kerntest import BoxCase, as_root_and_user

STAGES = ("LIMIT", "ROOT", "MOUNT", "DEVICE", "NETWORK")


def built(name, *flags, compiler="cc", source="hello.c"):
    include = os.path.join(kerntest.SOURCE, "core", "include")
    return kerntest.program(name, "-shared", "-fPIC", "-I" + include, *flags, source=source, compiler=compiler)


class Plugins(BoxCase):
    def place(self, path, name="hello.so", mode=0o644):
        """A copy that belongs to whoever runs kern, in a folder that nobody else may write."""
        copy = shutil.copy(path, os.path.join(self.folder(), name))
        os.chmod(copy, mode)
        kerntest.give(copy, self.me)
        return copy

    @classmethod
    def prepare_class(cls):
        folder = os.path.join(kerntest.scratch(), f"static-{cls.me.uid}", "kern")
        os.makedirs(folder, exist_ok=True)
        kerntest.write(os.path.join(folder, "kern.toml"), '[[plugin]]\nname = "nosuch"\n')
        kerntest.give(os.path.dirname(folder), cls.me)
        tried = kerntest.Running(["box", "--", "true"], cls.me, env={"XDG_CONFIG_HOME": os.path.dirname(folder)}).wait()
        if "compiled in" in tried.err:  # said by this very kern: nothing else to test here
            raise unittest.SkipTest("this kern was built with its plugins compiled in")

    def config(self, path, fault="none", more=""):
        self.log = self.file("", "log")
        return self.own_config(f'[[plugin]]\nname = "hello"\npath = "{path}"\n{more}\n'
                               f'[[hello]]\nname = "world"\nfault = "{fault}"\nlog = "{self.log}"\n')

    def logged(self):
        with open(self.log, encoding="utf-8") as file:
            return file.read().splitlines()

    def greet(self, path, fault="none", options=(), more=""):
        return self.rooted("sh", "-c", "echo $HELLO", options=["hello:world", *options],
                           env=self.config(path, fault, more), started=True)


@as_root_and_user
class Hello(Plugins):
    def test_it_serves_profiles(self):
        for flags in ((), ("-DLEAN",)):
            with self.subTest(flags):
                result = self.greet(self.place(built("hello" + "".join(flags) + ".so", *flags)))
                self.assertEqual((result.code, result.out), (0, "hi\n"), result)
                self.assertEqual(self.logged(), ["prepare", "enter", "teardown after a run"])
                self.assertEqual(result.report["plugins"]["hello"], {"greeted": "world"})

    def test_its_option_in_kern_toml(self):
        path = self.place(built("hello.so"))
        self.assertEqual(self.greet(path, more='word = "ciao"').out, "ciao\n")

    def test_its_flag_has_its_prefix(self):
        path = self.place(built("hello.so"))
        self.assertEqual(self.greet(path, options=["--hello-word", "salve"], more='word = "ciao"').out, "salve\n")

    def test_switched_off(self):
        path = self.place(built("hello.so"))
        result = self.greet(path, more="enabled = false")
        self.assertEqual(result.code, 1, result)
        self.assertEqual(self.logged(), [])

    def test_list_and_info(self):
        env = self.config(self.place(built("hello.so")))
        self.assertIn("hello", self.kern("plugin", "list", env=env, report=False).out)
        info = self.kern("plugin", "info", "hello", env=env, report=False)
        self.assertEqual(info.code, 0, info)
        for part in ("greets and fails as told", "--hello-word", "profile:  hello"):
            self.assertIn(part, info.out)

    def test_found_by_name_in_the_plugin_path(self):
        path = self.place(built("hello.so"))
        log = self.file("", "log")
        env = self.own_config(f'[[plugin]]\nname = "hello"\n[[hello]]\nname = "world"\nlog = "{log}"\n')
        result = self.rooted("true", options=["hello:world"], env={**env, "KERN_PLUGIN_PATH": os.path.dirname(path)})
        self.assertEqual(result.code, 0, result)

    def test_somebody_elses_file_may_not_bring_it(self):
        path = self.place(built("hello.so"))
        env = self.config(path)
        chosen = env["XDG_CONFIG_HOME"] + "/kern/kern.toml"
        self.refused("--config", chosen, "hello:world", parts=["kern.toml", "path"])
        named = self.file('[[plugin]]\nname = "hello"\n[[hello]]\nname = "world"\n', "kern.toml")
        self.refused("--config", named, "hello:world", env={"KERN_PLUGIN_PATH": os.path.dirname(path)}, parts=["hello"])
        self.assertEqual(self.logged(), [])


@as_root_and_user
class Faults(Plugins):
    """A hook that fails, at each stage: the code, who is named, and that teardown runs."""

    def each(self, check):
        for stage in STAGES:
            for lean in ((), ("-DLEAN",)):
                name = f"hello-{stage}{'-lean' if lean else ''}.so"
                with self.subTest(stage=stage, lean=bool(lean)):
                    check(self.place(built(name, f"-DSTAGE=KERN_STAGE_{stage}", *lean)))

    def assert_clean(self):
        self.assertEqual(kerntest.leaks(self.me.run_directories()), {})

    def test_prepare_fails(self):
        def check(path):
            result = self.greet(path, "prepare")
            self.assert_failed(result, 125, "hello: prepare: ", 'cannot greet "world"', "Input/output error")
            self.assertEqual((self.logged(), result.started), (["prepare", "teardown"], b""))
            self.assert_clean()
        self.each(check)

    def test_prepare_refuses(self):
        def check(path):
            self.assert_failed(self.greet(path, "prepare-refuse"), 1, 'cannot greet "world"')
            self.assertEqual(self.logged(), ["prepare", "teardown"])
        self.each(check)

    def test_enter_fails(self):
        def check(path):
            result = self.greet(path, "enter")
            self.assert_failed(result, 125, "hello: enter: ", "cannot greet from inside", "Input/output error")
            self.assertEqual((self.logged(), result.started), (["prepare", "enter", "teardown"], b""))
            self.assert_clean()
        self.each(check)

    def test_enter_refuses(self):
        def check(path):
            self.assert_failed(self.greet(path, "enter-refuse"), 1, "cannot greet from inside")
            self.assertEqual(self.logged(), ["prepare", "enter", "teardown"])
        self.each(check)

    def test_a_hook_that_fails_without_a_word(self):
        def check(path):
            for fault in ("prepare-silent", "enter-silent"):
                self.assert_failed(self.greet(path, fault), 125, "hello")
                self.assertEqual(self.logged()[-1], "teardown")
        self.each(check)

    def test_enter_crashes_or_ends_the_process(self):
        def check(path):
            for fault in ("enter-crash", "enter-exit"):
                result = self.greet(path, fault)
                self.assertEqual((result.code, result.report["started"]), (125, False), result)
                self.assertEqual(self.logged(), ["prepare", "enter", "teardown"])
                self.assert_clean()
        self.each(check)

    def test_prepare_or_teardown_crashes(self):
        """That is kern itself; the next run removes what it left."""
        for fault in ("prepare-crash", "teardown-crash"):
            self.each(lambda path, fault=fault: self.assertLess(self.greet(path, fault).code, 0))
        self.assertEqual(self.rooted("true").code, 0)
        self.assertTrue(kerntest.eventually(lambda: not kerntest.leaks(self.me.run_directories())),
                        kerntest.leaks(self.me.run_directories()))


@as_root_and_user
class Refused(Plugins):
    def load(self, path, *parts, hint=None):
        return self.refused("hello:world", env=self.config(path), parts=parts, hint=hint)

    def test_missing(self):
        self.load("/no/such.so", '"/no/such.so"', "No such file")
        env = self.own_config('[[plugin]]\nname = "nosuch"\n')
        self.refused(env=env, parts=['"nosuch"'], hint="[[plugin]]")

    def test_a_relative_path(self):
        self.load("hello.so", "absolute")

    def test_writable_by_others(self):
        for mode in (0o666, 0o662, 0o664):
            self.load(self.place(built("hello.so"), mode=mode), "others may write", hint="chmod go-w")

    def test_in_a_folder_that_others_may_write(self):
        path = self.place(built("hello.so"))
        os.chmod(os.path.dirname(path), 0o777)
        self.load(path, "others may write", hint="chmod go-w")

    def test_of_another_user(self):
        if not kerntest.IS_ROOT:
            self.skipTest("only root can give files away")
        path = self.place(built("hello.so"))
        os.chown(path, 65534, 65534)
        self.load(path, "another user", hint="chown")

    def test_no_shared_object(self):
        self.load(self.file("text", "hello.so"), "not a shared object")
        self.load(self.file("", "hello.so"), "not a shared object")
        self.load(self.folder(), "regular file")
        with open(built("hello.so"), "rb") as file:
            half = self.place(built("hello.so"))
            with open(half, "wb") as out:
                out.write(file.read()[:3000])
        self.load(half, "hello.so")

    def test_without_a_table(self):
        source = kerntest.write(os.path.join(kerntest.scratch(), "empty.c"), "int nothing;\n")
        path = os.path.join(kerntest.scratch(), "empty.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", path, source], check=True)
        self.load(self.place(path), "no plugin table", hint="KERN_PLUGIN")

    def test_of_another_abi(self):
        for name, abi, hint in (("newer", "99u", "update kern"), ("older", "0u", "build the plugin again")):
            path = self.place(built(f"hello-{name}.so", f"-DFAKE_ABI={abi}", source="old_abi.c"))
            self.load(path, "ABI", hint=hint)

    def test_of_the_wrong_architecture(self):
        path = self.place(built("hello-arm.so", compiler="aarch64-linux-gnu-gcc"))
        self.load(path, "another machine", hint="build the plugin for")

    def test_a_cycle_names_both(self):
        one = self.place(built("one.so", '-DNAME="one"', '-DAFTER="two"'), "one.so")
        two = self.place(built("two.so", '-DNAME="two"', '-DAFTER="one"'), "two.so")
        env = self.own_config(f'[[plugin]]\nname = "one"\npath = "{one}"\n[[plugin]]\nname = "two"\npath = "{two}"\n')
        result = self.refused(env=env, parts=["one", "two"])
        self.assertEqual(kerntest.group_leaks(), [])
        return result

    def test_twice_the_same_name_or_a_builtin_one(self):
        path = self.place(built("fake.so", '-DNAME="seccomp"'))
        env = self.own_config(f'[[plugin]]\nname = "seccomp"\npath = "{path}"\n')
        result = self.box("true", env=env)
        self.assertIn(result.code, (0, 1), result)
        status = self.shell("grep Seccomp: /proc/self/status") if result.code == 0 else "Seccomp:\t2\n"
        self.assertEqual(status, "Seccomp:\t2\n")


if __name__ == "__main__":
    kerntest.main()

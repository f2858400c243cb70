"""Plugins of third parties: one built outside the tree against the public header, declared in kern.toml and serving
hello:NAME; its hooks failing and crashing at each stage in turn; and files that
kern must not load."""

import json
import os
import re
import shutil
import signal
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
        typed = self.place(built("typed.so", source="typed.c"), "typed.so")
        env = self.own_config(f'[[plugin]]\nname = "typed"\npath = "{typed}"\n')
        info = self.kern("plugin", "info", "typed", env=env, report=False)
        self.assertRegex(info.out, r"number .*, from 1 to 9\n")
        self.assertRegex(info.out, r"ratio .*, from 0.001 to 1\n")
        listed = json.loads(self.kern("plugin", "info", "typed", "--json", env=env, report=False).out)["options"]
        self.assertIn((0.001, 1), [(option.get("min"), option.get("max")) for option in listed if option["type"] == "number"])

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

    def test_prepare_crashes(self):
        def check(path):
            result = self.greet(path, "prepare-crash")
            self.assert_failed(result, 125, "hello: prepare: ", "the plugin crashed: Aborted (signal 6)")
            self.assertEqual((self.logged(), result.fault), (["prepare"], "startup_failed"))
            self.assert_clean()
        self.each(check)

    def test_teardown_crashes(self):
        """The box has ended: how, is not changed by it."""
        def check(path):
            result = self.greet(path, "teardown-crash")
            self.assertEqual((result.code, result.out, result.fault), (0, "hi\n", None), result)
            self.assertIn("kern: warning: plugin hello crashed in teardown: Aborted (signal 6)\n", result.err)
            self.assert_clean()
        self.each(check)


@as_root_and_user
class Options(Plugins):
    """An option of each type, of a third party, wherever a user meets options; by helpers/typed.c."""

    KEYS = ("number = 3", "ratio = 0.25", "loud = true", 'room = "2m"', "pause = 1.5", 'colour = "green"', 'place = "/usr"',
            'table = { a = 1, b = ["x"] }', 'texts = ["a", "b"]', "numbers = [1, 2]", "ratios = [0.1, 2]",
            "switches = [true, false]", 'rooms = ["1k", 7]', 'pauses = [1, "5ms"]', 'colours = ["red", "green"]',
            'places = ["/usr", "/etc"]', "tables = [{ a = 1 }, { a = 2 }]")
    VALUES = {"text": "t", "number": 3, "ratio": "0.25", "loud": 1, "room": 2 << 20, "pause": 1500, "colour": "green",
              "place": "/usr", "table": '{"a":1,"b":["x"]}', "texts": "a;b;", "numbers": "1;2;", "ratios": "0.1;2;",
              "switches": "1;0;", "rooms": "1024;7;", "pauses": "1000;5;", "colours": "red;green;",
              "places": "/usr;/etc;", "tables": '{"a":1};{"a":2};'}

    def typed(self, *keys):
        path = self.place(built("typed.so", source="typed.c"))
        return self.own_config("\n".join(['[[plugin]]', 'name = "typed"', f'path = "{path}"', *keys]) +
                               '\n[[typed]]\nname = "p"\nsizes = ["1k", "2k"]\n[[typed.rows]]\nc = 1\n[[typed.rows]]\nc = 2\n')

    def got(self, *options, keys=()):
        result = self.rooted("true", options=options, env=self.typed(*keys))
        self.assertEqual(result.code, 0, result)
        return result.report["plugins"]["typed"]

    def test_keys(self):
        self.assertEqual(self.got(keys=self.KEYS), self.VALUES)

    def test_a_profile(self):
        got = self.got("typed:p")
        self.assertEqual((got["name"], got["rows"], got["sizes"]), ("p", '{"c":1};{"c":2};', "1024;2048;"))

    def test_flags(self):
        got = self.got("--typed-number", "4", "--typed-texts=q", "--typed-numbers", "5,6", "--typed-rooms", "3k",
                       "--typed-rooms", "4k", "--typed-pauses", "2", "--typed-ratios=0.5", "--typed-colour", "red",
                       "--typed-place", "/etc", keys=self.KEYS)
        self.assertEqual(got, {**self.VALUES, "number": 4, "texts": "q;", "numbers": "5;6;", "rooms": "3072;4096;",
                               "pauses": "2000;", "ratios": "0.5;", "colour": "red", "place": "/etc"})

    def test_refused_flags(self):
        env = self.typed()
        for flag, value, part in (("number", "40", "from 1 to 9"), ("place", "/nosuch", "No such file"),
                                  ("numbers", "1,x", "not a whole number"), ("colours", "blue", "red, green"),
                                  ("rooms", "much", "not a size"), ("ratio", "2", "out of range")):
            self.refused(f"--typed-{flag}", value, env=env, parts=[f"--typed-{flag}", part])
        self.refused("--typed-nubmer", "1", env=env, parts=["--typed-nubmer"], hint="--typed-number")

    def test_validate(self):
        self.assertEqual(self.kern("validate", env=self.typed(*self.KEYS), report=False).code, 0)
        for key, part in (("number = 33", "from 1 to 9"), ("nubmer = 3", "unknown key"), ("tables = 1", "table"),
                          ('places = ["/nosuch"]', "/nosuch"), ("numbers = [1, 100]", "from 0 to 99")):
            result = self.kern("validate", env=self.typed(key), report=False)
            self.assertEqual(result.code, 1, (key, result))
            self.assertIn(part, result.err)

    # For each type, alone and in a list: what it is not, and a value that is out of bounds.
    BAD = {"text": "3", "number": "1.5", "ratio": '"half"', "loud": "1", "room": '"much"', "pause": "-1", "colour": '"blue"',
           "place": '"/nosuch"', "table": "[1]", "texts": "[1]", "numbers": '["x"]', "ratios": "[true]", "switches": '["maybe"]',
           "rooms": '["much"]', "pauses": '["soon"]', "colours": '["blue"]', "places": '["/nosuch"]', "tables": "[1]"}
    BEYOND = {"number": "10", "ratio": "1.5", "room": "0"}

    def test_validate_each_type(self):
        with open(os.path.join(kerntest.SOURCE, "tests/box/helpers/typed.c"), encoding="utf-8") as file:
            in_plugin = {name for name, flags in re.findall(r'\.name = "(\w+)",\s*\.type = \w+,\s*\.flags = ([^,]*),', file.read())
                         if "PROFILE" not in flags}
        self.assertEqual(set(self.BAD), in_plugin)
        for key, value in [*self.BAD.items(), *self.BEYOND.items()]:
            with self.subTest(key=key, value=value):
                result = self.kern("validate", env=self.typed(f"{key} = {value}"), report=False)
                self.assertEqual(result.code, 1, result)
                self.assertRegex(result.err, rf"^kern: .*/kern\.toml:4:\d+: {key}\b")
                self.assertNotIn("prepare", result.err)

    def test_a_file_that_is_only_looked_at_runs_no_plugin(self):
        env = self.typed("number = 33")
        chosen = env["XDG_CONFIG_HOME"] + "/kern/kern.toml"
        result = self.kern("validate", chosen, report=False)
        self.assertEqual(result.code, 0, result)
        self.assertIn('plugin "typed"', result.err)

    def test_help_completion_and_show_config(self):
        env = self.typed("number = 3")
        text = self.kern("box", "--help", env=env, report=False).out
        self.assertIn("typed: has an option of each type", text)
        self.assertRegex(text, r"--typed-colour VALUE +a colour \(one of red, green")
        flags = self.kern("plugin", "flags", env=env, report=False).out.splitlines()
        self.assertIn("--typed-pause\ta duration", flags)
        self.assertNotIn("--typed-table\ta table", flags)
        shown = self.kern("box", "--typed-text", "x", "--show-config", "--", "true", env=env, report=False).out
        self.assertRegex(shown, r"text +x +\(command line: --typed-text\)")
        self.assertRegex(shown, r"number +3 +\(kern.toml: ")
        script = ('source <("$KERN" completion bash); kern() { "$KERN" "$@"; }; COMP_LINE="kern box --typed-p"; COMP_POINT=18; '
                  '_kern; echo "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, **self.me.popen,
                              env={"PATH": kerntest.BOX_PATH, "HOME": self.me.home, "KERN": kerntest.KERN, **env})
        self.assertEqual(done.stdout.split(), ["--typed-pause", "--typed-place", "--typed-pauses", "--typed-places"])


@as_root_and_user
class OnTheHost(Plugins):
    """Third parties' plugins under `kern run`: those that know of it take part; by helpers/runner.c."""

    def runner(self, more=""):
        path = self.place(built("runner.so", source="runner.c"))
        return self.own_config(f'[[plugin]]\nname = "runner"\npath = "{path}"\n{more}\n[[runner]]\nname = "p"\n')

    def host(self, *command, options=(), env=None):
        path = os.path.join(self.folder(), "report")
        result = self.kern("run", "--report", path, *options, "--", *command, report=False, env=env or self.runner())
        with open(path, encoding="utf-8") as file:
            result.report = kerntest.json.load(file)
        return result

    def test_it_takes_part(self):
        result = self.host("sh", "-c", "umask; echo $RUNNER; exit 3", options=["runner:p"])
        self.assertEqual((result.code, result.out), (3, "0027\non the host\n"), result)
        self.assertEqual(result.report["plugins"]["runner"], {"profile": "p", "exit": 3})
        self.assertEqual(self.rooted("sh", "-c", "echo $RUNNER", env=self.runner()).out, "in a box\n")

    def test_what_needs_a_box_is_refused(self):
        for does in ("file", "tmpfs", "link", "bind", "namespace", "rule", "call"):
            with self.subTest(does):
                result = self.host("true", options=["--runner-does", does])
                self.assert_failed(result, 1, 'runner: prepare: cannot add', '"kern run" makes no box', hint="kern box")
        self.assert_failed(self.host("true", options=["--runner-inside", "x"]), 1, "--runner-inside needs a box")

    def test_enter_at_fault_is_named(self):
        self.assert_failed(self.host("true", options=["--runner-does", "fail"]), 125, "runner: enter: cannot run with it")
        self.assert_failed(self.host("true", options=["--runner-does=silent"]), 125, "runner: enter: the hook failed")
        self.assert_failed(self.host("true", options=["--runner-does", "crash"]), 125, "runner: enter: ", "signal 6")

    def test_one_that_knows_nothing_of_it_stays_out(self):
        env = self.config(self.place(built("hello.so")))
        self.assertEqual(self.host("sh", "-c", "echo ${HELLO-nothing}", env=env).out, "nothing\n")
        self.assert_failed(self.host("true", options=["hello:world"], env=env), 1, "hello:world needs a box")
        self.assert_failed(self.host("true", options=["--hello-word", "x"], env=env), 1, "--hello-word needs a box")
        self.assertEqual(self.logged(), [])

    def test_help_completion_and_show_config(self):
        env = self.runner('does = "x"')
        text = self.kern("run", "--help", env=env, report=False).out
        self.assertIn("--runner-does VALUE", text)
        self.assertNotIn("--runner-inside", text)
        for verb, flags in (("run", ["--runner-does"]), ("box", ["--runner-does", "--runner-inside"])):
            said = self.kern("plugin", "flags", verb, env=env, report=False).out.splitlines()
            self.assertEqual([line.split("\t")[0] for line in said], flags)
        shown = self.kern("run", "--runner-does", "y", "--show-config", "--", "true", env=env, report=False).out
        self.assertRegex(shown, r"does +y +\(command line: --runner-does\)")
        script = ('source <("$KERN" completion bash); kern() { "$KERN" "$@"; }; COMP_LINE="kern run --runner-"; COMP_POINT=18; '
                  '_kern; echo "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, **self.me.popen,
                              env={"PATH": kerntest.BOX_PATH, "HOME": self.me.home, "KERN": kerntest.KERN, **env})
        self.assertEqual(done.stdout.split(), ["--runner-does"])


@as_root_and_user
class Misbehaving(Plugins):
    """What is wrong with a plugin is said, and its name with it, by helpers/leaker.c."""

    def leaker(self, does):
        path = self.place(built("leaker.so", "-pthread", source="leaker.c"))
        return self.own_config(f'[[plugin]]\nname = "leaker"\npath = "{path}"\n'
                               f'[[leaker]]\nname = "it"\ndoes = "{does}"\n')

    def leak(self, does, *command, options=(), debug=True, **keywords):
        env = {**self.leaker(does), **({"KERN_DEBUG": "plugins"} if debug else {})}
        return self.rooted(*(command or ("true",)), options=["leaker:it", *options], env=env, **keywords)

    def stopped(self, does, number, command="true"):
        """How kern ends when a signal comes while a hook, which says so, takes its time."""
        said = self.file()

        def text():
            with open(said, encoding="utf-8") as file:
                return file.read()
        with open(said, "w", encoding="utf-8") as stderr:
            running = self.start("box", "--rootfs", self.root, "leaker:it", "--", *command.split(), env=self.leaker(does), stderr=stderr)
        self.assertTrue(kerntest.eventually(lambda: "leaker: here\n" in text()), text())
        running.signal(number)
        result = running.wait()
        result.err = text()
        return result

    def test_what_is_left_behind_is_named(self):
        for does, words in (("fd", "left descriptor"), ("thread", "prepare left a thread running"),
                            ("child", "prepare left a child process"), ("mask", "prepare changed the signal mask"),
                            ("signals", "prepare changed what signals do"), ("crashes", "prepare changed what signals do"), ("umask", "prepare changed the umask"),
                            ("folder", "prepare changed the working directory"),
                            ("locale", "prepare changed the locale"), ("no-cloexec", "prepare opened descriptor")):
            with self.subTest(does):
                result = self.leak(does)
                warnings = [line for line in result.err.splitlines() if "plugin" in line]
                self.assertTrue(warnings, result)
                self.assertIn(f"kern: warning: plugin leaker: {words}", warnings[0])
                if does != "no-cloexec":  # that one is not closed either
                    self.assertEqual(len(warnings), 1, result)

    def test_what_enter_and_teardown_leave_behind_is_named(self):
        for does, words in (("enter-fd", r"enter left descriptor \d+ \(/dev/null\) open"), ("enter-thread", "enter left a thread running"),
                            ("enter-child", "enter left a child process"), ("enter-mask", "enter changed the signal mask"),
                            ("enter-signals", "enter changed what signals do"), ("enter-umask", "enter changed the umask"),
                            ("enter-folder", "enter changed the working directory"),
                            ("enter-locale", "enter changed the locale"),
                            ("teardown-fd", r"teardown left descriptor \d+ \(/dev/null\) open"),
                            ("teardown-mask", "teardown changed the signal mask")):
            with self.subTest(does):
                result = self.leak(does)
                warnings = [line for line in result.err.splitlines() if "plugin" in line]
                self.assertEqual(len(warnings), 1, result)
                self.assertEqual(result.code, 125 if does == "enter-thread" else 0, result)  # the kernel refuses it namespaces
                self.assertRegex(warnings[0], "^kern: warning: plugin leaker: " + words)
        self.assertIn("enter left a child", self.leak_host("enter-child").err)

    def leak_host(self, does):
        """The same under `kern run`, by a plugin that takes part there."""
        path = self.place(built("leaker-host.so", "-pthread", "-DON_HOST", source="leaker.c"))
        env = self.own_config(f'[[plugin]]\nname = "leaker"\npath = "{path}"\n[[leaker]]\nname = "it"\ndoes = "{does}"\n')
        return self.kern("run", "leaker:it", "--", "true", report=False, env={**env, "KERN_DEBUG": "plugins"})

    def test_only_when_asked_for(self):
        self.assertNotIn("umask", self.leak("umask", debug=False).err)

    def test_nobody_else_is_named(self):
        result = self.leak("nothing", options=["-m", "64m", "--tmpfs", "/x", "-v", "/usr:/y"])
        self.assertEqual((result.code, [line for line in result.err.splitlines() if "plugin" in line]), (0, []), result)

    def test_a_crash(self):
        self.assert_failed(self.leak("prepare-crash"), 125, "leaker: prepare: the plugin crashed: Segmentation fault")

    def test_a_hook_that_ends_the_process(self):
        """The hook is given up and named; how the box ended stands."""
        for function, words in (("exit", "called exit(0)"), ("_exit", "called _exit(0)"), ("quick-exit", "called quick_exit(0)"),
                                ("errx", "called exit(0)")):
            with self.subTest(function):
                result = self.leak("prepare-" + function, started=True)
                self.assertEqual((result.code, result.started, result.fault), (125, b"", "startup_failed"), result)
                self.assertIn(f"kern: leaker: prepare: the hook {words}\nhint: ", result.err)
                result = self.leak("teardown-" + function, "sh", "-c", "exit 3")
                self.assertEqual((result.code, result.report["exit"], result.fault), (3, 3, None), result)
                self.assertIn(f"kern: warning: plugin leaker {words} in teardown\n", result.err)
                result = self.leak("callback-" + function, "sleep", "60")
                self.assertIn((result.code, result.fault), ((137, "killed"), (125, "startup_failed")), result)
                self.assertIn(f"kern: warning: plugin leaker {words} in a callback\n", result.err)
        if os.environ.get("KERN_VARIANT") == "asan":  # which ends a process whose first thread ends on another stack
            return
        for hook, code in (("prepare", 125), ("teardown", 3)):  # the stack is gone then, and kern with it: but not its exit code
            result = self.leak(hook + "-pthread-exit", "sh", "-c", "exit 3", report=False)
            self.assertEqual(result.code, code, result)
            self.assertIn("kern: leaker: the plugin ended kern's thread in a hook\n", result.err)

    def test_an_end_in_enter(self):
        for does, words in (("exit", "exit(0)"), ("_exit", "exit(0)"), ("abort", "signal 6 (Aborted)"),
                            ("crash", "signal 11 (Segmentation fault)")):
            self.assert_failed(self.leak("enter-" + does), 125,
                               f"leaker: enter: the box's first process was ended by {words} while it was built")

    def test_an_end_in_check(self):
        for does, words in (("exit", "plugin leaker ended the process in check"),
                            ("crash", "plugin leaker crashed in check: Aborted (signal 6)"),
                            ("hang", "plugin leaker did not end in check")):
            env = self.leaker("check-" + does)
            result = self.kern("validate", env=env, report=False)
            self.assertEqual(result.code, 1, result)
            self.assertIn(words, result.err)

    def test_what_runs_at_exit_hides_no_outcome(self):
        result = self.leak("atexit-crash", "sh", "-c", "exit 3")
        self.assertEqual((result.code, result.report["exit"]), (3, 3), result)

    def test_a_constructor_that_crashes(self):
        path = self.place(built("early.so", "-DEARLY_CRASH", "-pthread", source="leaker.c"))
        env = self.own_config(f'[[plugin]]\nname = "leaker"\npath = "{path}"\n')
        self.refused(env=env, parts=[path, "it crashed when it was opened: Aborted (signal 6)"], hint="constructor")
        self.assertIn("it crashed when it was opened", self.kern("plugin", "list", env=env, report=False).out)
        for way, words in ((2, "it ended the process when it was opened"), (3, "opening it did not end")):
            path = self.place(built(f"early{way}.so", f"-DEARLY_CRASH={way}", "-pthread", source="leaker.c"))
            env = self.own_config(f'[[plugin]]\nname = "leaker"\npath = "{path}"\n')
            self.refused(env=env, parts=[path, words], hint="constructor")

    def test_what_watches_a_constructor_serves_the_next_one(self):
        """It is set up once for all plugins, and none passes for the one that was refused before it."""
        paths = [self.place(built("early.so", "-DEARLY_CRASH", "-pthread", source="leaker.c")),
                 self.place(built("early2.so", "-DEARLY_CRASH=2", "-pthread", source="leaker.c")),
                 self.place(built("wild.so", "-DFAKE_ABI=KERN_ABI", "-DHELP=(void*)16", source="old_abi.c"))]
        env = self.own_config("".join(f'[[plugin]]\nname = "p{number}"\npath = "{path}"\n' for number, path in enumerate(paths)))
        said = self.kern("plugin", "list", env=env, report=False).out
        for words in ("it crashed when it was opened", "it ended the process", "a pointer in its table leads nowhere"):
            self.assertIn(words, said)

    def test_a_hook_that_hangs_at_the_deadline(self):
        result = self.leak("prepare-hang", options=["--timeout", "0.3"])
        self.assertEqual((result.code, result.fault), (143, "timeout"), result)
        self.assertIn("kern: leaker: prepare: the hook was still running when the deadline struck\n", result.err)
        result = self.leak("enter-hang", options=["--timeout", "0.3"])
        self.assertEqual((result.code, result.fault), (143, "timeout"), result)
        self.assertIn("kern: warning: plugin leaker was still in enter when the box was ended\n", result.err)
        result = self.leak("teardown-hang", "sh", "-c", "exit 3", options=["--timeout", "2"])
        self.assertEqual((result.code, result.report["exit"], result.fault), (3, 3, None), result)
        self.assertIn("kern: warning: plugin leaker did not end in teardown within 2.0 s\n", result.err)

    def test_a_hook_that_hangs_is_interrupted(self):
        result = self.stopped("prepare-hang", signal.SIGINT)
        self.assertEqual((result.code, result.report["signal"]), (130, signal.SIGINT), result)
        self.assertIn("kern: leaker: prepare: the hook was still running after SIGINT\n", result.err)
        result = self.stopped("enter-hang", signal.SIGINT)
        self.assertEqual(result.code, 130, result)
        self.assertIn("plugin leaker was still in enter", result.err)
        result = self.stopped("teardown-hang", signal.SIGTERM)
        self.assertEqual((result.code, result.fault), (0, None), result)
        self.assertIn("kern: warning: plugin leaker did not end in teardown after SIGTERM\n", result.err)

    def test_a_hook_that_ends_when_it_is_interrupted(self):
        result = self.stopped("prepare-slow", signal.SIGTERM)
        self.assertEqual((result.code, result.report["signal"]), (143, signal.SIGTERM), result)
        self.assertIn("kern: leaker: prepare: interrupted\n", result.err)

    def test_a_callback(self):
        for does, words in (("callback-crash", "crashed in a callback: Segmentation fault (signal 11)"), ("callback-hang", "did not end in a callback by the deadline")):
            with self.subTest(does):
                result = self.leak(does, "sleep", "60", options=["--timeout", "0.5"])
                self.assertIn(f"kern: warning: plugin leaker {words}\n", result.err)
                self.assertIn(result.code, (137, 143, 125), result)


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
        fifo = self.folder() + "/hello.so"
        os.mkfifo(fifo, 0o600)
        kerntest.give(fifo, self.me)
        self.load(fifo, "regular file")
        said = self.kern("plugin", "check", fifo, report=False)
        self.assertEqual((said.code, "regular file" in said.err), (1, True), said)
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

    def test_pointers_that_lead_nowhere(self):
        for number, flags in enumerate(("-DMORE=.options=(void*)16", "-DMORE=.summary=(void*)16", "-DMORE=.name=(void*)16", "-DHELP=(void*)16")):
            with self.subTest(flags):
                path = self.place(built(f"wild-{number}.so", "-DFAKE_ABI=KERN_ABI", flags, source="old_abi.c"))
                words = f'cannot load plugin "{path}": a pointer in its table leads nowhere: Segmentation fault (signal 11)'
                self.load(path, words, hint="kern.toml")
                env = self.config(path)
                self.assertEqual(self.kern("box", "--help", env=env, report=False).code, 0)
                said = self.kern("plugin", "info", "hello", env=env, report=False)
                self.assertEqual((said.code, words in said.err), (1, True), said)

    def test_of_the_wrong_architecture(self):
        path = self.place(built("hello-arm.so", compiler="aarch64-linux-gnu-gcc"))
        self.load(path, "another machine", hint="build the plugin for")

    def test_a_cycle_names_both(self):
        one = self.place(built("one.so", '-DNAME="one"', '-DAFTER="two"'), "one.so")
        two = self.place(built("two.so", '-DNAME="two"', '-DAFTER="one"'), "two.so")
        env = self.own_config(f'[[plugin]]\nname = "one"\npath = "{one}"\n[[plugin]]\nname = "two"\npath = "{two}"\n')
        self.refused(env=env, parts=["one", "two"])
        self.assertEqual(kerntest.group_leaks(), [])

    def test_twice_the_same_name_or_a_builtin_one(self):
        path = self.place(built("fake.so", '-DNAME="seccomp"'))
        env = self.own_config(f'[[plugin]]\nname = "seccomp"\npath = "{path}"\n')
        result = self.box("true", env=env)
        self.assertIn(result.code, (0, 1), result)
        status = self.shell("grep Seccomp: /proc/self/status") if result.code == 0 else "Seccomp:\t2\n"
        self.assertEqual(status, "Seccomp:\t2\n")


if __name__ == "__main__":
    kerntest.main()

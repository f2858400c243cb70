"""What a plugin asks of a box through the public header (workers, descriptors, calls, files, variables, options): it does what it says."""

import os
import signal

import kerntest
from kerntest import as_root_and_user
from test_plugins import Plugins, built


@as_root_and_user
class Asked(Plugins):
    """What a plugin asks of the box through the public header, by helpers/asker.c: it does what its profile says."""

    def asker(self, does, lean=False):
        flags = ["-DLEAN"] if lean else []
        if does == "listener":  # the box's network is there from this stage on
            flags.append("-DSTAGE=KERN_STAGE_NETWORK")
        path = self.place(built(f"asker{''.join(flags)}.so", *flags, source="asker.c"))
        self.log = self.file("", "log")
        env = self.own_config(f'[[plugin]]\nname = "asker"\npath = "{path}"\n'
                              f'[[asker]]\nname = "it"\ndoes = "{does}"\nlog = "{self.log}"\n')
        return {**env, "ASAN_OPTIONS": "handle_segv=0"}  # a sanitized kern would turn a crash into an exit

    def ask(self, does, *command, options=(), lean=False, **keywords):
        return self.rooted(*command, options=["asker:it", *options], env=self.asker(does, lean), **keywords)

    def asked(self, does, *command, options=(), lean=False):
        """Standard output of a command that must succeed."""
        result = self.ask(does, *command, options=options, lean=lean)
        self.assertEqual((result.code, result.report["fault"]), (0, None), result)
        return result.out

    def field(self, name):
        """What follows the name in the log, or None."""
        return next((line[len(name):].strip() for line in self.logged() if line.startswith(name)), None)

    def working(self):
        """A box with a worker that has said what it is, and the worker's pid."""
        running = self.start("box", "--rootfs", self.root, "asker:it", "--", "sh", "-c", "echo ready; exec sleep 60",
                             env=self.asker("worker"))
        self.assertEqual(running.line(), "ready\n")
        self.assertTrue(kerntest.eventually(lambda: self.field("pid")), self.logged())
        return running, int(self.field("pid"))

    def assert_gone(self, pid):
        self.assertTrue(kerntest.eventually(lambda: not os.path.exists(f"/proc/{pid}")), f"process {pid} lives on")

    # ---- the worker

    def test_a_worker_ends_with_the_command(self):
        result = self.ask("worker", "true")
        self.assertEqual((result.code, result.fault), (0, None), result)
        pid = self.field("pid")
        if pid is not None:  # it may have been too late to say anything
            self.assert_gone(int(pid))

    def test_a_worker_that_ends_at_once(self):
        """Before or after the exec, whichever comes first: the plugin is named."""
        result = self.ask("worker-ends", "sleep", "60")
        self.assertIn((result.code, result.fault), ((137, "killed"), (125, "startup_failed")), result)
        self.assertIn("worker of plugin asker", result.report["fault"]["message"])
        benign = "kern: warning: the worker of plugin asker ended, and the box with it\n"
        self.assertEqual(benign in result.err, result.report["started"], result)

    def test_a_stop_while_notes_are_written_is_one(self):
        """The last moment of prepare."""
        running = self.start("box", "--rootfs", self.root, "asker:it", "--", "sleep", "5", env=self.asker("notes"))
        while "note 0" not in (line := running.process.stderr.readline()):
            self.assertNotEqual(line, "")
        running.signal(signal.SIGTERM)
        self.assertEqual(running.wait().code, 143)

    def test_a_stop_during_teardown_is_one(self):
        """A box that ends at that moment does not run again."""
        env, name = self.asker("stop-in-teardown"), f"asked-{os.getpid()}"
        self.addCleanup(self.kern, "rm", "--force", name)
        done = self.kern("box", name, "-d", "--restart=on-failure:2", "--rootfs", self.root, "asker:it", "--", "false", report=False, env=env)
        self.assertEqual(done.code, 0, done)
        self.assertEqual(self.kern("wait", name).out, "1\n")
        self.assertEqual(self.logged(), ["teardown 1 0 -"])

    def test_a_worker_is_confined(self):
        running, pid = self.working()
        for name in ("CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"):
            if name != "CapBnd:" or self.me.is_root:
                self.assertEqual(self.field(name), "0" * 16, name)
        self.assertEqual((self.field("NoNewPrivs:"), self.field("Seccomp:")), ("1", "2"))
        self.assertEqual(self.field("open"), self.field("given"))
        self.assertEqual((self.field("execve"), self.field("local-socket")), ("EPERM", "EAFNOSUPPORT"))
        running.signal(signal.SIGTERM)
        self.assertEqual(running.wait().code, 143)
        self.assert_gone(pid)

    def test_a_worker_that_is_killed_ends_the_box(self):
        running, pid = self.working()
        os.kill(pid, signal.SIGKILL)
        result = running.wait()
        self.assertEqual((result.code, result.fault), (137, "killed"), result)
        self.assertIn("the worker of plugin asker ended", result.report["fault"]["message"])
        self.assertEqual(result.err.count("kern: warning: the worker of plugin asker ended, and the box with it\n"), 1, result)
        self.assertEqual(self.logged()[-1], "teardown 137 9 killed")

    def test_a_worker_dies_with_kern(self):
        running, pid = self.working()
        running.process.kill()
        self.assertEqual(running.wait().code, -signal.SIGKILL)
        self.assert_gone(pid)
        self.clean_up()

    # ---- descriptors

    def test_a_listener_made_inside_is_served_outside(self):
        for lean in (False, True):
            with self.subTest(lean=lean):
                result = self.ask("listener", "sh", "-c", "for i in 1 2 3; do nc 127.0.0.1 8080 </dev/null; done",
                                  lean=lean)
                self.assertEqual((result.code, result.out), (0, "served by kern\n" * 3), result)
                self.assertEqual(result.report["plugins"]["asker"], {"accepted": 3})

    def test_a_listener_is_not_left_in_the_command(self):
        self.assertEqual(self.asked("listener", "probe", "fds"), "0 1 2 \n")

    # ---- system calls

    def test_a_rule_makes_a_call_fail(self):
        script = "probe call personality 0; probe call personality 0xffffffff"
        lines = self.asked("errno", "sh", "-c", script).splitlines()
        self.assertEqual(lines[0], "personality -1 33")
        self.assertRegex(lines[1], r"^personality [0-9]+ 0$")  # the condition does not hold

    def test_a_handler_answers_a_call(self):
        for does, answer in (("notify", 4242), ("later", 4343)):
            with self.subTest(does):
                self.assertEqual(self.asked(does, "probe", "call", "getpid", "7"), f"getpid {answer} 0\n")
                self.assertIn("call getpid arg 7", self.logged())

    def test_a_handler_fails_a_call(self):
        for does in ("notify", "later"):
            with self.subTest(does):
                self.assertEqual(self.asked(does, "probe", "call", "getpid", "33"), "getpid -1 33\n")

    def test_a_handler_answers_many(self):
        script = "for i in 1 2 3 4 5; do probe call getpid 7 & done; wait"
        self.assertEqual(self.asked("notify", "sh", "-c", script), "getpid 4242 0\n" * 5)

    def test_the_calls_that_kill_cannot_be_opened(self):
        for call in ("bpf", "mount"):
            with self.subTest(call):
                self.assert_failed(self.ask("open-" + call, "true"), 125, f'"{call}"')
                self.assertEqual(self.logged(), ["teardown 125 0 startup_failed"])

    # ---- the root

    def test_a_tmpfs(self):
        script = """grep ' /fresh ' /proc/self/mountinfo; stat -c %a /fresh
            dd if=/dev/zero of=/fresh/half bs=1k count=512 2>/dev/null && echo half
            dd if=/dev/zero of=/fresh/more bs=1k count=1024 2>/dev/null || echo full
            rm /fresh/*; echo x >/fresh/again && echo room"""
        lines = self.asked("tmpfs", "sh", "-c", script).splitlines()
        self.assertEqual(lines[1:], ["711", "half", "full", "room"])
        options = lines[0].split()[5].split(",")
        self.assertTrue({"rw", "nosuid", "nodev", "noexec"} <= set(options), lines[0])
        self.assertIn(" - tmpfs ", lines[0])
        self.assertFalse(os.path.exists(os.path.join(self.root, "fresh")))

    def test_a_generated_file_is_read_only(self):
        script = """cat /etc/asked; stat -c %a /etc/asked; (echo x >/etc/asked) 2>/dev/null || echo closed
            (echo x >>/etc/asked) 2>/dev/null || echo closed; rm -f /etc/asked 2>/dev/null || echo stays
            chmod 666 /etc/asked 2>/dev/null || echo fixed; cat /etc/asked"""
        self.assertEqual(self.asked("file", "sh", "-c", script).splitlines(),
                         ["generated", "640", "closed", "closed", "stays", "fixed", "generated"])
        self.assertFalse(os.path.exists(os.path.join(self.root, "etc/asked")))

    # ---- the environment and the report

    def test_the_environment(self):
        self.assertEqual(self.asked("env", "sh", "-c", "echo $ASKED; echo $TERM"), 'a = "b"\nasked\n')
        flag = ["-e", "ASKED=flag"]
        self.assertEqual(self.asked("env", "sh", "-c", "env | grep ASKED", options=flag), "ASKED=flag\n")

    def test_an_option_of_a_plugin_whose_prepare_came_before(self):
        self.assertEqual(self.asked("host-name", "hostname"), "asked\n")
        self.assertEqual(self.asked("host-name", "hostname", options=["--hostname", "flag"]), "flag\n")
        self.assert_failed(self.ask("late-ids", "true"), 125, "the ids of the box are chosen already", plugin="asker")
        self.assert_failed(self.ask("bad-env", "true"), 125, "asker: prepare: ", '"A=B"')

    def test_the_report(self):
        result = self.ask("report", "true")
        self.assertEqual(result.code, 0, result)
        self.assertEqual(result.report["plugins"]["asker"], {"text": 'a "quoted" \u00e9 \ufffd',
                                                             "number": -9007199254740993})
        denied = result.report["denied"]
        self.assertEqual(denied["hosts"], [{"name": "evil.example", "port": None, "count": 2, "reason": "not on the list"}])
        self.assertEqual([row["name"] for row in denied["devices"]], ["/dev/mem"])
        for text in ("evil.example", "/dev/mem", "said once"):
            lines = [line for line in result.err.splitlines() if text in line]
            self.assertEqual(len(lines), 1, result)
            self.assertTrue(lines[0].startswith("kern: note: "), result)
        self.assertEqual(result.report["notes"].count("said once"), 1)

    # ---- a crash inside

    def test_a_crash_in_enter_names_the_plugin(self):
        for lean in (False, True):
            with self.subTest(lean=lean):
                result = self.ask("segv", "true", lean=lean, started=True)
                self.assert_failed(result, 125, "asker: enter: ", f"signal {int(signal.SIGSEGV)}")
                self.assertEqual((self.logged(), result.started), (["teardown 125 0 startup_failed"], b""))


if __name__ == "__main__":
    kerntest.main()

"""What the engine promises: exit codes, the report, the two descriptors, what kern says on stderr, the environment of the
command, --workdir, --timeout, --init, signals, and a box without a command."""

import os
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

import kerntest
from kerntest import BENIGN, BoxCase, as_root_and_user


@as_root_and_user
class ExitCodes(BoxCase):
    def test_the_commands_own(self):
        for code in (0, 1, 3, 125, 126, 127, 137, 143, 159, 255):
            with self.subTest(code):
                result = self.rooted("sh", "-c", f"exit {code}")
                self.assertEqual((result.code, result.report["exit"]), (code, code))
                self.assertEqual((result.report["started"], result.report["signal"]), (True, 0))
                self.assertIsNone(result.report["fault"])
                self.assertEqual([line for line in result.err.splitlines() if not line.startswith(BENIGN)], [])

    def test_a_signal_that_the_command_died_of(self):
        for number in (signal.SIGABRT, signal.SIGSEGV):
            with self.subTest(number):
                result = self.rooted("sh", "-c", f"kill -{int(number)} $$", options=["--init"])
                self.assertEqual((result.code, result.report["exit"]), (128 + number, 128 + number))
                self.assertEqual(result.report["signal"], number)
                self.assertTrue(result.report["started"])

    def test_not_found(self):
        for command in ("nosuch", "/bin/nosuch", "./nosuch", ""):
            with self.subTest(command):
                result = self.assert_failed(self.rooted(command), 127, f"cannot start '{command}' in box: ", "not found")
                self.assertTrue(result.err.startswith("kern: cannot start") or "kern: cannot start" in result.err)
                self.assertEqual(result.fault, "exec_failed")

    def test_a_path_that_may_not_be_searched(self):
        options = ["-v", f"{self.folder(mode=0)}:/closed", "-e", "PATH=/closed:/bin", "--cap-drop", "ALL"]
        self.assert_failed(self.rooted("nosuch", options=options), 127, "not found")
        self.assertEqual(self.rooted("true", options=options).code, 0)

    def test_not_executable(self):
        for command in ("/etc/passwd", "/etc"):
            with self.subTest(command):
                result = self.assert_failed(self.rooted(command), 126, f"cannot start '{command}' in box: ")
                self.assertEqual(result.fault, "exec_failed")

    def test_a_script_without_interpreter(self):
        path = self.file("#!/no/such/interpreter\n", mode=0o755)
        self.assert_failed(self.rooted("/script", options=["-v", f"{path}:/script:ro"]), 127, "cannot start '/script'",
                           "interpreter")

    def test_a_file_that_is_no_program(self):
        path = self.file("\x01\x02 no program", mode=0o755)
        self.assert_failed(self.rooted("/thing", options=["-v", f"{path}:/thing:ro"]), 126, "cannot start '/thing'")

    def test_usage_is_1(self):
        self.assertEqual(self.kern("box", "--nosuch").code, 1)
        self.assertEqual(self.kern("box", "one", "two").code, 1)

    def test_killed_from_inside_is_killed(self):
        result = self.rooted("sh", "-c", "kill -9 $$", options=["--init"])
        self.assertEqual((result.code, result.report["signal"], result.fault), (137, 9, "killed"))


@as_root_and_user
class Report(BoxCase):
    def test_fields(self):
        report = self.rooted("true", options=["-q"]).report
        self.assertEqual(set(report) - {"plugins"}, {"version", "box", "started", "exit", "signal", "fault", "usage",
                                                     "limits", "denied", "image", "notes"})
        self.assertEqual((report["version"], report["image"], report["fault"]), (1, None, None))
        self.assertEqual(set(report["usage"]), {"wall_ms", "cpu_ms", "peak_memory_bytes", "peak_pids", "oom_kills",
                                                "throttled_ms"})
        self.assertEqual(report["denied"], {"syscalls": {}, "hosts": [], "devices": []})
        for name in ("memory", "pids"):
            self.assertEqual(set(report["limits"][name]), {"asked", "enforced", "by"})
        self.assertEqual(report["limits"]["memory"]["asked"], 512 << 20)
        self.assertEqual(report["limits"]["pids"]["asked"], 512)

    def test_usage(self):
        report = self.rooted("sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done").report
        self.assertGreater(report["usage"]["cpu_ms"], 20)
        self.assertGreaterEqual(report["usage"]["wall_ms"] * 3, report["usage"]["cpu_ms"])
        for name in ("peak_memory_bytes", "peak_pids"):
            self.assertNotEqual(report["usage"][name], 0)

    def test_name(self):
        self.assertEqual(self.kern("box", "some.Name_1-2", "--", "true").report["box"], "some.Name_1-2")
        self.assertTrue(self.box("true").report["box"])

    def test_of_a_refusal(self):
        report = self.rooted("true", options=["-v", "/no/such:/x"]).report
        self.assertEqual((report["started"], report["exit"], report["fault"]["type"]), (False, 1, "startup_failed"))
        self.assertIn("/no/such", report["fault"]["message"])

    def test_into_a_file(self):
        path = os.path.join(self.folder(), "report")
        self.box("false", options=["--report", path], report=False)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertIn('"exit": 1', text)
        self.assertTrue(text.endswith("}\n"))
        self.box("true", options=["--report", path], report=False)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read().count("\n"), 1)  # the old one is gone

    def test_bad_places(self):
        folder = self.folder()
        os.symlink("/etc/hostname", folder + "/link")
        os.mkfifo(folder + "/fifo", 0o666)
        os.chmod(folder + "/fifo", 0o666)
        for place in (folder + "/link", folder + "/fifo", folder, folder + "/no/such", "fd:1", "fd:99", "fd:x", "fd:-1",
                      "fd:"):
            with self.subTest(place):
                result = self.box("echo", "ran", options=["--report", place], report=False)
                self.assert_failed(result, 1, "report")

    def test_a_descriptor_does_not_cost_the_output(self):
        """The report empties its file, so it shares none with what the box prints."""
        path = os.path.join(self.folder(), "log")
        with open(path, "w", encoding="utf-8") as file:
            file.write("kept\n")
        for streams in ("1>&3 2>/dev/null", "2>&3 1>/dev/null"):
            with self.subTest(streams):
                done = subprocess.run(["sh", "-c", f'"$0" box --report fd:3 -- true 3>>"$1" {streams}', kerntest.KERN, path],
                                      check=False)
                self.assertEqual(done.returncode, 1)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertTrue(text.startswith("kept\n"), text)
        self.assertIn("standard error goes to the same file", text)

    def test_the_notes_are_what_stderr_shows(self):
        result = self.box("true", options=["--report=/dev/null/x"], report=False)
        self.assertEqual(result.code, 1)
        result = self.rooted("true")
        shown = [line.split(": ", 2)[2] for line in result.err.splitlines()]
        self.assertEqual(result.report["notes"], shown)


@as_root_and_user
class Descriptors(BoxCase):
    def test_started(self):
        for command, code, first, last in (("true", 0, 1, 0), ("exit 3", 3, 1, 0), ("kill -6 $$", 134, 1, 6)):
            with self.subTest(command):
                result = self.rooted("sh", "-c", command, options=["--init"], started=True)
                self.assertEqual((result.code, len(result.started)), (code, 4), result)
                self.assertEqual((result.started[0], result.started[2], result.started[3]), (first, 0, last))
                self.assertEqual(result.started[1], 1 if self.limits_bind() else 2)

    def test_started_says_no_when_nothing_was_executed(self):
        result = self.rooted("nosuch", started=True)
        self.assertEqual((result.code, result.started[:1]), (127, b"\0"))
        result = self.box("true", options=["-v", "/no/such:/x"], started=True)
        self.assertEqual((result.code, result.started[:1]), (1, b"\0"))

    def test_nothing_is_written_after_125(self):
        result = self.rooted("true", options=["-u", "4000000000"], started=True)
        self.assertIn(result.code, (1, 125))
        if result.code == 125:
            self.assertEqual(result.started, b"")

    def test_alive(self):
        self.assertEqual(self.rooted("true", alive=True).alive, b"A")

    def test_alive_ends_when_the_command_is_executed_not_when_it_ends(self):
        running = self.start("box", "--rootfs", self.root, "--", "sh", "-c", "echo up; sleep 30", alive=True)
        self.assertEqual(running.line(), "up\n")
        self.assertTrue(kerntest.eventually(lambda: not running.pipes["alive"].thread.is_alive()))
        running.signal(signal.SIGTERM)
        self.assertEqual(running.wait().code, 143)

    def test_alive_in_a_regular_file(self):
        for words, said in ((["true"], b"AE"), (["sh", "-c", "exit 3"], b"AE"), (["nosuch"], b"AF")):
            with self.subTest(words), tempfile.TemporaryFile() as file:
                self.rooted(*words, env={"KERN_ALIVE_FD": str(file.fileno())}, pass_fds=(file.fileno(),))
                file.seek(0)
                self.assertEqual(file.read(), said)

    def test_alive_tells_of_a_failed_setup(self):
        result = self.rooted("nosuch", alive=True)
        self.assertTrue(result.alive.startswith(b"A"))
        self.assertGreater(len(result.alive), 1)
        result = self.box("true", options=["-v", "/no/such:/x"], alive=True)
        self.assertTrue(result.alive.strip(b"A"), result)

    def test_an_owner_that_is_gone(self):
        """Whoever reads that stream keeps the box's deadline; without it a box would live as long as its --timeout."""
        for end in ("pipe", "socket"):
            with self.subTest(end):
                mine, theirs = os.pipe() if end == "pipe" else [s.detach() for s in socket.socketpair()]
                running = self.start("box", "--", "sh", "-c", "trap '' TERM; echo on; sleep 60", env={"KERN_OWNER_FD": str(theirs)},
                                     pass_fds=(theirs,))
                os.close(theirs)
                self.assertEqual(running.line(), "on\n")
                time.sleep(0.2)
                self.assertIsNone(running.process.poll())
                os.close(mine)
                self.assertEqual(running.wait(seconds=10).code, 137)
        result = self.box("sh", "-c", "echo $KERN_OWNER_FD; sleep 0.1", env={"KERN_OWNER_FD": "2"})
        self.assertEqual((result.code, result.out), (0, "\n"))

    def test_bad_numbers(self):
        for value in ("x", "99", "-3", "3x"):
            with self.subTest(f"KERN_OWNER_FD={value}"):
                self.assert_failed(self.box("echo", "ran", env={"KERN_OWNER_FD": value}), 1, "KERN_OWNER_FD")
        for name in ("KERN_STARTED_FD", "KERN_ALIVE_FD"):
            for value in ("1", "x", "99", "-3", "3x"):
                with self.subTest(f"{name}={value}"):
                    self.assert_failed(self.box("echo", "ran", env={name: value}), 1, name)
            with self.subTest(f"{name} empty"):
                self.assertEqual(self.box("true", env={name: ""}).code, 0)

    def test_no_inherited_descriptor(self):
        """CVE-2016-9962 and the like: whatever the caller holds open, the box has its three streams."""
        read, write = os.pipe()
        directory = os.open("/", os.O_RDONLY)
        high = os.dup2(read, 900)
        try:
            out = self.output("probe", "fds", rooted=True, pass_fds=(read, write, directory, high), started=True,
                              alive=True)
        finally:
            for fd in (read, write, directory, high):
                os.close(fd)
        self.assertEqual(out.split(), ["0", "1", "2"])

    def test_a_caller_that_ignores_its_children(self):
        """The kernel would reap kern's, too, and nobody would learn how a command ended."""
        ignore = {"preexec_fn": lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)}
        for words in (["box"], ["box", "--init"], ["run"]):
            with self.subTest(words):
                result = self.kern(*words, "--", "sh", "-c", "exit 7", report=False, **ignore)
                self.assertEqual((result.code, result.out), (7, ""), result)

    def test_a_program_whose_headers_lie_before_it(self):
        """Its offset and the size of a header come out at 0: nothing of kern's own memory is read (the build with ASan sees that)."""
        path = self.file("", "odd")
        with open(path, "wb") as file:
            file.write(struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 2, 62, 1, 0, 2**64 - 56, 0, 0, 64, 56, 1, 0, 0, 0))
            file.write(bytes(64))
        os.chmod(path, 0o755)
        self.assertEqual(self.rooted("/odd", options=["-v", f"{path}:/odd"]).code, 126)

    def test_closed_standard_streams(self):
        script = f'exec "{kerntest.KERN}" box -q --rootfs "{self.root}" -- probe fds >&1 <&-'
        env = {"PATH": kerntest.BOX_PATH, "HOME": self.me.home}
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False, env=env, **self.me.popen)
        self.assertEqual((done.stdout.split(), done.stderr), (["0", "1", "2"], ""))
        script = f'exec "{kerntest.KERN}" box -q --rootfs "{self.root}" -- sh -c "exit 5" <&- >&- 2>&-'
        self.assertEqual(subprocess.run(["sh", "-c", script], check=False, env=env, **self.me.popen).returncode, 5)


@as_root_and_user
class Stderr(BoxCase):
    def test_nothing_on_success(self):
        self.assertEqual(self.box("true", options=["-q"]).err, "")
        self.assertEqual(self.box("true", env={"KERN_QUIET": "1"}).err, "")
        for off in ("", "0"):
            self.assertIn("timing", self.box("true", env={"KERN_QUIET": off, "KERN_TIMING": "1"}).err)
            self.assertNotIn("timing", self.box("true", env={"KERN_TIMING": off}).err)
        if self.limits_bind():
            self.assertEqual(self.box("true").err, "")

    def test_quiet_keeps_failures(self):
        self.assert_failed(self.box("nosuch", options=["-q"]), 127, "nosuch")

    def test_the_commands_own_lines_pass_unchanged(self):
        result = self.rooted("sh", "-c", "echo out; echo err >&2", options=["-q"])
        self.assertEqual((result.out, result.err), ("out\n", "err\n"))

    def test_every_line_has_its_prefix(self):
        for options in (["--nosuch"], ["-m", "0"], ["--memroy", "1g"], ["vcpu:nosuch"], ["nosuch:x"],
                        ["--rootfs", "/no/such"], ["-u", "nosuch"], ["--cap-add", "nosuch"], ["--image", "alpine"]):
            with self.subTest(options):
                result = self.box("true", options=options)
                self.assertIn(result.code, (1, 125))
                for line in result.err.splitlines():
                    self.assertTrue(line.startswith(("kern: ", "hint: ")), line)

    def test_names_are_escaped(self):
        result = self.rooted("no\nsuch\x1b[31m\x7f")
        self.assertEqual(result.code, 127)
        self.assertNotIn("\x1b", result.err)
        self.assertEqual(len([line for line in result.err.splitlines() if not line.startswith(BENIGN)]), 1)

    def test_a_benign_fact_is_said_once(self):
        lines = self.rooted("true").err.splitlines()
        self.assertEqual(len(lines), len(set(lines)))

    def test_closed_stdout(self):
        """A command that cannot print says so itself; kern's own verbs do not call it a success."""
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = self.kern("--help", stdout=full)
            self.assertEqual(result.code, 1)
            self.assertTrue(result.err.startswith("kern: "), result.err)
        self.assertEqual(self.rooted("sh", "-c", "exit 4", stdout=subprocess.DEVNULL).code, 4)

    def test_a_reader_that_went_away(self):
        running = self.start("box", "-q", "--rootfs", self.root, "--init", "--", "yes")
        running.line()
        running.process.stdout.close()
        running.process.stdout = None
        self.assertEqual(running.wait().code, 128 + signal.SIGPIPE)


@as_root_and_user
class Environment(BoxCase):
    def env(self, *options, **keywords):
        out = self.output("env", options=options, rooted=True, **keywords)
        return dict(line.split("=", 1) for line in out.splitlines())

    def test_base(self):
        env = self.env("--hostname", "lab")
        self.assertEqual(env.pop("HOSTNAME"), "lab")
        env.pop("PWD", None)
        env.pop("container", None)
        self.assertEqual(env, {"PATH": kerntest.BOX_PATH, "HOME": "/root", "TERM": "xterm"})

    def test_nothing_of_the_callers(self):
        env = self.env(env={"SECRET": "1", "LD_PRELOAD": "", "KERN_QUIET": "1"})
        self.assertEqual({name for name in env if name in ("SECRET", "LD_PRELOAD", "KERN_QUIET")}, set())

    def test_precedence(self):
        path = self.file("A=file\nB=file\nTERM=file\n")
        env = self.env("--env-file", path, "-e", "A=flag", "--env", "A=later", "-e", "EMPTY=", "-e", "EQ=a=b")
        self.assertEqual((env["A"], env["B"], env["TERM"], env["EMPTY"], env["EQ"]), ("later", "file", "file", "", "a=b"))
        env = self.env("-e", "A=flag", "--env-file", path)
        self.assertEqual(env["A"], "flag")

    def test_env_file(self):
        path = self.file("# comment\n\n  A = 1 \nB='q'\nC=x=y\r\n\t# more\nD=\n")
        env = self.env("--env-file", path)
        self.assertEqual((env["B"], env["C"], env["D"]), ("'q'", "x=y", ""))

    def test_bad_env_file(self):
        self.refused("--env-file", self.file("A=1\nno sign\n"), parts=["line 2", "="])
        self.refused("--env-file", self.file("=1\n"), parts=["line 1", "name"])
        self.refused("--env-file", "/no/such", parts=["/no/such"])

    def test_bad_env(self):
        self.refused("-e", "=x", parts=["=x"])

    def test_workdir(self):
        self.assertEqual(self.shell("pwd", options=["-w", "/tmp"]), "/tmp\n")
        self.assertEqual(self.shell("pwd"), "/\n")

    def test_workdir_is_created(self):
        self.assertEqual(self.shell("pwd; touch file; ls", options=["-w", "/made/for/this"]), "/made/for/this\nfile\n")
        self.assertFalse(os.path.exists(self.root + "/made"))

    def test_workdir_must_be_a_directory(self):
        self.assert_failed(self.rooted("true", options=["-w", "/etc/passwd"]), 125, "/etc/passwd")

    def test_relative_workdir(self):
        self.assertIn(self.rooted("pwd", options=["-w", "etc"]).code, (0, 1))


@as_root_and_user
class Timeouts(BoxCase):
    def run_out(self, *command, options=()):
        start = time.monotonic()
        result = self.rooted(*command, options=["--timeout", "0.3", *options])
        self.assertEqual((result.code, result.fault, result.report["signal"]), (143, "timeout", 15), result)
        return result, time.monotonic() - start

    def test_without_a_handler_at_once(self):
        _, took = self.run_out("sleep", "60")
        self.assertLess(took, 2.2)

    def test_with_a_handler(self):
        result, took = self.run_out("sh", "-c", "trap 'echo bye; exit 0' TERM; while :; do sleep 0.05; done")
        self.assertEqual(result.out, "bye\n")
        self.assertLess(took, 2.2)

    def test_a_command_that_ignores_the_signal(self):
        _, took = self.run_out("sh", "-c", "trap '' TERM; while :; do sleep 0.1; done")
        self.assertGreater(took, 2.2)

    def test_grandchildren_die(self):
        mark = str(3000000 + os.getpid())
        self.run_out("sh", "-c", f"setsid sh -c 'setsid sleep {mark} & sleep {mark}' & trap '' TERM; sleep {mark}")
        self.assertEqual(kerntest.running("sleep", mark), [])

    def test_grandchildren_that_hold_the_pipe(self):
        self.run_out("sh", "-c", "sleep 60 & exec sleep 60", options=["--init"])

    def test_in_time(self):
        result = self.rooted("true", options=["--timeout", "30"])
        self.assertEqual((result.code, result.fault), (0, None))

    def test_bad_values(self):
        for value in ("0", "-1", "x", "nan", "inf", "1e9", ""):
            with self.subTest(value):
                self.refused(f"--timeout={value}", parts=["--timeout"])


@as_root_and_user
class Signals(BoxCase):
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)

    def ready(self, *options):
        running = self.start("box", "--rootfs", self.root, *options, "--", "probe", "catch",
                             *(str(int(n)) for n in self.numbers))
        self.assertTrue(running.line().startswith("ready"))
        return running

    def test_forwarded_once_and_a_second_ends_the_box(self):
        for number in self.numbers:
            for options in ((), ("--init",)):
                with self.subTest(number=number, options=options):
                    running = self.ready(*options)
                    running.signal(number)
                    self.assertEqual(running.line(), f"caught {int(number)}\n")
                    running.signal(number)
                    result = running.wait()
                    self.assertEqual((result.code, result.report["signal"]), (128 + number, number), result)
                    self.assertEqual((result.out, result.report["fault"]), ("", None))

    def test_a_handler_chooses_the_exit_code(self):
        for number in self.numbers:
            with self.subTest(number):
                running = self.start("box", "--rootfs", self.root, "-e", "PROBE_END=1", "--", "probe", "catch",
                                     str(int(number)))
                running.line()
                running.signal(number)
                result = running.wait()
                self.assertEqual((result.code, result.report["signal"]), (7, 0))
                self.assertEqual(result.out, f"caught {int(number)}\n")

    def test_without_a_handler_at_once(self):
        for number in self.numbers:
            for options in ((), ("--init",)):
                with self.subTest(number=number, options=options):
                    running = self.start("box", "--rootfs", self.root, *options, "--", "sh", "-c", "echo up; exec sleep 60")
                    running.line()
                    time.sleep(0.1)  # exec of sleep
                    running.signal(number)
                    result = running.wait()
                    self.assertEqual((result.code, result.report["signal"]), (128 + number, number), result)

    def test_blocked_only_for_a_moment(self):
        script = """if 1:
            import signal, time
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
            print("up", flush=True)
            while signal.SIGTERM not in signal.sigpending():
                time.sleep(0.001)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
            time.sleep(60)
        """
        running = self.start("box", "--", "/usr/bin/python3", "-c", script)
        running.line()
        running.signal(signal.SIGTERM)
        self.assertEqual(running.wait().code, 143)

    def test_before_the_command_runs(self):
        for _ in range(10):
            running = self.start("box", "--rootfs", self.root, "--", "sleep", "60")
            running.signal(signal.SIGTERM)
            self.assertIn(running.wait().code, (143, -15))

    def test_the_command_has_no_blocked_or_ignored_signal(self):
        self.assertEqual(self.output("probe", "mask", rooted=True), "")
        self.assertEqual(self.output("probe", "mask", rooted=True, options=["--init"]), "")

    def test_a_stopped_group_keeps_its_deadline(self):
        running = self.start("box", "--timeout", "1", "--rootfs", self.root, "--", "sh", "-c", "echo up; exec sleep 60")
        running.line()
        running.signal(signal.SIGTSTP)
        self.assertEqual(running.wait().code, 143)


@as_root_and_user
class Init(BoxCase):
    def test_pid_1_is_the_command(self):
        self.assertEqual(self.shell("echo $$"), "1\n")

    def test_pid_1_is_the_init(self):
        pid = int(self.shell("echo $$", options=["--init"]))
        self.assertGreater(pid, 1)
        self.assertEqual(self.output("sh", "-c", "echo $PPID", options=["--init"], rooted=True), "1\n")

    def test_orphans_are_reaped(self):
        self.assertEqual(self.output("probe", "orphan", options=["--init"], rooted=True), "orphan reaped\n")
        self.assertEqual(self.output("probe", "orphan", rooted=True), "orphan stays\n")

    def test_the_end_of_the_command_ends_the_box(self):
        mark = str(4000000 + os.getpid())
        self.assertEqual(self.shell(f"sleep {mark} & exit 0", options=["--init"]), "")
        self.assertEqual(kerntest.running("sleep", mark), [])

    def test_the_init_cannot_be_looked_into(self):
        result = self.rooted("sh", "-c", "cat /proc/1/environ /proc/1/maps /proc/1/mem; ls -A /proc/1/fd; readlink /proc/1/exe",
                             options=["--init", "-q"])
        self.assertEqual(result.out, "", result)

    def test_the_init_holds_no_descriptor(self):
        self.assertEqual(self.output("probe", "fds", options=["--init"], rooted=True).split(), ["0", "1", "2"])

    def test_not_found(self):
        self.assert_failed(self.rooted("nosuch", options=["--init"]), 127, "cannot start 'nosuch' in box")


@as_root_and_user
class NoCommand(BoxCase):
    def test_a_shell_reads_standard_input(self):
        result = self.kern("box", "-q", "--rootfs", self.root, text="echo $((6*7)); exit 9\n")
        self.assertEqual((result.code, result.out, result.err), (9, "42\n", ""))
        self.assertEqual(self.kern("box", "-q", text="echo hi\n").out, "hi\n")

    def test_end_of_file_ends_it(self):
        result = self.kern("box", "-q", text="")
        self.assertEqual((result.code, result.out, result.err), (0, "", ""))

    def test_a_profile_alone(self):
        result = self.kern("box", "vcpu:heavy", "-q", text="nice\n")
        self.assertEqual((result.code, result.out, result.err), (0, "5\n", ""))

    def test_standard_input_is_inherited_with_and_without_i(self):
        for options in ((), ("-i",)):
            self.assertEqual(self.kern("box", "-q", *options, "--", "cat", text="through\n").out, "through\n")

    def test_null_is_end_of_file(self):
        self.assertEqual(self.shell("cat"), "")

    def test_a_terminal_needs_one(self):
        self.refused("-t", parts=["terminal"], hint="-t")
        self.refused("-it", parts=["terminal"])


if __name__ == "__main__":
    kerntest.main()

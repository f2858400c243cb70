"""The Python client where it is Python's own: context managers, threads, callbacks, descriptors, what is left behind, and
a kern that is missing or none."""

import glob
import json
import os
import pickle
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
os.environ.setdefault("KERN_BIN", os.environ.get("KERN", ""))
import kern_sandbox
from kern_sandbox import ExecutionResult, Sandbox, SandboxError, SandboxFault, run_code
from kern_sandbox._result import End, classify

HOST = {"image": "host"}


def children():
    found = []
    for path in glob.glob("/proc/self/task/*/children"):
        with open(path, encoding="ascii") as file:
            found += file.read().split()
    return found


def descriptors():
    return len(os.listdir("/proc/self/fd"))


class Client(unittest.TestCase):
    def setUp(self):
        run_code("pass", **HOST)
        self.before = descriptors(), threading.active_count(), sorted(os.listdir(tempfile.gettempdir()))

    def tearDown(self):
        after = descriptors(), threading.active_count(), sorted(os.listdir(tempfile.gettempdir()))
        self.assertEqual(children(), [])
        self.assertEqual(after, self.before)

    def test_use_out_of_order(self):
        sandbox = Sandbox(**HOST)
        for call in (lambda: sandbox.run_code("1"), lambda: sandbox.run(["true"]), sandbox.kernel, sandbox.list_files,
                     lambda: sandbox.read_file("x"), lambda: sandbox.write_file("x", ""), lambda: sandbox.snapshot("/x")):
            with self.assertRaisesRegex(SandboxError, "not open"):
                call()
        sandbox.close()
        with sandbox as same:
            self.assertIs(same, sandbox.open())
            path = sandbox.workspace
            kernel = sandbox.kernel()
        self.assertFalse(os.path.exists(path))
        with self.assertRaisesRegex(SandboxError, "kernel is closed"):
            kernel.run_code("1")
        sandbox.close()

    def test_a_process_that_ignores_its_children(self):
        """The kernel reaps them then, and nobody is told how they ended but by kern's report."""
        usual = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        try:
            result = run_code("raise SystemExit(3)", **HOST)
            self.assertEqual((result.exit_code, result.success), (3, False))
            self.assertEqual(run_code("1", **HOST, profiles=["vcpu:no-such-profile"]).exit_code, 1)
            with self.assertRaisesRegex(SandboxError, "no-such-user"):
                run_code("1", **HOST, user="no-such-user")
            start = os.posix_spawn

            def be_late(*words, **keywords):  # kern is over before anybody looks at it
                pid = start(*words, **keywords)
                while os.path.exists(f"/proc/{pid}"):
                    time.sleep(0.001)
                return pid
            with unittest.mock.patch("os.posix_spawn", be_late):
                self.assertEqual(run_code("raise SystemExit(4)", **HOST).exit_code, 4)
        finally:
            signal.signal(signal.SIGCHLD, usual)

    def test_a_box_inherits_no_signals(self):
        usual = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - {signal.SIGINT})
        ignored = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        try:
            said = run_code("print(*(l.split()[1] for l in open('/proc/self/status') if l[:6] in ('SigBlk', 'SigIgn')))", **HOST)
            with Sandbox(**HOST) as sandbox:
                other = sandbox.run(["grep", "-E", "SigBlk|SigIgn", "/proc/self/status"]).stdout.split()
        finally:
            signal.signal(signal.SIGUSR1, ignored)
            signal.pthread_sigmask(signal.SIG_SETMASK, usual)
        self.assertEqual(said.stdout.split()[0], "0" * 16)
        self.assertEqual([other[1], other[3]], ["0" * 16] * 2)

    def test_a_fork_ends_nothing_of_its_parents(self):
        with Sandbox(**HOST, prewarm=1) as sandbox, sandbox.kernel() as kernel:
            kernel.run_code("x = 5")
            sandbox.write_file("f", "")
            time.sleep(0.5)
            for way in ("close", "exit", "collect"):
                with self.subTest(way):
                    child = os.fork()
                    if child == 0:
                        code = 1
                        try:
                            with self.assertRaisesRegex(SandboxError, "forked"):
                                kernel.run_code("1")
                            code = 0 if sandbox.run_code("print(1)").stdout == "1\n" else 2
                            if way == "close":
                                kernel.close()
                                sandbox.close()
                            elif way == "exit":
                                kern_sandbox._sandbox._close_all()
                            else:
                                sandbox.__del__()
                        finally:
                            os._exit(code)
                    self.assertEqual(os.waitpid(child, 0)[1], 0)
                    self.assertEqual(kernel.run_code("print(x)").stdout, "5\n")
                    self.assertEqual([file.path for file in sandbox.list_files()], ["f"])
                    self.assertTrue(os.path.isdir(sandbox.workspace))

    def script(self, text, **popen):
        return subprocess.Popen([sys.executable, "-c", "import sys, time, os, kern_sandbox as k\n" + text], stdout=subprocess.PIPE, text=True,
                                env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(kern_sandbox.__file__))}, **popen)

    def test_a_sandbox_that_was_forgotten(self):
        with self.script("b = k.Sandbox(image='host', prewarm=1, env={'A': 'b'}).open(); b.kernel(); print(b.workspace)") as client:
            path = client.stdout.read().strip()
        self.assertEqual(client.returncode, 0)
        self.assertFalse(os.path.exists(path))

    def test_a_client_that_is_killed_leaves_no_box(self):
        for call in ("b.run_code(code)", "b.kernel().run_code(code)"):
            with self.subTest(call):
                mark = os.urandom(8).hex()
                code = f"import sys, time; open('on', 'w').close(); {mark!r}\nwhile True: time.sleep(0.01)"
                with self.script(f"b = k.Sandbox(image='host', timeout_s=80).open(); print(b.workspace, flush=True); code = {code!r}; {call}") as client:
                    path = client.stdout.readline().strip()
                    until = time.monotonic() + 20
                    while not os.path.exists(path + "/on") and time.monotonic() < until:
                        time.sleep(0.05)
                    begun = [pid for pid in os.listdir("/proc") if pid.isdigit() and self.works_in(pid, path)]
                    self.assertTrue(begun)
                    client.kill()
                until = time.monotonic() + 10
                while any(os.path.exists("/proc/" + pid) for pid in begun) and time.monotonic() < until:
                    time.sleep(0.05)
                self.assertEqual([pid for pid in begun if os.path.exists("/proc/" + pid)], [])
                kern_sandbox._workspace.remove_tree(path)

    def works_in(self, pid, path):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                return b"src=" + path.encode() + b",dst=" in file.read()
        except OSError:
            return False

    def test_what_waits_in_a_pool_leaves_no_file(self):
        with Sandbox(**HOST, prewarm=1, env={"A": "b"}) as sandbox:
            until = time.monotonic() + 20
            while not sandbox._pool.ready and time.monotonic() < until:
                time.sleep(0.05)
            self.assertEqual(glob.glob(os.path.join(tempfile.gettempdir(), "kern-env-*")), [])
            self.assertEqual(sandbox.run_code("import os; print(os.environ['A'])").stdout, "b\n")

    def test_nothing_runs_before_it_is_open(self):
        """A box that was started then would have none of the options, not even the image."""
        sandbox = Sandbox(**HOST, setup="touch /workspace/begun; sleep 1")
        opener = threading.Thread(target=sandbox.open)
        opener.start()
        while sandbox._workspace is None or not os.path.exists(sandbox._workspace.path + "/begun"):
            time.sleep(0.01)
        for call in (lambda: sandbox.run_code("1"), lambda: sandbox.run(["true"]), sandbox.kernel, sandbox.list_files):
            with self.assertRaisesRegex(SandboxError, "not open"):
                call()
        self.assertEqual(sandbox.open().run_code("import os; print(os.getcwd())").stdout, "/workspace\n")
        opener.join()
        sandbox.close()

    def test_close_ends_what_other_threads_run(self):
        code = "open('on', 'w').close(); import time; time.sleep(30)"
        for how, more in (("call", {}), ("call", {"workspace_max_bytes": 1 << 30}), ("call", {"prewarm": 1}), ("cell", {}), ("kernel", {})):
            with self.subTest(how, **more):
                sandbox = Sandbox(**HOST, **more, timeout_s=60).open()
                kernel = sandbox.kernel() if how != "call" else None
                while more.get("prewarm") and not sandbox._pool.ready:
                    time.sleep(0.01)
                found = []

                def work():
                    with self.assertRaisesRegex(SandboxError, "closed"):
                        (kernel or sandbox).run_code(code)
                    found.append(True)

                worker = threading.Thread(target=work)
                worker.start()
                while not os.path.exists(sandbox.workspace + "/on"):
                    time.sleep(0.01)
                begin = time.monotonic()
                (kernel if how == "kernel" else sandbox).close()
                worker.join(20)
                self.assertEqual(found, [True])
                self.assertLess(time.monotonic() - begin, 15)
                sandbox.close()

    def test_no_place_for_temporary_files(self):
        usual = tempfile.tempdir
        tempfile.tempdir = "/proc"
        try:
            with self.assertRaisesRegex(SandboxError, "workspace: cannot make.*TMPDIR"):
                Sandbox(**HOST).open()
        finally:
            tempfile.tempdir = usual

    def test_an_exception_in_the_block_cleans_up(self):
        with self.assertRaises(KeyError):
            with Sandbox(**HOST, prewarm=1) as sandbox:
                sandbox.kernel()
                path = sandbox.workspace
                raise KeyError
        self.assertFalse(os.path.exists(path))

    def test_callbacks(self):
        out, err, moments = [], [], []

        def slow(data):
            moments.append(time.monotonic())
            out.append(data)
            raise ValueError("swallowed")

        code = "import sys, time\nprint('a', flush=True); time.sleep(0.3); print('b', flush=True); print('c', file=sys.stderr)"
        result = run_code(code, **HOST, on_stdout=slow, on_stderr=err.append)
        self.assertEqual((b"".join(out), b"".join(err)), (b"a\nb\n", b"c\n"))
        self.assertEqual((result.stdout, result.stderr), ("a\nb\n", "c\n"))
        self.assertGreater(moments[1] - moments[0], 0.2)  # live, not at the end
        with Sandbox(**HOST, on_stdout=out.append) as sandbox:
            mine = []
            sandbox.run(["echo", "x"], on_stdout=mine.append)
            with sandbox.kernel() as kernel:
                kernel.run_code("print('y')", on_stdout=mine.append)
        self.assertEqual(b"".join(mine), b"x\ny\n")

    def test_a_slow_callback_does_not_stall_the_box(self):
        begin = time.monotonic()
        result = run_code("for i in range(3000): print('x' * 1000, flush=i % 2)", **HOST, on_stdout=lambda data: time.sleep(0.2))
        self.assertLess(time.monotonic() - begin, 60)  # 600 if each call were waited for
        self.assertEqual(len(result.stdout), 3000 * 1001)
        time.sleep(0.5)  # its thread ends with the call of it that still runs

    def test_on_blocked(self):
        events = []
        code = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import ctypes; ctypes.CDLL(None).ptrace(0,0,0,0)'])"
        result = run_code(code, **HOST, on_blocked=events.append)
        self.assertEqual((result.exit_code, result.fault), (0, None))
        self.assertEqual(events, [{"kind": "syscall", "name": "ptrace", "count": 1}])

    def test_the_end_of_the_interpreter_is_left_out_where_nobody_could_notice(self):
        with Sandbox(**HOST, env={"PYTHONVERBOSE": "1"}) as sandbox:
            if "import 'threading'" in sandbox.run(["python3", "-c", ""]).stderr:
                self.skipTest("something here loads threading into every interpreter")
            for code, whole in (("print(1)", False), ("import json\nclass T: pass\nt = [T(), lambda: t]\ndisplay(t)\nprint(1)", False),
                                ("f = open('/dev/null')\nprint(1)", True), ("import gc\nprint(1)", True), ("import threading\nprint(1)", True),
                                ("print(1)\nraise SystemExit", True), ("x = [[] for _ in range(99999)]\nprint(1)", True)):
                result = sandbox.run_code(code)
                self.assertEqual((result.stdout, "\n# cleanup" in result.stderr), ("1\n", whole), code)

    def test_the_result_as_data(self):
        result = run_code("import sys\nsys.stderr.write('kern: note: x\\ny\\n')\n5", **HOST)
        data = json.loads(json.dumps(result.to_dict()))
        self.assertEqual(data["results"], [{"text/plain": "5"}])
        self.assertNotIn("code_stderr", data)
        self.assertNotIn("runtime_notes", data)
        self.assertIsNot(result.runtime_notes, result.runtime_notes)
        self.assertIs(result.code_stderr, result.code_stderr)
        self.assertGreater(result.usage.wall_ms, 0)
        self.assertEqual(result.denied, {"syscalls": {}, "hosts": [], "devices": []})
        result.stderr = "other"
        self.assertEqual(result.code_stderr, "other")
        pickle.loads(pickle.dumps(result))

    def test_a_hundred_at_once(self):
        results = {}

        def one(sandbox, number):
            results[number] = sandbox.run_code(f"print({number})")

        with Sandbox(**HOST, memory_mb=64) as sandbox:
            threads = [threading.Thread(target=one, args=(sandbox, number)) for number in range(100)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual({number: result.stdout for number, result in results.items()}, {n: f"{n}\n" for n in range(100)})

    def test_many_calls_leave_nothing(self):
        with Sandbox(**HOST, env={"A": "b"}) as sandbox:
            for _ in range(50):
                self.assertEqual(sandbox.run(["true"]).exit_code, 0)
            base = descriptors()
            for _ in range(50):
                sandbox.run(["true"])
            self.assertEqual(descriptors(), base)

    def test_interrupted_call(self):
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        begin = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            run_code("while True: pass", **HOST)
        self.assertLess(time.monotonic() - begin, 5)

    def test_env_is_on_no_command_line(self):
        with Sandbox(**HOST, env={"A_SECRET": "hunter2"}) as sandbox:
            seen = []
            code = "import os, time\nopen('on', 'w').close()\nwhile os.path.exists('on'): time.sleep(0.05)"
            thread = threading.Thread(target=lambda: seen.append(sandbox.run_code(code)))
            thread.start()
            end = time.monotonic() + 20
            while not os.path.exists(sandbox.workspace + "/on") and time.monotonic() < end:
                time.sleep(0.02)
            lines = []
            for pid in os.listdir("/proc"):
                try:
                    with open(f"/proc/{pid}/cmdline", "rb") as file:
                        lines.append(file.read())
                except OSError:
                    pass
            self.assertTrue(any(b"kern-" in line for line in lines))
            self.assertFalse(any(b"hunter2" in line for line in lines))
            files = [n for n in os.listdir(tempfile.gettempdir()) if n.startswith("kern-env-")]
            os.unlink(sandbox.workspace + "/on")
            thread.join()
            self.assertEqual(files, [])
            self.assertTrue(seen[0].success)

    def test_a_kernel_from_many_threads(self):
        with Sandbox(**HOST) as sandbox, sandbox.kernel() as kernel:
            kernel.run_code("n = 0")
            threads = [threading.Thread(target=kernel.run_code, args=("n += 1",)) for _ in range(20)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(kernel.run_code("n").results[0].text, "20")

    def test_a_box_that_somebody_stops_is_killed(self):
        with Sandbox(**HOST) as sandbox:
            found = []
            thread = threading.Thread(target=lambda: found.append(sandbox.run_code("open('on', 'w').close(); import time; time.sleep(50)")))
            thread.start()
            end = time.monotonic() + 40
            while not os.path.exists(sandbox.workspace + "/on") and time.monotonic() < end:
                time.sleep(0.02)
            os.kill(int(children()[0]), signal.SIGKILL)
            thread.join()
        self.assertEqual(found[0].fault.type, "killed")


class Classification(unittest.TestCase):
    """What this side did comes first; then what kern saw; nothing else."""

    def kind(self, end, report):
        fault = classify(end, report, 5, "img", "cmd")
        return fault and fault.type

    def test_order(self):
        oom = {"started": True, "fault": {"type": "oom", "limit_bytes": 1048576}}
        for end, report, wanted in (
            (End(143, True, True, True), oom, "timeout"),
            (End(143, True, True, False), {"started": False, "fault": {"type": "oom"}}, "startup_failed"),
            (End(143, False, True, True), oom, "workspace_full"),
            (End(137, False, False, True), oom, "oom"),
            (End(137, False, False, True), {"started": True, "fault": None}, None),
            (End(137, False, False, True), None, "killed"),
            (End(1, False, False, False), None, "startup_failed"),
            (End(137, True, False, True), None, "timeout"),
            (End(137, True, False, None), None, "startup_failed"),
            (End(159, False, False, True), {"started": True, "fault": {"type": "escape_blocked", "message": "m"}}, "escape_blocked"),
        ):
            with self.subTest(end=end, report=report):
                self.assertEqual(self.kind(end, report), wanted)

    def test_words(self):
        report = {"started": True, "fault": {"type": "killed", "message": "killed"}, "limits": {"memory": {"enforced": False}}}
        self.assertIn("does not bind", classify(End(137, False, False, True), report, 5, "i", "c").message)
        result = ExecutionResult(exit_code=0, fault=SandboxFault("oom", ""))
        self.assertFalse(result.success)


class Binary(unittest.TestCase):
    def make(self, text, mode=0o755):
        folder = tempfile.mkdtemp()
        self.addCleanup(subprocess.run, ["rm", "-r", folder])
        path = os.path.join(folder, "kern")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def refused(self, text, **environment):
        with unittest.mock.patch.dict(os.environ, environment), self.assertRaisesRegex(SandboxError, text):
            run_code("1", **HOST)

    def test_none_that_works(self):
        self.refused("no such file", KERN_BIN="/no/such/kern")
        self.refused("no kern on PATH", KERN_BIN="", PATH="/nowhere")
        self.refused("is not executable: chmod", KERN_BIN=self.make("#!/bin/sh\n", 0o644))
        self.refused("is not kern", KERN_BIN=self.make("#!/bin/sh\necho something else\n"))
        self.refused("is not kern", KERN_BIN="/bin/false")
        self.refused("0.1.0 or newer", KERN_BIN=self.make("#!/bin/sh\necho kern 0.0.9\n"))
        self.refused("too old", KERN_BIN=self.make("#!/bin/sh\n[ $1 = --version ] && echo kern 0.1.0 && exit\n"
                                                   "echo 'kern: unknown option \"--report\"' >&2; exit 1\n"))
        self.refused("cannot run", KERN_BIN=self.make("not a program"))
        with unittest.mock.patch.object(sys, "platform", "darwin"):
            self.refused("Linux VM")

    def test_path(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(subprocess.run, ["rm", "-r", folder])
        os.symlink(os.environ["KERN_BIN"], folder + "/kern")
        with unittest.mock.patch.dict(os.environ, {"PATH": folder + ":/usr/bin:/bin", "KERN_BIN": ""}):
            self.assertEqual(run_code("print(1)", **HOST).stdout, "1\n")


class Places(unittest.TestCase):
    def mounted(self, options):
        """A workspace that is a file system of its own."""
        folder = tempfile.mkdtemp()
        self.addCleanup(os.rmdir, folder)
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder]).returncode != 0:
            self.skipTest("nothing can be mounted here")
        self.addCleanup(subprocess.run, ["umount", folder], check=True)
        return folder

    def test_a_full_workspace(self):
        with Sandbox(**HOST, workspace=self.mounted("size=64k")) as sandbox:
            with self.assertRaisesRegex(SandboxError, "No space left"):
                sandbox.write_file("x", b"x" * 200000)
            with self.assertRaisesRegex(SandboxError, "128 KiB and more goes by a file.*No space left"):
                sandbox.run_code("#" * 200000, language="sh")
            self.assertEqual(sandbox.run_code("print(1)").stdout, "1\n")
            self.assertEqual(sandbox.run_code("open('y', 'wb').write(b'y' * 200000)").exit_code, 1)
            self.assertEqual([file.path for file in sandbox.list_files()], ["x", "y"])

    def test_a_workspace_that_is_read_only(self):
        folder = self.mounted("ro")
        with Sandbox(**HOST, workspace=folder) as sandbox:
            for call in (lambda: sandbox.write_file("x", "x"), lambda: sandbox.run_code("#" * 200000, language="sh")):
                with self.assertRaisesRegex(SandboxError, "Read-only"):
                    call()
            self.assertEqual(sandbox.run_code("#" + "x" * 200000 + "\nprint(1)").stdout, "1\n")
            self.assertIn("Read-only", sandbox.run_code("open('y', 'w')").stderr)
        with self.assertRaisesRegex(SandboxError, "setup: cannot make '.deps'.*Read-only"):
            Sandbox(**HOST, workspace=folder, setup="true").open()

    def test_a_workspace_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            with Sandbox(**HOST, workspace=folder) as sandbox:
                sandbox.write_file("a/b", b"\xff")
                self.assertEqual(sandbox.read_file("a/b"), b"\xff")
            self.assertTrue(os.path.exists(folder + "/a/b"))
            self.assertEqual(stat.S_IMODE(os.stat(folder + "/a/b").st_mode), 0o644)


if __name__ == "__main__":
    unittest.main()

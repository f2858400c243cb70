"""`kern run`: limits on a process of the host without a box; the same report, exit codes and profiles."""

import os
import signal
import subprocess
import time

import kerntest
from kerntest import BoxCase, as_root, as_root_and_user


class Run(BoxCase):
    def host(self, *command, options=(), **keywords):
        """kern run with a report of its own (the harness adds one to boxes)."""
        path = os.path.join(self.folder(), "report")
        result = self.kern("run", "--report", path, *options, "--", *command, report=False, **keywords)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                result.report = kerntest.json.load(file)
        return result


if os.environ.get("KERN_VARIANT") == "static":
    @as_root_and_user
    class CompiledIn(BoxCase):
        """A kern with its plugins compiled in opens no other one, and says so."""

        def test_it_refuses_what_it_cannot_open(self):
            for words in ('name = "nosuch"', 'name = "nosuch"\npath = "/usr/lib/nosuch.so"'):
                env = self.own_config(f"[[plugin]]\n{words}\n")
                for verb in ("box", "run"):
                    result = self.kern(verb, "--", "true", env=env, report=False)
                    self.assert_failed(result, 1, "cannot load plugin", "plugins compiled in", hint="KERN_BUILTIN_PLUGINS=ON")
                self.assertIn("compiled in", self.kern("plugin", "list", env=env, report=False).out)
            checked = self.kern("plugin", "check", "/bin/sh", report=False)
            self.assert_failed(checked, 1, "plugins compiled in", hint="KERN_BUILTIN_PLUGINS=ON")


@as_root_and_user
class Command(Run):
    def test_it_sees_the_host(self):
        result = self.host("sh", "-c", "echo $$; readlink /proc/self/ns/pid; id -u; pwd; echo $FOO $BAR",
                           options=["-e", "BAR=two"], cwd="/tmp", env={"FOO": "one"})
        pid, space, uid, folder, words = result.out.splitlines()
        self.assertEqual((space, uid, folder, words), (os.readlink("/proc/self/ns/pid"), str(self.me.uid), "/tmp", "one two"))
        self.assertNotEqual(pid, "1")

    def test_exit_codes(self):
        for command, code, fault in ((["true"], 0, None), (["sh", "-c", "exit 7"], 7, None),
                                     (["sh", "-c", "kill -TERM $$"], 143, None), (["sh", "-c", "kill -9 $$"], 137, "killed"),
                                     (["/nonexistent"], 127, "exec_failed"), (["no-such-program"], 127, "exec_failed"),
                                     (["/etc/passwd"], 126, "exec_failed")):
            with self.subTest(command):
                result = self.host(*command)
                self.assertEqual((result.code, result.fault), (code, fault), result)
                if fault == "exec_failed":
                    self.assertTrue(result.err.splitlines()[-1].startswith(f"kern: cannot start '{command[0]}': "), result)

    def test_a_caller_that_ignores_the_end_of_children(self):
        script = f"import os, signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv({kerntest.KERN!r}, " \
                 f"[{kerntest.KERN!r}, 'run', '--', 'sh', '-c', 'exit 3'])"
        done = subprocess.run(["/usr/bin/python3", "-c", script], timeout=30, check=False, cwd="/",
                              env={"PATH": kerntest.BOX_PATH, "HOME": self.me.home}, **self.me.popen)
        self.assertEqual(done.returncode, 3)

    def test_timeout(self):
        result = self.host("sh", "-c", "trap '' TERM; while :; do sleep 0.1; done", options=["--timeout", "0.3"])
        self.assertEqual((result.code, result.fault), (143, "timeout"), result)

    def test_signals_are_passed_on(self):
        running = self.start("run", "--", "sh", "-c", "trap 'echo caught; exit 5' TERM; trap 'echo one' USR1; trap 'echo two' USR2; "
                             "echo ready; while :; do sleep 0.05; done", report=False)
        self.assertEqual(running.line(), "ready\n")
        for number, word in ((signal.SIGUSR1, "one\n"), (signal.SIGUSR2, "two\n"), (signal.SIGUSR1, "one\n")):
            running.signal(number)
            self.assertEqual(running.line(), word)
        running.signal(signal.SIGTERM)
        result = running.wait()
        self.assertEqual((result.code, result.out), (5, "caught\n"), result)

    def test_a_signal_with_no_handler_ends_it(self):
        running = self.start("run", "--", "sh", "-c", "echo ready; exec sleep 60", report=False)
        self.assertEqual(running.line(), "ready\n")
        running.signal(signal.SIGTERM)
        self.assertEqual(running.wait().code, 143)

    def test_a_killed_kern_takes_the_command_along(self):
        running = self.start("run", "--", "sh", "-c", "echo ready; exec sleep 77.25", report=False)
        self.assertEqual(running.line(), "ready\n")
        running.signal(signal.SIGKILL)
        running.wait()
        self.assertTrue(kerntest.eventually(lambda: not kerntest.running("sleep", "77.25")))
        self.kern("run", "-q", "--", "sleep", "0.1", report=False)  # sweeps

    def test_only_what_was_asked_for_binds(self):
        self.assertEqual(self.host("true").report["limits"], {})
        self.assertEqual(self.host("true").err, "")
        limits = self.host("true", options=["-q", "-m", "64m"]).report["limits"]
        self.assertEqual(limits["memory"]["asked"], 64 << 20)
        self.assertNotIn("pids", limits)

    def test_box_defaults_are_for_boxes(self):
        env = self.own_config('[box]\nmemory = "96m"\n')
        self.assertEqual(self.host("true", env=env).report["limits"], {})

    def test_profiles(self):
        env = self.own_config('[[vcpu]]\nname = "mine"\nnice = 8\ncpuset = "0"\nmemory = "80m"\n')
        result = self.host("sh", "-c", "nice; grep Cpus_allowed_list /proc/self/status", options=["-q", "vcpu:mine"], env=env)
        self.assertEqual(result.out.split(), ["8", "Cpus_allowed_list:", "0"], result)
        self.assertEqual(result.report["limits"]["memory"]["asked"], 80 << 20)

    def test_refusals(self):
        for words, parts, hint in ((["--rootfs", "/x", "--", "true"], ["--rootfs needs a box"], "kern box"),
                                   (["name", "--", "true"], ["name"], "kern run -- name"),
                                   ([], ["no command"], "kern run"),
                                   (["nosuch:x", "--", "true"], ["nosuch"], "vcpu"),
                                   (["greeting:x", "--", "true"], ["needs a box"], "kern box")):
            with self.subTest(words):
                self.assert_failed(self.kern("run", *words, report=False), 1, *parts, hint=hint)

    def test_a_user_cannot_raise_the_priority(self):
        if self.me.is_root:
            self.assertEqual(self.host("nice", options=["--nice", "-2"]).out, "-2\n")
        else:
            result = self.host("nice", options=["--nice", "-2"])
            self.assertEqual(result.code, 125, result)
            self.assertIn("--nice -2", result.err)

    def test_descriptors_stay_behind(self):
        ours, theirs = os.pipe()
        self.addCleanup(os.close, ours)
        self.addCleanup(os.close, theirs)
        self.assertEqual(self.host("sh", "-c", "ls /proc/$$/fd", pass_fds=[theirs]).out.split(), ["0", "1", "2"])

    def test_started_descriptor(self):
        result = self.kern("run", "--", "sh", "-c", "kill -9 $$", report=False, started=True)
        self.assertEqual(result.started, b"\1\0\0\x09")

    def test_a_terminals_interrupt_comes_once(self):
        kerntest.need("python3")
        script = ("import os, pty, sys, time\n"
                  "pid, fd = pty.fork()\n"
                  "if pid == 0:\n"
                  "    os.execv(sys.argv[1], [sys.argv[1], 'run', '--', 'sh', '-c',\n"
                  "             'n=0; trap \"n=1\\$n\" INT; echo ready; sleep 0.6; sleep 0.3; echo n=$n; exit 3'])\n"
                  "text = b''\n"
                  "while b'ready' not in text:\n"
                  "    try: text += os.read(fd, 100)\n"
                  "    except OSError: sys.exit(text.decode())\n"
                  "os.write(fd, b'\\x03')\n"
                  "try:\n"
                  "    while True: text += os.read(fd, 100)\n"
                  "except OSError: pass\n"
                  "print(text.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n")
        done = subprocess.run(["/usr/bin/python3", "-c", script, kerntest.KERN], stdout=subprocess.PIPE, text=True,
                              timeout=30, check=True, env={"PATH": kerntest.BOX_PATH, "HOME": self.me.home}, cwd="/",
                              **self.me.popen)
        self.assertIn("n=10", done.stdout)
        self.assertTrue(done.stdout.split()[-1] == "3", done.stdout)


# Starts, in the background, a child, one of a session of its own, and one whose parents are gone already.
LEAVE = "sleep {0} & setsid sleep {0} & (setsid sh -c '(sleep {0} &) & exit' &) ; until [ $(pgrep -fxc 'sleep {0}') = 3 ]; do :; done; "


@as_root_and_user
class Rest(Run):
    """What the command left goes with it, whether or not a control group keeps it together."""

    def leave(self, seconds, then):
        return ["sh", "-c", LEAVE.format(seconds) + then]

    def assert_gone(self, seconds):
        self.assertEqual(kerntest.running("sleep", seconds), [])

    def test_what_is_left_goes(self):
        result = self.host(*self.leave("78.25", "exit 4"))
        self.assertEqual((result.code, result.err), (4, ""), result)
        self.assert_gone("78.25")

    def test_at_the_deadline(self):
        result = self.host(*self.leave("78.5", "wait"), options=["--timeout", "3"])
        self.assertEqual((result.code, result.fault), (143, "timeout"), result)
        self.assert_gone("78.5")

    def test_at_a_second_signal(self):
        running = self.start("run", "--", *self.leave("78.75", "trap '' TERM; echo ready; while :; do sleep 0.05; done"), report=False)
        self.assertEqual(running.line(), "ready\n")
        running.signal(signal.SIGTERM)
        running.signal(signal.SIGQUIT)
        running.wait()
        self.assert_gone("78.75")

    def test_when_kern_is_killed(self):
        running = self.start("run", "--", *self.leave("79.5", "echo ready; wait"), report=False)
        self.assertEqual(running.line(), "ready\n")
        running.signal(signal.SIGKILL)
        running.wait()
        self.assertTrue(kerntest.eventually(lambda: not kerntest.running("sleep", "79.5")))
        self.kern("run", "-q", "--", "true", report=False)  # sweeps

    def test_what_ends_by_itself_is_waited_for(self):
        script = "for i in 1 2 3; do (true &) ; done; n=1; while [ $n != 0 ]; do n=$(ps -o stat= --ppid $PPID | grep -c Z); done; echo none"
        self.assertEqual(self.host("sh", "-c", script).out, "none\n")

    def test_who_was_there_before_stays(self):
        script = f"sleep 79.75 >/dev/null & echo $!; exec {kerntest.KERN} run -- true"
        done = subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, text=True, timeout=30, check=True,
                              env={"PATH": kerntest.BOX_PATH, "HOME": self.me.home}, cwd="/", stdin=subprocess.DEVNULL,
                              **self.me.popen)
        there = kerntest.running("sleep", "79.75")
        for pid in there:
            os.kill(int(pid), signal.SIGKILL)
        self.assertEqual([str(pid) for pid in there], done.stdout.split())


@as_root
class Bind(Run):
    def test_out_of_memory(self):
        self.need_limits()
        result = self.host(kerntest.program("probe"), "eat", "200", options=["-m", "48m"])
        self.assertEqual((result.code, result.fault), (137, "oom"), result)
        self.assertLessEqual(result.report["usage"]["peak_memory_bytes"], 48 << 20)

    def test_pids(self):
        self.need_limits()
        result = self.host(kerntest.program("probe"), "forks", "100", options=["--pids-limit", "20"])
        self.assertEqual(result.out.split()[2], "11", result)  # EAGAIN

    def test_the_deadline_ends_all_of_it(self):
        self.need_limits()
        result = self.host("sh", "-c", "trap '' TERM; sh -c 'trap \"\" TERM; sleep 79.25' & wait; wait", options=["--timeout", "0.2"])
        self.assertEqual(result.code, 143, result)
        self.assertEqual(kerntest.running("sleep", "79.25"), [])

    @staticmethod
    def defuse(pid):
        """What a kern that failed here leaves would hold the machine."""
        for path in kerntest.glob.glob(f"/sys/fs/cgroup/**/kern.*.{pid}/pids.max", recursive=True):
            kerntest.write(path, "0")
            while True:
                with open(os.path.dirname(path) + "/cgroup.procs", encoding="ascii") as file:
                    pids = file.read().split()
                for each in pids:
                    kerntest.kill(int(each))
                if not pids:
                    break

    def test_the_deadline_ends_a_bomb(self):
        """It forks as fast as kern strikes, and leaves kern little of the CPUs."""
        self.need_limits()
        probe = kerntest.program("probe")
        running = self.start("run", "-q", "--pids-limit", "300", "--timeout", "1", "--", probe, "bomb")
        self.addCleanup(self.defuse, running.pid)
        result = running.wait(seconds=40)
        self.assertEqual(result.code, 143, result)
        self.assertTrue(kerntest.eventually(lambda: not kerntest.running(probe, "bomb"), seconds=10))

    def test_usage_without_a_cap(self):
        self.need_limits()
        usage = self.host(kerntest.program("probe"), "eat", "20").report["usage"]
        self.assertGreater(usage["peak_memory_bytes"], 20 << 20)


if __name__ == "__main__":
    kerntest.main()

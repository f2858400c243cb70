"""kern exec: another command in a living box gets what the box's own command has, and nothing else."""

import json
import os
import re
import signal
import subprocess
import termios
import time

import kerntest
from kerntest import as_root, as_root_and_user
from lifekit import LifeCase
from test_terminal import Screen

# What a process is, as far as /proc tells; everything here must be the same for the box's own command and an exec'd one.
SELF = r"""
for n in cgroup ipc mnt net pid time user uts; do echo $n $(readlink /proc/$1/ns/$n); done
cat /proc/$1/cgroup
grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp|SigIgn|SigBlk|Umask|Cpus_allowed_list)' /proc/$1/status
cat /proc/$1/limits
readlink /proc/$1/root
readlink /proc/$1/cwd
tr '\0' '\n' </proc/$1/environ | sort
cat /proc/$1/oom_score_adj
cat /proc/$1/attr/current 2>/dev/null || true
awk '{ print "nice", $19 }' /proc/$1/stat
"""


class ExecCase(LifeCase):
    def exec(self, name, *command, options=(), **keywords):
        return self.kern("exec", name, *options, "--", *command, **keywords)

    def run_in(self, name, *command, **keywords):
        done = self.exec(name, *command, **keywords)
        self.assertEqual((done.code, done.err), (0, ""), done)
        return done.out

    def sh(self, name, script, **keywords):
        return self.run_in(name, "sh", "-ec", script, **keywords)

    def assert_same(self, *options):
        """The box's own command and an exec'd one say the same of themselves."""
        name = self.detach("sh", "-c", f"me() {{ {SELF}\n}}; me self; echo END; exec sleep 60", options=options)
        self.assertTrue(kerntest.eventually(lambda: "END" in self.kern("logs", name).out))
        own = self.kern("logs", name).out.split("END")[0].splitlines()
        other = self.sh(name, f"me() {{ {SELF}\n}}; me self").splitlines()
        self.assertEqual(own, other)
        self.assertGreater(len(own), 40)
        return name


@as_root_and_user
class Owner(ExecCase):
    def test_an_owner_that_is_gone(self):
        name = self.detach("sleep", "60")
        mine, theirs = os.pipe()
        running = self.start("exec", name, "--", "sh", "-c", "trap '' TERM; echo on; sleep 60", env={"KERN_OWNER_FD": str(theirs)},
                             pass_fds=(theirs,))
        os.close(theirs)
        self.assertEqual(running.line(), "on\n")
        os.close(mine)
        self.assertEqual(running.wait(seconds=10).code, 137)
        self.assertEqual(self.sh(name, "echo alive"), "alive\n")


@as_root_and_user
class Same(ExecCase):
    def test_by_default(self):
        self.assert_same()

    def test_with_init(self):
        self.assert_same("--init")

    def test_with_limits_of_its_own(self):
        self.assert_same("--ulimit", "nofile=77:99", "--nice", "7", "--cpuset-cpus", "0", "--memory", "80m",
                         "--pids-limit", "33", "-e", "A=b c", "-e", "HOME=/tmp")

    def test_capabilities_and_filter(self):
        self.assert_same("--cap-drop", "ALL", "--workdir", "/var")
        self.assert_same("--security-profile", "untrusted")
        self.assert_same("--cap-add", "ALL")

    def test_landlock(self):
        if kerntest.doctor().get("landlock") is not True:
            kerntest.skip("no Landlock in this kernel")
        name = self.detach("sleep", "60", options=["--landlock-rw", "/tmp"])
        self.sh(name, "echo x >/tmp/x; ! (echo x >/var/x) 2>/dev/null")

    def test_networks(self):
        name = self.assert_same("--net", "host")
        with open("/proc/net/dev", encoding="utf-8") as file:
            links = sorted(line.split(":")[0].strip() for line in file if ":" in line)
        inside = self.run_in(name, "cat", "/proc/net/dev")
        self.assertEqual(sorted(line.split(":")[0].strip() for line in inside.splitlines() if ":" in line), links)

    def test_user_by_number(self):
        self.assert_same("--user", "0:0")

    def test_fork_style(self):
        name = self.detach("sleep", "60", env={"KERN_DEBUG": "fork"})
        self.assertEqual(self.run_in(name, "id", "-u"), "0\n")


@as_root
class SameUser(ExecCase):
    def test_user_by_name(self):
        name = self.assert_same("--user", "ann")
        self.assertEqual(self.run_in(name, "id", "-u"), "7\n")

    def test_the_name_is_not_looked_up_again(self):
        """What the box did to its files meanwhile decides nothing."""
        name = self.detach("sh", "-c", "sleep 60", options=["--user", "ann"])
        with open(f"/proc/{self.pid1(name)}/root/etc/passwd", "w", encoding="utf-8") as file:
            file.write("ann:x:0:0::/:/bin/sh\n")
        self.assertEqual(self.run_in(name, "sh", "-c", "id -u; echo $HOME"), "7\n/home/ann\n")

    def pid1(self, name):
        return json.loads(self.succeed("inspect", name, "--json"))["pid1"]


@as_root_and_user
class Runs(ExecCase):
    def test_words_that_make_no_sense_are_reported(self):
        for words in (["nobody", "--bogus"], ["nobody", "--timeout", "never"], []):
            path = os.path.join(self.folder(), "report")
            result = self.kern("exec", *words, "--report", path, report=False, started=True, alive=True)
            self.assertEqual((result.code, result.started, result.alive), (1, bytes(4), b"F"), result)
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
            self.assertEqual((report["started"], report["fault"]["type"]), (False, "startup_failed"), report)
            self.assertIn(report["fault"]["message"], result.err)

    def test_codes_and_reports(self):
        name = self.detach("sleep", "60")
        done = self.exec(name, "sh", "-c", "exit 7", started=True, alive=True)
        self.assertEqual((done.code, done.started[0], done.started[3], done.alive), (7, 1, 0, b"A"), done)
        self.assertEqual((done.report["started"], done.report["exit"], done.report["fault"]), (True, 7, None))
        self.assertGreater(done.report["usage"]["wall_ms"], 0)
        done = self.exec(name, "sh", "-c", "kill -9 $$", started=True)
        self.assertEqual((done.code, done.started[3], done.fault), (137, 9, "killed"))
        done = self.exec(name, "no-such", started=True, alive=True)
        self.assertEqual((done.code, done.started, done.alive, done.fault), (127, b"", b"AF", "exec_failed"), done)
        self.assertEqual(done.err, "kern: cannot start 'no-such' in box: not found\n")
        self.assertEqual(self.exec(name, "/etc/passwd").code, 126)
        done = self.exec("nobody", "true", started=True)
        self.assertEqual((done.code, done.started, done.fault), (1, b"", "startup_failed"))
        self.assertIn("no running box named 'nobody'", done.err)
        self.assertEqual(self.row(name)["status"], "running")

    def test_streams(self):
        name = self.detach("sleep", "60")
        done = self.exec(name, "sh", "-c", "cat; echo err >&2", text="in\n")
        self.assertEqual((done.out, done.err), ("in\n", "err\n"))
        if self.me.is_root:  # the pipe is the test's, and only root may give it to the box
            self.assertEqual(self.sh(name, "echo again >/dev/stdout"), "again\n")
        self.assertEqual(self.run_in(name, "ls", "/proc/self/fd"), "0\n1\n2\n3\n")

    def test_environment_and_place(self):
        file = self.file("B=file\nC=file\n")
        name = self.detach("sleep", "60", options=["-e", "A=box", "-e", "B=box", "-w", "/var"])
        self.assertEqual(self.sh(name, "echo $A $B $C $D; pwd", options=["--env-file", file, "-e", "C=flag", "-e", "D="]),
                         "box file flag\n/var\n")
        self.assertEqual(self.run_in(name, "pwd", options=["-w", "/tmp"]), "/tmp\n")
        self.assert_failed(self.exec(name, "true", options=["-w", "/none"]), 125, '"/none"', hint="--workdir")
        self.assert_failed(self.exec(name, "true", options=["-e", "nonsense"]), 1, '"nonsense"')
        long = "x" * 100000
        self.assertEqual(len(self.run_in(name, "echo", long, long[:30000])), 130002)

    def test_it_persists(self):
        name = self.detach("sleep", "60")
        self.sh(name, "echo 1 >/tmp/state")
        self.assertEqual(self.run_in(name, "cat", "/tmp/state"), "1\n")
        self.sh(name, "sleep 50 >/dev/null 2>&1 &")
        self.assertIn("sleep 50", self.run_in(name, "ps"))

    def test_timeout(self):
        name = self.detach("sleep", "60")
        done = self.exec(name, "sh", "-c", "sleep 4343; true", options=["--timeout", "0.3"])
        self.assertEqual((done.code, done.fault), (143, "timeout"), done)
        self.assertTrue(kerntest.eventually(lambda: not kerntest.running("sleep", "4343")))
        done = self.exec(name, "sh", "-c", "trap '' TERM; while :; do sleep 0.1; done", options=["--timeout", "0.1"])
        self.assertEqual((done.code, done.fault), (143, "timeout"), done)
        self.assertEqual(self.row(name)["status"], "running")

    def test_signals_are_passed_on(self):
        name = self.detach("sleep", "60")
        running = self.start("exec", name, "--", "sh", "-c", "trap 'echo caught; exit 3' TERM; echo up; while :; do sleep 0.05; done")
        self.assertEqual(running.line(), "up\n")
        running.signal(signal.SIGTERM)
        done = running.wait()
        self.assertEqual((done.code, done.out), (3, "caught\n"), done)

    def test_a_signal_that_is_ignored_stays_so(self):
        for number in (signal.SIGHUP, signal.SIGINT):
            with self.subTest(number):
                name = self.detach("sleep", "60")
                running = self.start("exec", name, "--", "sh", "-c", "echo up; read word; echo on; exit 3", stdin=subprocess.PIPE,
                                     preexec_fn=lambda number=number: signal.signal(number, signal.SIG_IGN))
                self.assertEqual(running.line(), "up\n")
                running.signal(number)
                done = running.wait("word\n")
                self.assertEqual((done.code, done.out), (3, "on\n"), done)

    def test_a_client_that_dies_takes_its_command_along(self):
        name = self.detach("sleep", "60")
        running = self.start("exec", name, "--", "sh", "-c", "echo up; sleep 4545; true")
        running.line()
        running.process.kill()
        running.wait()
        self.assertTrue(kerntest.eventually(lambda: not kerntest.running("sleep", "4545")))
        self.assertEqual(self.run_in(name, "echo", "on"), "on\n")

    def test_the_end_of_the_box_ends_it(self):
        name = self.detach("sleep", "60")
        running = self.start("exec", name, "--", "sh", "-c", "echo up; sleep 4646; true")
        running.line()
        self.succeed("stop", name)
        self.assertEqual(running.wait().code, 137)
        self.assertFalse(kerntest.running("sleep", "4646"))

    def test_many_at_once(self):
        name = self.detach("sleep", "60")
        many = [self.start("exec", name, "--", "sh", "-c", f"sleep 0.2; echo {i}") for i in range(20)]
        self.assertEqual([running.wait().out for running in many], [f"{i}\n" for i in range(20)])
        self.assertNotIn("sleep 0.2", self.run_in(name, "ps"))

    def test_nothing_is_kept(self):
        """A hundred execs leave no descriptor, no process, no mapping in the supervisor."""
        name = self.detach("sleep", "60")

        def state():
            folder = f"/proc/{self.supervisor}"
            with open(f"{folder}/maps", encoding="utf-8") as file:
                maps = len(file.readlines())
            with open(f"{folder}/task/{self.supervisor}/children", encoding="utf-8") as file:
                return len(os.listdir(f"{folder}/fd")), len(file.read().split()), maps

        def keeps():
            self.exec(name, "true")
            before = state()
            for _ in range(50):
                self.assertEqual(self.exec(name, "true").code, 0)
            return not kerntest.eventually(lambda: state() <= before, seconds=3)
        # What a box gets when it lives on (a control socket, its view) may come meanwhile, but not each time.
        self.assertFalse(all(keeps() for _ in range(3)), state())

    def test_in_a_foreground_box(self):
        name = self.name()
        running = self.start("box", name, "--", "sh", "-c", "echo up; exec sleep 60")
        running.line()
        self.assertEqual(self.run_in(name, "cat", "/proc/1/comm"), "sleep\n")
        running.signal(signal.SIGTERM)
        self.assertEqual(running.wait().code, 143)

    def test_the_memory_cap(self):
        self.need_limits()
        name = self.detach("sleep", "60", options=["--memory", "48m"])
        done = self.exec(name, "sh", "-c", "x=1234567890123456; while :; do x=$x$x; done", started=True)
        self.assertEqual((done.code, done.fault, done.started[2]), (137, "oom", 1), done)
        self.assertEqual(self.succeed("wait", name), "137\n")  # the cap is the box's

    def test_a_box_that_is_being_stopped(self):
        name = self.detach("sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done")
        self.assertTrue(kerntest.eventually(lambda: self.kern("logs", name).out == "up\n"))
        stop = self.start("stop", "-t", "50", name)
        self.assertTrue(kerntest.eventually(lambda: self.exec(name, "true").code == 1))
        self.assertIn("is being stopped", self.exec(name, "true").err)
        self.succeed("kill", name)
        stop.wait()


@as_root_and_user
class Filter(ExecCase):
    def test_blocked_calls_are_named(self):
        name = self.detach("sleep", "60")
        done = self.exec(name, "mount", "-t", "tmpfs", "x", "/tmp")
        self.assertEqual((done.code, done.fault), (159, "escape_blocked"), done)
        self.assertIn("mount", done.report["fault"]["message"])
        self.assertEqual(done.report["fault"]["syscall"], "mount")
        self.assertEqual(done.err, "kern: note: blocked system call mount of 'mount': killed\n")
        self.assertEqual(self.run_in(name, "echo", "on"), "on\n")

    def test_only_the_exec_is_blamed(self):
        """The box's own report counts the call and blames nobody for it."""
        name = self.name()
        running = self.start("box", name, "--rootfs", self.root, "--", "sh", "-c", "echo up; read x; exit 159", stdin=subprocess.PIPE)
        running.line()
        self.exec(name, "mount", "-t", "tmpfs", "x", "/tmp")
        done = running.wait("go\n")
        self.assertEqual((done.code, done.fault), (159, None), done)
        self.assertEqual(done.report["denied"]["syscalls"], {"mount": 1})


@as_root_and_user
class Hostile(ExecCase):
    """The box's processes do what they can to who comes in."""

    def test_replaced_files(self):
        """Names that an entering process might use lead elsewhere; with the mounts in place they do not matter."""
        name = self.detach("sh", "-c", "rm -rf /etc; ln -s /proc/self/exe /bin/evil; ln -sf /proc/1/root /x; exec sleep 60")
        self.assertEqual(self.run_in(name, "echo", "fine"), "fine\n")
        done = self.exec(name, "evil")
        self.assertEqual(done.code, 126, done)
        self.assertEqual(self.exec(name, "true", options=["-w", "/proc/self/fd/3"]).code, 125)
        self.assertEqual(self.exec(name, "true", options=["-w", "/proc/1/root"]).code, 125)

    def test_nobody_in_the_box_looks_into_it(self):
        """A process with all capabilities tries each memory and descriptor that it sees while others enter."""
        script = r"""
        seen() { read n <$1/comm && [ "$n" = kern ]; }
        while :; do
            for p in /proc/[0-9]*; do
                seen $p || continue
                for f in fd/0 fd/1 fd/5 cwd root exe; do [ -e $p/$f ] && seen $p && echo "$f of kern"; done
                head -c 1 $p/environ >/dev/null && seen $p && echo "environ of kern"
                : 3<>$p/mem && seen $p && echo "mem of kern"
            done
        done 2>/dev/null"""
        name = self.detach("sh", "-c", script, options=["--cap-add", "ALL"])
        for _ in range(30):
            self.exec(name, "true")
        self.assertEqual(self.kern("logs", name).out, "")

    def test_a_full_box(self):
        self.need_limits()
        name = self.detach("sh", "-c", "for i in 1 2 3 4; do sleep 60 & done; wait",
                           options=["--pids-limit", "5"])
        time.sleep(0.2)
        done = self.exec(name, "true")  # groups of version 1 let in who joins, those of version 2 do not
        if done.code != 0:
            self.assert_failed(done, 125, "cannot start a process")
        self.assertEqual(self.row(name)["status"], "running")


@as_root_and_user
class Terminals(ExecCase):
    def test_a_terminal_of_its_own(self):
        name = self.detach("sleep", "60")
        screen = Screen(["exec", name, "-it", "--", "sh"], self.me)
        screen.expect(r"[#$] ")
        screen.type("tty; stty size; echo a\"\"b\n")
        screen.expect(r"/dev/pts/\d+\r\n31 97\r\nab\r\n")
        screen.resize(20, 50)
        screen.type("sleep 0.2; stty size\n")
        screen.expect(r"20 50\r\n")
        screen.type("sleep 6161\n")
        self.assertTrue(kerntest.eventually(lambda: kerntest.running("sleep", "6161")))
        screen.type("\x03")
        screen.expect(r"\^C")
        screen.type("exit 4\n")
        screen.wait()
        self.assertEqual(screen.process.returncode, 4)
        self.assertEqual(self.row(name)["status"], "running")

    def test_attach(self):
        name = self.detach("sh", options=["-t"])
        screen = Screen(["attach", name, "-i"], self.me)
        screen.type("\n")
        screen.expect(r"# ")
        screen.type("stty size; tty\n")
        screen.expect(r"31 97\r\n/dev/pts/0\r\n")
        self.assert_failed(self.kern("attach", name), 1, "somebody is attached")
        screen.type("\x10\x11")
        screen.wait()
        self.assertEqual(screen.process.returncode, 0)
        self.assertEqual(termios.tcgetattr(screen.slave), screen.before)
        looking = Screen(["attach", name], self.me)

        def minds_interrupts():
            with open(f"/proc/{looking.process.pid}/status", encoding="ascii") as file:
                return int(re.search(r"SigBlk:\t(\w+)", file.read()).group(1), 16) >> (signal.SIGINT - 1) & 1
        self.assertTrue(kerntest.eventually(minds_interrupts))
        looking.type("echo typed\n")
        looking.type("\x03")
        looking.wait()
        self.assertEqual(looking.process.returncode, 0)
        self.assertNotIn("typed", self.kern("logs", name).out)
        screen = Screen(["attach", name, "-i"], self.me)
        screen.type("exit 6\n")
        screen.wait()
        self.assertEqual(screen.process.returncode, 6)
        self.assertIn("31 97", self.kern("logs", name).out)

    def test_attach_to_what_has_no_terminal(self):
        name = self.detach("sleep", "60")
        self.assert_failed(self.kern("attach", name), 1, "has no terminal to attach to")
        self.assert_failed(self.kern("attach", "nobody"), 1, "no running box named 'nobody'", hint="kern ps")

    def test_programs_of_the_screen(self):
        """tmux, vi, less, top and a Python session in a box's own terminal, as exec gives it."""
        kerntest.need("tmux", "vi", "less", "top", "python3")
        name = self.name()
        done = self.kern("box", name, "-d", "--", "sleep", "60", report=False)
        self.assertEqual(done.code, 0, done)
        self.addCleanup(self.forget, name)
        for command, ready, keys, shows in ((["python3", "-q"], r">>> ", "6*7\nexit()\n", r"42"), (["vi", "-u", "NONE"], r"~", ":r!echo 4$((1+1))\n:q!\n", r"42"),
                                           (["less", "/etc/passwd"], r"root:", "q", r""), (["top"], r"PID", "q", r""),
                                           (["tmux", "-f", "/dev/null", "-S", "/tmp/t"], r"\[0", "echo 4$((1+1)); exit\n", r"42")):
            with self.subTest(command):
                screen = Screen(["exec", name, "-it", "-e", "TERM=xterm", "--", *command], self.me)
                screen.expect(ready)
                screen.type(keys)
                screen.expect(shows)
                screen.wait()
                self.assertEqual(screen.process.returncode, 0, screen.text)

    def test_without_a_terminal(self):
        name = self.detach("sleep", "60")
        self.assert_failed(self.exec(name, "true", options=["-t"]), 1, "cannot give the command a terminal", hint="-t")
        self.assertEqual(self.exec(name, "cat", options=["-i"], text="x").out, "x")


if __name__ == "__main__":
    kerntest.main()

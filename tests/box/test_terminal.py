"""A terminal of the box's own: kern runs inside a pseudo terminal that the test holds, as a user would run it."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import kerntest
from kerntest import BoxCase, as_root_and_user


class Screen:
    """The user's side of a terminal with kern in it."""

    def __init__(self, words, identity, rows=31, columns=97):
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        if kerntest.IS_ROOT:
            os.fchown(self.slave, identity.uid, -1)
        self.before = termios.tcgetattr(self.slave)
        self.text = ""
        env = {"PATH": kerntest.BOX_PATH, "HOME": identity.home, "KERN_QUIET": "1",
               "XDG_CONFIG_HOME": os.path.join(kerntest.scratch(), "none")}
        self.process = subprocess.Popen([kerntest.KERN, *words], stdin=self.slave, stdout=self.slave, stderr=self.slave,
                                        env=env, cwd="/", start_new_session=True, preexec_fn=self.adopt, **identity.popen)

    def adopt(self):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def resize(self, rows, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.master, text.encode())

    def read(self, seconds):
        ready, _, _ = select.select([self.master], [], [], seconds)
        if ready:
            self.text += os.read(self.master, 65536).decode(errors="replace")
        return bool(ready)

    def expect(self, pattern, seconds=kerntest.PATIENCE):
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.text)):
            if time.monotonic() > end:
                raise AssertionError(f"no {pattern!r} on the screen: {self.text!r}")
            self.read(0.2)
        self.text = self.text[found.end():]
        return found

    def wait(self):
        end = time.monotonic() + kerntest.PATIENCE
        while self.process.poll() is None and time.monotonic() < end:
            self.read(0.1)
        while self.read(0):
            pass
        return self.process.poll()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@as_root_and_user
class Terminal(BoxCase):
    def screen(self, *words, **keywords):
        screen = Screen(["box", *words], self.me, **keywords)
        self.addCleanup(screen.close)
        return screen

    def shell_screen(self, *options):
        screen = self.screen("-it", "--rootfs", self.root, *options, "--", "sh")
        screen.expect(r"# ")
        return screen

    @staticmethod
    def sleeping(states):
        """The program `sleep 1000` of the box, when it is in one of these states."""
        def is_it(pid):
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                return file.read().rsplit(")", 1)[1].split()[0] in states
        return [pid for pid in kerntest.running("sleep", "1000") if pid in kerntest.processes(is_it)]

    def run_all(self, screen, code=0):
        self.assertEqual(screen.wait(), code, screen.text)
        self.assertEqual(termios.tcgetattr(screen.slave), screen.before, "the terminal was not put back")
        return screen.text

    def test_it_is_a_terminal(self):
        script = "tty; test -t 0 && test -t 1 && test -t 2 && echo yes; stty size; ls /dev"
        text = self.run_all(self.screen("-t", "--rootfs", self.root, "--", "sh", "-c", script))
        lines = text.split()
        self.assertEqual(lines[:4], ["/dev/pts/0", "yes", "31", "97"])
        self.assertIn("tty", lines[4:])

    def test_i_alone_gives_none(self):
        script = "tty | head -c 200; readlink /proc/self/fd/0"
        text = self.run_all(self.screen("-i", "--rootfs", self.root, "--", "sh", "-c", script))
        self.assertNotIn("/dev/pts/0", text.split("\n")[0])

    def test_a_shell_when_no_command_is_given(self):
        screen = self.screen("--rootfs", self.root)
        screen.expect(r"[#$] ")
        screen.type("test -t 0 && echo te''rminal; exit 6\n")
        screen.expect("terminal")
        self.run_all(screen, 6)

    def test_the_host_root_has_one_too(self):
        text = self.run_all(self.screen("-t", "--", "sh", "-c", "test -t 1 && stty size"))
        self.assertEqual(text.split(), ["31", "97"])

    def test_the_size_follows(self):
        screen = self.screen("-t", "--rootfs", self.root, "--", "sh", "-c",
                             "trap 'stty size' WINCH; echo up; while :; do sleep 0.1; done")
        screen.expect("up")
        screen.resize(40, 120)
        screen.process.send_signal(signal.SIGWINCH)
        screen.expect("40 120")
        screen.process.send_signal(signal.SIGTERM)
        screen.wait()

    def test_settings_belong_to_the_box(self):
        screen = self.shell_screen()
        screen.type("stty -echo; echo do''ne\n")
        screen.expect("done")
        screen.type("exit\n")
        self.run_all(screen)

    def test_kern_makes_the_outer_one_raw(self):
        screen = self.shell_screen()
        flags = termios.tcgetattr(screen.slave)[3]
        self.assertFalse(flags & (termios.ECHO | termios.ICANON | termios.ISIG))
        screen.type("exit\n")
        self.run_all(screen)

    def test_interrupt_ends_the_program_not_the_box(self):
        for options in ((), ("--init",)):
            with self.subTest(options):
                screen = self.shell_screen(*options)
                screen.type("sleep 1000\n")
                self.assertTrue(kerntest.eventually(lambda: self.sleeping("S")))
                screen.type("\x03")
                screen.expect("# ")
                screen.type("echo still''here; exit 4\n")
                screen.expect("stillhere")
                self.run_all(screen, 4)

    def test_end_of_file(self):
        screen = self.shell_screen()
        screen.type("\x04")
        self.run_all(screen)

    def test_job_control(self):
        """bubblewrap#147, #726: stop, resume."""
        screen = self.shell_screen()
        screen.type("sleep 1000\n")
        self.assertTrue(kerntest.eventually(lambda: self.sleeping("S")))
        screen.type("\x1a")
        screen.expect("topped")
        screen.type("jobs\n")
        screen.expect("sleep 1000")
        screen.type("fg\n")
        self.assertTrue(kerntest.eventually(lambda: self.sleeping("S")))
        screen.type("\x03")
        self.assertTrue(kerntest.eventually(lambda: not self.sleeping("ST")))
        screen.type("echo ba''ck; exit 3\n")
        screen.expect("back")
        self.run_all(screen, 3)

    def test_all_that_was_printed_arrives(self):
        text = self.run_all(self.screen("-t", "--rootfs", self.root, "--", "sh", "-c",
                                        "i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done"))
        self.assertEqual(text.count("line"), 5000)
        self.assertTrue(text.rstrip().endswith("line 4999"), text[-40:])

    def test_the_terminal_is_put_back_after_any_end(self):
        for options, command, code in ((["--timeout", "0.5"], "sleep 60", 143), ([], "kill -9 $$", None),
                                       ([], "stty raw; exit 3", 3)):
            with self.subTest(command):
                screen = self.screen("-t", *options, "--rootfs", self.root, "--init", "--", "sh", "-c", command)
                self.assertEqual(screen.wait(), 137 if code is None else code, screen.text)
                self.assertEqual(termios.tcgetattr(screen.slave), screen.before)

    def test_a_user_who_hangs_up(self):
        screen = self.shell_screen()
        screen.process.send_signal(signal.SIGHUP)
        self.assertEqual(screen.wait(), 129, screen.text)

    def test_terminal_injection_is_refused_there_too(self):
        text = self.run_all(self.screen("-t", "--rootfs", self.root, "--", "sh", "-c",
                                        "probe ioctl 0x5412 1; probe ioctl 0x541C 5"))
        self.assertEqual(re.findall(r"ioctl (-?\d+) (\d+)", text), [("-1", "1"), ("-1", "1")])


if __name__ == "__main__":
    kerntest.main()

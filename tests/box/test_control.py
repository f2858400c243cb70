"""The control socket of a living box: RUN/sockets/NAME, seqpacket, one request a connection, for the same user and root
alone."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import kerntest
from kerntest import BoxCase, as_root_and_user, as_user

ASK = """import socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
    client.settimeout(20)
    client.connect(sys.argv[1])
    try:
        client.send(b"stop")
        print(client.recv(100).decode() or "turned away")
    except (BrokenPipeError, ConnectionResetError):
        print("turned away")
"""


class Control(BoxCase):
    """A box that lives, and ways to talk to its supervisor."""

    def live(self, *command, options=(), runs=None, **keywords):
        """A box that has its control socket; self.path is that socket."""
        script = ["sh", "-c", "echo ready; exec sleep 60"]
        self.name = f"control-{os.getpid()}-{time.monotonic_ns() % 10**9}"
        running = self.start("box", self.name, "--rootfs", self.root, *options, "--", *(command or script),
                             **keywords)
        self.assertRegex(running.line(), "^ready")
        places = [os.path.join(run, "sockets", self.name) for run in runs or self.me.run_directories()]
        self.path = kerntest.eventually(lambda: next((path for path in places if os.path.exists(path)), None))
        self.assertTrue(self.path, places)
        return running

    def connect(self):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(client.close)
        client.settimeout(kerntest.PATIENCE)

        def accepted():
            try:
                client.connect(self.path)
                return True
            except (BlockingIOError, ConnectionRefusedError):  # a full queue, or none yet: kern has not come to it
                return False
        self.assertTrue(kerntest.eventually(accepted), "kern does not accept")
        return client

    def request(self, data):
        client = self.connect()
        client.send(data)
        return client.recv(1000)

    def assert_over(self, running, code, fault=None, text=None):
        result = running.wait(text)
        self.assertEqual((result.code, result.fault), (code, fault), result)
        self.assertFalse(os.path.lexists(self.path))
        with self.assertRaises(OSError):
            self.connect()
        return result


@as_root_and_user
class Requests(Control):
    def test_status(self):
        running = self.live()
        answer = self.request(b"status").decode()
        self.assertEqual(answer, f'{{"name": "{self.name}", "pid": {running.pid}, "executed": true}}')
        self.assertIsNone(running.process.poll())
        running.signal(signal.SIGTERM)
        self.assert_over(running, 143)

    def test_stop_of_a_command_without_a_handler(self):
        running = self.live()
        self.assertEqual(self.request(b"stop"), b"ok")
        self.assertEqual(self.assert_over(running, 143).report["signal"], signal.SIGTERM)

    def test_stop_of_a_command_that_handles_it(self):
        running = self.live("probe", "catch", str(int(signal.SIGTERM)), options=["-e", "PROBE_END=1"])
        self.assertEqual(self.request(b"stop"), b"ok")
        result = self.assert_over(running, 7)
        self.assertEqual(result.out, f"caught {int(signal.SIGTERM)}\n")

    def test_kill_of_a_command_that_ignores_the_rest(self):
        running = self.live("probe", "catch", str(int(signal.SIGTERM)))
        self.assertEqual(self.request(b"stop"), b"ok")
        self.assertEqual(running.line(), f"caught {int(signal.SIGTERM)}\n")
        self.assertEqual(self.request(b"kill"), b"ok")
        self.assertEqual(self.assert_over(running, 137).report["signal"], signal.SIGKILL)

    def test_what_it_does_not_know(self):
        running = self.live()
        for data in (b"restart", b"STATUS", b"status ", b"stop\n", b" kill", b"{}", b"k" * 5000, b"\xff\xfe"):
            with self.subTest(data):
                self.assertEqual(self.request(data), b"error: unknown request")
                self.assertIsNone(running.process.poll())
        self.assertIn(b'"executed": true', self.request(b"status"))
        running.signal(signal.SIGTERM)
        self.assert_over(running, 143)

    def test_one_request_a_connection(self):
        running = self.live()
        client = self.connect()
        client.send(b"status")
        self.assertIn(b'"executed": true', client.recv(1000))
        self.assertEqual(client.recv(1000), b"")
        with self.assertRaises(OSError):
            client.send(b"kill")
        self.assertIsNone(running.process.poll())
        running.signal(signal.SIGTERM)
        self.assert_over(running, 143)

    def test_descriptors_that_are_sent_along_are_not_kept(self):
        running = self.live()
        ours, theirs = os.pipe()
        client = self.connect()
        socket.send_fds(client, [b"status"], [theirs])
        os.close(theirs)
        self.assertIn(b'"executed": true', client.recv(1000))
        self.assertEqual(os.read(ours, 1), b"")  # end of file: nobody has the other end
        os.close(ours)
        running.signal(signal.SIGTERM)
        self.assert_over(running, 143)


@as_root_and_user
class Clients(Control):
    """A client that misbehaves takes nothing from the box or from others."""

    def test_one_that_says_nothing(self):
        running = self.live()
        silent = [self.connect() for _ in range(3)]
        self.assertIn(b'"executed": true', self.request(b"status"))
        silent[1].send(b"status")
        self.assertIn(b'"executed": true', silent[1].recv(1000))
        self.assertEqual(self.request(b"stop"), b"ok")
        self.assert_over(running, 143)
        self.assertEqual(silent[0].recv(1000), b"")

    def test_one_that_says_nothing_does_not_keep_a_box_alive(self):
        running = self.live("sh", "-c", "echo ready; read line; exit 7", stdin=subprocess.PIPE)
        silent = self.connect()
        self.assertIn(b'"executed": true', self.request(b"status"))  # so the silent one is being watched
        self.assert_over(running, 7, text="go\n")
        self.assertEqual(silent.recv(1000), b"")

    def test_one_that_goes_away(self):
        running = self.live()
        for data in (None, b"status", b"nonsense"):
            client = self.connect()
            if data is not None:
                client.send(data)
            client.close()
        self.assertIn(b'"executed": true', self.request(b"status"))
        running.signal(signal.SIGTERM)
        self.assert_over(running, 143)

    def test_an_empty_packet(self):
        running = self.live()
        client = self.connect()
        client.send(b"")
        self.assertEqual(client.recv(1000), b"")
        self.assertIn(b'"executed": true', self.request(b"status"))
        running.signal(signal.SIGTERM)
        self.assert_over(running, 143)

    def test_a_crowd(self):
        """More than kern has room for: some are turned away, the box goes on, and later ones are served again."""
        running = self.live()
        crowd = [self.connect() for _ in range(200)]
        self.assertIsNone(running.process.poll())
        for client in crowd:
            client.close()
        self.assertTrue(kerntest.eventually(lambda: b"executed" in self.request_or_nothing(b"status")))
        running.signal(signal.SIGTERM)
        self.assert_over(running, 143)

    def request_or_nothing(self, data):
        try:
            return self.request(data)
        except OSError:
            return b""


@as_root_and_user
class Place(Control):
    def test_others_cannot_reach_it(self):
        running = self.live()
        for path in (self.path, os.path.dirname(self.path), os.path.dirname(os.path.dirname(self.path))):
            st = os.lstat(path)
            self.assertEqual((st.st_uid, st.st_mode & 0o077), (self.me.uid, 0), path)
        running.signal(signal.SIGTERM)
        self.assert_over(running, 143)

    def test_it_is_gone_after_each_way_to_end(self):
        running = self.live("sh", "-c", "echo ready; read line; exit 3", stdin=subprocess.PIPE)
        self.assert_over(running, 3, text="go\n")
        running = self.live(options=["--timeout", "2"])
        self.assert_over(running, 143, "timeout")

    def test_a_killed_kern_leaves_none_for_long(self):
        running = self.live()
        running.process.kill()
        running.wait()
        self.clean_up()
        self.assertTrue(kerntest.eventually(lambda: not os.path.lexists(self.path)), self.path)

    def test_a_command_that_ends_at_once_has_none(self):
        name = f"short-{os.getpid()}"
        self.assertEqual(self.kern("box", name, "--rootfs", self.root, "--", "true").code, 0)
        for run in self.me.run_directories():
            self.assertFalse(os.path.lexists(os.path.join(run, "sockets", name)))


@as_user
class Strangers(Control):
    """Even where the folders let others through, the supervisor asks the kernel who is calling."""

    def setUp(self):
        if not kerntest.IS_ROOT or shutil.which("setpriv") is None:
            self.skipTest("only root can be somebody else, with setpriv")

    def ask_as(self, uid):
        words = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", sys.executable, "-c", ASK, self.path]
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd="/", timeout=60)
        return done.stdout.strip() or done.stderr.strip().splitlines()[-1]

    def test_another_user_is_turned_away(self):
        runtime = self.folder()
        running = self.live(env={"XDG_RUNTIME_DIR": runtime}, runs=self.me.run_directories(runtime))
        other = self.me.uid + 4321
        self.assertIn("PermissionError", self.ask_as(other))
        os.chmod(self.path, 0o777)
        path = os.path.dirname(self.path)
        while path.startswith(runtime):
            os.chmod(path, 0o711)
            path = os.path.dirname(path)
        self.assertEqual(self.ask_as(other), "turned away")
        self.assertIsNone(running.process.poll())
        self.assertIn(b'"executed": true', self.request(b"status"))  # root, as these tests run
        self.assertEqual(self.ask_as(self.me.uid), "ok")
        self.assert_over(running, 143)


if __name__ == "__main__":
    kerntest.main()

"""The egress worker from its start to its end: it is there when somebody wants something of it, can do nothing else, and dies with kern."""

import json
import os
import queue
import resource
import subprocess
import time
import unittest

import kerntest
from egresscase import NOTHING, Egress
from egressworld import WEB
from kerntest import as_root_and_user, as_user, need

ASK = "getent hosts other.example.com; echo up"  # not allowed: no such host, but its worker says so


@as_root_and_user
class Life(Egress):
    def worker_of(self, kern):
        return kerntest.eventually(lambda: self.workers_of(kern))

    def workers_of(self, kern):
        def is_it(pid):
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
            if parent != kern:
                return False
            with open(f"/proc/{pid}/status", encoding="utf-8") as file:
                confined = "Seccomp:\t2" in file.read()
            fds = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
            return confined and "anon_inode:[eventfd]" in fds  # by which it tells kern of what was denied; kern has other workers
        return kerntest.processes(is_it)

    def test_it_starts_when_it_is_wanted(self):
        need("python3")
        self.server(WEB, 2527)
        query = b"\x01\x02\x01\0\0\1" + bytes(6) + b"\3web\7example\3com\0\0\1\0\1"
        self.server(WEB, 2528)
        ways = {"dns": ("u = socket.socket(type=socket.SOCK_DGRAM); u.connect(('127.0.0.11', 53)); u.send(DNS)", "u.recv(512)[:2]", query[:2]),
                "dns over tcp": ("t = socket.create_connection(('127.0.0.11', 53)); t.sendall(bytes([0, len(DNS)]) + DNS)", "t.recv(512)[2:4]",
                                 query[:2]),
                "the proxy": ("p = socket.create_connection(('127.0.0.1', 3128)); "
                              "p.sendall(b'CONNECT web.example.com:2527 HTTP/1.1\\r\\n\\r\\n')", "p.recv(12)[-3:]", b"200"),
                "an address": ("c = socket.create_connection((WEB, 2528)); c.sendall(b'hi\\n')", "c.recv(9)", b"hi\n")}
        for way, (step, asked, said) in ways.items():
            with self.subTest(way):
                script = (f"import socket\nDNS, WEB = {query!r}, {WEB!r}\nprint('up', flush=True)\ninput()\n{step}\n"
                          f"print({asked}, flush=True)\ninput()")
                running = self.start("box", "-q", "--egress-allow=web.example.com:2527", f"--egress-allow={WEB}/32:2528", "--", "python3", "-c",
                                     script, stdin=subprocess.PIPE)
                self.assertEqual(running.line(), "up\n")
                self.assertEqual(self.workers_of(running.pid), [])
                running.process.stdin.write("\n")
                running.process.stdin.flush()
                self.assertEqual(running.line(), f"{said!r}\n")
                self.assertEqual(len(self.workers_of(running.pid)), 1)
                self.assertEqual(running.wait("\n").code, 0)

    def test_sockets_of_more_than_one_message(self):
        """Kern keeps several messages of them; too many for it go to a worker that is there from the start."""
        self.server(WEB, 2527)
        need("python3")
        script = f"import socket\nprint('up', flush=True)\ninput()\nc = socket.create_connection(({WEB!r}, 2527)); c.sendall(b'hi\\n'); print(c.recv(9))"
        first, other = WEB.rsplit(".", 1)[0] + ".0/24:2527", "198.51.100.0/24:2527"
        for rules, workers in (([first], 0), ([other, first], 1)):
            with self.subTest(rules=rules):
                running = self.start("box", "-q", *(f"--egress-allow={rule}" for rule in rules), "--", "python3", "-c", script,
                                     stdin=subprocess.PIPE)
                self.assertEqual(running.line(), "up\n")
                self.assertEqual(len(self.workers_of(running.pid)), workers)
                self.ran(running.wait("\n"), r"b'hi\n'" + "\n")

    def test_few_descriptors_for_many_sockets(self):
        self.server(WEB, 2527)
        need("python3")
        script = f"import socket\nc = socket.create_connection(({WEB!r}, 2527)); c.sendall(b'hi\\n'); print(c.recv(9))"
        result = self.kern("box", "-q", f"--egress-allow={WEB.rsplit('.', 1)[0]}.0/24:2527", "--", "python3", "-c", script,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (260, 4096)))
        self.ran(result, r"b'hi\n'" + "\n")

    def test_the_worker_can_do_nothing_else(self):
        running = self.start("box", *NOTHING, "--", "/bin/sh", "-c", f"{ASK}; exec sleep 20", started=True)
        self.assertEqual(running.line(), "up\n")
        workers = self.worker_of(running.pid)
        self.assertEqual(len(workers), 1)
        with open(f"/proc/{workers[0]}/status", encoding="utf-8") as file:
            status = dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)
        for name in ("CapEff", "CapPrm", "CapInh", "CapBnd" if self.me.is_root else "CapAmb"):
            self.assertEqual(int(status[name], 16), 0, name)
        self.assertEqual(status["NoNewPrivs"].strip(), "1")
        if os.environ.get("KERN_VARIANT") != "asan":  # whose run time makes calls of its own
            self.assertEqual(status["Seccomp_filters"].strip(), "2")
        names = [os.readlink(f"/proc/{workers[0]}/fd/{fd}") for fd in os.listdir(f"/proc/{workers[0]}/fd")]
        for name in names:
            self.assertTrue(name.startswith(("socket:", "anon_inode:", "pipe:", "/dev/null")), names)
        running.signal(15)
        running.wait()

    def test_a_worker_that_dies_ends_the_box_and_is_named(self):
        running = self.start("box", *NOTHING, "--", "/bin/sh", "-c", f"{ASK}; exec sleep 20")
        self.assertEqual(running.line(), "up\n")
        os.kill(self.worker_of(running.pid)[0], 9)
        result = running.wait()
        self.assertEqual((result.code, result.fault), (137, "killed"), result)
        self.assertIn("egress", result.report["fault"]["message"])
        self.assertIn("kern: warning: the worker of plugin egress ended, and the box with it\n", result.err)

    def test_more_connections_than_descriptors(self):
        """Those that there is no room for end; the worker does not turn round and round over them."""
        self.server(WEB, 2527)
        script = ("import socket, time\nheld = []\n"
                  "for i in range(150): held.append(socket.create_connection(('web.example.com', 2527)))\n"
                  "print('held', flush=True)\ninput()\nfor s in held: s.close()\n"
                  "for _ in range(200):\n"  # until there is room again
                  "  try:\n"
                  "    s = socket.create_connection(('web.example.com', 2527)); s.sendall(b'again\\n')\n"
                  "    if answer := s.recv(9): break\n"
                  "  except OSError: pass\n"
                  "  time.sleep(0.1)\n"
                  "print(answer)")
        need("python3")
        running = self.start("box", "-q", "--egress-allow=web.example.com:2527", "--", "python3", "-c", script, stdin=subprocess.PIPE,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200)))
        self.assertEqual(running.line(), "held\n")
        worker = self.worker_of(running.pid)[0]
        begun = self.ticks(worker)
        time.sleep(0.5)
        self.assertLess(self.ticks(worker) - begun, 20, "of 50")
        result = running.wait("\n")
        self.ran(result, "b'again\\n'\n")

    @staticmethod
    def ticks(pid):
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    def test_the_worker_dies_with_kern(self):
        running = self.start("box", *NOTHING, "--", "/bin/sh", "-c", f"{ASK}; exec sleep 20")
        self.assertEqual(running.line(), "up\n")
        worker = self.worker_of(running.pid)[0]
        os.kill(running.pid, 9)
        running.process.wait()
        self.assertTrue(kerntest.eventually(lambda: not os.path.exists(f"/proc/{worker}")))
        self.clean_up()

    def test_a_detached_box(self):
        self.web()
        need("curl")
        curl = ["curl", "-sS", "--max-time", "10", "http://web.example.com/"]
        for how in ("stopped", "worker", "supervisor"):
            with self.subTest(how):
                name = f"egress-{how}-{os.getpid()}"
                report = os.path.join(self.folder(0o777), "report")
                rules, env = ["--egress-allow=web.example.com"], None
                if how == "supervisor":
                    rules, env = [], self.own_config('[egress]\nallow = ["web.example.com"]\n')
                started = self.kern("box", name, "-d", "--report", report, *rules, "--", "sleep", "60", report=False, env=env)
                self.assertEqual(started.code, 0, started)
                supervisor = int(started.out.split("pid ")[1].split(",")[0])
                kerntest._pids.add(supervisor)
                self.addCleanup(self.kern, "rm", "--force", name)
                inside = self.kern("exec", name, "--", *curl)
                self.ran(inside, "web.example.com over http\n")
                self.assertIn("web.example.com", self.kern("inspect", name, "--json").out)
                worker = self.worker_of(supervisor)[0]
                if how == "stopped":
                    self.assertEqual(self.kern("stop", "--timeout", "1", name).code, 0)
                else:
                    os.kill(worker if how == "worker" else supervisor, 9)
                for pid in (worker, supervisor):
                    self.assertTrue(kerntest.eventually(lambda p=pid: not os.path.exists(f"/proc/{p}")), how)
                gone = kerntest.eventually(lambda: not kerntest.processes(lambda pid: self.is_sleep(pid, name)))
                self.assertTrue(gone, how)  # the kernel ends a box after its supervisor
                if how == "worker":
                    with open(report, encoding="utf-8") as file:
                        fault = json.load(file)["fault"]
                    self.assertEqual(fault["type"], "killed")
                    self.assertIn("egress", fault["message"])
                    self.assertIn("worker of plugin egress ended", self.kern("logs", name).err)

    @staticmethod
    def is_sleep(pid, name):
        with open(f"/proc/{pid}/environ", encoding="utf-8", errors="replace") as file:
            return f"HOSTNAME={name}" in file.read()


@as_root_and_user
class Last(Egress):
    """What a box sent goes out when it has ended, as from any other machine."""

    def reader(self, port, before):
        """A server that waits for `before` seconds, then reads to the end; tells how much it was."""
        got = queue.SimpleQueue()

        def serve(peer, index):
            time.sleep(before)
            while data := peer.recv(65536):
                self.echo.seen[index] += data
            got.put(self.echo.seen[index])
        self.echo = self.server(WEB, port, serve)
        return got

    def test_more_than_the_server_has_taken(self):
        got = self.reader(2527, 0.3)
        script = "import os, socket; s = socket.create_connection(('web.example.com', 2527)); s.sendall(bytes(4000000)); os._exit(7)"
        result = self.python(script, allow=["web.example.com:2527"])
        self.assertEqual(result.code, 7, result)
        self.assertNotIn("lost", result.err)
        self.assertEqual(len(got.get(timeout=kerntest.PATIENCE)), 4000000)

    def test_a_word_and_the_end(self):
        """The box may be over before kern or the worker has heard of the connection."""
        need("bash")
        got = self.reader(2527, 0)
        for number in range(20):
            self.ran(self.direct("bash", "-c", f"echo {number} >/dev/tcp/{WEB}/2527", allow=[f"{WEB}/32:2527"]))
            self.assertEqual(got.get(timeout=kerntest.PATIENCE), b"%d\n" % number)

    def test_a_server_that_takes_nothing(self):
        self.reader(2527, 5)
        script = "import os, socket; s = socket.create_connection(('web.example.com', 2527)); s.sendall(bytes(4000000)); os._exit(0)"
        result = self.python(script, allow=["web.example.com:2527"])
        self.assertEqual(result.code, 0, result)
        self.assertIn("kern: warning: what the box had sent last was not taken within 2000 ms of its end, and is lost\n", result.err)


@as_user
class Processes(Egress):
    """As root nothing bounds their number."""

    def test_a_worker_that_cannot_be_started_ends_the_box(self):
        running = self.start("box", *NOTHING, "--", "/bin/sh", "-c", f"echo up; read _; {ASK}; exec sleep 20", stdin=subprocess.PIPE,
                             env={"ASAN_OPTIONS": "detect_leaks=0"})  # which would take a thread
        self.assertEqual(running.line(), "up\n")
        subprocess.run(["prlimit", f"--pid={running.pid}", "--nproc=1:1"], check=True, **self.me.popen)
        result = running.wait("\n")
        self.assertEqual((result.code, result.fault), (137, "killed"), result)
        self.assertIn('cannot start the worker of plugin "egress": Resource temporarily unavailable', result.err)
        self.assertIn("egress", result.report["fault"]["message"])


if __name__ == "__main__":
    kerntest.main()

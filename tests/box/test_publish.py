"""Ports of a box on the host: TCP and UDP, ranges, IPv6, who connects, and what is refused; and --tun."""

import os
import socket
import subprocess
import time

import egressworld
import kerntest
from kerntest import BoxCase, as_root_and_user

SERVER = """
import socket, sys, threading
def listening(kind, *rest):
    if kind == 'tcp':
        return tcp, socket.create_server((rest[0], int(rest[1])), family=socket.AF_INET6 if ':' in rest[0] else socket.AF_INET)
    address = rest[1] if len(rest) > 1 else '127.0.0.1'
    server = socket.socket(socket.AF_INET6 if ':' in address else socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, int(rest[0])))
    return udp, server
def tcp(server):
    while True:
        peer, _ = server.accept()
        threading.Thread(target=serve, args=(peer,), daemon=True).start()
def serve(peer):
    total = b''
    while data := peer.recv(65536):
        total += data
        if len(total) < 1000: peer.sendall(b'got ' + data)
    peer.sendall(b'%d in all' % len(total))
    peer.close()
def udp(server):
    while True:
        data, peer = server.recvfrom(65536)
        server.sendto(b'%d got ' % peer[1] + data, peer)
for word in sys.argv[1:]:
    serves, server = listening(*word.split(','))
    threading.Thread(target=serves, args=(server,), daemon=True).start()
print('up', flush=True)
sys.stdin.read()
"""


class Published(BoxCase):
    @classmethod
    def prepare_class(cls):
        if "world" not in kerntest._cache:
            egressworld.enter()
            kerntest._cache["world"] = True

    def serving(self, *servers, ports=(), options=()):
        kerntest.need("python3")
        running = self.start("box", *(f"-p{port}" for port in ports), *options, "--", "python3", "-c", SERVER, *servers,
                             stdin=subprocess.PIPE)
        self.assertEqual(running.line(), "up\n")
        return running

    def end(self, running):
        result = running.wait("")
        self.assertEqual(result.code, 0, result)

    def ask(self, address, port, text=b"hi"):
        with socket.create_connection((address, port), kerntest.PATIENCE) as peer:
            peer.sendall(text)
            return peer.recv(1000)


@as_root_and_user
class Ports(Published):
    def test_tcp(self):
        running = self.serving("tcp,127.0.0.1,80", "tcp,127.0.0.1,81", "tcp,::1,82", ports=(
            "8080:80", "8081-8082:80-81", "203.0.113.1:8080:81", "[2001:db8::1]:8080:80/tcp", "8083:82"))
        for address, port in (("127.0.0.1", 8080), ("127.0.0.1", 8081), ("127.0.0.1", 8082), ("203.0.113.1", 8080),
                              ("2001:db8::1", 8080), ("127.0.0.1", 8083)):
            with self.subTest((address, port)):
                self.assertEqual(self.ask(address, port), b"got hi")
        self.end(running)

    def test_only_where_it_was_asked_for(self):
        running = self.serving("tcp,127.0.0.1,80", ports=["8080:80"])
        with self.assertRaises(ConnectionRefusedError):
            self.ask("203.0.113.1", 8080)
        self.end(running)

    def test_every_address(self):
        running = self.serving("tcp,127.0.0.1,80", ports=["0.0.0.0:8080:80"])
        for address in ("127.0.0.1", "203.0.113.1"):
            self.assertEqual(self.ask(address, 8080), b"got hi")
        self.end(running)

    def test_half_close_and_bulk(self):
        running = self.serving("tcp,127.0.0.1,80", ports=["8080:80"])
        with socket.create_connection(("127.0.0.1", 8080), kerntest.PATIENCE) as peer:
            peer.sendall(bytes(5_000_000))
            peer.shutdown(socket.SHUT_WR)
            self.assertEqual(peer.recv(100), b"5000000 in all")
            self.assertEqual(peer.recv(100), b"")
        self.end(running)

    def test_a_port_that_nobody_serves(self):
        running = self.serving(ports=["8080:80"])
        with self.assertRaises(ConnectionResetError):
            self.ask("127.0.0.1", 8080)
        self.end(running)

    def test_who_connects(self):
        running = self.serving("tcp,127.0.0.1,80", ports=["8080:80+proxy"])
        with socket.create_connection(("127.0.0.1", 8080), kerntest.PATIENCE) as peer:
            port = peer.getsockname()[1]
            peer.sendall(b"hi")
            text = peer.recv(200)
            while b"hi" not in text:
                text += peer.recv(200)
        self.assertIn(b"PROXY TCP4 127.0.0.1 127.0.0.1 %d 8080\r\n" % port, text)
        self.end(running)

    def test_udp(self):
        running = self.serving("udp,53", ports=["5353:53/udp"])
        answers = set()
        for i in range(3):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
                peer.settimeout(kerntest.PATIENCE)
                peer.connect(("127.0.0.1", 5353))
                for _ in range(2):
                    peer.send(b"hi")
                    answer = peer.recv(100)
                    self.assertTrue(answer.endswith(b" got hi"), answer)
                    answers.add(answer)
        self.assertEqual(len(answers), 3)  # the box tells peers apart
        self.end(running)

    def test_udp_answers_come_from_where_they_were_asked_for(self):
        running = self.serving("udp,53", ports=["0.0.0.0:5353:53/udp", "[::]:5353:53/udp"])
        for address, own in (("203.0.113.1", "203.0.113.2"), ("203.0.113.2", "127.0.0.1"), ("127.0.0.2", "127.0.0.3"),
                             ("2001:db8::1", "::1"), ("::1", "2001:db8::1")):
            with self.subTest((address, own)), socket.socket(socket.AF_INET6 if ":" in own else socket.AF_INET, socket.SOCK_DGRAM) as peer:
                peer.settimeout(kerntest.PATIENCE)
                peer.bind((own, 0))
                peer.connect((address, 5353))  # takes datagrams from there only
                for _ in range(2):
                    peer.send(b"hi")
                    self.assertIn(b" got hi", peer.recv(100))
        self.end(running)

    def test_udp_of_a_server_on_ipv6_only(self):
        running = self.serving("udp,53,::1", ports=["5353:53/udp"])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
            peer.settimeout(kerntest.PATIENCE)
            peer.connect(("127.0.0.1", 5353))
            for _ in range(2):
                peer.send(b"hi")
                self.assertIn(b" got hi", peer.recv(100))
        self.end(running)

    def test_many_connections(self):
        running = self.serving("tcp,127.0.0.1,80", ports=["8080:80"])
        peers = [socket.create_connection(("127.0.0.1", 8080), kerntest.PATIENCE) for _ in range(200)]
        for peer in peers:
            peer.sendall(b"x")
        for peer in peers:
            self.assertEqual(peer.recv(10), b"got x")
            peer.close()
        self.end(running)

    def test_bound_before_the_command_runs(self):
        running = self.start("box", "-p8080:80", "--", "/bin/sh", "-c", "echo up; exec sleep 20", alive=True)
        self.assertEqual(running.line(), "up\n")
        with self.assertRaises(OSError):
            socket.create_server(("127.0.0.1", 8080))
        running.signal(15)
        running.wait()
        socket.create_server(("127.0.0.1", 8080)).close()

    def test_an_answer_and_the_end(self):
        """The answer is more than lies between the two; the box has ended when it is read."""
        kerntest.need("python3")
        script = ("import os, socket\nserver = socket.create_server(('127.0.0.1', 80))\nprint('up', flush=True)\n"
                  "peer, _ = server.accept()\npeer.recv(9)\npeer.sendall(bytes(4000000))\nprint('said', flush=True)\nos._exit(0)")
        running = self.start("box", "-p8080:80", "--", "python3", "-c", script)
        self.assertEqual(running.line(), "up\n")
        with socket.create_connection(("127.0.0.1", 8080), kerntest.PATIENCE) as peer:
            peer.sendall(b"hi")
            self.assertEqual(running.line(), "said\n")
            time.sleep(0.2)
            total = 0
            while data := peer.recv(65536):
                total += len(data)
        self.assertEqual(total, 4000000)
        self.end(running)

    def test_along_with_egress(self):
        running = self.serving("tcp,127.0.0.1,80", ports=["8080:80"], options=["--egress-allow=none"])
        self.assertEqual(self.ask("127.0.0.1", 8080), b"got hi")
        self.end(running)

    def test_the_worker_has_no_capability_left(self):
        running = self.serving("tcp,127.0.0.1,80", ports=["8080:80"])
        self.assertEqual(self.ask("127.0.0.1", 8080), b"got hi")

        def is_it(pid):
            with open(f"/proc/{pid}/status", encoding="utf-8") as file:
                text = file.read()
            return f"PPid:\t{running.pid}\n" in text and "Seccomp:\t2" in text
        worker, = kerntest.processes(is_it)
        with open(f"/proc/{worker}/status", encoding="utf-8") as file:
            status = dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)
        for name in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
            self.assertEqual(int(status[name], 16), 0, name)
        self.end(running)


@as_root_and_user
class Mistakes(Published):
    def test_words(self):
        for word, part in (("80", "two are needed"), ("1-2:3", "differ in length"), ("5:0", "1 to 65535"), ("0:5", "1 to 65535"),
                           ("5:70000", "1 to 65535"), ("x:5", "1 to 65535"), ("5:6/sctp", "/tcp, /udp"), ("5:6/udp+proxy", "for TCP"),
                           ("host:5:6", "no address"), ("[::1:5:6", "no address"), ("2-1:5-4", "lower end"),
                           ("1-300:1-300", "more than 200")):
            with self.subTest(word):
                self.refused(f"--publish={word}", parts=["publish", part])

    def test_a_port_that_is_named_twice(self):
        self.refused("-p8080:80", "-p0.0.0.0:8080:81", parts=["port 8080 of the host is published already"], hint="leave out one")

    def test_a_port_that_is_taken(self):
        with socket.create_server(("127.0.0.1", 8080)):
            self.refused("-p8080:80", parts=["cannot publish port 80 of the box on 127.0.0.1:8080/tcp", "in use"], hint="ss -tlnp")

    def test_an_address_of_another_machine(self):
        self.refused("-p", "198.51.100.1:8080:80", parts=["Cannot assign"], hint="ip address")

    def test_with_the_hosts_network(self):
        self.refused("-p8080:80", "--net=host", parts=["--net host"])


@as_root_and_user
class Tun(Published):
    def test_the_device(self):
        if not os.path.exists("/dev/net/tun"):
            self.refused("--tun", parts=["/dev/net/tun"], hint="modprobe tun")
            return
        self.assertIn("10, 200", self.output("ls", "-l", "/dev/net/tun", options=["--tun"]))

    def test_not_without_it(self):
        self.assertNotEqual(self.box("ls", "/dev/net/tun").code, 0)


if __name__ == "__main__":
    kerntest.main()

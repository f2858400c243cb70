"""A small internet for the egress tests, in a network and a mount namespace of this process: addresses that are nobody's
(203.0.113.0/24) on its loopback, a name server with names of all sorts, and the servers that a test asks for. What kern is run
from here sees nothing else of the world.
"""

import atexit
import ctypes
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import kerntest

NEW_NS, NEW_NET = 0x00020000, 0x40000000
WEB, DATABASE, CACHE, SHELL, PRIVATE = "203.0.113.1", "203.0.113.2", "203.0.113.3", "203.0.113.4", "10.9.8.7"
ADDRESSES = (WEB, DATABASE, CACHE, SHELL, PRIVATE, "203.0.113.53", "2001:db8::1")

# NAME: list of (TYPE, VALUE) or a function that returns one. Everything else does not exist.
NAMES = {
    "web.example.com": [("A", WEB)],
    "www.example.com": [("A", WEB)],
    "other.example.net": [("A", WEB)],
    "six.example.com": [("AAAA", "2001:db8::1")],
    "both.example.com": [("A", WEB), ("AAAA", "2001:db8::1")],
    "alias.example.com": [("CNAME", "web.example.com"), ("A", WEB)],
    "db.example.com": [("A", DATABASE)],
    "cache.example.com": [("A", CACHE)],
    "git.example.com": [("A", SHELL)],
    "private.example.com": [("A", PRIVATE)],
    "loop.example.com": [("A", "127.0.0.1")],
    "metadata.example.com": [("A", "169.254.169.254")],
    "mixed.example.com": [("A", WEB), ("A", PRIVATE)],
    "mapped.example.com": [("AAAA", "::ffff:10.9.8.7")],
    "inward.example.com": [("CNAME", "private.example.com"), ("A", PRIVATE)],
    "nowhere.example.com": [("A", "203.0.113.99")],
    **{f"n{i}.wild.example.com": [("A", WEB)] for i in range(80)},
}
TYPES = {"A": 1, "CNAME": 5, "AAAA": 28}


def enter():
    """Makes the namespaces; once, before any thread and before kern is run. Skips the module where that needs rights."""
    if os.geteuid() != 0:
        raise unittest.SkipTest("only root makes the network namespace of these tests")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_NS | NEW_NET) != 0:
        raise unittest.SkipTest(f"no namespaces: {os.strerror(ctypes.get_errno())}")
    run("mount", "--make-rprivate", "/")
    run("ip", "link", "set", "lo", "up")
    for address in ADDRESSES:
        run("ip", "addr", "add", address + ("/128" if ":" in address else "/32"), "dev", "lo")
    put("/etc/resolv.conf", "nameserver 203.0.113.53\n")
    put("/etc/hosts", "127.0.0.1 localhost\n203.0.113.1 hosts.example.com\n")


def put(target, text):
    """The file lives on in the mount, which ends with the namespace."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.chmod(file.name, 0o644)
        run("mount", "--bind", file.name, os.path.realpath(target))


def run(*words, **keywords):
    return subprocess.run(words, check=True, capture_output=True, text=True, **keywords)


# ---- The name server

def encode(name):
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0"


def decode(message, at=12):
    parts = []
    while message[at]:
        parts.append(message[at + 1:at + 1 + message[at]].decode("latin-1"))
        at += 1 + message[at]
    return ".".join(parts), at + 1


def record(owner, kind, value):
    data = (encode(value) if kind == "CNAME" else
            socket.inet_pton(socket.AF_INET6 if kind == "AAAA" else socket.AF_INET, value))
    return encode(owner) + struct.pack("!HHIH", TYPES[kind], 1, 1 if owner.startswith("moves.") else 60, len(data)) + data


class NameServer(threading.Thread):
    """UDP; big answers are cut, so that TCP is asked as well."""

    def __init__(self, address="203.0.113.53"):
        super().__init__(daemon=True)
        self.asked = []
        self.names = dict(NAMES)
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind((address, 53))
        self.tcp = socket.create_server((address, 53))
        threading.Thread(target=self._serve_tcp, daemon=True).start()
        self.start()

    def answer(self, message, whole):
        name, end = decode(message)
        kind = struct.unpack("!H", message[end:end + 2])[0]
        self.asked.append(name)
        found = self.names.get(name.lower())
        found = found() if callable(found) else found
        records, owner = [], name
        for sort, value in found or []:
            if sort == "CNAME":
                records.append(record(owner, sort, value))
                owner = value
            elif TYPES[sort] == kind:
                records.append(record(owner, sort, value))
        cut = len(records) > 8 and not whole
        flags = 0x8180 | (0x200 if cut else 0) | (0 if found is not None else 3)
        body = b"" if cut else b"".join(records)
        return (message[:2] + struct.pack("!HHHHH", flags, 1, 0 if cut else len(records), 0, 0) +
                message[12:end + 4] + body)

    def run(self):
        while True:
            message, peer = self.udp.recvfrom(4096)
            self.udp.sendto(self.answer(message, False), peer)

    def _serve_tcp(self):
        while True:
            peer, _ = self.tcp.accept()
            with peer:
                size = struct.unpack("!H", peer.recv(2))[0]
                reply = self.answer(peer.recv(size), True)
                peer.sendall(struct.pack("!H", len(reply)) + reply)


# ---- Servers

class Echo(threading.Thread):
    """Accepts and does with each connection what `serve` does; counts and keeps what came."""

    def __init__(self, address, port, serve=None):
        super().__init__(daemon=True)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.socket = socket.create_server((address, port), family=family)
        self.seen = []
        self.serve = serve or self.echo
        self.start()

    def run(self):
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            self.seen.append(b"")
            threading.Thread(target=self.one, args=(peer, len(self.seen) - 1), daemon=True).start()

    def one(self, peer, index):
        try:
            with peer:
                self.serve(peer, index)
        except OSError:
            pass

    def echo(self, peer, index):
        while data := peer.recv(65536):
            self.seen[index] += data
            peer.sendall(data)

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def server(program, *words, port, address, env=None, user=None):
    """Starts a server in the foreground and waits until it listens; it ends with this process."""
    path = shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/sbin")
    if path is None:
        raise unittest.SkipTest(f"no {program} on this machine")
    log = open(os.path.join(kerntest.scratch(), f"{os.path.basename(program)}.log"), "w", encoding="utf-8")
    process = subprocess.Popen([path, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, user=user,
                               start_new_session=True)
    log.close()
    atexit.register(stop, process)
    end = time.monotonic() + 20
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection((address, port), 1).close()
            return process
        except OSError:
            time.sleep(0.05)
    with open(log.name, encoding="utf-8", errors="replace") as file:
        raise AssertionError(f"{program} does not listen: {file.read()}")


def stop(process):
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def certificate():
    """A certificate for the names of this world, and what trusts it."""
    folder = kerntest.scratch()
    key, cert = os.path.join(folder, "key.pem"), os.path.join(folder, "cert.pem")
    if not os.path.exists(cert):
        names = ",".join(f"DNS:{name}" for name in ("web.example.com", "www.example.com", "other.example.net",
                                                    "git.example.com", "*.wild.example.com"))
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
            "-subj", "/CN=test", "-addext", f"subjectAltName={names}", "-keyout", key, "-out", cert)
        os.chmod(cert, 0o644)
    return cert, key


def go_program(name):
    """A program of helpers/, static, where Go has compiled net/http before: that takes it half a minute."""
    path = shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin:/usr/bin")
    if path is None:
        raise unittest.SkipTest("no Go on this machine")
    made = os.path.join(kerntest.scratch(), name)
    if not os.path.exists(made):
        build = [path, "build", "-o", made, os.path.join(os.path.dirname(os.path.abspath(__file__)), "helpers", f"{name}.go")]
        env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GO111MODULE": "off"}
        if "-p net/http " in run(*build[:2], "-n", *build[2:], env=env).stderr:
            raise unittest.SkipTest("Go has not compiled net/http yet; to have it done: CGO_ENABLED=0 go build net/http")
        run(*build, env=env)
    return made


def dnsmasq():
    """Becomes the name server of this world until the function that is returned is called."""
    address = "203.0.113.54"
    subprocess.run(["ip", "addr", "add", f"{address}/32", "dev", "lo"], check=False, capture_output=True)
    hosts = kerntest.write(os.path.join(kerntest.scratch(), "masq"), f"{WEB} web.masq.example.com\n{PRIVATE} inside.masq.example.com\n")
    process = server("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", f"--addn-hosts={hosts}",
                     "--pid-file=", "--user=root", f"--listen-address={address}", "--bind-interfaces", "--local=/example.com/",
                     "--cname=alias.masq.example.com,web.masq.example.com", "--cname=inward.masq.example.com,inside.masq.example.com",
                     port=53, address=address)

    def use(server):
        with open("/etc/resolv.conf", "w", encoding="utf-8") as file:  # this world's, see put()
            file.write(f"nameserver {server}\n")

    def end():
        use("203.0.113.53")
        stop(process)
    use(address)
    return end


def nginx():
    """nginx with TLS and names: each answers who it is; /big is 8 MiB, /git a repository."""
    folder = os.path.join(kerntest.scratch(), "nginx")
    cert, key = certificate()
    os.makedirs(os.path.join(folder, "www"), exist_ok=True)
    os.chmod(folder, 0o755)
    with open(os.path.join(folder, "www", "big"), "wb") as file:
        file.write(bytes(range(256)) * 32768)
    config = f"""
        worker_processes 1; pid {folder}/pid; error_log stderr; daemon off;
        user root;
        events {{ worker_connections 2048; }}
        http {{
            access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
            uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s; keepalive_requests 100000;
            ssl_certificate {cert}; ssl_certificate_key {key};
            server {{
                listen {WEB}:80; listen [2001:db8::1]:80; listen {WEB}:8080; listen {PRIVATE}:80;
                listen {WEB}:443 ssl http2;
                location = / {{ return 200 "$host over $scheme\\n"; }}
                location = /post {{ client_max_body_size 0; return 200 "got $request_method\\n"; }}
                location / {{ root {folder}/www; }}
            }}
        }}"""
    path = kerntest.write(os.path.join(folder, "nginx.conf"), config)
    return server("nginx", "-c", path, "-p", folder, port=443, address=WEB)

"""A box that may reach some hosts by name: real clients and servers that know nothing of kern, and what is refused."""

import glob
import json
import os
import resource
import shutil
import subprocess
import time
import unittest

import egressworld
import kerntest
from egresscase import NOTHING, Egress
from egressworld import CACHE, DATABASE, PRIVATE, SHELL, WEB
from kerntest import BoxCase, as_root_and_user, as_user, need

@as_root_and_user
class Clients(Egress):
    """They are told nothing of kern."""

    def test_curl(self):
        self.web()
        need("curl")
        for name, allow in (("web.example.com", "web.example.com"), ("www.example.com", "*.example.com"),
                            ("hosts.example.com", ".example.com"), ("alias.example.com", ".example.com"),
                            ("both.example.com", ".example.com"), ("six.example.com", "six.example.com")):
            with self.subTest(name):
                self.ran(self.direct("curl", "-sS", f"http://{name}/", allow=[allow]), f"{name} over http\n")
        self.ran(self.through_proxy("curl", "-sS", "http://web.example.com/"), "web.example.com over http\n")

    def test_curl_over_tls(self):
        self.web()
        need("curl")
        cert, _ = egressworld.certificate()
        options = ["-v", f"{cert}:/ca.pem:ro"]
        for run in (self.direct, self.through_proxy):
            for version in ("--http1.1", "--http2"):
                result = run("curl", "-sS", version, "--cacert", "/ca.pem", "https://web.example.com/", options=options)
                self.ran(result, "web.example.com over https\n")
                self.assertEqual(self.denied(result), {})

    def test_a_file_comes_whole(self):
        self.web()
        need("curl", "sha256sum")
        with open(f"{kerntest.scratch()}/nginx/www/big", "rb") as file:
            want = subprocess.run("sha256sum", stdin=file, check=True, capture_output=True, text=True).stdout
        result = self.direct("/bin/sh", "-c", "curl -sS http://web.example.com/big | sha256sum")
        self.ran(result, want)

    def test_python(self):
        self.web()
        script = "import urllib.request as u; print(u.urlopen('http://web.example.com/').read())"
        self.ran(self.python(script), "b'web.example.com over http\\n'\n")
        self.ran(self.through_proxy("python3", "-c", script), "b'web.example.com over http\\n'\n")

    def test_requests(self):
        """The copy that pip brings along."""
        self.web()
        if subprocess.run(["/usr/bin/python3", "-c", "from pip._vendor import requests"], check=False, capture_output=True).returncode != 0:
            raise unittest.SkipTest("no pip for /usr/bin/python3 on this machine")
        cert, _ = egressworld.certificate()
        script = ("from pip._vendor import requests as r; s = r.Session(); s.verify = '/ca.pem'\n"
                  "for url in ('http://web.example.com/', 'https://web.example.com/') * 2: print(s.get(url).text, end='')")
        for run in (self.direct, self.through_proxy):
            self.ran(run("/usr/bin/python3", "-c", script, options=["-v", f"{cert}:/ca.pem:ro"]),
                     "web.example.com over http\nweb.example.com over https\n" * 2)

    def test_go(self):
        """net/http, with its own resolver."""
        self.web()
        cert, _ = egressworld.certificate()
        get = egressworld.go_program("get")
        for run in (self.direct, self.through_proxy):
            result = run("/get", "http://web.example.com/", "https://web.example.com/",
                         options=["-v", f"{get}:/get:ro", "-v", f"{cert}:/ca.pem:ro", "-e", "SSL_CERT_FILE=/ca.pem"])
            self.ran(result, "web.example.com over http\nweb.example.com over https\n")

    def test_git_over_https(self):
        self.web()
        need("git")
        cert, _ = egressworld.certificate()
        repository = f"{kerntest.scratch()}/nginx/www/r.git"
        if not os.path.exists(repository):
            script = ("git init -q work && cd work && git -c user.name=t -c user.email=t@example.com commit -q --allow-empty -m first "
                      f"&& git clone -q --bare . {repository} && git -C {repository} update-server-info")
            subprocess.run(["sh", "-ec", script], check=True, capture_output=True, cwd=self.folder())
        for run in (self.direct, self.through_proxy):
            result = run("/bin/sh", "-c", "git clone -q https://web.example.com/r.git /tmp/r && git -C /tmp/r log --format=%s",
                         options=["-v", f"{cert}:/ca.pem:ro", "-e", "GIT_SSL_CAINFO=/ca.pem"])
            self.ran(result, "first\n")

    def test_a_name_server_of_others(self):
        """dnsmasq in place of the tests' own."""
        self.web()
        need("curl")
        end = egressworld.dnsmasq()
        self.addCleanup(end)
        result = self.direct("curl", "-sS", "http://web.masq.example.com/", "http://alias.masq.example.com/", allow=[".masq.example.com"])
        self.ran(result, "web.masq.example.com over http\nalias.masq.example.com over http\n")
        for name in ("inside", "inward", "missing"):
            result = self.direct("curl", "-sS", f"http://{name}.masq.example.com/", allow=[".masq.example.com"])
            self.assertNotEqual(result.code, 0, result)
            self.assertEqual(len(self.denied(result)), 0 if name == "missing" else 1, result)

    def test_node(self):
        self.web()
        need("node")
        script = "fetch('http://web.example.com/').then(r => r.text()).then(t => process.stdout.write(t))"
        for run in (self.direct, self.through_proxy):
            self.ran(run("node", "-e", script), "web.example.com over http\n")

    def test_wget_of_busybox(self):
        self.web()
        for extra in ([], ["env", "-u", "http_proxy"]):
            result = self.rooted(*extra, "wget", "-q", "-O", "-", "http://web.example.com/",
                                 options=["--egress-allow=web.example.com"])
            self.ran(result, "web.example.com over http\n")

    def test_redis(self):
        need("redis-cli")
        if "redis" not in kerntest._cache:
            kerntest._cache["redis"] = egressworld.server("redis-server", "--bind", CACHE, "--save", "", "--protected-mode", "no", "--dir",
                                                          kerntest.scratch(), port=6379, address=CACHE)
        result = self.direct("redis-cli", "-h", "cache.example.com", "ping", allow=["cache.example.com:6379"])
        self.ran(result, "PONG\n")

    def test_postgres(self):
        folder = next(iter(sorted(glob.glob("/usr/lib/postgresql/*/bin"))), None)
        if folder is None:
            raise unittest.SkipTest("no PostgreSQL on this machine")
        if "postgres" not in kerntest._cache:
            user = kerntest.user_identity()
            data = os.path.join(user.home, "pg")
            subprocess.run([f"{folder}/initdb", "-D", data, "-A", "trust", "-U", "test", "--no-sync"], check=True,
                           capture_output=True, cwd="/", **user.popen)
            with open(f"{data}/pg_hba.conf", "a", encoding="utf-8") as file:
                file.write("host all all 0.0.0.0/0 trust\n")
            kerntest._cache["postgres"] = egressworld.server(
                f"{folder}/postgres", "-D", data, "-h", DATABASE, "-k", "", "-F", port=5432, address=DATABASE, user=user.uid)
        result = self.direct(f"{folder}/psql", "-h", "db.example.com", "-U", "test", "-Atc", "select 6*7", "postgres",
                             allow=["db.example.com:5432"])
        self.ran(result, "42\n")

    def test_git_over_ssh(self):
        need("git", "ssh")
        folder = self.folder(0o755)
        key, host = f"{folder}/key", f"{folder}/host"
        for path in (key, host):
            egressworld.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path)
        user = kerntest.user_identity()
        egressworld.run("usermod", "-p", "*", user.name)  # sshd takes no key of an account that is locked
        repository = self.folder()
        for words in (["init", "-q", "--bare", f"{repository}/r.git"],):
            subprocess.run(["git", *words], check=True, capture_output=True)
        egressworld.run("chown", "-R", f"{user.uid}:{user.gid}", repository)
        shutil.copy(key + ".pub", f"{folder}/keys")
        os.makedirs("/run/sshd", exist_ok=True)
        process = egressworld.server(
            "/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null", "-h", host, "-o", f"ListenAddress={SHELL}", "-o", "PidFile=none",
            "-o", f"AuthorizedKeysFile={folder}/keys", "-o", "StrictModes=no", "-o", "UsePAM=no", port=22, address=SHELL)
        self.addCleanup(egressworld.stop, process)
        os.chmod(key, 0o600)
        if not self.me.is_root:
            os.chown(key, self.me.uid, self.me.gid)
        result = self.direct(
            "/bin/sh", "-c", f"cp /key /tmp/key && chmod 600 /tmp/key && GIT_SSH_COMMAND='ssh -i /tmp/key -o BatchMode=yes "
            "-o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no -o LogLevel=ERROR' "
            f"git ls-remote ssh://{user.name}@git.example.com{repository}/r.git && echo done",
            allow=["git.example.com:22"], options=["-v", f"{key}:/key:ro"])
        self.ran(result, "done\n")

    def test_a_server_that_speaks_first(self):
        def serve(peer, _):
            peer.sendall(b"220 ready\r\n")
            peer.sendall(b"got " + peer.recv(100))
        self.server(WEB, 2525, serve)
        script = ("import socket; s = socket.create_connection(('web.example.com', 2525)); print(s.recv(99)); "
                  "s.sendall(b'EHLO\\r\\n'); print(s.recv(99))")
        self.ran(self.python(script, allow=["web.example.com:2525"]), "b'220 ready\\r\\n'\nb'got EHLO\\r\\n'\n")

    def test_a_word_without_an_end_of_the_line(self):
        self.server(WEB, 2528)
        script = ("import socket; s = socket.create_connection(('web.example.com', 2528)); s.settimeout(10)\n"
                  "for word in (b'ping', b'pong', b'\\n', b'any thing'): s.sendall(word); print(s.recv(99))")
        self.ran(self.python(script, allow=["web.example.com:2528"]), "b'ping'\nb'pong'\nb'\\n'\nb'any thing'\n")

    def test_a_websocket_client_that_does_not_wait(self):
        """What it said ahead of the answer goes once the server has agreed."""
        def serve(peer, index):
            said = b""
            while b"\r\n\r\n" not in said:
                said += peer.recv(65536)
            time.sleep(0.2)
            peer.sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
            while data := peer.recv(65536):
                peer.sendall(data)
        self.server(WEB, 2528, serve)
        script = ("import socket\ns = socket.create_connection(('web.example.com', 2528), 5)\n"
                  "s.sendall(b'GET / HTTP/1.1\\r\\nHost: web.example.com\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\nframe')\n"
                  "got = b''\nwhile not got.endswith(b'frame'): got += s.recv(999)\nprint(len(got))")
        self.ran(self.python(script, allow=("web.example.com:2528",)), "41\n")

    def test_one_side_may_end_before_the_other(self):
        def serve(peer, _):
            got = b""
            while data := peer.recv(65536):
                got += data
            peer.sendall(str(len(got)).encode())
        self.server(WEB, 2526, serve)
        script = ("import socket; s = socket.create_connection(('web.example.com', 2526)); s.sendall(bytes(3000000)); "
                  "s.shutdown(1); print(s.recv(99))")
        self.ran(self.python(script, allow=["web.example.com:2526"]), "b'3000000'\n")

    def test_the_boxs_own_ports_stay_its_own(self):
        script = ("import socket\nfor port in (53, 80, 443, 5432): socket.create_server(('127.0.0.1', port))\n"
                  "socket.create_server(('', 8000))\nprint('all mine')")
        self.ran(self.python(script, allow=["web.example.com", "db.example.com:5432"]), "all mine\n")

    def test_an_image_without_resolv_conf(self):
        out = self.rooted("cat", "/etc/resolv.conf", options=NOTHING)
        self.ran(out, "nameserver 127.0.0.11\n")

    def test_addresses(self):
        self.web()
        need("curl")
        for rule in (WEB, "203.0.113.0/29", f"{WEB}:80"):
            with self.subTest(rule):
                for run in (self.direct, self.through_proxy):
                    self.ran(run("curl", "-sS", f"http://{WEB}/", allow=[rule]), f"{WEB} over http\n")
        result = self.direct("curl", "-sS", f"http://{WEB}/", allow=["203.0.112.0/20:80"])
        self.assertEqual(result.code, 7, result)
        self.assertIn("through the proxy only", result.err)
        self.ran(self.through_proxy("curl", "-sS", f"http://{WEB}/", allow=["203.0.112.0/20:80"]), f"{WEB} over http\n")

    def test_private_addresses_when_a_rule_says_so(self):
        self.web()
        need("curl")
        self.ran(self.direct("curl", "-sS", "http://private.example.com/", allow=["private.example.com+private"]),
                 "private.example.com over http\n")

    def test_many_names_of_one_wildcard(self):
        self.web()
        script = ("import urllib.request as u\n"
                  "for i in range(60): u.urlopen(f'http://n{i}.wild.example.com/').read()\nprint('all')")
        self.ran(self.python(script, allow=["*.wild.example.com"]), "all\n")

    def test_profiles(self):
        self.web()
        need("curl")
        env = self.own_config('[[egress]]\nname = "web"\nallow = ["web.example.com", ".example.net"]\ndeny = ["a.example.net"]\n'
                              '[[egress]]\nname = "inside"\nallow = ["private.example.com"]\nprivate = true\ntls = "any"\n')
        result = self.kern("box", "egress:web", "egress:inside", "--", "curl", "-sS", "http://web.example.com/",
                           "http://private.example.com/", "http://a.example.net/", env=env)
        self.assertEqual(result.out.splitlines()[:2], ["web.example.com over http", "private.example.com over http"], result)
        self.assertIn("rule: a.example.net", result.out)

    def test_box_table(self):
        self.web()
        need("curl")
        env = self.own_config('[box]\negress-allow = ["web.example.com"]\negress-deny = ["www.example.com"]\n')
        self.ran(self.box("curl", "-sS", "http://web.example.com/", env=env), "web.example.com over http\n")

    def test_a_table_for_every_box(self):
        self.web()
        need("curl")
        env = self.own_config('[egress]\nallow = ["web.example.com", "private.example.com"]\ndeny = ["www.example.com"]\nprivate = true\n')
        urls = [f"http://{name}.example.com/" for name in ("web", "private")]
        self.ran(self.box("curl", "-sS", *urls, env=env), "web.example.com over http\nprivate.example.com over http\n")
        result = self.box("curl", "-sS", *urls, "http://www.example.com/", options=["--egress-allow=www.example.com,both.example.com"], env=env)
        self.assertEqual(result.out.count("no egress rule allows it"), 2, result)  # the command line's list in place of the file's
        self.assertIn("rule: www.example.com", result.out)
        result = self.kern("box", "egress:web", "--", "true", env=env)
        self.assertEqual(result.code, 1, result)
        self.assertIn("its table [egress] is for every box", result.err)
        env = self.own_config("[egress]\nallow = []\n")
        result = self.box("curl", "-sS", urls[0], env=env)
        self.assertIn("no egress rule allows it", result.out)


@as_root_and_user
class Refusals(Egress):
    """What is refused is refused, and said."""

    def test_names(self):
        result = self.direct("/bin/sh", "-c", "getent hosts evil.example.com; getent hosts web.example.com >/dev/null && "
                             "echo ok")
        self.ran(result, "ok\n")
        self.assertEqual(list(self.denied(result)), [("evil.example.com", None, "no egress rule allows it")], result)
        self.assertIn("kern: note: denied host evil.example.com", result.err)
        self.assertNotIn("evil.example.com", self.names.asked)

    def test_denials_that_come_at_once_are_in_the_audit(self):
        """Its lines are for the 1st and the 10th, whatever of them kern is told in one go."""
        audit = self.file(name="audit")
        script = ("import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                  "ask = b'\\0\\7\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\4evil\\7example\\0\\0\\1\\0\\1'\n"
                  "for _ in range(12): s.sendto(ask, ('127.0.0.11', 53))\n"
                  "for _ in range(12): s.recv(512)\n")
        result = self.box("python3", "-c", script, options=["--egress-allow=web.example.com", f"--audit={audit}"])
        self.assertEqual([row["count"] for row in result.report["denied"]["hosts"]], [12], result)
        with open(audit, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual([line["count"] for line in lines if line["event"] == "denied"], [1, 10], lines)

    def test_nothing_is_allowed_by_an_empty_list(self):
        for options, env in ((NOTHING, None), ([], self.own_config("[box]\negress-allow = []\n"))):
            result = self.box("getent", "hosts", "web.example.com", options=options, env=env)
            self.assertEqual(result.code, 2, result)
            self.assertEqual(len(self.denied(result)), 1 if options else 0, result)

    def test_raw_addresses_have_no_route(self):
        script = ("import socket, errno\n"
                  "for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):\n"
                  "    s = socket.socket(socket.AF_INET, kind)\n"
                  "    print(errno.errorcode[s.connect_ex(('203.0.113.1', 443))])\n")
        self.ran(self.python(script), "ENETUNREACH\nENETUNREACH\n")

    def test_another_port_of_an_allowed_name(self):
        script = ("import socket, errno\nfor port in (22, 444, 8080):\n"
                  "    s = socket.socket(); print(errno.errorcode[s.connect_ex(('web.example.com', port))])")
        self.ran(self.python(script), "ECONNREFUSED\n" * 3)

    def test_the_proxy_says_why(self):
        need("curl")
        for url, code, reason in (("http://evil.example.com/", "403", "no egress rule allows it"),
                                  ("http://web.example.com:81/", "403", "no egress rule allows this port"),
                                  ("http://localhost/", "403", "no egress rule allows it"),
                                  ("http://127.0.0.1/", "403", "no egress rule allows this address"),
                                  ("http://203.0.113.1/", "403", "no egress rule allows this address"),
                                  ("http://a.www.example.com/", "403", "an egress rule denies it\nrule: *.www.example.com"),
                                  ("http://nowhere.example.org/", "403", "no egress rule"),
                                  ("http://missing.example.com/", "502", "there is no host of this name")):
            with self.subTest(url):
                result = self.through_proxy("curl", "-sS", "-w", "%{http_code}", url, allow=["web.example.com", ".www.example.com",
                                            "missing.example.com"], options=["--egress-deny=*.www.example.com"])
                self.assertTrue(result.out.endswith(code), result)
                self.assertIn(reason, result.out)

    def test_where_a_name_may_lead(self):
        need("curl")
        self.web()
        reason = "the name leads to an address of this machine or its networks"
        for name in ("private", "loop", "metadata", "mixed", "mapped", "inward"):
            host = f"{name}.example.com"
            with self.subTest(host):
                result = self.direct("curl", "-sS", f"http://{host}/", allow=[host])
                self.assertNotEqual(result.code, 0, result)
                self.assertEqual(list(self.denied(result)), [(host, 80, reason)])
                result = self.through_proxy("curl", "-sS", f"http://{host}/", allow=[host])
                self.assertIn(reason, result.out)

    def test_a_network_that_is_denied_is_no_place_for_a_name(self):
        self.web()
        need("curl")
        request = ["curl", "-sS", "--max-time", "10", "http://web.example.com/"]
        for rule in ("203.0.113.0/24", f"{WEB}:80"):
            result = self.through_proxy(*request, options=[f"--egress-deny={rule}"])
            self.assertIn("an egress rule denies it", result.out, result)
            result = self.direct(*request, options=[f"--egress-deny={rule}"])
            self.assertNotEqual(result.code, 0, result)
            self.assertEqual(self.denied(result), {("web.example.com", 80, "an egress rule denies it"): 1})
        self.ran(self.direct(*request, options=[f"--egress-deny={WEB}:443"]), "web.example.com over http\n")

    def test_a_name_that_moves_inside(self):
        """DNS rebinding: the first answer is public, the next is not; each connection is judged by the answer that it uses."""
        need("curl")
        self.web()
        begun = time.monotonic()
        self.names.names["moves.example.com"] = lambda: [("A", WEB if time.monotonic() < begun + 1.5 else PRIVATE)]
        self.addCleanup(self.names.names.pop, "moves.example.com")
        result = self.direct("/bin/sh", "-c", "curl -sS http://moves.example.com/; sleep 3; ! curl -s http://moves.example.com/",
                             allow=["moves.example.com"])
        self.ran(result, "moves.example.com over http\n")
        self.assertEqual([reason for _, _, reason in self.denied(result)],
                         ["the name leads to an address of this machine or its networks"])

    def test_words_that_are_no_rules(self):
        for rule, part in (("https://a.example.com", "scheme"), ("a.example.com/x", "no path"), ("a b", "space"),
                           ("a.example.com:0", "1 to 65535"), ("a.example.com:70000", "1 to 65535"), ("a.example.com:x", "number"),
                           ("203.0.113.5/24", "bits behind the first 24"), ("a.*.example.com", "whole labels"), ("*", "no host"),
                           ("bücher.example", "ASCII"), ("0x7f000001", "usual notation"), ("127.0.0.1:80", "own loopback"),
                           ("a..example.com", "not a host name"), ("a.example.com+secret", "none of private"),
                           ("fe80::1", "link-local"), ("[fe80::1]:443", "link-local")):
            with self.subTest(rule):
                self.refused(f"--egress-allow={rule}", parts=["cannot use egress rule", part])
        self.refused("--egress-deny=a.example.com/x", parts=["cannot use egress rule"])

    def test_with_the_hosts_network(self):
        done = self.refused("--egress-allow=a.example.com", "--net=host", parts=["--net host"], hint="leave out one")
        self.assertNotIn("note", done.err)

    def test_private_is_not_for_files(self):
        env = self.own_config('[box]\negress-allow = ["a.example.com+private"]\n')
        self.refused(parts=["+private stands on the command line only"], hint="private = true", env=env)

    def test_profile_with_a_mistake(self):
        env = self.own_config('[[egress]]\nname = "x"\nallow = ["a/b"]\n')
        result = self.kern("validate", env=env, report=False)
        self.assertEqual(result.code, 1, result)
        self.assertIn("no path", result.err + result.out)


if __name__ == "__main__":
    kerntest.main()

"""The host root: what a box with neither --image nor --rootfs sees of the machine, and that the usual runtimes
start in it. A runtime that this machine lacks is skipped with a reason."""

import os
import shutil
import socket
import subprocess
import tempfile

import kerntest
from kerntest import BOX_PATH, BoxCase, as_root_and_user, need

SHOWN = ("/usr/", "/bin/", "/sbin/", "/lib")
PUBLIC_CERTIFICATES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")

# Everything that may stand in the box's /etc, beside the settings of a Java.
ETC = set("""passwd group hosts hostname nsswitch.conf resolv.conf localtime mtab os-release ld.so.cache alternatives
    ssl pki ca-certificates crypto-policies terminfo perl protocols services""".split())


def host(*command):
    environment = {"PATH": BOX_PATH}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


@as_root_and_user
class HostRoot(BoxCase):
    def run_box(self, *command, options=()):
        return self.kern("box", "-q", *options, "--", *command, report=False, seconds=120)

    def box(self, *command, options=()):
        """Standard output of a command that must succeed and keep quiet on the other stream."""
        result = self.run_box(*command, options=options)
        self.assertEqual(result.code, 0, result.out + result.err)
        self.assertEqual(result.err, "")
        return result.out

    def shell(self, script, options=()):
        return self.box("/bin/sh", "-ec", script, options=options)

    # ---- runtimes

    def test_python(self):
        need("python3")
        output = self.box("python3", "-W", "error", "-c", """if True:
            import asyncio, ctypes, json, locale, multiprocessing, pwd, socket, sqlite3, ssl, sys, urllib.request
            import zoneinfo
            locale.setlocale(locale.LC_ALL, "")
            sqlite3.connect(":memory:").execute("create table t (x)")
            zoneinfo.ZoneInfo("Europe/Rome")
            urllib.request.build_opener(urllib.request.HTTPSHandler())
            addresses = [socket.gethostbyname(name) for name in ("localhost", socket.gethostname())]
            print(json.dumps([pwd.getpwuid(0).pw_dir, addresses, "site" in sys.modules]))""")
        self.assertEqual(output, '["/root", ["127.0.0.1", "127.0.0.1"], true]\n')

    def test_python_finds_the_certificates(self):
        need("python3")
        self.need_certificates()
        count = "import ssl; print(len(ssl.create_default_context().get_ca_certs()))"
        self.assertGreater(int(self.box("python3", "-c", count)), 10)

    def test_node(self):
        need("node")
        output = self.box("node", "-e", """
            const os = require("os"), crypto = require("crypto"), tls = require("tls"), https = require("https");
            crypto.createHash("sha256").update("x").digest();
            new Intl.DateTimeFormat("it").format(0);
            tls.createSecureContext();
            require("dns").lookup("localhost", {family: 4}, (error, address) =>
                console.log(os.userInfo().username, address, error));""")
        self.assertEqual(output, "root 127.0.0.1 null\n")

    def test_perl(self):
        need("perl")
        output = self.box("perl", "-we", """use strict; use POSIX; use Encode; use Socket; use File::Temp;
            use IO::Socket::INET; setlocale(LC_ALL, ""); encode("UTF-8", "\\x{e9}");
            my $server = IO::Socket::INET->new(Listen => 1, LocalAddr => "localhost", Proto => "tcp") or die $@;
            print((getpwuid(0))[7], strftime(" %Y", gmtime(0)), "\\n");""")
        self.assertEqual(output, "/root 1970\n")

    def test_perl_with_tls(self):
        need("perl")
        module = ["perl", "-MIO::Socket::SSL", "-e", "print IO::Socket::SSL->new(Listen => 0) ? 1 : 2"]
        if subprocess.run(module, capture_output=True, check=False).returncode != 0:
            self.skipTest("no IO::Socket::SSL on this machine")
        self.box(*module)

    def test_java(self):
        need("java")
        result = self.run_box("java", "-version")  # prints on stderr by design
        self.assertEqual(result.code, 0, result.err)
        self.assertIn("ersion", result.err)

    def test_java_compiles_and_runs(self):
        need("java", "javac")
        self.need_certificates()
        output = self.shell("""cd /tmp; cat >Hello.java <<'END'
            import java.security.*; import javax.net.ssl.*;
            public class Hello {
                public static void main(String[] arguments) throws Exception {
                    SSLContext.getDefault();
                    new SecureRandom().nextInt();
                    TrustManagerFactory f = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
                    f.init((KeyStore) null);
                    boolean trusts = ((X509TrustManager) f.getTrustManagers()[0]).getAcceptedIssuers().length > 10;
                    System.out.println(System.getProperty("user.name") + " "
                        + java.net.InetAddress.getLocalHost().getHostAddress() + " " + trusts);
                }
            }\nEND\njavac Hello.java; java Hello""")
        self.assertEqual(output, "root 127.0.0.1 true\n")

    def test_git(self):
        need("git")
        output = self.shell("""cd /tmp; git init -q repository; cd repository; echo text >file; git add file
            git -c user.name=Ann -c user.email=ann@example.com commit -qm first
            git status --short; git log --format='%an %s'""")
        self.assertEqual(output, "Ann first\n")

    def test_git_knows_no_setting_of_the_host(self):
        need("git")
        self.assertEqual(self.shell("cd /; git config --list"), "")

    def test_compilers(self):
        compilers = [c for c in ("gcc", "cc", "clang") if shutil.which(c, path=BOX_PATH)]
        if not compilers:
            self.skipTest("no C compiler on this machine")
        for compiler in compilers:
            with self.subTest(compiler):
                need(compiler)
                output = self.shell(f"""cd /tmp; cat >hello.c <<'END'
                    #include <stdio.h>
                    int main(void) {{ return puts("hello") < 0; }}\nEND\n{compiler} hello.c -o hello; ./hello""")
                self.assertEqual(output, "hello\n")

    # ---- everyday programs

    def test_bash(self):
        need("bash")
        self.assertEqual(self.box("bash", "-c", "echo ~ $HOME; cd; pwd"), "/root /root\n/root\n")

    def test_listing(self):
        lines = self.box("ls", "-ld", "/root", "/tmp").splitlines()
        self.assertEqual([line.split()[0].rstrip(".+") for line in lines], ["drwx------", "drwxrwxrwt"])
        self.assertEqual(lines[0].split()[2:4], ["root", "root"])

    def test_identity(self):
        self.assertEqual(self.shell("id -un; id -gn; id -u"), "root\nroot\n0\n")

    def test_locale(self):
        need("locale")
        self.assertIn("LC_ALL=", self.box("locale"))

    def test_local_time(self):
        self.assertEqual(self.box("date", "-d", "@0", "+%F %T %Z"), host("date", "-d", "@0", "+%F %T %Z"))

    def test_terminal_descriptions(self):
        need("tput")
        self.assertEqual(self.box("tput", "-T", "xterm", "colors"), host("tput", "-T", "xterm", "colors"))

    def test_terminal_is_described(self):
        need("infocmp")
        self.assertIn("xterm", self.box("infocmp", "xterm"))

    def test_curl(self):
        need("curl")
        self.assertTrue(self.box("curl", "--version").startswith("curl "))

    def test_openssl_takes_the_settings_of_the_host(self):
        need("openssl")
        if not os.path.exists("/etc/ssl/openssl.cnf"):
            self.skipTest("no /etc/ssl/openssl.cnf on this machine")
        with open("/etc/ssl/openssl.cnf", encoding="utf-8") as file:
            self.assertEqual(self.box("cat", "/etc/ssl/openssl.cnf"), file.read())
        self.shell("openssl req -x509 -newkey rsa:2048 -nodes -keyout /tmp/k -out /tmp/c -subj /CN=x 2>/tmp/log")

    def test_alternatives_lead_somewhere(self):
        if not os.path.isdir("/etc/alternatives"):
            self.skipTest("no /etc/alternatives on this machine")
        dangling = "find /etc/alternatives -type l ! -exec test -e {} ';' -print | sort"
        broken = [line for line in host("sh", "-c", dangling).splitlines()]
        outside = [f"/etc/alternatives/{name}" for name in os.listdir("/etc/alternatives")
                   if not os.path.realpath(f"/etc/alternatives/{name}").startswith(SHOWN)]
        self.assertLessEqual(set(self.shell(dangling).splitlines()), set(broken + outside))

    def test_libraries_are_found_as_outside(self):
        self.assertEqual(self.shell("for f in /bin/sh /bin/ls; do ldd $f; done | grep 'not found' || :"), "")

    # ---- names

    def test_names(self):
        output = self.shell("cat /etc/hostname; hostname; getent hosts db; getent hosts lab",
                            options=["--hostname", "lab", "--add-host", "db:192.0.2.7"])
        lines = [line.split() for line in output.splitlines()]
        self.assertEqual(lines[0:3], [["lab"], ["lab"], ["192.0.2.7", "db"]])
        self.assertEqual(lines[3], ["127.0.0.1", "lab"])

    def test_an_isolated_box_knows_no_name_server(self):
        self.assertEqual(self.shell("grep -E '^[^#]' /etc/resolv.conf || :"), "")
        self.assertEqual(self.shell("grep dns /etc/nsswitch.conf || :"), "")

    def test_a_shared_network_comes_with_its_name_servers(self):
        if not os.path.exists("/etc/resolv.conf"):
            self.skipTest("no /etc/resolv.conf on this machine")
        with open("/etc/resolv.conf", encoding="utf-8") as file:
            self.assertEqual(self.box("cat", "/etc/resolv.conf", options=["--net"]), file.read())
        self.assertIn("dns", self.box("grep", "hosts:", "/etc/nsswitch.conf", options=["--net"]))

    # ---- what is not there

    def test_only_what_is_named_is_in_etc(self):
        names = self.box("ls", "-A", "/etc").split()
        self.assertIn("passwd", names)
        self.assertEqual([n for n in names if n not in ETC and not n.startswith("java")], [])
        self.assertEqual([n for n in self.shell("ls /etc/ssl 2>/dev/null || :").split()
                          if n not in ("certs", "openssl.cnf")], [])

    def test_only_system_directories_are_in_the_root(self):
        allowed = {"bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "nix", "etc", "root", "tmp", "var",
                   "home", "run", "dev", "proc", "sys"}
        self.assertEqual(set(self.box("ls", "-A", "/").split()) - allowed, set())

    def test_empty_directories(self):
        output = self.shell("ls -A /root /home /tmp /var/tmp; ls -A /var; ls -A /run | grep -v secrets || :")
        self.assertEqual(output.split(), ["/home:", "/root:", "/tmp:", "/var/tmp:", "tmp"])

    def test_no_account_of_the_host(self):
        names = {line.split(":")[0] for line in self.box("cat", "/etc/passwd").splitlines()}
        self.assertEqual(names, {"root", "daemon", "bin", "nobody"})
        self.assertEqual(self.run_box("test", "-e", "/etc/shadow").code, 1)

    def test_no_file_of_the_host(self):
        """Files and a socket put where hosts keep their secrets: none is there, and none is changed."""
        places = [p for p in (self.me.home, "/root", "/tmp", "/var/tmp", "/run", "/var/lib", "/opt", "/srv", "/etc")
                  if os.path.isdir(p) and os.access(p, os.W_OK)]
        self.assertTrue(places)
        for place in places:
            with self.subTest(place), tempfile.NamedTemporaryFile(dir=place, prefix="kern-canary-") as canary:
                os.chmod(canary.name, 0o644)
                self.assertEqual(self.run_box("test", "-e", canary.name).code, 1)
                self.run_box("sh", "-c", f"echo x >{canary.name}")
                self.assertEqual(os.stat(canary.name).st_size, 0)

    def test_no_socket(self):
        with tempfile.TemporaryDirectory(dir="/tmp") as directory, socket.socket(socket.AF_UNIX) as listener:
            listener.bind(directory + "/socket")
            found = self.shell("find / -path /proc -prune -o -type s -print 2>/dev/null || :")
        self.assertEqual(found, "")

    def test_what_is_shown_is_read_only(self):
        for place in ("/usr", "/usr/bin", "/bin", "/lib", "/etc/ssl/certs", "/etc/alternatives"):
            if not os.path.isdir(place):
                continue
            with self.subTest(place):
                result = self.run_box("touch", f"{place}/kern-canary")
                self.assertNotEqual(result.code, 0)
                self.assertIn("Read-only file system", result.err)
                self.assertFalse(os.path.exists(f"{place}/kern-canary"))

    def test_what_is_writable_stays_in_the_box(self):
        for place in ("/root", "/tmp", "/var/tmp", "/etc"):
            with self.subTest(place):
                self.box("touch", f"{place}/kern-canary")
                self.assertFalse(os.path.lexists(f"{place}/kern-canary"))

    def test_no_mount_honours_setuid_or_devices(self):
        for line in self.box("cat", "/proc/self/mounts").splitlines():
            target, options = line.split()[1], line.split()[3].split(",")
            if target.startswith(SHOWN + ("/usr", "/bin", "/sbin", "/etc/")):
                with self.subTest(target):
                    self.assertLessEqual({"ro", "nosuid", "nodev"}, set(options))

    def need_certificates(self):
        if not any(os.path.exists(path) for path in PUBLIC_CERTIFICATES):
            self.skipTest("no public certificates on this machine")


if __name__ == "__main__":
    kerntest.main()

"""The filter: what dies and is named, what fails with ENOSYS, what is narrowed by its arguments, foreign tables of system
calls, the modes of KERN_SECCOMP, profiles from a file, --security-profile untrusted and --privileged."""

import errno
import json
import os
import platform
import signal
import subprocess

import kerntest
from kerntest import BoxCase, as_root, as_root_and_user, as_user

KILLED = """ptrace process_vm_readv process_vm_writev kexec_load kexec_file_load init_module finit_module delete_module
    reboot swapon swapoff open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr bpf unshare setns mount umount2
    pivot_root""".split()
ENOSYS = """clone3 io_uring_setup io_uring_enter io_uring_register userfaultfd perf_event_open add_key request_key keyctl
    syslog open_by_handle_at""".split()
NEW_SPACES = {"NEWNS": 0x20000, "NEWCGROUP": 0x2000000, "NEWUTS": 0x4000000, "NEWIPC": 0x8000000, "NEWUSER": 0x10000000,
              "NEWPID": 0x20000000, "NEWNET": 0x40000000}


class Calls(BoxCase):
    """How to see what became of a call."""

    def call(self, *words, options=(), **keywords):
        return self.rooted("probe", *words, options=options, **keywords)

    def assert_blocked(self, result, call, program="probe"):
        self.assertEqual((result.code, result.report["signal"]), (159, signal.SIGSYS), result)
        self.assertEqual(result.fault, "escape_blocked")
        self.assertEqual((result.report["fault"]["syscall"], result.report["fault"]["program"]), (call, program))
        self.assertEqual(result.report["denied"]["syscalls"], {call: 1})
        notes = [line for line in result.err.splitlines() if call in line]
        self.assertEqual(len(notes), 1, result)
        self.assertTrue(notes[0].startswith("kern: note: "), result)
        self.assertIn(program, notes[0])
        self.assertEqual(result.out, "")

    def assert_errno(self, result, number):
        self.assertEqual(result.code, 0, result)
        self.assertEqual(result.out.split()[1:], ["-1", str(number)], result)

    def assert_reaches_the_kernel(self, result):
        """The kernel's own answer, whatever it is, not the filter's."""
        self.assertEqual(result.code, 0, result)
        self.assertNotEqual(result.out.split()[2], str(errno.ENOSYS), result)


@as_root_and_user
class Default(Calls):
    def test_the_24_die_and_are_named(self):
        self.assertEqual(len(KILLED), 24)
        for name in KILLED:
            with self.subTest(name):
                self.assert_blocked(self.call("call", name), name)

    def test_they_die_below_an_init_too(self):
        for name in ("mount", "bpf"):
            self.assert_blocked(self.call("call", name, options=["--init"]), name)

    def test_the_11_fail_with_enosys(self):
        self.assertEqual(len(ENOSYS), 11)
        for name in ENOSYS:
            with self.subTest(name):
                result = self.call("call", name)
                self.assert_errno(result, errno.ENOSYS)
                self.assertEqual(result.report["denied"]["syscalls"], {})

    def test_any_other_number_fails_with_enosys(self):
        for name in ("acct", "quotactl", "5000", "470"):
            with self.subTest(name):
                self.assert_errno(self.call("call", name), errno.ENOSYS)

    def test_everyday_calls_pass(self):
        self.assertEqual(self.call("call", "getpid").out.split()[0], "getpid")
        self.assert_reaches_the_kernel(self.call("call", "mkdirat"))

    def test_a_child_that_died_of_it_and_a_parent_that_says_so(self):
        self.assert_blocked(self.call("child", "mount"), "mount")
        self.assert_blocked(self.rooted("sh", "-c", "probe call mount; exit $?"), "mount")

    def test_a_child_that_died_of_it_and_a_parent_that_goes_on(self):
        result = self.rooted("sh", "-c", "probe call mount; probe call mount; exit 3")
        self.assertEqual((result.code, result.fault), (3, None), result)
        self.assertEqual(result.report["denied"]["syscalls"], {"mount": 2})
        self.assertEqual(len([line for line in result.err.splitlines() if "mount" in line and "kern: note" in line]), 1)

    def test_a_command_that_only_says_159(self):
        result = self.rooted("sh", "-c", "exit 159")
        self.assertEqual((result.code, result.fault), (159, None))

    def test_a_thread_group_dies_whole(self):
        result = self.rooted("sh", "-c", "sleep 60 & exec probe call mount")
        self.assert_blocked(result, "mount")

    def test_clone_with_a_new_namespace(self):
        for name, flag in NEW_SPACES.items():
            with self.subTest(name):
                self.assert_blocked(self.call("call", "clone", str(flag | signal.SIGCHLD)), "clone")

    def test_unshare_of_the_shell(self):
        self.assert_blocked(self.rooted("unshare", "-r", "true"), "unshare", "unshare")

    def test_x32_dies(self):
        """CVE-2017-5206 and its kin: the same call through another table."""
        self.need_x86()
        for name in ("getpid", "ptrace", "mount", "mkdirat"):
            with self.subTest(name):
                result = self.call("x32", name)
                self.assertEqual((result.code, result.fault), (159, "escape_blocked"), result)

    def test_int80_dies(self):
        self.need_x86()
        result = self.call("int80")
        self.assertEqual((result.code, result.fault), (159, "escape_blocked"), result)

    def test_a_program_of_32_bits_dies(self):
        self.need_x86()
        path = os.path.join(kerntest.scratch(), "exit32")
        source = kerntest.write(path + ".s", ".globl _start\n_start: movl $1, %eax\nxorl %ebx, %ebx\nint $0x80\n")
        built = subprocess.run(["cc", "-m32", "-nostdlib", "-static", "-o", path, source], capture_output=True,
                               check=False)
        if built.returncode != 0:
            self.skipTest("no compiler for 32 bits")
        os.chmod(path, 0o755)
        result = self.rooted("/exit32", options=["-v", f"{path}:/exit32:ro"])
        self.assertEqual((result.code, result.fault), (159, "escape_blocked"), result)

    def test_vsock(self):
        for kind in (1, 2):
            self.assert_errno(self.call("socket", "40", str(kind), "0"), errno.EAFNOSUPPORT)
        self.assertEqual(self.call("socket", "1", "1", "0").out.split()[2], "0")  # AF_UNIX
        self.assertEqual(self.call("socket", "2", "1", "0").out.split()[2], "0")  # AF_INET
        self.assertEqual(self.call("socket", "16", "3", "0").out.split()[2], "0")  # AF_NETLINK

    def test_terminal_injection(self):
        """CVE-2017-5226, CVE-2019-10063, CVE-2023-1523: TIOCSTI, and the same below garbage that the kernel ignores."""
        for request in ("0x5412", "0x541C"):
            for garbage in ("0", "1", "0xffffffff", "0x80000000"):
                with self.subTest(request=request, garbage=garbage):
                    self.assert_errno(self.call("ioctl", request, garbage), errno.EPERM)
        self.assert_errno(self.call("ioctl", "0x5413", "0"), errno.ENOTTY)  # TIOCGWINSZ of /dev/null

    def test_the_filter_stands(self):
        status = self.shell("cat /proc/self/status")
        self.assertIn("Seccomp:\t2", status)
        self.assertIn("NoNewPrivs:\t1", status)

    def need_x86(self):
        if platform.machine() != "x86_64":
            self.skipTest("only x86 has more than one table")


@as_root_and_user
class Modes(Calls):
    def mode(self, word, *words, **keywords):
        return self.call(*words, env={"KERN_SECCOMP": word}, **keywords)

    def test_allowlist(self):
        self.assert_blocked(self.mode("allowlist", "call", "mount"), "mount")
        self.assert_errno(self.mode("allowlist", "call", "acct"), errno.ENOSYS)

    def test_denylist_keeps_the_35(self):
        for name in KILLED[::5]:
            self.assert_blocked(self.mode("denylist", "call", name), name)
        for name in ENOSYS[::3]:
            self.assert_errno(self.mode("denylist", "call", name), errno.ENOSYS)

    def test_denylist_keeps_the_extras(self):
        self.assert_errno(self.mode("denylist", "socket", "40", "1", "0"), errno.EAFNOSUPPORT)
        self.assert_errno(self.mode("denylist", "ioctl", "0x5412", "7"), errno.EPERM)
        self.assert_blocked(self.mode("denylist", "call", "clone", str(0x10000011)), "clone")
        if platform.machine() == "x86_64":
            self.assertEqual(self.mode("denylist", "x32", "getpid").code, 159)
            self.assertEqual(self.mode("denylist", "int80").code, 159)

    def test_denylist_lets_the_rest_through(self):
        self.assert_errno(self.mode("denylist", "call", "acct"), errno.EPERM)

    def test_audit(self):
        """It says what the allowlist would have stopped, and stops what always dies."""
        self.assertEqual(self.mode("allowlist-audit", "call", "getpid").code, 0)
        self.assertEqual(self.mode("allowlist-audit", "call", "mount").code, 159)

    def test_anything_else_is_an_error(self):
        self.refused(env={"KERN_SECCOMP": "off"}, parts=["KERN_SECCOMP", '"off"'])
        self.assertEqual(self.box("true", env={"KERN_SECCOMP": ""}).code, 0)


@as_root_and_user
class Profiles(Calls):
    def profile(self, rules, default="SCMP_ACT_ALLOW", **more):
        document = {"defaultAction": default, "syscalls": rules, **more}
        return self.file(json.dumps(document), "profile.json")

    def test_errno(self):
        path = self.profile([{"names": ["mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.EXDEV}])
        self.assert_errno(self.call("call", "mkdirat", options=["--seccomp", path]), errno.EXDEV)

    def test_kill(self):
        path = self.profile([{"names": ["personality"], "action": "SCMP_ACT_KILL_PROCESS"}])
        result = self.call("call", "personality", options=["--seccomp", path])
        self.assertEqual((result.code, result.fault), (159, "escape_blocked"), result)

    def test_the_callers_session_keyring_stays_outside(self):
        """It is inherited through all namespaces, and the built-in filters are what else keeps it from a box."""
        path, name = self.profile([]), f"keys-{os.getpid()}"
        env = {"PATH": kerntest.BOX_PATH, "HOME": self.me.home, "KERN_QUIET": "1"}

        def with_a_key(*words):
            return subprocess.run([kerntest.program("probe"), "keyring", "make", kerntest.KERN, *words], capture_output=True,
                                  text=True, check=False, cwd="/", env=env, **self.me.popen)
        box = ["--rootfs", self.root, "--seccomp", path]
        done = with_a_key("box", *box, "--", "probe", "keyring")
        if done.returncode == 77:
            self.skipTest("this kernel has no keys: " + done.stdout)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "0\n", ""))
        self.addCleanup(self.kern, "rm", "--force", name)
        self.assertEqual(with_a_key("box", name, "-d", *box, "--", "sleep", "60").returncode, 0)
        self.assertEqual(self.kern("exec", name, "--", "probe", "keyring").out, "0\n")

    def test_arguments(self):
        rule = {"names": ["personality"], "action": "SCMP_ACT_ERRNO", "errnoRet": 99,
                "args": [{"index": 0, "value": 8, "op": "SCMP_CMP_EQ"}]}
        path = self.profile([rule])
        self.assert_errno(self.call("call", "personality", "8", options=["--seccomp", path]), 99)
        self.assertEqual(self.call("call", "personality", "0xffffffff", options=["--seccomp", path]).out.split()[2], "0")

    def test_bad_files(self):
        for name, text, part in (("not JSON", "{", "line"), ("no object", "[]", ""), ("action", json.dumps(
                {"defaultAction": "SCMP_ACT_NOSUCH"}), "SCMP_ACT_NOSUCH"), ("empty", "", "")):
            with self.subTest(name):
                path = self.file(text, "profile.json")
                result = self.box("echo", "ran", options=["--seccomp", path])
                self.assertIn(result.code, (1, 125), result)
                self.assert_failed(result, result.code, path, part)

    def test_missing_file(self):
        self.refused("--seccomp", "/no/such.json", parts=["/no/such.json"])


@as_root_and_user
class Untrusted(Calls):
    options = ["--security-profile", "untrusted"]

    def test_what_it_is(self):
        status = self.shell("cat /proc/self/status", options=self.options)
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            self.assertIn(f"{name}:\t0000000000000000", status)
        result = self.rooted("touch", "/file", options=[*self.options, "-q"])
        self.assertEqual(result.code, 1)
        self.assertIn("Read-only", result.err)
        self.assert_blocked(self.call("call", "mount", options=self.options), "mount")

    def test_it_says_so_unless_quiet(self):
        lines = self.rooted("true", options=self.options).err.splitlines()
        self.assertEqual(len([line for line in lines if line.startswith("kern: security-profile=untrusted")]), 1)
        self.assertEqual(self.rooted("true", options=[*self.options, "-q"]).err, "")

    def test_it_stays_an_allowlist(self):
        self.assert_errno(self.call("call", "acct", options=self.options, env={"KERN_SECCOMP": "denylist"}),
                          errno.ENOSYS)

    def test_what_would_weaken_it_is_refused(self):
        self.refused(*self.options, "--cap-add", "ALL", parts=["--cap-add", "untrusted"])
        self.refused(*self.options, "--privileged", parts=["--privileged", "untrusted"])

    def test_an_unknown_profile(self):
        self.refused("--security-profile", "nosuch", parts=["nosuch", "untrusted"])


@as_user
class Privileged(Calls):
    def test_the_five_are_relaxed(self):
        for name in ("setns", "mount", "umount2", "pivot_root"):
            with self.subTest(name):
                result = self.call("call", name, options=["--privileged"])
                self.assertEqual(result.code, 0, result)
        self.assertEqual(self.call("call", "unshare", str(NEW_SPACES["NEWUSER"]), options=["--privileged"]).out,
                         "unshare 0 0\n")
        result = self.call("call", "clone", str(NEW_SPACES["NEWUTS"] | signal.SIGCHLD), options=["--privileged"])
        self.assertEqual(result.code, 0, result)

    def test_a_box_in_a_box(self):
        prefix = os.path.dirname(os.path.dirname(kerntest.KERN))
        # The leak checker of a sanitized inner kern would trace itself, which the outer filter kills for.
        result = self.box("/opt/bin/kern", "box", "-q", "--", "sh", "-c", "echo nested; exit 5",
                          options=["--privileged", "-q", "-v", f"{prefix}:/opt:ro", "-e", "ASAN_OPTIONS=detect_leaks=0"])
        self.assertEqual((result.code, result.out), (5, "nested\n"), result)

    def test_the_rest_still_dies(self):
        for name in ("bpf", "ptrace", "init_module", "open_tree", "move_mount", "mount_setattr"):
            with self.subTest(name):
                self.assert_blocked(self.call("call", name, options=["--privileged"]), name)


@as_root
class PrivilegedRoot(Calls):
    def test_it_is_refused(self):
        self.refused("--privileged", parts=["--privileged", "root"])


if __name__ == "__main__":
    kerntest.main()

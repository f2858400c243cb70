"""Who the command is: --user by number and name, capabilities, ulimits, Landlock, AppArmor, and that nothing can be regained."""

import os
import resource
import subprocess

import kerntest
from kerntest import BoxCase, as_root_and_user, as_user

ALWAYS_DROPPED = """net_admin sys_module sys_rawio sys_ptrace sys_pacct sys_admin sys_boot sys_time audit_control mac_override
    mac_admin syslog wake_alarm audit_read perfmon bpf""".split()
NUMBER = {name: number for number, name in enumerate("""chown dac_override dac_read_search fowner fsetid kill setgid setuid
    setpcap linux_immutable net_bind_service net_broadcast net_admin net_raw ipc_lock ipc_owner sys_module sys_rawio sys_chroot
    sys_ptrace sys_pacct sys_admin sys_boot sys_nice sys_resource sys_time sys_tty_config mknod lease audit_write audit_control
    setfcap mac_override mac_admin syslog wake_alarm block_suspend audit_read perfmon bpf checkpoint_restore""".split())}


class Creds(BoxCase):
    def status(self, *options, **keywords):
        out = self.output("cat", "/proc/self/status", options=options, rooted=True, **keywords)
        return dict(line.split(":\t", 1) for line in out.splitlines() if ":\t" in line)

    def caps(self, *options):
        status = self.status(*options)
        sets = {status[name] for name in ("CapPrm", "CapEff", "CapBnd")}
        self.assertEqual(len(sets), 1, status)
        self.assertEqual(int(status["CapInh"], 16), 0)  # CVE-2022-27650
        self.assertEqual(int(status["CapAmb"], 16), 0)
        bits = int(sets.pop(), 16)
        return {name for name, number in NUMBER.items() if bits >> number & 1}

    def multiple_ids(self):
        return self.me.is_root


@as_root_and_user
class Capabilities(Creds):
    def test_the_16_are_dropped(self):
        self.assertEqual(len(ALWAYS_DROPPED), 16)
        self.assertEqual(self.caps(), set(NUMBER) - set(ALWAYS_DROPPED))

    def test_drop(self):
        for words in (["--cap-drop", "NET_RAW"], ["--cap-drop=CAP_NET_RAW"], ["--cap-drop", "net_raw"]):
            with self.subTest(words):
                self.assertEqual(self.caps(*words), set(NUMBER) - set(ALWAYS_DROPPED) - {"net_raw"})
        self.assertEqual(self.caps("--cap-drop", "CHOWN,KILL", "--cap-drop", "SETUID"),
                         set(NUMBER) - set(ALWAYS_DROPPED) - {"chown", "kill", "setuid"})

    def test_drop_all(self):
        self.assertEqual(self.caps("--cap-drop", "ALL"), set())
        self.assertEqual(self.caps("--cap-drop", "ALL", "--cap-add", "CHOWN,KILL"), {"chown", "kill"})

    def test_add(self):
        self.assertEqual(self.caps("--cap-add", "SYSLOG"), set(NUMBER) - set(ALWAYS_DROPPED) | {"syslog"})

    def test_unknown(self):
        for option in ("--cap-add", "--cap-drop"):
            self.refused(option, "NOSUCH", parts=[option, "NOSUCH"])

    def test_nothing_is_regained(self):
        self.assertEqual(self.status()["NoNewPrivs"], "1")
        self.assertEqual(self.status("--cap-add", "ALL")["NoNewPrivs"], "1")


@as_root_and_user
class User(Creds):
    def test_root_by_default(self):
        self.assertEqual(self.shell("id -u; id -g; id -G"), "0\n0\n0\n")

    def test_number_and_name(self):
        if not self.multiple_ids():
            self.skipTest("one id only without root")
        for word, ids in (("7", "7 7"), ("7:9", "7 9"), ("ann", "7 8"), ("ann:extra", "7 9"), ("7:extra", "7 9"),
                          ("1234:4321", "1234 4321")):
            with self.subTest(word):
                out = self.shell("echo $(id -u) $(id -g)", options=["-u", word])
                self.assertIn(out.strip(), (ids, ids.replace("7 7", "7 8"), ids.replace("7 7", "7 0")))

    def test_home_of_the_user(self):
        if not self.multiple_ids():
            self.skipTest("one id only without root")
        self.assertEqual(self.shell("echo $HOME", options=["-u", "ann"]), "/home/ann\n")

    def test_a_user_sheds_all_capabilities(self):
        for word in ("7", "ann") if self.multiple_ids() else ("0", "root"):
            with self.subTest(word):
                status = self.status("-u", word)
                for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
                    self.assertEqual(int(status[name], 16), 0, status)

    def test_no_way_back(self):
        if not self.multiple_ids():
            self.skipTest("one id only without root")
        self.assertEqual(self.shell("probe call setuid 0", options=["-u", "7"]).split()[1], "-1")

    def test_a_table_of_user_strings(self):
        """CVE-2026-30892: none of these may come out as root."""
        for word in ("nosuch", "ann:nosuch", "-1", "4294967295", "4294967296", "18446744073709551616", "0x0", " 0", "0 ",
                     "00000000000000000000x", "", ":", ":0", "1:", "1:2:3", "1e3", "+0", "ann\n", "root:x", "../ann"):
            with self.subTest(word):
                result = self.rooted("id", "-u", options=[f"--user={word}"])
                self.assertIn(result.code, (1, 125), result)
                self.assert_failed(result, result.code)

    def test_one_that_cannot_be_mapped(self):
        result = self.rooted("true", options=["-u", "4000000000"])
        self.assertIn(result.code, (1, 125), result)
        self.assert_failed(result, result.code, "4000000000")
        if not self.multiple_ids():
            result = self.rooted("true", options=["-u", "ann"])
            self.assert_failed(result, 125, "ann")
            self.assertIn("--uid-range", result.err)

    def test_hostile_user_files(self):
        root = kerntest.make_root_folder(self.me, os.path.join(self.folder(), "root"))
        kerntest.write(root + "/etc/passwd", "bob:x:0x7:0::/:/bin/sh\nbob:x:-1:0::/:\nbob:x::0:\nbob\n" + "a" * 100000)
        result = self.box("id", "-u", options=["--rootfs", root, "-u", "bob"])
        self.assertIn(result.code, (1, 125), result)

    def test_user_files_that_are_links_out_of_the_root(self):
        root = kerntest.make_root_folder(self.me, os.path.join(self.folder(), "root"))
        os.unlink(root + "/etc/passwd")
        os.symlink("/../../../../../../etc/passwd", root + "/etc/passwd")
        result = self.box("id", "-u", options=["--rootfs", root, "-u", "daemon"])
        self.assertIn(result.code, (1, 125), result)


@as_root_and_user
class Ulimits(Creds):
    def test_lower(self):
        for word, expected in (("nofile=64:128", "64 128"), ("nofile=100", "100 100")):
            with self.subTest(word):
                self.assertEqual(self.shell("echo $(ulimit -Sn) $(ulimit -Hn)", options=["--ulimit", word]), expected + "\n")
        self.assertEqual(self.shell("ulimit -c", options=["--ulimit", "core=0"]), "0\n")

    def test_bad_words(self):
        for word in ("nofile", "nofile=", "nofile=x", "nofile=9:3", "nosuch=1", "=1", "nofile=-2", "nofile=1:2:3"):
            with self.subTest(word):
                self.refused("--ulimit", word, parts=["--ulimit"])


@as_user
class UlimitsOfAUser(Creds):
    def test_raising_is_refused(self):
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1] if hard == resource.RLIM_INFINITY else hard
        result = self.rooted("true", options=["--ulimit", f"nofile={hard + 1}"])
        self.assertIn(result.code, (1, 125), result)
        self.assert_failed(result, result.code, "nofile")


@as_root_and_user
class Landlock(Creds):
    def test_only_these_paths_may_be_written(self):
        result = self.rooted("sh", "-c", "touch /tmp/yes && echo yes; touch /var/no && echo no; touch /dev/shm/no; cat /etc/group"
                             " >/dev/null && echo read", options=["--landlock-rw", "/tmp", "-q"])
        if result.code == 125 and "Landlock" in result.err:
            kerntest.skip("no Landlock in this kernel", "landlock")
        self.assertEqual(result.out, "yes\nread\n", result)

    def test_a_file_on_standard_input_is_only_read(self):
        """By its path under /proc a box could open it again, and write what the user runs next."""
        if kerntest.doctor().get("landlock") is False:
            kerntest.skip("no Landlock in this kernel", "landlock")
        folder = os.path.join(kerntest.scratch(), f"streams-{self.me.uid}")
        os.mkdir(folder)
        given, taken = (kerntest.write(os.path.join(folder, name), "text\n", 0o666) for name in ("given", "taken"))
        kerntest.give(folder, self.me)
        script = ("echo changed >/proc/self/fd/0; echo changed >/dev/stdin; truncate -s 0 /proc/self/fd/0; cat;"
                  " echo out >>/dev/stdout; mkdir /tmp/a /tmp/b; echo moved >/tmp/a/f; mv /tmp/a/f /tmp/b; cat /tmp/b/f; :>/dev/null")
        with open(given, encoding="utf-8") as stdin, open(taken, "a", encoding="utf-8") as stdout:
            result = self.rooted("sh", "-c", script, options=["-q"], stdin=stdin, stdout=stdout)
        self.assertEqual(result.code, 0, result)
        for path, text in ((given, "text\n"), (taken, "text\ntext\nout\nmoved\n")):
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), text, result)

    def test_a_missing_path_fails(self):
        result = self.rooted("true", options=["--landlock-rw", "/no/such"])
        self.assertIn(result.code, (1, 125), result)
        self.assert_failed(result, result.code, "/no/such")


@as_root_and_user
class AppArmor(Creds):
    def test_fails_closed_without_it(self):
        result = self.rooted("true", options=["--apparmor", "kern-no-such-profile"])
        self.assert_failed(result, 125, "AppArmor" if "AppArmor" in result.err else "apparmor")


@as_user
class NoUserNamespaces(Creds):
    """A host that switched them off: the message names the setting. (A namespace of our own plays the host.)"""

    def test_the_setting_is_named(self):
        script = f"echo 0 >/proc/sys/user/max_user_namespaces && exec '{kerntest.KERN}' box -q -- true"
        env = {"PATH": kerntest.BOX_PATH, "HOME": self.me.home}
        done = subprocess.run(["unshare", "--user", "--map-current-user", "--keep-caps", "sh", "-c", script], env=env,
                              capture_output=True, text=True, check=False, cwd="/", **self.me.popen)
        if "kern:" not in done.stderr:
            kerntest.skip("this unshare cannot make such a namespace")
        self.assertEqual(done.returncode, 125, done)
        first, second = done.stderr.splitlines()
        self.assertTrue(first.startswith("kern: "))
        self.assertTrue(second.startswith("hint: "))
        self.assertIn("user.max_user_namespaces", second)


if __name__ == "__main__":
    kerntest.main()

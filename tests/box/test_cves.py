"""What happened to others must not happen here: regression tests named after the case, for what this build can do."""

import errno
import hashlib
import os
import shutil
import stat
import subprocess
import time

import kerntest
from kerntest import BoxCase, as_root, as_root_and_user


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class Hostile(BoxCase):
    def hostile_root(self):
        return kerntest.make_root_folder(self.me, os.path.join(self.folder(), "root"))

    def replace(self, root, name, target):
        """Puts a symlink where the root has a directory or nothing."""
        path = os.path.join(root, name)
        if os.path.isdir(path) and not os.path.islink(path):
            os.rmdir(path)
        elif os.path.lexists(path):
            os.unlink(path)
        os.symlink(target, path)
        os.lchown(path, self.me.uid, self.me.gid)


@as_root_and_user
class Cases(Hostile):
    def test_cve_2019_5736_runtime_overwritten_through_proc_self_exe(self):
        before = digest(kerntest.KERN)
        script = """for p in /proc/1/exe /proc/self/exe /proc/[0-9]*/exe; do (echo x >>$p) 2>/dev/null && echo wrote $p; done
            for f in /proc/*/fd/*; do (echo x >>$f) 2>/dev/null; done; ls -l /proc/1/exe 2>/dev/null; :"""
        for options in ((), ("--init",)):
            out = self.rooted("sh", "-c", script, options=[*options, "-q"], stdout=subprocess.PIPE).out
            self.assertNotIn("wrote", out)
            self.assertNotIn("bin/kern", out)
        self.assertEqual(digest(kerntest.KERN), before)

    def own_kern(self):
        """A copy of kern that belongs to the caller, as below a home."""
        prefix = self.folder()
        for part in ("bin", "lib"):
            source = os.path.join(os.path.dirname(os.path.dirname(kerntest.KERN)), part)
            if part == "bin" or os.path.isdir(source + "/kern"):
                os.mkdir(f"{prefix}/{part}")
        kern = shutil.copy(kerntest.KERN, prefix + "/bin/kern")
        if os.path.isdir(prefix + "/lib"):
            shutil.copytree(os.path.join(os.path.dirname(os.path.dirname(kerntest.KERN)), "lib/kern"), prefix + "/lib/kern")
        os.chmod(kern, 0o755)
        kerntest.give(prefix, self.me)
        return kern

    def own_run(self, kern, *words):
        return subprocess.run([kern, *words], env={"PATH": kerntest.BOX_PATH, "HOME": self.me.home}, capture_output=True, text=True,
                              check=False, cwd="/", stdin=subprocess.DEVNULL, timeout=30, **self.me.popen)

    def root_with_loader(self):
        """A root whose loader of programs writes to the program that it is asked to load."""
        root = self.hostile_root()
        loader = kerntest.program("loader", "-nostdlib", "-static", "-fno-stack-protector", "-Wl,-e,probe_start")
        for name in ("lib64/ld-linux-x86-64.so.2", "lib/ld-linux-aarch64.so.1"):
            os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
            shutil.copy(loader, os.path.join(root, name))
        kerntest.give(root, self.me)
        return root

    def test_cve_2019_5736_loader_of_the_image(self):
        """The real attack, on a copy of kern that belongs to the caller: the box's own loader runs in kern's name."""
        kern, root = self.own_kern(), self.root_with_loader()
        self.replace(root, "bin/evil", "/proc/self/exe")
        before = digest(kern)
        done = self.own_run(kern, "box", "-q", "--rootfs", root, "--", "/bin/evil")
        self.assertEqual(digest(kern), before, done)
        self.assertNotIn("open for writing", done.stdout)

    def test_cve_2019_5736_a_name_that_is_swapped(self):
        """The same against kern exec, by a program of the box that swaps the name between kern's look at it and the exec: a link
        for a program, and a script that such a link runs for one that is fine."""
        kern, root = self.own_kern(), self.root_with_loader()
        self.replace(root, "bin/busybox-link", "/proc/self/exe")
        for name, text in (("evil", "#!/proc/self/exe\n"), ("fine", "#!/bin/busybox true\n")):
            kerntest.write(f"{root}/bin/{name}", text, 0o755)
        shutil.copy2(f"{root}/bin/busybox", f"{root}/bin/busybox-true")
        kerntest.give(root, self.me)
        before, seen = digest(kern), set()
        for one, other in (("busybox-link", "busybox-true"), ("evil", "fine")):
            name = self.me.name + "-swaps-" + one
            self.own_run(kern, "box", name, "-d", "-q", "--rootfs", root, "--", "/bin/probe", "swap", f"/bin/{one}", f"/bin/{other}")
            for _ in range(2 if self.me.is_root else 25):
                done = self.own_run(kern, "exec", name, "--", f"/bin/{one}", "true")
                seen.add(done.returncode)
                if "overwrite" in done.stdout:  # a box without the owner's ids may have it run: it is confined
                    self.assertIn("Permission denied", done.stdout)
            self.own_run(kern, "kill", name)
        self.assertEqual(digest(kern), before)
        self.assertTrue(seen & {0, 126}, seen)

    def test_programs_of_a_box_that_could_change_kern(self):
        """Where kern belongs to the caller it follows links and #! lines itself: as the kernel does."""
        kern, root = self.own_kern(), self.hostile_root()
        scripts = {"a/plain": "#!/bin/sh\necho $0 $#\n", "a/argued": "#!  /bin/sh   -e -u  \necho no\n", "a/cut": "#!/bin/busybox echo",
                   "a/chain": "#!/a/twice one two\n", "a/twice": "#!/bin/busybox echo\n", "a/loop": "#!/a/loop\n",
                   "a/round": "#!/a/round again\n", "a/inside": "#!/bin/busybox/sh\n", "a/edge": "#!" + "/" * 242 + "bin/echo\n",
                   "a/wide": "#!/bin/echo c" + "b" * 400 + "\n",
                   "a/none": "#!/a/missing\n", "a/empty": "", "a/foreign": "\x7fELF\2\1\1" + "\0" * 9 + "\2\0\xf3\0" + "\0" * 44}
        for name, text in scripts.items():
            os.makedirs(f"{root}/a", exist_ok=True)
            with open(f"{root}/{name}", "w", encoding="latin-1") as file:
                file.write(text)
            os.chmod(f"{root}/{name}", 0o755)
        os.symlink("../a/plain", f"{root}/bin/linked")
        os.symlink("circle", f"{root}/a/circle")
        kerntest.write(f"{root}/a/unmarked", "#!/bin/sh\n", 0o644)
        kerntest.give(root, self.me)
        name = self.me.name + "-own"
        self.own_run(kern, "box", name, "-d", "-q", "--rootfs", root, "--", "sleep", "60")
        for word, code, out in (("/a/plain", 0, "/a/plain 2"), ("linked", 0, "/bin/linked 2"), ("/a/cut", 0, "/a/cut x y"),
                                ("/a/chain", 0, "/a/twice one two /a/chain x y"), ("/a/argued", 2, ""), ("/a/loop", 126, "too many links"),
                                ("/a/round", 126, "too many links"), ("/a/circle", 126, "too many links"),
                                ("/a/inside", 127, "loader is not in the box"), ("/a/edge", 0, "/a/edge x y"),
                                ("/a/wide", 0, "c" + "b" * 242 + " /a/wide x y"),
                                ("/a/none", 127, "loader is not in the box"), ("/a/empty", 126, "not a program"),
                                ("/a/foreign", 126, "built for riscv64"), ("/a/unmarked", 126, "Permission denied"),
                                ("/a", 126, ""), ("nothing", 127, "not found")):
            for verb in (["exec", name], ["box", "-q", "--rootfs", root]):
                with self.subTest(word=word, verb=verb[0]):
                    done = self.own_run(kern, *verb, "--", word, "x", "y")
                    self.assertEqual(done.returncode, code, done)
                    self.assertIn(out, done.stdout if code == 0 else done.stderr)
        self.own_run(kern, "kill", name)

    def test_cve_2024_21626_leaked_directory_as_working_directory(self):
        for number in (*range(3, 41), 100):
            result = self.rooted("sh", "-c", "ls ../../../../../../../", options=["-q", "-w", f"/proc/self/fd/{number}"])
            self.assertNotEqual(result.code, 0, result)
            self.assertEqual(result.out, "")

    def test_cve_2024_21626_only_the_three_streams_inside(self):
        self.assertEqual(self.output("probe", "fds", rooted=True).split(), ["0", "1", "2"])
        self.assertEqual(self.output("probe", "fds", rooted=True, options=["-w", "/made/now", "-v", f"{self.folder()}:/v"])
                         .split(), ["0", "1", "2"])

    def test_cve_2021_30465_symlink_swapped_during_a_bind(self):
        """A box turns a directory of a shared volume into a link to / while another mounts below it. That leads to the box's
        own root at worst, never to the host's."""
        shared = self.folder()
        os.mkdir(shared + "/target")
        kerntest.give(shared, self.me)
        swap = "while :; do ln -s / /s/l; mv -T /s/target /s/keep; mv -T /s/l /s/target; rm /s/target; mv -T /s/keep /s/target; done"
        attacker = self.start("box", "-q", "--rootfs", self.root, "-v", f"{shared}:/s", "--", "sh", "-c", f"echo up; {swap}",
                              stderr=subprocess.DEVNULL)
        attacker.line()
        secret = self.file("inside", "secret")
        for _ in range(25):
            result = self.rooted("true", options=["-q", "-v", f"{shared}:/s", "-v", f"{secret}:/s/target/secret"])
            self.assertIn(result.code, (0, 125), result)
            self.assertFalse(os.path.lexists("/secret"))
            with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
                self.assertNotIn("secret", mounts.read())
        attacker.process.kill()
        attacker.process.wait()

    def test_cve_2025_31133_masks_through_a_hostile_dev_null(self):
        root = self.hostile_root()
        self.replace(root, "dev/null", "/proc/sys/kernel/core_pattern")
        out = self.output("sh", "-c", "cat /proc/keys /proc/kcore /proc/timer_list 2>/dev/null; ls -l /dev/null | head -c 1",
                          options=["--rootfs", root])
        self.assertEqual(out, "c")

    def test_cve_2025_52565_hostile_dev_pts_and_console(self):
        root = self.hostile_root()
        for name, target in (("dev/pts", "/proc/sys"), ("dev/console", "/proc/sysrq-trigger"), ("dev/ptmx", "/etc/passwd"),
                             ("dev/shm", "/etc")):
            self.replace(root, name, target)
        out = self.output("sh", "-c", "ls -d /dev/pts /dev/shm; grep -c ' /dev/pts devpts' /proc/mounts",
                          options=["--rootfs", root])
        self.assertEqual(out.split(), ["/dev/pts", "/dev/shm", "1"])

    def test_cve_2025_52881_procfs_writes_redirected(self):
        """/proc of the root is a link, or somebody mounts over it: the covers are still proc, and the host is untouched."""
        root = self.hostile_root()
        self.replace(root, "proc", "/etc")
        result = self.box("sh", "-c", "grep -c '^proc /proc proc' /proc/mounts", options=["--rootfs", root, "-q"])
        self.assertIn(result.code, (0, 125), result)
        if result.code == 0:
            self.assertEqual(result.out, "1\n")

    def test_cve_2026_41579_dev_is_a_symlink(self):
        before = sorted(os.listdir("/dev")), sorted(os.listdir("/etc"))
        for target in ("/etc", "/../../../../etc", "/proc/self/root", "../../../..", "/nowhere"):
            for name in ("dev", "proc", "sys", "tmp"):
                with self.subTest(name=name, target=target):
                    root = self.hostile_root()
                    self.replace(root, name, target)
                    result = self.box("true", options=["--rootfs", root, "-q"])
                    self.assertIn(result.code, (0, 125), result)
        self.assertEqual((sorted(os.listdir("/dev")), sorted(os.listdir("/etc"))), before)

    def test_cve_2022_27650_no_inheritable_capabilities(self):
        for options in ((), ("--cap-add", "ALL"), ("--init",), ("-u", "0")):
            self.assertIn("CapInh:\t0000000000000000", self.shell("cat /proc/self/status", options=options))

    def test_cve_2025_24965_files_that_kern_writes_escape_the_root(self):
        root = self.hostile_root()
        victim = self.file("safe", "victim")
        for name in ("etc/hosts", "etc/hostname", "etc/resolv.conf", "etc/mtab"):
            self.replace(root, name, victim)
        for extra in ([], ["--bind-rootfs"], ["--hostname", "evil"]):
            result = self.box("true", options=["--rootfs", root, *extra])
            self.assertIn(result.code, (0, 125), result)
            with open(victim, encoding="utf-8") as file:
                self.assertEqual(file.read(), "safe")
            self.assertTrue(os.path.islink(root + "/etc/hosts"))

    def test_cve_2025_24965_workdir_and_volume_targets_are_links(self):
        outside = self.folder()
        root = self.hostile_root()
        os.symlink(outside, root + "/out")
        os.symlink("/../../../../../../../.." + outside, root + "/deep")
        for options in (["-w", "/out/made"], ["-w", "/deep/made"], ["--tmpfs", "/out/t"], ["-v", f"{self.folder()}:/out/v"],
                        ["-v", f"{self.folder()}:/deep/v"]):
            for bind in ([], ["--bind-rootfs"]):
                with self.subTest(options=options, bind=bind):
                    result = self.box("true", options=["--rootfs", root, *bind, *options])
                    self.assertIn(result.code, (0, 125), result)
                    self.assertEqual(os.listdir(outside), [])

    def test_cve_2024_42472_persistent_directory_replaced_by_a_symlink(self):
        data = self.folder()
        env = {"XDG_DATA_HOME": data}
        self.shell("touch /v/x", options=["-v", "cache:/v"], env=env)
        store = f"{data}/kern/volumes/cache"
        os.rename(store, store + ".old")
        os.symlink("/etc", store)
        os.lchown(store, self.me.uid, self.me.gid)
        result = self.rooted("ls", "/v", options=["-v", "cache:/v"], env=env)
        self.assertIn(result.code, (1, 125), result)
        self.assertNotIn("passwd", result.out)

    def test_cve_2016_9962_inherited_descriptor(self):
        fd = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
        try:
            result = self.rooted("sh", "-c", "ls /proc/self/fd; ls /proc/1/fd", pass_fds=(fd,))
        finally:
            os.close(fd)
        self.assertLessEqual({int(n) for n in result.out.split()}, {0, 1, 2, 3})  # 3 is ls itself, looking

    def test_cve_2017_5226_terminal_injection(self):
        for request in ("0x5412", "0x541C"):
            result = self.rooted("probe", "ioctl", request, "0xdeadbeef")
            self.assertEqual(result.out, f"ioctl -1 {errno.EPERM}\n")

    def test_cve_2017_5206_other_tables_of_calls(self):
        if os.uname().machine != "x86_64":
            self.skipTest("only x86 has more than one table")
        for words in (("x32", "ptrace"), ("int80",)):
            self.assertEqual(self.rooted("probe", *words).code, 159)

    def test_a_notify_handler_that_dies(self):
        """kern is killed while a call waits for its verdict: no call hangs, the box is reaped."""
        running = self.start("box", "-q", "--rootfs", self.root, "--", "sh", "-c",
                             "echo up; while :; do probe child mount; done; exec sleep 31313", stderr=subprocess.DEVNULL)
        running.line()
        time.sleep(0.2)
        running.process.kill()
        running.process.wait()
        self.assertTrue(kerntest.eventually(lambda: not kerntest.running("probe", "child", "mount")))
        self.clean_up()

    def test_a_stopped_kern_does_not_let_a_call_through(self):
        running = self.start("box", "-q", "--rootfs", self.root, "--", "sh", "-c", "echo up; read x; probe call mount; exit 3",
                             stdin=subprocess.PIPE)
        running.line()
        running.signal(19)
        running.process.stdin.write("go\n")
        running.process.stdin.flush()
        time.sleep(0.3)
        running.signal(18)
        result = running.wait()
        self.assertEqual((result.code, result.report["denied"]["syscalls"]), (3, {"mount": 1}), result)

    def test_a_fifo_as_env_file_or_report_does_not_hang(self):
        folder = self.folder()
        os.mkfifo(folder + "/fifo")
        os.chmod(folder + "/fifo", 0o666)
        for options in (["--env-file", folder + "/fifo"], ["--report", folder + "/fifo"], ["--seccomp", folder + "/fifo"],
                        ["--config", folder + "/fifo"]):
            with self.subTest(options):
                result = self.box("true", options=options, report=False)
                self.assertEqual(result.code, 1, result)

    def test_a_volume_that_is_a_device_or_a_fifo(self):
        folder = self.folder()
        os.mkfifo(folder + "/fifo")
        for source in ("/dev/null", folder + "/fifo", "/proc/self/ns/net"):
            with self.subTest(source):
                result = self.rooted("true", options=["-v", f"{source}:/v"], seconds=10)
                self.assertIn(result.code, (0, 1, 125), result)

    def test_the_box_cannot_reach_the_supervisor(self):
        result = self.rooted("sh", "-c", "kill -9 -1; kill -9 0; exit 7", options=["-q"], stderr=subprocess.DEVNULL)
        self.assertIn(result.code, (7, 137), result)
        self.assertIsNotNone(result.report)

    def test_setuid_programs_are_not(self):
        root = self.hostile_root()
        os.chmod(root + "/bin/probe", 0o4755)
        out = self.shell("grep ' / ' /proc/mounts", options=[])
        self.assertIn("nosuid", out.split()[3].split(","))
        self.assertTrue(os.stat(root + "/bin/probe").st_mode & stat.S_ISUID)


@as_root
class CasesOfRoot(Hostile):
    def test_cve_2022_31214_a_forged_entry_does_not_take_a_name(self):
        self.box("true")
        path = f"/run/kern/boxes/forged{os.getpid()}"
        os.symlink("/etc/passwd", path)
        self.addCleanup(lambda: os.path.lexists(path) and os.unlink(path))
        before = digest("/etc/passwd")
        result = self.kern("box", os.path.basename(path), "--", "true")
        self.assertIn(result.code, (1, 125), result)
        self.assertEqual(digest("/etc/passwd"), before)


if __name__ == "__main__":
    kerntest.main()

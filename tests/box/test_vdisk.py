"""Disks of a size: in memory and in images; exact, persistent, locked, throttled or said not to be; nothing is left behind."""

import glob
import os
import random
import re
import shutil
import signal
import subprocess
import time

import kerntest
from kerntest import BoxCase, as_root, as_root_and_user, as_user

MIB = 1 << 20


class Disks(BoxCase):
    def config(self, text, pool=None):
        if pool is not None:
            text = f'[[disk]]\nid = "pool"\npath = "{pool}"\nsize = "2g"\n{text}'
        return self.own_config(text)

    def pool(self):
        return self.folder(0o700)

    @staticmethod
    def profile(name, size, backend=None, **keys):
        lines = [f'[[vdisk]]\nname = "{name}"\nsize = "{size}"\n']
        lines += [f'backend = "{backend}"\n'] if backend else []
        lines += [f"{key.replace('_', '-')} = {value}\n" for key, value in keys.items()]
        return "".join(lines)

    def fill(self, name, env, size, slack=0, **keywords):
        """Writes until it fails: the file has the size then, and the error is ENOSPC."""
        result = self.rooted("sh", "-c", f"dd if=/dev/zero of=/vdisk/{name}/f bs=64k; stat -c %s /vdisk/{name}/f",
                             options=[f"vdisk:{name}", "-q"], env=env, **keywords)
        self.assertEqual(result.code, 0, result)
        self.assertIn("No space left on device", result.err)
        self.assertTrue(size - slack <= int(result.out) <= size, (result.out, size))
        return result


@as_root_and_user
class Ram(Disks):
    def test_exactly_the_size(self):
        env = self.config(self.profile("r", "3m"))
        result = self.fill("r", env, 3 * MIB)
        self.assertEqual(result.report["plugins"]["vdisk"], {"r.backend": "ram"})

    def test_the_example_profile(self):
        out = self.shell("df -k /vdisk/scratch | tail -1", options=["vdisk:scratch"])
        self.assertIn(str(256 * 1024), out.split())

    def test_any_user_of_the_box_and_programs(self):
        env = self.config(self.profile("r", "3m"))
        out = self.shell("stat -c %a /vdisk/r; cp /bin/busybox /vdisk/r/echo; /vdisk/r/echo ran", options=["vdisk:r"], env=env)
        self.assertEqual(out, "1777\nran\n")

    def test_several(self):
        env = self.config(self.profile("a", "1m") + self.profile("b", "2m"))
        self.assertEqual(self.shell("ls /vdisk", options=["vdisk:a", "vdisk:b"], env=env), "a\nb\n")
        self.refused("vdisk:a", "vdisk:a", env=env, parts=["\"a\" is named twice"])

    def test_more_than_the_memory_cap(self):
        env = self.config(self.profile("r", "300m"))
        self.refused("vdisk:r", "-m", "200m", env=env, parts=["300 MiB", "cap of 200 MiB"], hint="--memory")

    def test_bad_profiles(self):
        for text, part in (
                (self.profile("r", "1m", persistent="true"), "cannot be persistent"),
                (self.profile("r", "1m", iops=3), "iops needs a [[disk]] pool"),
                (self.profile("r", "1m", bandwidth='"1m"'), "bandwidth needs a [[disk]] pool"),
                (self.profile("r", "0"), "size"), (self.profile("r", "64t"), "size"), (self.profile("r", "100000t"), "size"),
                (self.profile("r", "1m", backend="nosuch"), "no [[disk]] pool"),
                (self.profile("r", "1m", on_busy='"never"'), "on-busy"),
                ('[[vdisk]]\nname = "r"\n', 'needs a key "size"'),
                (self.profile("../r", "1m"), "cannot be the name"), (self.profile(".r", "1m"), "cannot be the name"),
                (self.profile("a/b", "1m"), "cannot be the name")):
            with self.subTest(text):
                name = re.search('name = "([^"]*)"', text).group(1)
                self.refused(f"vdisk:{name}", env=self.config(text), parts=[part])

    def test_pools_are_checked_when_the_file_is_read(self):
        pool = self.pool()
        for text, part in ((self.profile("d", "3g", backend="pool"), "more than the 2g of pool"),
                           (self.profile("d", "900k", backend="pool"), "too small for ext4")):
            env = self.config(text, pool)
            self.refused("vdisk:d", env=env, parts=[part])
            result = self.kern("validate", os.path.join(env["XDG_CONFIG_HOME"], "kern/kern.toml"), report=False)
            self.assertEqual(result.code, 1, result)
            self.assertIn(part, result.err)

    def test_one_pool_is_the_default(self):
        pools = "".join(f'[[disk]]\nid = "{name}"\npath = "{self.pool()}"\ndefault = true\n' for name in "ab")
        self.refused("vdisk:d", env=self.own_config(pools + self.profile("d", "2m")), parts=['"b" cannot be the default', '"a" is'])

    def test_a_plan_makes_nothing(self):
        pool = self.pool()
        env = self.config(self.profile("d", "2m", backend="pool", persistent="true"), pool)
        self.assertEqual(self.kern("box", "vdisk:d", "--plan", env=env, report=False).code, 0)
        self.assertEqual(os.listdir(pool), [])


@as_root
class Loop(Disks):
    """Images on loop devices."""

    @classmethod
    def prepare_class(cls):
        if not os.path.exists("/dev/loop-control"):
            kerntest.skip("no loop devices on this machine")
        if shutil.which("mkfs.ext4", path="/usr/sbin:/sbin") is None:
            kerntest.skip("no mkfs.ext4 on this machine")

    def disk(self, size="8m", **keys):
        self.place = self.pool()
        return self.config(self.profile("d", size, backend="pool", **keys), self.place)

    def image(self):
        return os.path.join(self.place, "d.img")

    def assert_clean(self):
        done = subprocess.run(["e2fsck", "-fn", self.image()], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def our_loops(self):
        found = []
        for path in glob.glob("/sys/block/loop*/loop/backing_file"):
            try:
                with open(path, encoding="utf-8") as file:
                    found += [path] if self.place in file.read() else []
            except OSError:
                continue
        return found

    def test_exactly_the_size(self):
        for size in (1, 8, 40, 150):
            with self.subTest(size):
                env = self.disk(f"{size}m")
                result = self.fill("d", env, size * MIB, slack=4096 if size > 32 else 0)
                self.assertEqual(result.report["plugins"]["vdisk"]["d.backend"], "loop")
                self.assertEqual(os.listdir(self.place), [])

    def test_persistent(self):
        env = self.disk(persistent="true")
        run = {"options": ["vdisk:d"], "env": env}
        self.shell("echo kept > /vdisk/d/f; chown 7:8 /vdisk/d/f", **run)
        made = os.stat(self.image()).st_ino
        self.assertEqual(self.shell("cat /vdisk/d/f; stat -c %u:%g /vdisk/d/f; ls /vdisk/d", **run), "kept\n7:8\nf\n")
        self.assertEqual(os.stat(self.image()).st_ino, made)
        self.assertEqual(os.stat(self.image()).st_mode & 0o777, 0o600)
        self.assert_clean()

    def test_not_persistent(self):
        env = self.disk()
        run = {"options": ["vdisk:d"], "env": env}
        self.shell("echo gone > /vdisk/d/f", **run)
        self.assertEqual(self.shell("ls /vdisk/d", **run), "")
        self.assertEqual(os.listdir(self.place), [])

    def test_a_second_writer(self):
        env = self.disk(persistent="true", on_busy='"refuse"')
        box = self.start("box", "vdisk:d", "--", "sh", "-c", "echo up; sleep 20", env=env)
        self.assertEqual(box.line(), "up\n")
        self.refused("vdisk:d", env=env, parts=["\"d\" is in use by another box"], hint="on_busy")
        box.signal(signal.SIGTERM)
        box.wait()
        self.assertEqual(self.shell("ls /vdisk", options=["vdisk:d"], env=env), "d\n")

    def test_busy_means_ram(self):
        env = self.disk(persistent="true", on_busy='"ram"')
        box = self.start("box", "vdisk:d", "--", "sh", "-c", "echo up; sleep 20", env=env)
        self.assertEqual(box.line(), "up\n")
        result = self.rooted("true", options=["vdisk:d"], env=env)
        self.assertEqual((result.code, result.report["plugins"]["vdisk"]["d.backend"]), (0, "ram"), result)
        self.assertIn("another box has it", result.err)
        box.signal(signal.SIGTERM)
        box.wait()

    def test_kills_at_random_moments(self):
        """More of them: KERN_KILLS."""
        env = self.disk(persistent="true")
        self.shell("true", options=["vdisk:d"], env=env)
        chance = random.Random(4)
        for _ in range(int(os.environ.get("KERN_KILLS", "12"))):
            box = self.start("box", "-q", "vdisk:d", "--", "sh", "-c", "while :; do dd if=/dev/zero of=/vdisk/d/$$ bs=100k count=20;"
                             "rm /vdisk/d/*; done 2>/dev/null", env=env, report=False)
            time.sleep(chance.uniform(0, 0.12))
            box.signal(signal.SIGKILL)
            box.wait()
        self.assertTrue(kerntest.eventually(lambda: self.our_loops() == []))
        result = self.rooted("true", options=["vdisk:d"], env=env)
        self.assertEqual(result.code, 0, result)
        self.assert_clean()
        self.assertEqual(os.listdir(self.place), ["d.img"])

    def test_a_torn_image_is_checked(self):
        """What the image is at a moment of a running box is what a power cut would leave of it."""
        env = self.disk(persistent="true")
        box = self.start("box", "vdisk:d", "--", "sh", "-c", "mkdir /vdisk/d/a; echo kept > /vdisk/d/a/f; sync; mv /vdisk/d/a /vdisk/d/b;"
                         "sync; echo up; sleep 20", env=env)
        self.assertEqual(box.line(), "up\n")
        torn = self.image()
        self.place = self.pool()
        shutil.copy(torn, self.image())
        os.chmod(self.image(), 0o600)
        box.signal(signal.SIGKILL)
        box.wait()
        dump = subprocess.run(["dumpe2fs", "-h", self.image()], capture_output=True, text=True, check=True).stdout
        self.assertIn("needs_recovery", dump)
        env = self.config(self.profile("d", "8m", backend="pool", persistent="true"), self.place)
        self.assertEqual(self.shell("cat /vdisk/d/b/f", options=["vdisk:d"], env=env), "kept\n")
        self.assert_clean()

    def test_an_image_beyond_mending(self):
        env = self.disk(persistent="true")
        self.shell("true", options=["vdisk:d"], env=env)
        with open(self.image(), "r+b") as file:
            file.seek(1024 + 58)
            file.write(b"\0\0")
            file.seek(4096)
            file.write(os.urandom(300 * 4096))
        self.refused("vdisk:d", env=env, parts=["is damaged"], hint="e2fsck -f")

    def test_what_is_no_image(self):
        env = self.disk(persistent="true")
        for make, part in ((lambda: kerntest.write(self.image(), "x" * 9000, 0o600), "not an ext4 image"),
                           (lambda: os.symlink("/etc/passwd", self.image()), "cannot open"),
                           (lambda: os.mkdir(self.image()), "cannot"),
                           (lambda: os.mkfifo(self.image(), 0o600), "not a file")):
            make()
            with self.subTest(part):
                self.refused("vdisk:d", env=env, parts=[part])
            if os.path.isdir(self.image()) and not os.path.islink(self.image()):
                os.rmdir(self.image())
            else:
                os.unlink(self.image())

    def test_others_work_is_not_mounted(self):
        env = self.disk(persistent="true")
        self.shell("true", options=["vdisk:d"], env=env)
        os.chmod(self.image(), 0o666)
        self.refused("vdisk:d", env=env, parts=["only its owner"])
        os.chmod(self.image(), 0o600)
        os.chmod(self.place, 0o777)
        self.refused("vdisk:d", env=env, parts=["others may write"], hint="chmod 700")

    def test_another_size(self):
        env = self.disk("8m", persistent="true")
        self.shell("true", options=["vdisk:d"], env=env)
        self.shell("echo kept > /vdisk/d/k; dd if=/dev/zero of=/vdisk/d/old bs=64k count=30 2>/dev/null", options=["vdisk:d"], env=env)
        for size in (9, 40):
            env = self.config(self.profile("d", f"{size}m", backend="pool", persistent="true"), self.place)
            self.fill("d", env, size * MIB - 30 * 65536 - 4096, slack=65536)
            self.assertEqual(self.shell("cat /vdisk/d/k; rm /vdisk/d/f", options=["vdisk:d"], env=env), "kept\n")
            self.assert_clean()
        # As a kern that was killed leaves it: larger already, and the label is the old one.
        facts = subprocess.run(["dumpe2fs", "-h", self.image()], capture_output=True, text=True, check=True).stdout
        blocks, free = (int(re.search(rf"^{key}: +(\d+)", facts, re.M).group(1)) for key in ("Block count", "Free blocks"))
        used = 40 * MIB // 4096 - 4 + 1 + min(blocks // 50, 4096) - free
        subprocess.run(["tune2fs", "-L", str(9 * MIB), "-M", f"kern grows {used}", self.image()], check=True, stdout=subprocess.DEVNULL)
        self.fill("d", env, 40 * MIB - 30 * 65536, slack=2 * 65536)
        self.shell("rm /vdisk/d/f", options=["vdisk:d"], env=env)
        env = self.config(self.profile("d", "39m", backend="pool", persistent="true"), self.place)
        self.refused("vdisk:d", env=env, parts=["has 41943040 bytes already", "does not become smaller"], hint="rm '")

    def test_pools(self):
        missing = os.path.join(self.folder(), "missing")
        env = self.config(self.profile("d", "2m", backend="pool"), missing)
        self.refused("vdisk:d", env=env, parts=[missing, "No such file"], hint=f"mkdir -p -m 700 '{missing}'")
        file = self.file()
        self.refused("vdisk:d", env=self.config(self.profile("d", "2m", backend="pool"), file), parts=["Not a directory"])
        self.refused("vdisk:d", env=self.config(self.profile("d", "2m", backend="pool"), "/proc"), parts=["/proc"])
        fixed = self.folder()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,mode=777", "none", fixed], check=True)
        self.addCleanup(subprocess.run, ["umount", fixed], check=True)
        self.refused("vdisk:d", env=self.config(self.profile("d", "2m", backend="pool"), fixed), parts=[fixed, "Read-only file system"])
        env = self.own_config(f'[[disk]]\nid = "big"\npath = "{self.pool()}"\n' + self.profile("d", "60t", backend="big"))
        self.refused("vdisk:d", env=env, parts=["cannot make disk \"d\""])

    def test_a_full_pool(self):
        pool = self.pool()
        profiles = "".join(self.profile(name, "60m", backend="small", persistent="true") for name in "ab")
        env = self.own_config(f'[[disk]]\nid = "small"\npath = "{pool}"\nsize = "100m"\n' + profiles)
        self.assertEqual(self.rooted("true", options=["vdisk:a"], env=env).code, 0)
        self.refused("vdisk:b", env=env, parts=["pool \"small\" of 100m"])

    def test_the_default_pool(self):
        pool = self.pool()
        env = self.own_config(f'[[disk]]\nid = "first"\npath = "{pool}"\ndefault = true\n' + self.profile("d", "2m")
                              + self.profile("r", "2m", backend="ram"))
        result = self.rooted("true", options=["vdisk:d", "vdisk:r"], env=env)
        self.assertEqual(result.report["plugins"]["vdisk"], {"d.backend": "loop", "r.backend": "ram"}, result)

    def test_a_foreign_file_stays_in_its_folder(self):
        folder, pool = self.folder(), self.pool()
        path = kerntest.write(os.path.join(folder, "kern.toml"),
                              f'[[disk]]\nid = "p"\npath = "{pool}"\n' + self.profile("d", "2m", backend="p"))
        result = self.box("true", options=["--config", path, "vdisk:d"])
        self.assertEqual(result.code, 1, result)
        self.assertEqual(os.listdir(pool), [])

    def test_throttled(self):
        """The group that it takes is made for it."""
        self.need_limits()
        env = self.disk("20m", bandwidth='"2m"', iops=1000)
        result = self.rooted("dd", "if=/dev/zero", "of=/vdisk/d/f", "bs=256k", "count=16", "oflag=direct",
                             options=["vdisk:d"], env=env)
        self.assertEqual((result.code, result.err.count("kern:")), (0, 0), result)
        limit = result.report["limits"]["io-max"]
        self.assertEqual((limit["asked"], limit["enforced"]), ("1000 iops, 2097152 bytes/s", True))
        self.assertEqual(result.report["plugins"]["vdisk"]["d.throttled"], 1)
        self.assertGreater(result.report["usage"]["wall_ms"], 1500)
        env = self.disk("20m", iops=20)
        result = self.rooted("dd", "if=/dev/zero", "of=/vdisk/d/f", "bs=4k", "count=40", "oflag=direct", options=["vdisk:d"], env=env)
        self.assertGreater(result.report["usage"]["wall_ms"], 1500)

    def test_no_setuid_for_the_host(self):
        env = self.disk(persistent="true")
        result = self.rooted("sh", "-c", "cp /bin/busybox /vdisk/d/b; chmod 4755 /vdisk/d/b; stat -c %a /vdisk/d/b",
                             options=["vdisk:d", "-q"], env=env)
        self.assertEqual(result.out, "755\n", result)


@as_user
class NoRoot(Disks):
    def test_in_memory_and_said(self):
        """Where this machine has no /dev/fuse for everybody, or no fuse2fs."""
        if os.access("/dev/fuse", os.R_OK | os.W_OK) and not kerntest.IS_ROOT or os.stat("/dev/fuse").st_mode & 0o006 == 0o006:
            kerntest.skip("/dev/fuse is everybody's here")
        env = self.config(self.profile("d", "2m", backend="pool", persistent="true"), self.pool())
        result = self.rooted("true", options=["vdisk:d"], env=env)
        self.assertEqual(result.code, 0, result)
        self.assertIn("disk d is in memory and gone with the box", result.err)
        self.assertEqual(result.report["plugins"]["vdisk"], {"d.backend": "ram"})


@as_user
class Fuse(Disks):
    """Images served by fuse2fs, for a user whom /dev/fuse is open to: in a mount namespace of the test's where it is not."""

    OPEN = ("mount -t tmpfs none /mnt && mknod -m 666 /mnt/fuse c 10 229 && mount --bind /mnt/fuse /dev/fuse &&"
            "exec setpriv --reuid=$U --regid=$G --clear-groups -- \"$@\"")

    @classmethod
    def prepare_class(cls):
        if shutil.which("fuse2fs") is None:
            kerntest.skip("no fuse2fs on this machine")
        if not os.path.exists("/dev/fuse"):
            kerntest.skip("no /dev/fuse on this machine")
        cls.front = []
        if not os.stat("/dev/fuse").st_mode & 0o006 == 0o006:
            if not kerntest.IS_ROOT:
                kerntest.skip("/dev/fuse is not open to this user")
            cls.front = ["unshare", "-m", "sh", "-c", cls.OPEN, "sh"]

    def disk(self, size="8m", **keys):
        self.place = self.pool()
        return self.config(self.profile("d", size, backend="pool", **keys), self.place)

    def begin(self, script, env):
        environment = {"PATH": kerntest.BOX_PATH, "HOME": self.me.home, "U": str(self.me.uid), "G": str(self.me.gid), **env}
        words = [*self.front, kerntest.KERN, "box", "vdisk:d", "--rootfs", self.root, "--", "/bin/sh", "-c", script]
        run_as = {} if self.front else self.me.popen
        process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/",
                                   stdin=subprocess.DEVNULL, **run_as)
        kerntest._pids.add(process.pid)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        return process

    def run_box(self, script, env, code=0):
        process = self.begin(script, env)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, code, out + err)
        return out, err

    def image(self):
        return os.path.join(self.place, "d.img")

    def has_image(self, pid):
        for fd in glob.glob(f"/proc/{pid}/fd/*"):
            try:
                if self.place in os.readlink(fd):
                    return True
            except OSError:
                continue  # it was closed meanwhile: one that is at work still is no less a server
        return False

    def servers(self):
        return kerntest.processes(lambda pid: os.readlink(f"/proc/{pid}/exe").endswith("/fuse2fs")
                                  and os.stat(f"/proc/{pid}").st_uid in (self.me.uid, 0) and self.has_image(pid))

    def assert_clean(self):
        self.assertTrue(kerntest.eventually(lambda: self.servers() == []))
        done = subprocess.run(["e2fsck", "-fn", self.image()], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_size_and_the_next_box(self):
        env = self.disk("9m", persistent="true")
        out, err = self.run_box("stat -c %a /vdisk/d; ls -A /vdisk/d; mount | grep ' /vdisk/d type fuse' | grep -c nosuid;"
                                "dd if=/dev/zero of=/vdisk/d/f bs=64k; stat -c %s /vdisk/d/f", env)
        mode, mounts, size = out.split()
        self.assertEqual((mode, mounts), ("1777", "1"))
        self.assertTrue(9 * MIB - 8192 <= int(size) <= 9 * MIB, out)
        self.assertIn("No space left", err)
        self.assert_clean()
        out, _ = self.run_box("stat -c '%s %u' /vdisk/d/f; rm /vdisk/d/f; echo kept > /vdisk/d/k", env)
        self.assertEqual(out.split(), [size, "0"])
        self.assertEqual(self.run_box("cat /vdisk/d/k", env)[0], "kept\n")
        self.assertEqual(os.stat(self.image()).st_uid, self.me.uid)
        self.assert_clean()

    def test_not_persistent(self):
        env = self.disk()
        self.run_box("echo gone > /vdisk/d/f", env)
        self.assertEqual(self.run_box("ls -A /vdisk/d", env)[0], "")
        self.assertEqual(os.listdir(self.place), [])
        self.assertTrue(kerntest.eventually(lambda: self.servers() == []))

    def test_the_box_does_not_see_the_server(self):
        env = self.disk()
        out, _ = self.run_box("ps; ls /proc | grep -c '^[0-9]'", env)
        self.assertNotIn("fuse", out)

    def test_a_second_writer(self):
        env = self.disk(persistent="true")
        box = self.begin("echo up; sleep 20", env)
        self.assertEqual(box.stdout.readline(), "up\n")
        _, err = self.run_box("true", env, code=1)
        self.assertIn("in use by another box", err)
        box.send_signal(signal.SIGTERM)
        box.wait(30)
        self.run_box("true", env)

    def test_kills(self):
        """kern is killed: the server writes what it has. The server is killed: the image is checked."""
        env = self.disk(persistent="true")
        self.run_box("true", env)
        for _ in range(3):
            box = self.begin("echo kept > /vdisk/d/k; echo up; while :; do dd if=/dev/zero of=/vdisk/d/x bs=64k count=30 2>/dev/null;"
                             "rm /vdisk/d/x; done", env)
            self.assertEqual(box.stdout.readline(), "up\n")
            time.sleep(0.05)
            box.send_signal(signal.SIGKILL)
            box.wait(30)
            self.assert_clean()
        box = self.begin("echo up; sleep 0.2; echo x > /vdisk/d/y && echo written; sleep 20", env)
        self.assertEqual(box.stdout.readline(), "up\n")
        for pid in self.servers():
            os.kill(pid, signal.SIGKILL)
        self.assertTrue(kerntest.eventually(lambda: self.servers() == []))
        told = iter(box.stderr.readline, "")
        self.assertTrue(any("the server of disk d has ended" in line for line in told))
        box.send_signal(signal.SIGTERM)
        self.assertNotIn("written", box.communicate(timeout=30)[0])
        self.assertEqual(self.run_box("cat /vdisk/d/k", env)[0], "kept\n")
        self.assert_clean()


if __name__ == "__main__":
    kerntest.main()

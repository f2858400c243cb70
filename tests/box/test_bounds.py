"""Volumes with a size: -v SRC:DST:rw,max=SIZE. A box whose volume holds more is ended with the fault workspace_full, whatever it
does to hide it; what fits is left alone."""

import fcntl
import json
import os
import shutil
import signal
import struct
import subprocess

import kerntest
from kerntest import BoxCase, as_root, as_root_and_user

MIB = 1 << 20


@as_root_and_user
class Bounds(BoxCase):
    def run_in(self, script, size="2m", volume=None, **keywords):
        self.volume = volume or self.folder(0o777)
        return self.rooted("/bin/sh", "-c", script, options=["-q", "-v", f"{self.volume}:/w:rw,max={size}"], **keywords)

    def assert_full(self, result, part="holds more than"):
        self.assertEqual((result.code, result.fault, result.report["signal"]), (137, "workspace_full", 9), result)
        self.assertIn(part, result.report["fault"]["message"])
        self.assertIn('"/w"', result.report["fault"]["message"])

    def test_what_fits(self):
        result = self.run_in("dd if=/dev/zero of=/w/f bs=1M count=1 2>/dev/null; sleep 0.4; ls /w")
        self.assertEqual((result.code, result.out, result.fault), (0, "f\n", None), result)
        self.assertEqual(result.report["limits"]["workspace"],
                         {"asked": 2 * MIB, "enforced": True, "by": "supervised"}, result)

    def test_too_much(self):
        result = self.run_in("dd if=/dev/zero of=/w/f bs=1M count=5 2>/dev/null; sleep 10")
        self.assert_full(result)
        self.assertLess(result.report["usage"]["wall_ms"], 8000)

    def test_a_named_volume_of_a_size(self):
        env = {"XDG_DATA_HOME": self.folder()}
        self.assert_failed(self.kern("volume", "create", "v", "--size", "1k", env=env), 1, "--size")
        self.assertEqual(self.kern("volume", "create", "v", "--size", "2m", env=env).out, "v\n")
        self.assertEqual(json.loads(self.kern("volume", "inspect", "v", env=env).out)["size"], 2 * MIB)
        script = "dd if=/dev/zero of=/w/f bs=1M count=5 2>/dev/null; sleep 10"

        def run(script, volume):
            return self.rooted("/bin/sh", "-c", script, options=["-q", "-v", volume], env=env)
        self.assert_full(run(script, "v:/w"))
        self.assert_full(run("sleep 10", "v:/w"))
        self.assertEqual(run("ls /w", "v:/w:ro").out, "f\n")
        # What is asked for may be less, not more.
        self.assert_full(run("sleep 10", "v:/w:rw,max=1g"))
        with open(f"{env['XDG_DATA_HOME']}/kern/volumes/.sizes/v", "w", encoding="utf-8") as file:
            file.write("2x\n")
        self.assert_failed(run("true", "v:/w"), 1, "cannot read the size of volume 'v'", hint="kern volume rm v")
        self.assertEqual(self.kern("volume", "rm", "v", env=env).out, "removed volume 'v'\n")
        self.assertEqual(run(script.replace("sleep 10", "ls /w"), "v:/w").out, "f\n", "its size went with it")

    def test_too_much_before(self):
        volume = self.folder(0o777)
        kerntest.write(os.path.join(volume, "old"), "x" * 3 * MIB)
        self.assert_full(self.run_in("sleep 10", volume=volume))
        told = self.rooted("sleep", "10", options=["-v", f"{volume}:/w:max=2m"])
        self.assertIn('kern: note: the box is ended: "/w" holds more than 2097152 bytes\n', told.err)

    def test_many_small_files(self):
        self.assert_full(self.run_in("i=0; while :; do i=$((i+1)); mkdir -p /w/d/$((i%9)); echo $i > /w/d/$((i%9))/$i; done"))

    def test_hidden_in_a_directory_without_modes(self):
        self.assert_full(self.run_in("mkdir /w/d; dd if=/dev/zero of=/w/d/f bs=1M count=5 2>/dev/null; chmod 0 /w/d; sleep 10"))

    def test_too_deep_to_measure(self):
        self.assert_full(self.run_in("cd /w; i=0; while [ $i -lt 150 ]; do mkdir d; cd d; i=$((i+1)); done; sleep 10"), "too deep")

    def test_a_file_with_many_names_counts_once(self):
        result = self.run_in("cd /w; dd if=/dev/zero of=f bs=1M count=1 2>/dev/null; for i in 1 2 3 4 5; do ln f l$i; done; sleep 0.4")
        self.assertEqual((result.code, result.fault), (0, None), result)

    def test_links_lead_nowhere(self):
        result = self.run_in("ln -s / /w/root; ln -s /proc/self/root /w/self; sleep 0.4")
        self.assertEqual((result.code, result.fault), (0, None), result)

    def test_mount_and_named_volume(self):
        volume = self.folder(0o777)
        result = self.rooted("/bin/sh", "-c", "dd if=/dev/zero of=/w/f bs=1M count=5 2>/dev/null; sleep 10",
                             options=["-q", "--mount", f"type=bind,src={volume},dst=/w,max=1m"])
        self.assert_full(result)
        env = {"XDG_DATA_HOME": self.folder()}
        result = self.rooted("/bin/sh", "-c", "dd if=/dev/zero of=/w/f bs=1M count=5 2>/dev/null; sleep 10",
                             options=["-q", "-v", "box:/w:max=1m"], env=env)
        self.assert_full(result)

    def test_two_volumes(self):
        a, b = self.folder(0o777), self.folder(0o777)
        result = self.rooted("/bin/sh", "-c", "dd if=/dev/zero of=/w/f bs=1M count=5 2>/dev/null; sleep 10",
                             options=["-q", "-v", f"{a}:/a:rw,max=9m", "-v", f"{b}:/w:max=1m,rw"])
        self.assert_full(result)
        self.assertEqual(result.report["plugins"]["rootfs"], {"/a": 9 * MIB, "/w": MIB})

    def test_bad_words(self):
        volume, file = self.folder(), self.file()
        for words, part in ((f"{volume}:/w:rw,max=0", "at least 1 byte"), (f"{volume}:/w:rw,max=x", "max"),
                            (f"{volume}:/w:rw,max=", "neither ro nor rw nor nocopy nor max=SIZE"), (f"{volume}:/w:ro,max=1m", "read-only"),
                            (f"{volume}:/w:max=99999999t", "max"), (f"{volume}:/w:rw,min=1", "max=SIZE"),
                            (f"{file}:/w:rw,max=1m", "only a directory")):
            with self.subTest(words):
                self.refused("-v", words, parts=[part])
        self.refused("--mount", f"type=bind,src={volume},dst=/w,ro,max=1m", parts=["read-only"])

    def test_nothing_is_left_of_a_killed_kern(self):
        volume = self.folder(0o777)
        box = self.start("box", "-q", "-v", f"{volume}:/w:max=1m", "--", "sh", "-c", "sleep 0.3; echo up; sleep 20")
        self.assertEqual(box.line(), "up\n")
        box.signal(signal.SIGKILL)
        box.wait()
        self.assertTrue(kerntest.eventually(lambda: not kerntest.our_processes()))


@as_root
class Quota(BoxCase):
    """On a file system with project quotas the kernel itself holds a volume to its size. KERN_QUOTA_IMAGE: an image of one, such as
    of xfs, where ext4 is not to be tried."""

    @classmethod
    def prepare_class(cls):
        if shutil.which("mkfs.ext4", path="/usr/sbin:/sbin") is None or not os.path.exists("/dev/loop-control"):
            kerntest.skip("no mkfs.ext4 or no loop devices on this machine")

    def setUp(self):
        super().setUp()
        self.disk = self.folder(0o755)
        image = self.file()
        os.truncate(image, 48 * MIB)
        ready = os.environ.get("KERN_QUOTA_IMAGE")
        make = f"cp --sparse=always {ready} {image}" if ready else f"mkfs.ext4 -q -F -O quota,project {image}"
        done = subprocess.run(f"{make} && mount -o loop,prjquota {image} {self.disk}",
                              shell=True, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            kerntest.skip("this kernel has no project quotas: " + done.stderr.strip().splitlines()[0])
        self.addCleanup(subprocess.run, ["umount", "-l", self.disk], check=True)
        self.work = os.path.join(self.disk, "work")
        os.mkdir(self.work)
        os.chmod(self.work, 0o777)

    def project(self, path):
        """Its id and whether what is made in it inherits that."""
        fd = os.open(path, os.O_RDONLY)
        try:
            flags, _, _, project, _ = struct.unpack("5I8x", fcntl.ioctl(fd, 0x801c581f, bytes(28)))
        finally:
            os.close(fd)
        return project, flags & 0x200 != 0

    def run_in(self, script, size="2m", options=(), **keywords):
        return self.rooted("/bin/sh", "-c", script, options=["-q", "-v", f"{self.work}:/w:rw,max={size}", *options], **keywords)

    def assert_free(self):
        for folder, _, files in os.walk(self.work):
            for path in [folder, *(os.path.join(folder, name) for name in files)]:
                if not os.path.islink(path):
                    self.assertEqual(self.project(path), (0, False), path)

    def test_the_write_that_does_not_fit_fails(self):
        os.makedirs(os.path.join(self.work, "old/deep"))
        kerntest.write(os.path.join(self.work, "old/deep/file"), "x" * MIB, 0o644)
        os.symlink("/etc/passwd", os.path.join(self.work, "link"))
        result = self.run_in("mkdir /w/new; dd if=/dev/zero of=/w/new/f bs=64k count=80; stat -c %s /w/new/f; rm /w/new/f;"
                             "dd if=/dev/zero of=/w/f bs=64k count=8 2>/dev/null && echo again; df -k /w | tail -1")
        self.assertEqual((result.code, result.fault), (0, None), result)
        self.assertEqual(result.report["limits"]["workspace"], {"asked": 2 * MIB, "enforced": True, "by": "quota"})
        self.assertRegex(result.err.lower(), "quota exceeded|no space left")  # ext4 | xfs
        size, again, free = result.out.splitlines()
        self.assertTrue(MIB - 65536 <= int(size) <= MIB, result.out)
        self.assertEqual((again, free.split()[1]), ("again", "2048"))
        self.assert_free()

    def test_more_than_that_before(self):
        kerntest.write(os.path.join(self.work, "old"), "x" * 3 * MIB, 0o644)
        result = self.run_in("sleep 10")
        self.assertEqual((result.code, result.fault), (137, "workspace_full"), result)
        self.assertEqual(result.report["limits"]["workspace"]["by"], "supervised")
        self.assert_free()

    def test_two_boxes(self):
        """The second one finds it held and is measured; another directory has a project of its own."""
        first = self.start("box", "-q", "-v", f"{self.work}:/w:rw,max=2m", "--", "sh", "-c", "echo up; exec sleep 60")
        self.assertEqual(first.line(), "up\n")
        held, inherits = self.project(self.work)
        self.assertTrue(0x4b000000 <= held < 0x4d000000 and inherits, held)
        self.assertEqual(self.run_in("true").report["limits"]["workspace"]["by"], "supervised")
        other = os.path.join(self.disk, "other")
        os.mkdir(other)
        result = self.rooted("true", options=["-v", f"{other}:/w:max=1m"])
        self.assertEqual(result.report["limits"]["workspace"]["by"], "quota", result)
        self.assertEqual(self.project(self.work), (held, True))
        first.signal(signal.SIGTERM)
        first.wait()
        self.assert_free()

    def test_a_killed_kern_leaves_nothing(self):
        box = self.start("box", "-q", "-v", f"{self.work}:/w:rw,max=2m", "--", "sh", "-c", "echo x > /w/f; echo up; exec sleep 60")
        self.assertEqual(box.line(), "up\n")
        box.signal(signal.SIGKILL)
        box.wait()
        self.assertNotEqual(self.project(self.work)[0], 0)
        self.assertTrue(kerntest.eventually(lambda: not kerntest.our_processes()))
        self.kern("box", "-q", "--", "true")
        self.assertTrue(kerntest.eventually(lambda: self.project(self.work) == (0, False)))
        self.assert_free()
        self.assertEqual(self.run_in("true").report["limits"]["workspace"]["by"], "quota")

    def test_the_box_cannot_leave_its_project(self):
        kerntest.need("python3")
        script = "import fcntl, struct, os\nfd = os.open('/w', os.O_RDONLY)\nhave = bytearray(fcntl.ioctl(fd, 0x801c581f, bytes(28)))\n" \
                 "for flags, project in ((0, 0), (0x200, 7), (0, struct.unpack_from('I', have, 12)[0])):\n" \
                 "  want = struct.pack('5I8x', flags, 0, 0, project, 0)\n" \
                 "  try: fcntl.ioctl(fd, 0x401c5820, want); print('left')\n  except OSError as e: print('refused')"
        result = self.box("/usr/bin/python3", "-c", script, options=["-q", "-v", f"{self.work}:/w:rw,max=2m"])
        self.assertEqual(result.out, "refused\n" * 3, result)

    def test_somebody_elses_project_is_not_touched(self):
        fd = os.open(self.work, os.O_RDONLY)
        fcntl.ioctl(fd, 0x401c5820, struct.pack("5I8x", 0x200, 0, 0, 77, 0))
        os.close(fd)
        self.assertEqual(self.run_in("true").report["limits"]["workspace"]["by"], "supervised")
        self.assertEqual(self.project(self.work), (77, True))

    def test_without_a_user_namespace_it_is_measured(self):
        self.assertEqual(self.run_in("true", options=["--userns=host"]).report["limits"]["workspace"]["by"], "supervised")


if __name__ == "__main__":
    kerntest.main()

"""Boxes of images, and what their layers are made of: as root and as a user, with a range of ids and without."""

import os
import shutil
import subprocess
import tarfile
import time

import imagekit
import kerntest
from imagekit import Images, directory, entry, hardlink, layer, symlink
from kerntest import as_root_and_user


@as_root_and_user
class Boxes(Images):
    def test_a_box_of_an_image(self):
        self.assertEqual(self.says("/bin/sh", "-c", "echo ran; id -u"), "ran\n0\n")

    def test_one_id_without_the_range(self):
        self.assertEqual(self.says("/bin/sh", "-c", "id -u; touch /x; stat -c %u:%g /x /bin/busybox",
                                   options=["--no-uid-range"]), "0\n0:0\n0:0\n")

    def test_changes_are_thrown_away(self):
        self.says("/bin/sh", "-c", "echo changed >/etc/passwd; rm /bin/cat; touch /new")
        self.assertEqual(self.says("/bin/sh", "-c", "test -e /bin/cat && test ! -e /new && head -1 /etc/passwd"),
                         "root:x:0:0::/root:/bin/sh\n")

    def test_an_image_that_is_not_here(self):
        self.assert_failed(self.image("true", name="nothing", options=["--pull=never"]), 1, '"nothing"', "--pull never",
                           hint="kern pull nothing")

    def test_what_is_no_reference(self):
        self.assert_failed(self.image("true", name="No/Image"), 1, '"No/Image"', hint="NAME:TAG")

    def test_not_with_a_root_directory(self):
        self.assert_failed(self.image("true", options=["--rootfs", self.root]), 1, "--image and --rootfs", hint="kern import")

    def test_its_settings(self):
        name = self.made(layer(directory("work"), directory("home/ann"),
                               entry("etc/passwd", "root:x:0:0::/root:/bin/sh\nann:x:7:8::/home/ann:/bin/sh\n")),
                         Entrypoint=["/bin/sh", "-c"], Cmd=["echo $A $B $0; pwd; id -u; id -g; echo $HOME"], Env=["A=1", "B=x y", "C"],
                         WorkingDir="/work", User="ann")
        with open("/etc/subuid", encoding="utf-8") as file:
            if not self.me.is_root and not any(line.startswith((f"{self.me.name}:", f"{self.me.uid}:")) for line in file):
                self.skipTest("this user has no range of ids")
        self.assertEqual(self.image(name=name).out, "1 x y /bin/sh\n/work\n7\n8\n/home/ann\n")
        secret = self.file("hush", name="key", mode=0o600)
        self.assertEqual(self.says("cat $1; stat -c ' %a %u:%g' $1", "sh", "/run/secrets/key", name=name,
                                   options=["--secret", secret]), "hush 400 7:8\n")
        # A command goes behind the entrypoint; flags win.
        self.assertEqual(self.says("echo $A $0", "more", name=name, options=["-e", "A=2"]), "2 more\n")
        self.assertEqual(self.says("pwd; id -u", name=name, options=["-w", "/tmp", "-u", "0"]), "/tmp\n0\n")

    def test_without_any_command_a_shell_reads_standard_input(self):
        name = self.made(name="mute:1")
        self.assertEqual(self.kern("box", "--image", name, env=self.env, text="echo fed\n").out, "fed\n")

    def test_the_report_names_it(self):
        report = self.image("true").report
        self.assertEqual(report["image"]["ref"], "base:latest")
        self.assertEqual(report["image"]["digest"], self.list()["base:latest"]["digest"])

    def test_a_missing_command_names_image_and_binary(self):
        result = self.image("node")
        self.assert_failed(result, 127, "kern: cannot start 'node' in box: not found (image base:latest)")

    def test_by_its_digest(self):
        digest = self.list()["base:latest"]["digest"]
        self.assert_failed(self.image("true", name=f"base@{digest}", options=["--pull=never"]), 1, "it is not here")

    def test_another_machine(self):
        other = "arm64" if imagekit.ARCH == "amd64" else "amd64"
        name = self.made(conf=imagekit.config([self.bottom], arch=other))
        self.assert_failed(self.image("true", name=name), 1, f"linux/{other}", f"linux/{imagekit.ARCH}",
                           hint=f"kern pull --platform linux/{imagekit.ARCH} {name}")

    def test_another_machine_whose_programs_run_here(self):
        """In a user namespace with a binfmt_misc of its own: the host's is left alone."""
        emulator = shutil.which("qemu-aarch64-static")
        if imagekit.ARCH != "amd64" or emulator is None:
            self.skipTest("no qemu-aarch64-static on this machine (Debian: qemu-user-static)")
        with open(kerntest.program("foreign", "-nostdlib", "-static", "-Wl,-e,probe_start", source="foreign.c",
                                   compiler="aarch64-linux-gnu-gcc"), "rb") as file:
            layers = [layer(directory("etc"), entry("answer", file.read(), mode=0o755))]
        name = "foreign:1"
        self.load(imagekit.docker_archive(layers, tags=[name], conf=imagekit.config(layers, arch="arm64", Cmd=["/answer"])))
        self.addCleanup(self.kern, "rmi", name, env=self.env)
        magic, mask = ("".join(f"\\x{byte:02x}" for byte in part) for part in (
            b"\x7fELF\2\1\1" + b"\0" * 9 + b"\2\0\xb7\0", b"\xff" * 7 + b"\0" + b"\xff" * 8 + b"\xfe\xff\xff\xff"))
        script = ('mount -t tmpfs none /run && mount -t binfmt_misc none /proc/sys/fs/binfmt_misc && '
                  'printf %s "$1" >/proc/sys/fs/binfmt_misc/register || exit 77; shift; exec "$@"')
        for flags, code, said in (("OCF", 7, "runs through binfmt_misc"), ("OC", 1, "made for linux/arm64")):
            result = subprocess.run(
                ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", f":qemu-aarch64:M::{magic}:{mask}:{emulator}:{flags}",
                 kerntest.KERN, "box", "--no-uid-range", "--image", name], capture_output=True, text=True, check=False,
                env={"PATH": os.environ["PATH"], "HOME": self.me.home, **self.env}, cwd="/", **self.me.popen)
            if result.returncode == 77:
                self.skipTest(f"no binfmt_misc of its own (Linux 6.7): {result.stderr}")
            self.assertEqual(result.returncode, code, result)
            self.assertIn(said, result.stderr)

    def test_hosts_and_host_name_are_the_boxes_own(self):
        name = self.made(layer(entry("etc/hosts", "6.6.6.6 evil\n"), entry("etc/hostname", "builder\n")))
        self.assertEqual(self.says("/bin/sh", "-c", "cat /etc/hostname; cat /etc/hosts", name=name, options=["--hostname", "den"]),
                         "den\n127.0.0.1 localhost\n::1 localhost\n127.0.1.1 den\n")

    def test_volumes_stay_writable_below_a_read_only_root(self):
        name = self.made(layer(directory("data")), Volumes={"/data": {}, "/proc/x": {}, "/../x": {}})
        self.assertEqual(self.says("/bin/sh", "-c", "touch /data/x && echo yes; touch /x 2>/dev/null || echo no", name=name,
                                   options=["--read-only"]), "yes\nno\n")
        folder = self.folder()
        self.says("/bin/touch", "/data/mine", name=name, options=["--read-only", "-v", f"{folder}:/data"])
        self.assertEqual(os.listdir(folder), ["mine"])

    def test_attributes_that_have_no_room(self):
        name = self.made(layer(entry("large", "stays", pax={"SCHILY.xattr.user.large": "x" * 5000, "SCHILY.xattr.user.small": "x"})))
        self.assertEqual(self.says("/bin/cat", "/large", name=name), "stays")

    def test_a_new_named_volume_has_what_the_image_has_there(self):
        name = self.made(layer(directory("d", mode=0o1750, uid=7, gid=8), entry("d/one", "1", mode=0o640, uid=9, gid=10, mtime=86400),
                               hardlink("d/two", "d/one"), entry("d/hole", b"\0" * 300000 + b"end"), directory("d/sub", mtime=86400),
                               symlink("d/out", "/etc/x"), entry("d/gone", "1"), entry("d/pipe", kind=tarfile.FIFOTYPE),
                               entry("d/su", "x", mode=0o4755, pax={"SCHILY.xattr.user.mine": "yes"}), directory("old")),
                         layer(directory("d", mode=0o1750, uid=7, gid=8), entry("d/.wh.gone"), entry("d/sub/new", "2"),
                               symlink("link", "../../d"), symlink("up", "../../../etc"), symlink("loop", "loop")))
        self.addCleanup(self.verb, "volume", "prune", "--force")
        show = "cd /d; stat -c '%n %a %u:%g %Y' . one two sub; stat -c %h two; cat sub/new one; ls; cat out 2>/dev/null || stat -c %s hole"
        there = self.says("/bin/sh", "-c", show, name=name)
        self.assertIn("one\nout\npipe\nsu\nsub\ntwo\n300003\n", there)
        self.assertEqual(self.says("/bin/sh", "-c", show + "; rm -r one sub", name=name, options=["-v", "v:/d"]), there)
        found = self.store("../volumes/v/")
        self.assertEqual(os.getxattr(found + "su", "user.mine"), b"yes")
        self.assertEqual(bool(os.stat(found + "su").st_mode & 0o4000), not self.me.is_root)
        # Once: what a box took away stays away.
        self.assertEqual(self.says("/bin/sh", "-c", "ls /d", name=name, options=["-v", "v:/d"]), "hole\nout\npipe\nsu\ntwo\n")
        for place, *options in (("/d", "-v", "w:/d:nocopy"), ("/d", "--mount", "type=bind,src=y,dst=/d,nocopy"),
                                ("/no/where", "-v", "x:/no/where"), ("/d", "-v", "w:/d")):
            self.assertEqual(self.says("/bin/ls", place, name=name, options=options), "")
        # Links of the image lead where they lead in the box; never to the host's.
        self.assertEqual(self.says("/bin/ls", "/d/", name=name, options=["-v", "l:/link:ro"]), "hole\none\nout\npipe\nsu\nsub\ntwo\n")
        self.assertEqual(self.says("/bin/ls", "/up/", name=name, options=["-v", "u:/up"]), "")
        self.assertNotEqual(self.image("/bin/ls", "/", name=name, options=["-v", "n:/loop"]).code, 0)
        # One that was made for it, and one that another box has had.
        self.verb("volume", "create", "had")
        self.rooted("true", options=["-v", "had:/mnt"], env=self.env)
        self.assertEqual(self.says("/bin/sh", "-c", "ls -a /d | wc -l", name=name, options=["-v", "had:/d"]), "2\n")
        self.verb("volume", "create", "fresh")
        self.assertEqual(self.says("/bin/ls", "/d/sub", name=name, options=["-v", "fresh:/d/sub"]), "new\n")

    def test_more_than_a_new_volume_may_hold(self):
        name = self.made(layer(directory("d"), entry("d/big", b"x" * (2 << 20)), hardlink("d/again", "d/big"), entry("d/more", b"y" * (1 << 20))))
        self.addCleanup(self.verb, "volume", "prune", "--force")
        volumes = self.store("../volumes")

        def run(*options):
            return self.image("/bin/sh", "-c", "ls /d", name=name, options=["-q", *options])
        self.verb("volume", "create", "own", "--size", "2m")
        before = sorted(os.listdir(volumes))
        for volume, hint in (("own:/d", "kern volume rm own && kern volume create own --size 4m"),
                             ("own:/d:ro", "kern volume create own --size 4m"), ("own:/d:max=9m", "kern volume create own --size 4m"),
                             ("given:/d:max=2m", "-v given:/d:max=4m")):
            with self.subTest(volume):
                self.assert_failed(run("-v", volume), 1, f'cannot fill volume "{volume.split(":")[0]}" from the image: what that has at "/d" takes 31',
                                   " bytes, and the volume may hold ", hint=hint)
                self.assertEqual(sorted(os.listdir(volumes)), before, "nothing is left")
        # What the hint says helps, and so does an empty start.
        self.verb("volume", "rm", "own")
        self.verb("volume", "create", "own", "--size", "4m")
        self.assertEqual(run("-v", "own:/d").out, "again\nbig\nmore\n")
        self.assertEqual(run("-v", "given:/d:nocopy,max=2m").out, "")

    def test_half_a_volume_is_never_taken_for_a_whole(self):
        name = self.made(layer(directory("d"), *[entry(f"d/{i}", "x" * 9000) for i in range(300)]))
        self.addCleanup(self.verb, "volume", "prune", "--force")
        volumes = self.store("../volumes")
        for moment in (0.02, 0.05):
            running = self.start("box", "--image", name, "-v", "v:/d", "--", "/bin/true", env=self.env)
            time.sleep(moment)
            running.signal(9)
            running.wait()
            self.assertTrue(kerntest.eventually(lambda: not kerntest.our_processes()))
            if os.path.exists(f"{volumes}/v"):
                self.assertEqual(len(os.listdir(f"{volumes}/v")), 300)
                self.verb("volume", "rm", "v")
        many = [self.start("box", "--image", name, "-v", "v:/d", "--", "/bin/sh", "-c", "ls /d | wc -l", env=self.env) for _ in range(2)]
        self.assertEqual([one.wait().out for one in many], ["300\n"] * 2)
        self.assertEqual([entry for entry in os.listdir(volumes) if entry not in (".unused", "v")], [])

    def test_a_plan_shows_it(self):
        self.assertIn("image base:latest", self.image("true", options=["--plan"], report=False).out)

    def test_in_kern_toml(self):
        env = self.own_config('[box]\nimage = "base"\npull = "never"\n') | self.env
        self.assertEqual(self.kern("box", "--", "/bin/busybox", "echo", "ran", env=env).out, "ran\n")

    def test_the_store_is_out_of_reach(self):
        result = self.box("true", options=["-v", self.store() + ":/x"], env=self.env)
        self.assert_failed(result, 1, "kern keeps its own state there")
        # By another name, and for a kern that keeps its own elsewhere.
        for path in (self.data + "/kern", self.store("refs"), self.store("lock")):
            self.assert_failed(self.box("true", options=["-v", path + ":/x"]), 1, "kern keeps its own state there")
        if self.me.is_root:
            place = self.folder()
            subprocess.run(["mount", "--bind", self.data, place], check=True)
            try:
                self.assert_failed(self.box("true", options=["-v", place + "/kern:/x"], env=self.env), 1, "kern keeps its own state there")
                self.assertEqual(self.rooted("/bin/ls", "/mnt/kern", options=["-v", place + ":/mnt"], env=self.env).out, "")
            finally:
                subprocess.run(["umount", place], check=True)
        self.says("true")
        layer_of_it = next(folder for folder, names, _ in os.walk(self.store() + "/layers") if "bin" in names)
        if self.me.is_root:
            self.check_parts(layer_of_it)
        for root in (self.store(), layer_of_it, os.path.dirname(os.path.dirname(self.store()))):
            for options in (["--bind-rootfs"], []):
                result = self.kern("box", "--rootfs", root, *options, "--", "true", env=self.env)
                self.assert_failed(result, 1, "cannot use root directory", "kern keeps its own state there", hint="--image")

    def check_parts(self, layer_of_it):
        """A part of the store that is mounted elsewhere, and what is beside it: nothing above them tells one from the other."""
        place, beside = os.path.join(self.folder(), "a place\\040"), self.folder()
        os.mkdir(place)
        os.mkdir(beside + "/sub")
        lock = self.file(name="lock")
        mounts = [(layer_of_it, place, 1), (beside, self.folder(), 0), (self.store("lock"), lock, 1)]
        for source, target, _ in mounts:
            subprocess.run(["mount", "--bind", source, target], check=True)
            self.addCleanup(subprocess.run, ["umount", target], check=True)
        for path, code in [(target, code) for _, target, code in mounts] + [(place + "/bin", 1), (mounts[1][1] + "/sub", 0)]:
            with self.subTest(path):
                result = self.rooted("true", options=["--mount", f"type=bind,source={path},target=/mnt"], env=self.env)
                self.assertEqual(result.code, code, result)
                self.assertEqual("kern keeps its own state there" in result.err, code == 1, result)
        self.assert_failed(self.kern("box", "--rootfs", place, "--", "true", env=self.env), 1, "kern keeps its own state there")

    def test_a_layer_that_stands_there_twice(self):
        one, two = layer(entry("f", "1"), directory("d"), entry("d/a", "1")), layer(entry("f", "2"), entry("d/.wh.a", ""))
        script = ["/bin/sh", "-c", "cat /f; ls /d"]
        self.assertEqual(self.says(*script, name=self.made(one, two, one, layer(), two, layer())), "2")
        self.assertEqual(self.says(*script, name=self.made(one, layer(), two, layer(), one, name="made:2")), "1a\n")

    def test_a_store_that_others_may_write_to_is_refused(self):
        os.chmod(self.store(), 0o777)
        self.addCleanup(os.chmod, self.store(), 0o700)
        self.assert_failed(self.image("true"), 1, "image store", hint="chmod")
        self.assertIn("others may look", self.verb("images", code=1).err)


@as_root_and_user
class Layers(Images):
    def test_whiteouts(self):
        name = self.made(layer(directory("a"), entry("a/old", "1"), entry("a/kept", "1"), directory("b"), entry("b/old", "1"),
                               entry("gone", "1"), directory("c"), entry("c/old", "1")),
                         layer(entry(".wh.gone"), entry("a/.wh.old"), entry("b/new", "2"), entry("b/.wh..wh..opq"), entry(".wh.c"),
                               directory("c"), entry("c/new", "2"), entry(".wh..wh.plnk/1"), entry(".wh.never")))
        self.assertEqual(self.says("/bin/sh", "-c", "ls -d /gone 2>&1; ls /a /b /c; ls -a / | grep wh || true", name=name),
                         "ls: /gone: No such file or directory\n/a:\nkept\n\n/b:\nnew\n\n/c:\nnew\n")

    def test_whiteouts_do_not_hide_what_their_own_layer_has(self):
        name = self.made(layer(directory("d"), entry("d/old", "1"), entry("f", "1")),
                         layer(directory("d"), entry("d/new", "2"), entry("f", "2"), entry(".wh.d"), entry(".wh.f")))
        self.assertEqual(self.says("/bin/sh", "-c", "ls /d; cat /f", name=name), "new\n2")

    def test_a_directory_that_becomes_a_symlink_and_is_written_through(self):
        name = self.made(layer(directory("data"), entry("data/x", "1"), directory("safe"), entry("safe/x", "safe")),
                         layer(entry(".wh.data"), symlink("data", "/safe")),
                         layer(entry("data/x", "evil")))
        self.assertEqual(self.says("/bin/sh", "-c", "cat /safe/x /data/x", name=name), "safeevil")

    def test_directories_without_an_entry_are_as_lower_layers_say(self):
        lower = layer(directory("t", mode=0o1777, uid=7, gid=8, mtime=86400), directory("t/deep", mode=0o700, mtime=86400),
                      directory("t/said", mode=0o700), directory("gone", mode=0o700), directory("o", mode=0o711, mtime=86400),
                      entry("o/old", "1"), directory("etc", mode=0o700))
        upper = layer(entry("t/deep/x", "1"), entry("t/y", "2"), entry("t/said/x", ""), directory("t/said", mode=0o750), entry("o/new", "3"),
                      entry("o/.wh..wh..opq"), entry(".wh.gone"), entry("gone/x", ""), entry("fresh/x", ""), entry("etc/x", ""))
        show = ["/bin/sh", "-c", "cd /; stat -c '%n %a %u:%g %Y' t t/deep o; stat -c '%n %a' t/said gone fresh etc; cat t/deep/x t/y o/new; ls o"]
        whole = "t 1777 7:8 86400\nt/deep 700 0:0 86400\no 711 0:0 86400\nt/said 750\ngone 755\nfresh 755\netc 700\n123new\n"
        name = self.made(lower, upper, layer(entry("t/deep/.wh.never")))
        self.assertIn(self.says(*show, name=name), (whole, whole.replace("7:8", "0:0") if not self.me.is_root else whole))
        self.assertEqual(self.says(*show, name=name, options=["--no-uid-range"]),
                         whole if self.me.is_root else whole.replace("7:8", "0:0"))
        # The same layer above another one, and a volume of it.
        name = self.made(layer(directory("t", mode=0o1700)), upper, name="made:2")
        self.assertEqual(self.says("/bin/stat", "-c", "%a", "/t", "/t/deep", name=name), "1700\n755\n")
        self.addCleanup(self.verb, "volume", "prune", "--force")
        self.assertEqual(self.says("/bin/stat", "-c", "%a", "/t", name=name, options=["-v", "v:/t"]), "1700\n")
        # No link of a layer leads the way.
        name = self.made(layer(directory("real", mode=0o700), directory("a", mode=0o700)),
                         layer(symlink("l", "real"), entry("a/x", "")), layer(entry("l/x", "")), name="made:3")
        self.assertEqual(self.says("/bin/stat", "-c", "%n %a %F", "/l", "/real", "/a", name=name),
                         "/l 755 directory\n/real 700 directory\n/a 700 directory\n")

    def test_many_layers(self):
        name = self.made(*[layer(entry(f"l{i}", str(i)), entry("top", str(i))) for i in range(100)])
        self.assertEqual(self.says("/bin/sh", "-c", "cat /top; cat /l0 /l50 /l99; ls -d /l* | wc -l", name=name), "9905099100\n")

    def test_what_files_are_made_of(self):
        sparse = b"\0" * 4000000 + b"end"
        name = self.made(layer(directory("sticky", mode=0o1777), entry("setuid", "x", mode=0o4755), entry("one", "data", uid=7, gid=8),
                               hardlink("two", "one"), entry("deep/er/file", "f"), entry("plain", sparse), symlink("abs", "/etc/x"),
                               symlink("up", "../../../../etc/x"), entry("odd\n name\xe9", "o"), entry("pipe", kind=tarfile.FIFOTYPE),
                               entry("tty", kind=tarfile.CHRTYPE, device=(5, 0)), entry("old", "o", mtime=86400)))
        self.assertEqual(self.says("/bin/sh", "-c", """stat -c '%a %n' /sticky /setuid; stat -c '%h' /one; cat /two; ls /deep/er
            stat -c %s /plain; stat -c %Y /old; test -p /pipe && echo pipe; test -e /tty || echo none; ls / | grep -c odd""", name=name),
            "1777 /sticky\n4755 /setuid\n2\ndatafile\n4000003\n86400\npipe\nnone\n1\n")
        if self.me.is_root or self.says("/bin/stat", "-c", "%u:%g", "/one", name=name) != "0:0\n":
            self.assertEqual(self.says("/bin/stat", "-c", "%u:%g", "/one", "/two", name=name), "7:8\n7:8\n")

    def test_attributes_of_an_overlay_are_not_taken(self):
        name = self.made(layer(directory("d"), entry("d/seen", "1")),
                         layer(directory("d", pax={"SCHILY.xattr.user.overlay.opaque": "y", "SCHILY.xattr.user.mine": "1"})))
        self.assertEqual(self.says("/bin/ls", "/d", name=name), "seen\n")

    def test_layers_are_shared(self):
        shared = layer(entry("shared", "x" * 100000))
        one, two = self.made(shared, layer(entry("one", "1")), name="one:1"), self.made(shared, layer(entry("two", "2")), name="two:1")
        ids = os.listdir(self.store("layers"))
        names = [n for i in ids for n in os.listdir(self.store("layers", i)) if not n.startswith("s-")]
        self.assertEqual(names.count(imagekit.digest(shared)[7:]), 1)
        self.verb("rmi", one)
        self.assertEqual(self.says("/bin/cat", "/two", name=two), "2")

    def test_both_kinds_of_ids_of_one_image(self):
        name = self.made(layer(entry("of-ann", "x", mode=0o600, uid=7, gid=8)))
        for options in ((), ("--no-uid-range",), ()):
            self.assertEqual(self.says("/bin/sh", "-c", "cat /of-ann", name=name, options=options), "x")


if __name__ == "__main__":
    kerntest.main()

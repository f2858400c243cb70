"""Images from and for other programs: skopeo, umoci and podman on the other side, in both directions (as root only: what differs
for a user is tested elsewhere); and one of Debian's packages."""

import os
import shutil
import subprocess
import unittest

import kerntest
from imagekit import Images, entry, layer
from kerntest import as_root, as_root_and_user


@as_root
class Others(Images):
    def setUp(self):
        self.work = self.folder()
        self.name = self.made(layer(entry("x", "mine")), Cmd=["/bin/cat", "/x"])
        self.saved = f"{self.work}/saved.tar"
        self.verb("save", self.name, "-o", self.saved)

    def other(self, *words):
        if shutil.which(words[0]) is None:
            self.skipTest(f"no {words[0]} on this machine")
        home = {"HOME": self.work, "XDG_RUNTIME_DIR": self.work}
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=os.environ | home, timeout=60)
        self.assertEqual(done.returncode, 0, (words, done.stdout, done.stderr))
        return done.stdout

    def podman(self, *words):
        return self.other("podman", "--storage-driver=vfs", f"--root={self.work}/storage", f"--runroot={self.work}/run", *words)

    def comes_back(self, *words, name="back:1"):
        self.verb("load", *words)
        self.assertEqual(self.image(name=name).out, "mine")
        self.verb("rmi", name)

    def test_skopeo(self):
        copy = ["skopeo", "--insecure-policy", "copy"]
        self.other(*copy, f"docker-archive:{self.saved}", f"oci:{self.work}/one:x")
        self.other(*copy, f"oci-archive:{self.saved}", f"oci:{self.work}/two:x")
        self.comes_back("-i", f"{self.work}/one", "back:1")
        self.comes_back("-i", f"{self.work}/two", "back:1")
        self.other(*copy, f"oci:{self.work}/one:x", f"docker-archive:{self.work}/back.tar:back:1")
        self.comes_back("-i", f"{self.work}/back.tar")
        self.other(*copy, f"oci:{self.work}/one:x", f"oci-archive:{self.work}/back2.tar:back:1")
        self.comes_back("-i", f"{self.work}/back2.tar")

    def test_umoci(self):
        self.other("skopeo", "--insecure-policy", "copy", f"oci-archive:{self.saved}", f"oci:{self.work}/layout:x")
        self.other("umoci", "unpack", "--image", f"{self.work}/layout:x", f"{self.work}/bundle")
        with open(f"{self.work}/bundle/rootfs/x", encoding="utf-8") as file:
            self.assertEqual(file.read(), "mine")
        kerntest.write(f"{self.work}/bundle/rootfs/y", "umoci's")
        os.remove(f"{self.work}/bundle/rootfs/x")
        self.other("umoci", "repack", "--image", f"{self.work}/layout:y", f"{self.work}/bundle")
        self.other("umoci", "rm", "--image", f"{self.work}/layout:x")
        self.verb("load", "-i", f"{self.work}/layout", "back:1")
        self.assertEqual(self.says("/bin/sh", "-c", "cat /y; test ! -e /x", name="back:1"), "umoci's")
        self.verb("rmi", "back:1")

    def test_podman(self):
        self.assertIn(self.name, self.podman("load", "-i", self.saved))
        full = self.podman("images", "--format", "{{.Repository}}:{{.Tag}}").strip()
        self.podman("tag", full, "localhost/back:1")
        for form in ("docker-archive", "oci-archive"):
            self.podman("save", "--format", form, "-o", f"{self.work}/{form}.tar", "localhost/back:1")
            self.comes_back("-i", f"{self.work}/{form}.tar", name="localhost/back:1")


@as_root_and_user
class Debian(Images):
    """Real programs, of packages that mmdebstrap unpacked: interpreters with their libraries and modules, not a busybox."""

    @classmethod
    def prepare_class(cls):
        super().prepare_class()
        kit = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../kit/debian")
        made = subprocess.run([kit], capture_output=True, text=True, check=False, timeout=300)
        if made.returncode == 77:
            raise unittest.SkipTest(made.stdout.strip().removeprefix("skip: "))
        with open(made.stdout.strip(), "rb") as tar:
            result = kerntest.Running(["import", "-", "debian:made", "-e", "LANG=C.UTF-8", "--", "python3"], cls.me, env=cls.env,
                                      stdin=tar).wait()
        if result.code != 0:
            raise AssertionError(result)

    def test_python(self):
        code = "import hashlib, ssl, subprocess, sys; subprocess.run(['busybox', 'echo', 'ä', str(sys.version_info[0])]); " \
               "print(ssl.OPENSSL_VERSION.split()[0], hashlib.sha256(b'x').hexdigest()[:8])"
        self.assertEqual(self.says("python3", "-c", code, name="debian:made"), "ä 3\nOpenSSL 2d711642\n")

    def test_the_images_own_command(self):
        result = self.image(name="debian:made", text="print(6 * 7)")
        self.assertEqual((result.code, result.out), (0, "42\n"), result)

    def test_node(self):
        code = "console.log(require('crypto').createHash('sha256').update('x').digest('hex').slice(0, 8), process.pid)"
        self.assertEqual(self.says("node", "-e", code, name="debian:made"), "2d711642 1\n")

    def test_busybox(self):
        self.assertEqual(self.says("busybox", "sh", "-c", "echo $((6 * 7)); test -e /usr/bin/node && echo there", name="debian:made"),
                         "42\nthere\n")

    def test_a_missing_command(self):
        result = self.image("ruby", "-v", name="debian:made")
        self.assertEqual(result.code, 127, result)
        self.assertIn("kern: cannot start 'ruby' in box: not found (image debian:made)", result.err)


if __name__ == "__main__":
    kerntest.main()

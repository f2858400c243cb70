"""Volumes with a size: -v SRC:DST:rw,max=SIZE. A box whose volume holds more is ended with the fault workspace_full, whatever it
does to hide it; what fits is left alone."""

import os
import signal

import kerntest
from kerntest import BoxCase, as_root_and_user

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

    def test_too_much_before(self):
        volume = self.folder(0o777)
        kerntest.write(os.path.join(volume, "old"), "x" * 3 * MIB)
        self.assert_full(self.run_in("sleep 10", volume=volume))

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
                            (f"{volume}:/w:rw,max=", "neither ro nor rw nor max=SIZE"), (f"{volume}:/w:ro,max=1m", "read-only"),
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


if __name__ == "__main__":
    kerntest.main()

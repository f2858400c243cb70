"""The store of images and the verbs around it, also when several are at work or one is killed."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import time

import imagekit
import kerntest
from imagekit import Images, directory, entry, layer
from kerntest import as_root_and_user


@as_root_and_user
class Verbs(Images):
    def test_saved_and_loaded_again(self):
        name = self.made(layer(directory("d"), entry("d/x", "saved")), Env=["A=1"], Cmd=["cat", "/d/x"])
        before = self.list()[name]
        folder = self.folder()
        self.verb("save", name, "base", "-o", f"{folder}/all.tar")
        self.verb("rmi", name)
        self.assertNotIn(name, self.list())
        self.assertEqual(sorted(self.verb("load", "-i", f"{folder}/all.tar").out.split()), ["'base:latest'", "'made:1'", "loaded", "loaded"])
        after = self.list()[name]
        for key in ("digest", "id", "size_bytes", "platform", "dangling"):
            self.assertEqual(after[key], before[key], key)
        self.assertEqual(self.image(name=name).out, "saved")

    def test_an_oci_layout_as_tar_and_directory(self):
        top = layer(entry("x", "layout"))
        self.load(imagekit.oci_archive([self.bottom, top], ref="example.com/some/where:2"))
        self.assertEqual(self.says("/bin/cat", "/x", name="example.com/some/where:2"), "layout")
        self.verb("rmi", "example.com/some/where:2")
        folder = self.folder()
        for name, data in imagekit.oci_files([self.bottom, top], ref="2").items():
            os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
            with open(f"{folder}/{name}", "wb") as file:
                file.write(data)
        kerntest.give(folder, self.me)
        self.assertIn("no name", self.verb("load", "-i", folder, code=1).err)
        self.assertEqual(self.verb("load", "-i", folder, "where:2").out, "loaded 'where:2'\n")
        self.assertEqual(self.says("/bin/cat", "/x", name="where:2"), "layout")
        self.verb("rmi", "where:2")

    def test_more_layers_than_a_mount_takes(self):
        layers = [layer(entry(f"f{i}", "")) for i in range(128)]
        for pack in (imagekit.docker_archive, imagekit.oci_archive):
            result = self.verb("load", "-i", self.archive(pack(layers)), "many:1", code=1)
            self.assertIn("128 layers; 1 to 127 make an image\nhint: ", result.err)

    def test_a_compressed_archive_from_standard_input(self):
        path = self.archive(gzip.compress(imagekit.docker_archive([self.bottom])))
        with open(path, "rb") as file:
            self.assertEqual(self.verb("load", stdin=file).out, "loaded 'made:1'\n")
        self.verb("rmi", "made:1")

    def test_what_is_no_archive_and_what_is_too_much(self):
        path = self.archive(b"no archive at all\n" * 40)
        self.assertIn("hint: kern load -i FILE reads", self.verb("load", "-i", path, code=1).err)
        with open("/dev/null", "rb") as file:
            self.assertIn("hint: kern load -i FILE reads", self.verb("load", stdin=file, code=1).err)
        for verb in ("gc", "images"):
            self.assertIn(f"hint: kern {verb} --help", self.verb(verb, "x", code=1).err)
        self.assertIn("hint: kern load", self.verb("load", "a", "b", code=1).err)

    def test_import_of_a_tar(self):
        path = self.archive(self.bottom)
        with open(path, "rb") as file:
            self.verb("import", "-", "one:1", "-e", "A=1", "--entrypoint", "/bin/sh", "--entrypoint=-c", "-w", "/tmp", "-u", "0", "--",
                      "echo $A; pwd", stdin=file)
        self.assertEqual(self.image(name="one:1").out, "1\n/tmp\n")
        self.assertEqual(self.list()["one:1"]["platform"], f"linux/{imagekit.ARCH}")
        self.verb("rmi", "one:1")
        self.assertIn("needs a source", self.verb("import", "x", code=1).err)
        self.assertIn("host's own root", self.verb("import", "/", "x", code=1).err)
        self.assertIn("cannot import", self.verb("import", "/does/not/exist", "x", code=1).err)

    def test_tag(self):
        self.assertEqual(self.verb("tag", "base", "example.com/other:2").out, "tagged 'example.com/other:2'\n")
        images = self.list()
        self.assertEqual(images["example.com/other:2"]["id"], images["base:latest"]["id"])
        self.verb("rmi", "example.com/other:2")
        self.says("/bin/true")
        self.assertIn("needs an image", self.verb("tag", "base", code=1).err)

    def test_inspect(self):
        name = self.made(layer(entry("x", "1")), Env=["A=1"], Cmd=["a", "b"], User="ann", WorkingDir="/w", StopSignal="SIGINT")
        image = json.loads(self.verb("inspect", name).out)[0]
        self.assertEqual((image["image"], image["env"], image["cmd"], image["user"], image["workdir"], image["stop_signal"]),
                         (name, ["A=1"], ["a", "b"], "ann", "/w", "SIGINT"))
        self.assertEqual([row["unpacked"] for row in image["layers"]], [True, True])
        self.assertEqual(image["digest"], self.list()[name]["digest"])
        self.assertEqual(json.loads(self.verb("inspect", "base").out)[0]["image"], "base:latest")
        self.assertIn("cannot find image", self.verb("inspect", "not:here", code=1).err)
        self.assertIn("no", self.verb("inspect", "not-here", code=1).err)

    def test_layers_that_were_lost_are_unpacked_again(self):
        name = self.made(layer(entry("x", "again")))
        shutil.rmtree(self.store("layers")) if self.me.is_root else os.rename(self.store("layers"), self.store("lost"))
        self.assertEqual(self.says("/bin/cat", "/x", name=name), "again")
        if not self.me.is_root:
            shutil.rmtree(self.store("lost"))

    def test_a_blob_that_rotted(self):
        name = self.made(layer(entry("x", "rots")))
        blob = json.loads(self.verb("inspect", name).out)[0]["id"][7:]
        with open(self.store("blobs", blob), "r+b") as file:
            file.write(b"X")
        self.assertIn("its bytes are those of", self.verb("tag", name, "x:2", code=1).err)
        self.assertEqual(self.says("/bin/cat", "/x", name=name), "rots")  # what is unpacked already is whole

    def test_a_tag_that_moves_on(self):
        one, two = layer(entry("v", "1")), layer(entry("v", "2"))
        self.load(imagekit.docker_archive([self.bottom, one], tags=["moves:1"]))
        first = self.list()["moves:1"]
        self.load(imagekit.docker_archive([self.bottom, two], tags=["moves:1"]))
        self.assertEqual(self.says("/bin/cat", "/v", name="moves:1"), "2")
        dangling = [row for row in self.list().values() if row["dangling"]]
        self.assertEqual([row["id"] for row in dangling], [first["id"]])
        self.assertEqual(self.says("/bin/cat", "/v", name=dangling[0]["image"]), "1")
        dry = self.verb("gc", "--dry-run")
        for kind in ("reference", "links", "layer", "blob"):
            self.assertRegex(dry.out, rf"(?m)^{kind} +[0-9.]+M  \S+$")
        self.assertRegex(dry.out, r"would remove \d+, and free [0-9.]+M\n$")
        self.assertEqual(self.says("/bin/cat", "/v", name=dangling[0]["image"]), "1")
        self.assertEqual(self.verb("gc").out, dry.out.replace("would remove", "removed").replace("free", "freed"))
        self.assertEqual([row for row in self.list().values() if row["dangling"]], [])
        self.assertEqual(self.says("/bin/cat", "/v", name="moves:1"), "2")
        self.verb("rmi", "moves:1")

    def test_what_is_removed_counts_once(self):
        [ids] = os.listdir(self.store("layers"))
        for number in range(300):
            path = self.store("layers", ids, f"{number:064x}")
            os.mkdir(path)
            os.chown(path, self.me.uid, self.me.gid)
        dry = self.verb("gc", "--dry-run")
        self.assertIn("would remove 300, ", dry.out)
        self.assertIn("removed 300, ", self.verb("gc").out)

    def test_a_living_box_keeps_what_it_uses(self):
        name = self.made(layer(entry("mine", "still here")))
        running = self.start("box", "--image", name, "--", "/bin/sh", "-c", "echo up; read x; cat /mine /bin/busybox >/dev/null && cat /mine",
                             env=self.env, stdin=subprocess.PIPE)
        self.assertEqual(running.line(), "up\n")
        self.verb("rmi", name)
        self.verb("gc")
        self.assertNotIn(name, self.list())
        self.assertEqual(running.wait("\n").out, "still here")
        self.verb("gc")
        ids = [name for name in os.listdir(self.store("blobs"))]
        self.assertEqual(len(ids), 3)  # of base

    def test_images_by_the_beginning_of_their_digest(self):
        identity = self.list()["base:latest"]["id"]
        self.verb("tag", identity[:20], "short:1")
        self.verb("rmi", "short:1")
        self.assertIn("cannot find image", self.verb("rmi", "nothing", code=1).err)
        self.assertIn("base:latest", self.verb("images").out)
        self.assertEqual(self.verb("images", "-q").out, "base:latest\n")

    def test_many_at_once(self):
        top = layer(*[entry(f"f{i}", os.urandom(2000)) for i in range(200)])
        paths = [self.archive(imagekit.docker_archive([self.bottom, top, layer(entry("n", str(i)))], tags=[f"many{i}:1"])) for i in range(6)]
        loads = [self.start("load", "-i", path, env=self.env) for path in paths]
        collecting = self.start("gc", env=self.env)
        for running in loads:
            self.assertEqual(running.wait().code, 0)
        self.assertEqual(collecting.wait().code, 0)
        for i in range(6):
            self.assertEqual(self.says("/bin/sh", "-c", "cat /n; ls / | grep -c ^f", name=f"many{i}:1"), f"{i}200\n")
        self.verb("rmi", *[f"many{i}:1" for i in range(6)])

    def test_killed_at_any_moment(self):
        """The store is whole after each, and the next load finishes. More moments: KERN_KILLS."""
        top = layer(*[entry(f"f{i}", os.urandom(3000)) for i in range(600)])
        path = self.archive(imagekit.docker_archive([self.bottom, top]))
        started = time.monotonic()
        self.verb("load", "-i", path)
        whole = time.monotonic() - started
        self.verb("rmi", "made:1")
        moments = int(os.environ.get("KERN_KILLS", "8"))
        for i in range(moments):
            running = self.start("load", "-i", path, env=self.env)
            time.sleep(whole * i / moments)
            running.signal(signal.SIGKILL)
            running.wait()
            self.assertTrue(kerntest.eventually(lambda: not kerntest.our_processes()))
            self.says("/bin/true")
            for name in self.list():
                self.assertEqual(self.says("/bin/sh", "-c", "ls / | grep -c ^f", name=name) if name == "made:1" else "600\n", "600\n")
            if i % 4 == 3:
                self.verb("load", "-i", path)
                self.assertEqual(self.says("/bin/sh", "-c", "ls / | grep -c ^f", name="made:1"), "600\n")
                self.verb("rmi", "made:1")
        self.verb("load", "-i", path)
        self.assertEqual(self.says("/bin/sh", "-c", "ls / | grep -c ^f", name="made:1"), "600\n")
        self.verb("rmi", "made:1")
        self.verb("gc")
        self.assertEqual(len(os.listdir(self.store("blobs"))), 3)


if __name__ == "__main__":
    kerntest.main()

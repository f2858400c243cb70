"""Archives of images that no honest program writes."""

import gzip
import json
import os
import resource
import tarfile

import imagekit
import kerntest
from imagekit import Images, directory, entry, hardlink, layer, symlink
from kerntest import as_root_and_user


@as_root_and_user
class Hostile(Images):
    """Archives that no honest program writes. Each is refused, in one line that says why, and leaves nothing."""

    def refuse(self, data, *parts, options=(), seconds=kerntest.PATIENCE):
        before = self.tree()
        result = self.verb("load", "-i", self.archive(data), *options, code=1, seconds=seconds)
        self.assert_failed(result, 1)
        for part in parts:
            self.assertIn(part, result.err)
        self.assertEqual(self.tree(), before)
        self.assertNotIn("made:1", self.list())
        self.assertEqual(os.listdir("/tmp/canary") if os.path.isdir("/tmp/canary") else [], [])

    def tree(self):
        return sorted(path for top, folders, files in os.walk(self.store()) for path in
                      [os.path.join(top, name) for name in folders + files] if "/layers/" not in path or path.count("/layers/") and
                      len(path.split("/layers/")[1].split("/")) < 3)

    def refuse_layer(self, *entries, parts=(), **keywords):
        self.refuse(imagekit.docker_archive([self.bottom, layer(*entries)]), *parts, **keywords)

    def test_absolute_name(self):
        self.refuse_layer(entry("/etc/passwd", "evil"), parts=['"/etc/passwd"', "absolute"])

    def test_names_that_lead_up(self):
        for name in ("../x", "a/../../x", "..", "./../x", "a/.."):
            with self.subTest(name):
                self.refuse_layer(directory("a"), entry(name, "evil"), parts=['".."'])

    def test_a_file_through_a_symlink_out_of_the_root(self):
        self.refuse_layer(symlink("out", "/tmp"), entry("out/canary", "evil"), parts=["symlink"])

    def test_a_file_through_a_symlink_that_leads_up(self):
        self.refuse_layer(symlink("out", "../../../../../../.."), entry("out/tmp/canary", "evil"), parts=["symlink"])

    def test_a_directory_through_a_symlink(self):
        self.refuse_layer(symlink("out", "/tmp"), directory("out/canary"), parts=["symlink"])

    def test_a_whiteout_through_a_symlink(self):
        self.refuse_layer(symlink("out", "/tmp"), entry("out/.wh.x"), parts=["symlink"])

    def test_an_opaque_mark_through_a_symlink(self):
        self.refuse_layer(symlink("out", "/tmp"), entry("out/.wh..wh..opq"), parts=["symlink"])

    def test_a_symlink_through_a_symlink(self):
        self.refuse_layer(symlink("one", "two"), symlink("two", "/tmp"), symlink("one/three", "x"), parts=["symlink"])

    def test_hard_links_out_of_the_root(self):
        for target in ("/etc/passwd", "../../../../../etc/passwd", "out/passwd"):
            with self.subTest(target):
                self.refuse_layer(symlink("out", "/etc"), hardlink("mine", target), parts=["hard link"])

    def test_a_hard_link_to_what_is_not_there_yet(self):
        self.refuse_layer(hardlink("a", "b"), entry("b", "x"), parts=["hard link", "does not have"])

    def test_a_hard_link_to_the_root_or_a_directory(self):
        self.refuse_layer(hardlink("a", "."), parts=["hard link"])
        self.refuse_layer(directory("d"), hardlink("a", "d"), parts=["hard link to a directory"])

    def test_a_hard_link_to_a_whiteout(self):
        self.refuse_layer(entry(".wh.b"), hardlink("a", "b"), parts=["hard link"])

    def test_whiteouts_of_nothing(self):
        for name in (".wh.", ".wh..", ".wh...", "a/.wh.."):
            with self.subTest(name):
                self.refuse_layer(directory("a"), entry(name), parts=["hides"])

    def test_below_a_whiteout(self):
        self.refuse_layer(entry(".wh.a/b", "x"), parts=["whiteout"])

    def test_names_that_are_too_long(self):
        self.refuse_layer(entry("/".join(["d" * 200] * 21), "x"), parts=["4095"])
        self.refuse_layer(entry("d" * 256, "x"), parts=["255"])
        self.refuse_layer(entry("d/" * 600 + "x", "x"), parts=["512"])

    def test_a_symlink_of_5000_bytes(self):
        self.refuse_layer(symlink("s", "x" * 5000), parts=["4095"])

    def test_a_full_directory_that_would_be_replaced(self):
        self.refuse_layer(directory("d"), entry("d/x", "1"), symlink("d", "/tmp"), entry("d/canary", "x"), parts=["not empty"])

    def test_an_empty_directory_that_becomes_a_symlink(self):
        self.refuse_layer(directory("d"), symlink("d", "/tmp"), entry("d/canary", "x"), parts=["symlink"])

    def test_a_file_that_becomes_a_directory_of_a_path(self):
        self.refuse_layer(entry("f", "1"), entry("f/x", "1"), parts=["file of the same layer"])

    def test_too_many_entries(self):
        many = layer(*[entry(f"e{i}") for i in range(300)])
        self.refuse(imagekit.docker_archive([many]), "more than 200 entries", options=["--max-entries=200"])

    def test_too_large(self):
        self.refuse(imagekit.docker_archive([layer(entry("big", b"x" * 3000000))]), "larger than", options=["--max-size=1m"])

    def test_a_bomb(self):
        bomb = layer(entry("zeros", bytes(90 << 20)))
        self.refuse(imagekit.oci_archive([bomb]), "more than 100 times its size", options=["--max-ratio=100"])

    def test_a_bomb_around_the_files(self):
        bomb = imagekit.docker_archive([layer(entry("zeros", bytes(90 << 20)))])
        self.refuse(gzip.compress(bomb, 9), "more than 250 times its size", "--max-ratio")

    def test_a_file_that_is_one_hole(self):
        for size, part in ((10 << 30, "more than 250 times its size"), (1 << 40, "larger than")):
            with self.subTest(size):
                self.refuse(layer(entry("hole", b"x", pax={
                    "GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.name": "hole", "GNU.sparse.size": str(size),
                    "GNU.sparse.numblocks": "1", "GNU.sparse.map": f"{size - 1},1"})), part)

    def test_an_archive_that_is_too_large(self):
        bottom = imagekit.docker_archive([self.bottom])
        self.refuse(bottom, "together are larger than 102400 bytes", "--max-image-size", options=["--max-image-size=100k"])

    def test_a_layout_with_a_file_that_is_one_hole(self):
        folder = self.folder()
        os.makedirs(f"{folder}/blobs/sha256")
        with open(f"{folder}/index.json", "wb") as file:
            file.truncate(8 << 20)
        kerntest.give(folder, self.me)
        result = self.verb("load", "-i", folder, "--max-size=1m", code=1)
        self.assertIn("larger than 1048576 bytes", result.err)

    def test_a_configuration_that_is_too_large(self):
        words = [f"WORD{i}=" + "x" * 60000 for i in range(20)]
        self.refuse(imagekit.docker_archive([self.bottom], Env=words), "longer than 1048576 bytes")

    def test_one_deep_directory_many_times(self):
        if os.environ.get("KERN_VARIANT") == "asan":
            self.skipTest("sanitizers take memory of their own")
        one = directory("/".join(["d" * 249] * 16), mtime=7)[0].tobuf(tarfile.PAX_FORMAT)
        archive = self.archive(imagekit.docker_archive([one * 13_000 + bytes(1024)]))
        most = (48 << 20, 48 << 20)
        self.verb("load", "-i", archive, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, most))
        self.verb("rmi", "made:1")
        self.verb("gc")

    def test_a_size_that_lies(self):
        info, _ = entry("f", "x")
        raw = bytearray(layer((info, b"x")))
        raw[124:136] = b"\xff" + b"\xff" * 11  # base-256: negative
        self.fix(raw)
        self.refuse(imagekit.docker_archive([bytes(raw)]))
        raw[124:136] = b"\x80" + b"\0" * 3 + b"\x7f" + b"\xff" * 7  # base-256: 9 EiB
        self.fix(raw)
        self.refuse(imagekit.docker_archive([bytes(raw)]))

    def test_a_pax_size_that_fights_the_header(self):
        self.refuse(imagekit.docker_archive([layer(entry("f", "x" * 100, pax={"size": "99999999"}), entry("g", "x"))]), "damaged")

    def test_a_pax_name_that_fights_the_header(self):
        self.refuse_layer(entry("good", "x", pax={"path": "../evil"}), parts=['".."'])

    def test_a_gnu_name_that_fights_the_header(self):
        self.refuse(imagekit.docker_archive([layer(entry("../" + "a" * 150, "x"), form=tarfile.GNU_FORMAT)]), '".."')

    def test_a_sparse_file_of_exabytes(self):
        self.refuse_layer(entry("s", "", pax={"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.size": str(1 << 60),
                                              "GNU.sparse.map": f"{(1 << 60) - 1},1"}))

    def test_archives_that_are_cut_or_noise(self):
        self.refuse(imagekit.docker_archive([layer(entry("f", "x" * 4000))[:2000]]), "damaged")
        self.refuse(imagekit.docker_archive([b"noise" * 4000]))
        self.refuse(imagekit.docker_archive([self.bottom])[:300000])
        self.refuse(b"noise" * 4000)
        self.refuse(b"")

    def test_bytes_with_another_digest(self):
        files = imagekit.oci_files([self.bottom])
        name = max(files, key=lambda n: len(files[n]))
        files[name] = files[name][:-1] + b"x"
        self.refuse(layer(*[entry(n, d) for n, d in files.items()]), "cannot open blob")
        conf = imagekit.config([layer(entry("other"))])
        self.refuse(imagekit.docker_archive([self.bottom], conf=conf), "unpacked it is")

    def test_documents_that_lie(self):
        cases = {"not JSON": b"{", "no object": b"[]", "no layers": json.dumps({"rootfs": {"diff_ids": []}}).encode(),
                 "a digest with a path": json.dumps({"rootfs": {"diff_ids": ["sha256:../../../etc/passwd"]}}).encode(),
                 "deep": b"[" * 100000, "twice": b'{"rootfs": 1, "rootfs": 2}', "numbers": b'{"rootfs": {"diff_ids": [1]}}'}
        for what, conf in cases.items():
            with self.subTest(what):
                self.refuse(imagekit.docker_archive([self.bottom], conf=conf))
        for tag in ("../../evil", "/etc/passwd", "UPPER", "a" * 400):
            with self.subTest(tag):
                self.refuse(imagekit.docker_archive([self.bottom], tags=[tag]), "cannot use image")

    def test_members_that_lead_out_of_the_archive(self):
        for entries in ([entry("../../../tmp/canary/x", "evil")], [entry("/tmp/canary/x", "evil")]):
            self.refuse(layer(*entries, entry("manifest.json", "[]")))
        manifest = json.dumps([{"Config": "../../../../etc/passwd", "RepoTags": ["made:1"], "Layers": ["l"]}])
        self.refuse(layer(entry("manifest.json", manifest)))
        manifest = json.dumps([{"Config": "c", "RepoTags": ["made:1"], "Layers": ["l"]}])
        self.refuse(layer(entry("manifest.json", manifest), symlink("c", "/etc/passwd"), symlink("l", "l")))

    @staticmethod
    def fix(raw):
        """The checksum of the first header, which stands in its bytes 148 to 156."""
        raw[148:156] = b" " * 8
        raw[148:156] = b"%06o\0 " % sum(raw[:512])


if __name__ == "__main__":
    kerntest.main()

"""Makes images by hand for the tests: layers of entries, docker archives and OCI layouts of layers, also such as no honest
program writes; and a test case with a store of its own. Nothing but the standard library."""

import glob
import gzip
import hashlib
import io
import json
import os
import platform
import shutil
import tarfile

import kerntest
from kerntest import BoxCase

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def entry(name, data=b"", kind=tarfile.REGTYPE, mode=None, uid=0, gid=0, link="", mtime=1, pax=None, device=(0, 0)):
    info = tarfile.TarInfo(name)
    info.type, info.uid, info.gid, info.linkname, info.mtime = kind, uid, gid, link, mtime
    info.mode = mode if mode is not None else 0o755 if kind == tarfile.DIRTYPE else 0o644
    info.pax_headers = pax or {}
    info.devmajor, info.devminor = device
    if isinstance(data, str):
        data = data.encode()
    info.size = len(data) if kind == tarfile.REGTYPE else 0
    return info, data


def directory(name, **keywords):
    return entry(name, kind=tarfile.DIRTYPE, **keywords)


def symlink(name, to, **keywords):
    return entry(name, kind=tarfile.SYMTYPE, link=to, **keywords)


def hardlink(name, to, **keywords):
    return entry(name, kind=tarfile.LNKTYPE, link=to, **keywords)


def layer(*entries, form=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def config(layers, arch=ARCH, **settings):
    return json.dumps({"architecture": arch, "os": "linux", "config": settings,
                       "rootfs": {"type": "layers", "diff_ids": [digest(l) for l in layers]}}).encode()


def _pack(files):
    return layer(*[entry(name, data) for name, data in files])


def docker_archive(layers, tags=("made:1",), conf=None, **settings):
    """As `docker save` wrote them for years."""
    conf = conf if conf is not None else config(layers, **settings)
    files = [(f"{i}/layer.tar", l) for i, l in enumerate(layers)] + [("config.json", conf)]
    manifest = [{"Config": "config.json", "RepoTags": list(tags), "Layers": [f"{i}/layer.tar" for i in range(len(layers))]}]
    return _pack(files + [("manifest.json", json.dumps(manifest).encode())])


def oci_files(layers, ref="made:1", conf=None, compress=True, manifest=None, **settings):
    """An OCI layout as {NAME: BYTES}."""
    conf = conf if conf is not None else config(layers, **settings)
    blobs = [gzip.compress(l, 1, mtime=0) if compress else l for l in layers]
    kind = "application/vnd.oci.image.layer.v1.tar" + ("+gzip" if compress else "")
    if manifest is None:
        manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                    "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest(conf), "size": len(conf)},
                    "layers": [{"mediaType": kind, "digest": digest(b), "size": len(b)} for b in blobs]}
    text = json.dumps(manifest).encode()
    index = {"schemaVersion": 2, "manifests": [{"mediaType": "application/vnd.oci.image.manifest.v1+json",
                                                "digest": digest(text), "size": len(text),
                                                "annotations": {"org.opencontainers.image.ref.name": ref}}]}
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": json.dumps(index).encode()}
    for blob in [*blobs, conf, text]:
        files["blobs/sha256/" + digest(blob)[7:]] = blob
    return files


def oci_archive(layers, **keywords):
    return _pack(oci_files(layers, **keywords).items())


class Images(BoxCase):
    """A store of images of this class's own, with the busybox root folder in it as "base"."""

    @classmethod
    def prepare_class(cls):
        cls.data = os.path.join(kerntest.scratch(), f"data-{cls.__name__}")
        os.mkdir(cls.data)
        kerntest.give(cls.data, cls.me)
        cls.env = {"XDG_DATA_HOME": cls.data}
        result = kerntest.Running(["import", kerntest.root_folder(cls.me), "base"], cls.me, env=cls.env).wait()
        if result.code != 0:
            raise AssertionError(result)
        with open(os.path.join(kerntest.root_folder(cls.me), "bin/busybox"), "rb") as file:
            busybox = file.read()
        cls.bottom = layer(directory("bin"), entry("bin/busybox", busybox, mode=0o755), directory("etc"), directory("tmp"),
                           *[symlink(f"bin/{name}", "busybox") for name in ("sh", "ls", "cat", "stat", "echo", "find", "du", "id",
                                                                           "touch", "sleep", "env", "true", "pwd", "test")])

    @classmethod
    def tearDownClass(cls):
        # Files of a layer may belong to ids that only kern can remove for a user; and that is tested along.
        images = kerntest.Running(["images", "-q"], cls.me, env=cls.env).wait()
        kerntest.Running(["rmi", *images.out.split()], cls.me, env=cls.env).wait()
        collected = kerntest.Running(["gc"], cls.me, env=cls.env).wait()
        left = [path for folder in ("blobs", "ingest", "refs", "layers/*")
                for path in glob.glob(f"{cls.data}/kern/images/{folder}/*") + glob.glob(f"{cls.data}/kern/images/{folder}/.n*")]
        shutil.rmtree(cls.data, ignore_errors=True)
        super().tearDownClass()
        if left or collected.code != 0:
            raise AssertionError(f"left in the store: {left}; {collected}")

    def verb(self, *words, code=0, **keywords):
        result = self.kern(*words, env=self.env, **keywords)
        self.assertEqual(result.code, code, result)
        return result

    def image(self, *command, name="base", options=(), **keywords):
        return self.box(*command, options=["--image", name, *options], env=self.env, **keywords)

    def says(self, *command, **keywords):
        result = self.image(*command, **keywords)
        self.assertEqual(result.code, 0, result)
        return result.out

    def archive(self, data):
        path = os.path.join(self.folder(), "archive.tar")
        with open(path, "wb") as file:
            file.write(data)
        kerntest.give(os.path.dirname(path), self.me)
        return path

    def load(self, data, *words, **keywords):
        return self.verb("load", "-i", self.archive(data), *words, **keywords)

    def made(self, *layers, name="made:1", **settings):
        """Loads an image of the layers over busybox, to be removed after the test."""
        self.load(docker_archive([self.bottom, *layers], tags=[name], **settings))
        self.addCleanup(self.kern, "rmi", name, env=self.env)
        return name

    def list(self):
        return {row["image"]: row for row in json.loads(self.verb("images", "--json").out)}

    def store(self, *parts):
        return os.path.join(self.data, "kern/images", *parts)

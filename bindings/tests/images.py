"""Images that stand in for python:3.12-slim, node:20-slim and alpine: the Python, the Node, the busybox and the small tools
of this Debian, loaded under these names into a store of the test's own. Like the real ones the first has no bytecode for most
of its library, the second no Python, the third neither and no bash."""

import glob
import io
import os
import re
import subprocess
import tarfile
import tempfile

PYTHON = "/usr/bin/python3"
NODE = "/usr/bin/node"
BUSYBOX = "/bin/busybox"
TOOLS = ["bash", "sh", "cat", "ls", "sleep", "true", "env", "hostname", "id", "mkdir", "touch", "rm", "setfacl", "tail", "test", "touch"]
LEFT_OUT = re.compile(r"/(__pycache__|test|tests|idlelib|tkinter|lib2to3|ensurepip|dist-packages|turtledemo|pydoc_data|config-[^/]*)(/|$)")


def _libraries(program):
    done = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    return re.findall(r"(/\S+)", done.stdout)


class Tar:
    def __init__(self, path):
        self.archive = tarfile.open(path, "w")
        self.seen = set()

    def add(self, name, path):
        """A file of the host, without links in its name."""
        if name in self.seen:
            return
        self.seen.add(name)
        info = self.archive.gettarinfo(os.path.realpath(path), name.lstrip("/"))
        info.uid = info.gid = 0
        info.uname = info.gname = "root"
        if info.isreg():
            with open(os.path.realpath(path), "rb") as file:
                info.type, info.linkname = tarfile.REGTYPE, ""
                info.size = os.fstat(file.fileno()).st_size
                self.archive.addfile(info, file)
        else:
            self.archive.addfile(info)

    def make(self, name, kind, target="", data=b""):
        info = tarfile.TarInfo(name)
        info.type, info.linkname, info.mode, info.size = kind, target, 0o755, len(data)
        if name == "tmp":
            info.mode = 0o1777
        self.archive.addfile(info, io.BytesIO(data))


def _begin(path):
    tar = Tar(path)
    for name in ("usr", "usr/bin", "usr/lib", "usr/lib64", "etc", "tmp", "root", "proc", "dev", "sys", "workspace"):
        tar.make(name, tarfile.DIRTYPE)
    for name in ("bin", "lib", "lib64"):
        tar.make(name, tarfile.SYMTYPE, "usr/" + name)
    tar.make("etc/passwd", tarfile.REGTYPE, data=b"root:x:0:0::/root:/bin/sh\nrunner:x:1000:1000::/tmp:/bin/sh\n")
    tar.make("etc/group", tarfile.REGTYPE, data=b"root:x:0:\nrunner:x:1000:\n")
    return tar


def _libraries_of(tar, program):
    for found in _libraries(program):
        tar.add(found if found.startswith("/usr/") else "/usr" + found, found)


def _programs(tar, programs):
    for program in programs:
        if os.path.exists(program):
            tar.add(program, program)
            _libraries_of(tar, program)


def write_root(path):
    """python:3.12-slim"""
    tar = _begin(path)
    _programs(tar, [PYTHON, *[f"/usr/bin/{name}" for name in TOOLS]])
    library = subprocess.run([PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))"], capture_output=True, text=True, check=True).stdout.strip()
    for shared in glob.glob(library + "/lib-dynload/*.so"):
        _libraries_of(tar, shared)
    for top, folders, files in os.walk(library):
        folders[:] = [name for name in folders if not LEFT_OUT.search(f"{top}/{name}/")]
        for name in files:
            if not LEFT_OUT.search(f"{top}/{name}"):
                tar.add(f"{top}/{name}", f"{top}/{name}")
    tar.archive.close()


def write_node_root(path):
    """node:20-slim"""
    tar = _begin(path)
    _programs(tar, [NODE, *[f"/usr/bin/{name}" for name in TOOLS]])
    tar.archive.close()


def write_busybox_root(path):
    """alpine"""
    tar = _begin(path)
    tar.add("/usr/bin/busybox", BUSYBOX)
    _libraries_of(tar, BUSYBOX)
    for name in subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout.split():
        if name != "busybox":
            tar.make("usr/bin/" + name, tarfile.SYMTYPE, "busybox")
    tar.archive.close()


def import_image(kern, name="python:3.12-slim", write=write_root):
    """Into the store that the environment says."""
    with tempfile.NamedTemporaryFile(suffix=".tar") as file:
        write(file.name)
        done = subprocess.run([kern, "import", file.name, name], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(f"kern import: {done.stderr}")

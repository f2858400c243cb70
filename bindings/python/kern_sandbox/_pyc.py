"""The standard library of an image, compiled once per image into a cache beside the workspace, and mounted read-only into
its boxes. It is built in a box that outlives the call which began it; whoever comes next takes over what it made, after a
look at it. A stale cache is harmless: Python compares each file with its source."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import subprocess
import time
from typing import TYPE_CHECKING, List, Optional

from ._mounts import bind_words

if TYPE_CHECKING:
    from ._sandbox import Sandbox

TARGET = "/.kern-pyc"
DONE = ".done"
SIZE_LIMIT = 256 << 20
FILE_LIMIT = 30_000
KEEP = 8  # images
BUILD_LIMIT = 180  # seconds
SCRIPT = """
import compileall, sys, sysconfig
sys.pycache_prefix = "/pyc"
compileall.compile_dir(sysconfig.get_path("stdlib"), quiet=2, maxlevels=10, workers=1)
open("/pyc/.done", "w").close()
"""
_building: "List[subprocess.Popen[bytes]]" = []


def root() -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "kern-sandbox", "pyc")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _fits(folder: str) -> bool:
    """Whether there is nothing in it but directories and bytecode, and not too much of that."""
    size = count = 0
    for top, folders, files in os.walk(folder):
        if any(os.path.islink(os.path.join(top, name)) for name in folders):
            return False
        for name in files:
            info = os.lstat(os.path.join(top, name))
            if not stat.S_ISREG(info.st_mode) or not (name.endswith(".pyc") or name == DONE):
                return False
            size, count = size + info.st_size, count + 1
    return size <= SIZE_LIMIT and count <= FILE_LIMIT


def _forget_old(folder: str) -> None:
    kept = []
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if re.fullmatch(r"[0-9a-f]{32}", name):
            kept.append((os.stat(path).st_mtime, path))
    for _, path in sorted(kept)[:-KEEP]:
        shutil.rmtree(path, ignore_errors=True)


class PycCache:
    """What one sandbox knows of its image's cache."""

    def __init__(self, sandbox: "Sandbox") -> None:
        self.sandbox = sandbox
        self.image = sandbox.options.image
        self.on = sandbox.options.pyc_cache and self.image != "host" and "PYTHONPYCACHEPREFIX" not in sandbox.options.env
        self.ready: Optional[str] = None
        self.tried = False

    def words(self) -> List[str]:
        """The words that mount the cache, if there is one."""
        if not self.on:
            return []
        if self.ready is None:
            self.ready = self._look()
        if self.ready is None:
            return []
        return [*bind_words(self.ready, TARGET, True), "-e", f"PYTHONPYCACHEPREFIX={TARGET}"]

    def _look(self) -> Optional[str]:
        """The folder of the image that this reference meant last; takes over a build that is done."""
        try:
            with open(os.path.join(root(), "ref-" + _hash(self.image)), encoding="ascii") as file:
                key = file.read(32)
        except (OSError, ValueError):
            return None
        if re.fullmatch(r"[0-9a-f]{32}", key) is None:
            return None
        path = os.path.join(root(), key)
        built = path + ".building"
        if not os.path.isdir(path) and os.path.exists(os.path.join(built, DONE)):
            try:
                if not _fits(built):
                    shutil.rmtree(built, ignore_errors=True)
                    return None
                os.rename(built, path)
                _forget_old(root())
            except OSError:
                pass  # somebody else was faster
        return path if os.path.isdir(path) else None

    def learn(self, digest: object) -> None:
        """What image a call ran on: begins a build if there is none."""
        if not self.on or self.tried or self.ready is not None or not isinstance(digest, str):
            return
        self.tried = True
        key = _hash(digest)
        path = os.path.join(root(), key)
        try:
            os.makedirs(root(), 0o700, exist_ok=True)
            temporary = os.path.join(root(), f"ref-{os.getpid()}-{os.urandom(4).hex()}")
            with open(temporary, "x", encoding="ascii") as file:
                file.write(key)
            os.rename(temporary, os.path.join(root(), "ref-" + _hash(self.image)))
            if os.path.isdir(path):
                return
            built = path + ".building"
            try:
                os.mkdir(built, 0o755)
            except FileExistsError:
                if time.time() - os.stat(built).st_mtime < 2 * BUILD_LIMIT:
                    return  # somebody builds it
                shutil.rmtree(built, ignore_errors=True)
                os.mkdir(built, 0o755)
            self._build(built)
        except OSError:
            return  # no cache, then

    def _build(self, folder: str) -> None:
        words = [self.sandbox._kern, "box", f"kern-pyc-{os.getpid()}-{os.urandom(3).hex()}", "--image", self.image, "--ro", "--memory", "512m",
                 "--pids-limit", "32", "--timeout", str(BUILD_LIMIT), "--cap-drop", "ALL", "--nice", "10", "--quiet",
                 *bind_words(folder, "/pyc", False), "--", "python3", "-c", SCRIPT]
        _building[:] = [process for process in _building if process.poll() is None]
        _building.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                          start_new_session=True))

"""Finds the kern that is driven: $KERN_BIN, else the one in this package, else the one on PATH. It is asked for its
version once for as long as the file stays the same."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import Dict, Tuple

from ._errors import SandboxError

OLDEST = (0, 1, 0)
INSTALL = 'install kern, or name it: export KERN_BIN=/path/to/kern'
_known: Dict[Tuple[str, int, int, int], str] = {}


def _packaged() -> str:
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "kern", "bin", "kern")


def _candidate() -> str:
    if not sys.platform.startswith("linux"):
        raise SandboxError(f"kern needs Linux, and this is {sys.platform}: run it in a Linux VM (Lima, colima, OrbStack, "
                           "UTM, WSL2), with this package installed there")
    named = os.environ.get("KERN_BIN")
    if named:
        if not os.path.isfile(named):
            raise SandboxError(f"KERN_BIN names {named!r}, and there is no such file; {INSTALL}")
        if not os.access(named, os.X_OK):
            raise SandboxError(f"KERN_BIN names {named!r}, which is not executable: chmod +x {named!r}")
        return os.path.abspath(named)
    packaged = _packaged()
    if os.access(packaged, os.X_OK):
        return packaged
    found = shutil.which("kern")
    if found is None:
        raise SandboxError(f"no kern on PATH, none in this package, and KERN_BIN is not set; {INSTALL}")
    return os.path.abspath(found)


def _ask(path: str) -> str:
    try:
        done = subprocess.run([path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise SandboxError(f"cannot run {path!r}: {problem}; {INSTALL}") from None
    text = done.stdout.decode("utf-8", "replace").strip()
    match = re.match(r"kern (\d+)\.(\d+)\.(\d+)", text)
    if done.returncode != 0 or match is None:
        raise SandboxError(f"{path!r} is not kern: `--version` printed {text[:60]!r}; {INSTALL}")
    if tuple(int(part) for part in match.groups()) < OLDEST:
        raise SandboxError(f"{path!r} is {text}, and this package needs {'.'.join(map(str, OLDEST))} or newer; {INSTALL}")
    return text.split()[1]


def find_kern() -> str:
    """The path of a kern that works, or a SandboxError that says what to do."""
    path = _candidate()
    try:
        info = os.stat(path)
    except OSError as problem:
        raise SandboxError(f"cannot use {path!r}: {problem.strerror}; {INSTALL}") from None
    key = (path, info.st_ino, info.st_mtime_ns, info.st_size)
    if key not in _known:
        _known[key] = _ask(path)
    return path

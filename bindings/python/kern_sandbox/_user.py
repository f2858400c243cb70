"""A sandbox whose boxes run as somebody else than root: that account has to reach the workspace, and this process has to reach
what it makes there. Which id of the host it is, only a box can tell: one makes a file, and its owner is looked at. A POSIX ACL
on the workspace then opens it for both."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from typing import TYPE_CHECKING, List

from ._errors import SandboxError
from ._mounts import bind_words
from ._process import Capture

if TYPE_CHECKING:
    from ._sandbox import Sandbox


def _box(sandbox: "Sandbox", words: List[str], folder: str, script: str) -> "tuple[int, str]":
    name = f"kern-user-{os.getpid()}-{os.urandom(3).hex()}"
    image = [] if sandbox.options.image == "host" else ["--image", sandbox.options.image]
    running = sandbox._spawn(["box", name, *image, "--ro", "--uid-range", *words, *bind_words(folder, "/workspace", False), "--timeout", "60"],
                             ["sh", "-c", script], None)
    out, err = Capture(1 << 16), Capture(1 << 16)
    try:
        running.drain(out, err, None)
        return running.wait(), err.text().strip()
    finally:
        running.close()


def _host_id(sandbox: "Sandbox") -> int:
    place = tempfile.mkdtemp(prefix="kern-user-")
    folder = os.path.join(place, "w")
    try:
        os.mkdir(folder)
        os.chmod(folder, 0o777)  # below a folder that nobody else enters
        code, said = _box(sandbox, ["--user", str(sandbox.options.user)], folder, ": > /workspace/probe")
        if code != 0:
            raise SandboxError(f"user: no box can run as {sandbox.options.user!r}: {said}")
        return os.lstat(os.path.join(folder, "probe")).st_uid
    finally:
        shutil.rmtree(place, ignore_errors=True)


def share(sandbox: "Sandbox", workspace: str) -> None:
    """Opens the workspace for the account of the boxes, and what that makes for this process."""
    mine, theirs = os.geteuid(), _host_id(sandbox)
    if mine == theirs:
        return
    rule = f"u:{theirs}:rwX,u:{mine}:rwX"
    try:
        done = subprocess.run(["setfacl", "-R", "-P", "-m", rule, "-m", ",".join("d:" + part for part in rule.split(",")), "--", workspace],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise SandboxError("user: a box that runs as another account shares the workspace by an ACL, and there is no setfacl: "
                           "apt install acl") from None
    if done.returncode != 0:
        raise SandboxError(f"user: cannot open the workspace {workspace!r} for the account of the boxes: {done.stderr.strip()}")


def clear(sandbox: "Sandbox", workspace: str) -> None:
    """Empties a workspace with what only the account of the boxes may remove."""
    try:
        _box(sandbox, [], workspace, "rm -rf /workspace/* /workspace/.[!.]* /workspace/..?*")
    except SandboxError:
        pass

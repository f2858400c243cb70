"""Which paths of the host a box may be given: none that is the host's own, holds credentials, or steers kern."""

from __future__ import annotations

import os
import stat
from typing import Dict, Iterator, List, Mapping, Sequence, Tuple, Union

from ._errors import MountRefused

MountSpec = Union[str, Tuple[str, str], Sequence[str]]

HOST = ("/etc", "/boot", "/proc", "/sys", "/dev")
CREDENTIALS = (
    ".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure", ".oci", ".terraform.d", ".password-store", ".netrc",
    ".git-credentials", ".pypirc", ".npmrc", ".databrickscfg", ".boto", ".s3cfg", ".rclone.conf",
)
CONFIG_CREDENTIALS = ("gcloud", "gh", "doctl", "rclone")
SOCKETS = ("docker.sock", "podman.sock", "containerd.sock", "crio.sock", "buildkitd.sock")
TARGETS = ("/", "/proc", "/sys", "/dev")


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _home() -> str:
    return os.path.realpath(os.path.expanduser("~"))


def _kern_state() -> Iterator[str]:
    home = os.path.expanduser("~")
    yield "/run/kern"
    yield "/etc/kern"
    yield "/var/lib/kern"
    yield f"/tmp/kern-{os.geteuid()}"
    yield f"/run/user/{os.geteuid()}/kern"
    if os.environ.get("XDG_RUNTIME_DIR"):
        yield os.path.join(os.environ["XDG_RUNTIME_DIR"], "kern")
    for variable, default in (("XDG_DATA_HOME", ".local/share"), ("XDG_CONFIG_HOME", ".config"), ("XDG_CACHE_HOME", ".cache")):
        yield os.path.join(os.environ.get(variable) or os.path.join(home, default), "kern")


def _refusal(real: str) -> str:
    home = _home()
    if real == "/":
        return "it is the whole host"
    for folder in HOST:
        if _below(real, folder) and not (folder == "/dev" and _below(real, "/dev/shm") and real != "/dev/shm"):
            return f"{folder} belongs to the host"
    if _below(real, "/root") and not (_below(home, "/root") and real != "/root"):
        return "/root belongs to the host"
    if _below(home, real):
        return "it is or holds your home directory"
    parts = real.split("/")
    for part in parts:
        if part in CREDENTIALS:
            return f"{part} holds credentials"
    for first, second in zip(parts, parts[1:]):
        if first == ".config" and second in CONFIG_CREDENTIALS:
            return f".config/{second} holds credentials"
    if parts[-1] in SOCKETS or real in ("/run", "/var/run", "/var"):
        return "it gives control over a container engine"
    for state in map(os.path.realpath, _kern_state()):
        if _below(real, state):  # what lies above it kern covers by itself
            return "kern keeps its own state there"
    return ""


def check_source(source: object, what: str) -> str:
    """The real path of a source that may be mounted."""
    if not isinstance(source, (str, os.PathLike)):
        raise MountRefused(f"{what}: a path is a string, not {type(source).__name__}")
    path = os.fspath(source)
    if not isinstance(path, str) or "\0" in path or "\n" in path:
        raise MountRefused(f"{what}: {path!r} is not a usable path")
    if not path.startswith("/"):
        raise MountRefused(f"{what}: {path!r} is not absolute")
    real = os.path.realpath(path)
    reason = _refusal(real)
    if reason:
        via = "" if real == os.path.normpath(path) else f" (that is {real!r})"
        raise MountRefused(f"{what}: {path!r}{via} is refused: {reason}; mount a copy of what the code needs")
    try:
        info = os.stat(real)
    except OSError as problem:
        raise MountRefused(f"{what}: {path!r} cannot be used: {problem.strerror}") from None
    if not (stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)):
        raise MountRefused(f"{what}: {path!r} is a socket, a FIFO or a device; only files and directories are mounted")
    return real


def check_target(target: object, what: str) -> str:
    if not isinstance(target, str) or not target.startswith("/") or "\0" in target or "\n" in target:
        raise MountRefused(f"{what}: target {target!r} is not an absolute path")
    if ".." in target.split("/"):
        raise MountRefused(f"{what}: target {target!r} has a '..'")
    clean = os.path.normpath(target)
    clean = "/" + clean.lstrip("/")
    if clean in TARGETS or any(_below(clean, folder) for folder in ("/proc", "/sys")) or (
            _below(clean, "/dev") and not _below(clean, "/dev/shm")):
        raise MountRefused(f"{what}: target {target!r} would cover what kern keeps there")
    return clean


def bind_words(source: str, target: str, read_only: bool) -> List[str]:
    """The words for kern that bind a path, whatever its name has in it."""
    if "," not in source and "," not in target:
        return ["--mount", f"type=bind,src={source},dst={target}" + (",ro" if read_only else "")]
    if ":" in source or ":" in target:
        raise MountRefused(f"{source!r}: a path with both ':' and ',' cannot be told to kern")
    return ["-v", f"{source}:{target}:{'ro' if read_only else 'rw'}"]


def check_mounts(mounts: object) -> List[Tuple[str, str, bool]]:
    """[(source, target, read-only)] of the `mounts` option."""
    if mounts is None:
        return []
    if not isinstance(mounts, Mapping):
        raise MountRefused("mounts: give {source: target} or {source: (target, \"ro\")}")
    found: List[Tuple[str, str, bool]] = []
    seen: Dict[str, str] = {}
    for source, spec in mounts.items():
        what = f"mounts[{source!r}]"
        target, mode = spec, "rw"
        if not isinstance(spec, str):
            if not isinstance(spec, Sequence) or len(spec) != 2:
                raise MountRefused(f"{what}: {spec!r} is neither a target nor (target, \"ro\" or \"rw\")")
            target, mode = spec
        if mode not in ("ro", "rw"):
            raise MountRefused(f"{what}: mode {mode!r} is neither \"ro\" nor \"rw\"")
        clean = check_target(target, what)
        if clean == "/workspace" or clean in seen:
            raise MountRefused(f"{what}: something else is mounted at {clean} already")
        seen[clean] = what
        found.append((check_source(source, what), clean, mode == "ro"))
    return found

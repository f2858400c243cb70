"""The options of a sandbox: each is checked here, with the option, the value and what is allowed in the message, and
turned into words for `kern box`."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._errors import MountRefused, SandboxError
from ._mounts import MountSpec, bind_words, check_mounts, check_source, check_target

if TYPE_CHECKING:
    from typing import TypedDict

    class SandboxOptions(TypedDict, total=False):
        """Every option of a Sandbox; the README says what each means."""

        image: str
        setup: Optional[str]
        workspace: "Union[str, os.PathLike[str], None]"
        workspace_max_bytes: Optional[int]
        persist: bool
        name: Optional[str]
        persist_ttl_s: float
        memory_mb: Optional[int]
        cpus: Optional[float]
        pids: int
        timeout_s: float
        network: bool
        user: Optional[str]
        cap_drop: Sequence[str]
        mounts: Optional[Mapping[str, MountSpec]]
        tmpfs: Optional[Mapping[str, str]]
        profiles: Sequence[str]
        env: Optional[Mapping[str, str]]
        max_output_bytes: int
        enforce_limits: bool
        security_profile: Optional[str]
        apparmor: Optional[str]
        seccomp: "Union[str, os.PathLike[str], None]"
        require_limits: bool
        deps_readonly: bool
        pyc_cache: bool
        track_files: bool
        egress_allow: Optional[Sequence[str]]
        prewarm: int
        on_stdout: Optional[Callable[[bytes], object]]
        on_stderr: Optional[Callable[[bytes], object]]
        on_blocked: Optional[Callable[[Dict[str, Any]], object]]
else:
    SandboxOptions = dict

DEFAULT_IMAGE = "python:3.12-slim"
DEFAULT_TMPFS_MB = 64
SIZE = re.compile(r"([1-9][0-9]*)([kmgt])b?", re.IGNORECASE)
UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
PROFILE = re.compile(r"[a-z][a-z0-9-]*:[A-Za-z0-9][A-Za-z0-9._-]*")
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
HOST_RULE = re.compile(r"[^\s,/\x00-\x1f\x7f]+|[0-9a-fA-F.:\[\]]+/[0-9]+(:[0-9]+)?")  # the grammar itself is kern's to judge
USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?")
ENV_NAME = re.compile(r"[^ \t\r\n\v\f=#\0][^ \t\r\n\v\f=\0]*")
SPACE = " \t\r\n\v\f"  # what is white space to kern
CAPABILITY = re.compile(r"[A-Za-z_]+")
UNSET: Any = object()


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _bad(option: str, value: object, allowed: str) -> SandboxError:
    return SandboxError(f"{option}: {_show(value)} is not allowed: {allowed}")


def is_text(value: str) -> bool:
    """Whether it can be told to anybody: a lone surrogate is in no encoding."""
    try:
        value.encode("utf-8")
        return True
    except UnicodeEncodeError:
        return False


def digits(value: float) -> str:
    """A number in words for kern, which takes no exponent; to the nearest millionth, the same from every language."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


def _number(option: str, value: object, low: float, high: float, unit: str, whole: bool) -> float:
    kinds = (int,) if whole else (int, float)
    allowed = f"{'a whole number' if whole else 'a number'} of {unit} from {low:g} to {high:g}"
    if isinstance(value, bool) or not isinstance(value, kinds) or not math.isfinite(value) or not low <= value <= high:
        raise _bad(option, value, allowed)
    return value


def check_timeout(value: object) -> float:
    return float(_number("timeout_s", value, 0.001, 86400, "seconds", False))


def _text(option: str, value: object, pattern: "Optional[re.Pattern[str]]", allowed: str) -> str:
    if not isinstance(value, str) or not value or "\0" in value or "\n" in value:
        raise _bad(option, value, allowed)
    if pattern is not None and pattern.fullmatch(value) is None:
        raise _bad(option, value, allowed)
    return value


def _words(option: str, value: object, pattern: "re.Pattern[str]", allowed: str) -> Tuple[str, ...]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise _bad(option, value, f"a list of {allowed}")
    return tuple(_text(option, word, pattern, allowed) for word in value)


def _environment(value: object) -> Dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _bad("env", value, "a mapping of names to strings")
    for name, text in value.items():
        if not isinstance(name, str) or ENV_NAME.fullmatch(name) is None or not is_text(name):
            raise _bad("env", name, "a name without white space, '=', NUL or a leading '#'")
        if not isinstance(text, str):
            raise SandboxError(f"env[{name!r}]: the value is a string, not {type(text).__name__}")
        if "\n" in text or "\r" in text or "\0" in text:
            raise SandboxError(f"env[{name!r}]: a value may hold no newline and no NUL")
        if not is_text(text):
            raise SandboxError(f"env[{name!r}]: a value is text, which lone surrogates are not")
        if text != text.rstrip(SPACE):
            raise SandboxError(f"env[{name!r}]: a value may not end with white space, which kern's env files do not keep")
    return dict(value)


def _tmpfs(value: object, memory: Optional[int], mounted: Sequence[str]) -> Dict[str, str]:
    limit = None if memory is None else memory << 20
    if value is None:
        if "/tmp" in mounted:
            return {}
        megabytes = DEFAULT_TMPFS_MB if memory is None else max(1, min(DEFAULT_TMPFS_MB, memory // 2))
        return {"/tmp": f"{megabytes}m"}
    if not isinstance(value, Mapping):
        raise _bad("tmpfs", value, 'a mapping of targets to sizes, such as {"/tmp": "512m"}')
    found: Dict[str, str] = {}
    for target, size in value.items():
        clean = check_target(target, "tmpfs")
        if ":" in clean or "," in clean:
            raise _bad("tmpfs", target, "a target without ':' and ','")
        if clean == "/workspace":
            raise MountRefused(f"tmpfs: something else is mounted at {clean} already")
        if clean.startswith("/dev"):
            raise _bad("tmpfs", target, "not below /dev: use mounts for /dev/shm")
        match = SIZE.fullmatch(size) if isinstance(size, str) else None
        if match is None:
            raise _bad(f"tmpfs[{target!r}]", size, 'a size with its unit (k, m, g or t), such as "512m"')
        if limit is not None and int(match[1]) * UNITS[match[2].lower()] > limit:
            raise _bad(f"tmpfs[{target!r}]", size, f"at most memory_mb, {memory} MiB: the bytes are charged to it")
        found[clean] = size.lower()
    return found


def _egress(value: object) -> Optional[Tuple[str, ...]]:
    if value is None:
        return None
    allowed = "host names such as \"example.com\", \"*.example.com\" or \"example.com:8443\", and never localhost"
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise _bad("egress_allow", value, f"a list of {allowed}")
    rules = []
    for rule in value:
        text = _text("egress_allow", rule, HOST_RULE, f"{allowed}; no scheme, no path, no comma, no space")
        host = text.split(":")[0].lower().rstrip(".")
        if host == "localhost" or host.endswith(".localhost"):
            raise _bad("egress_allow", rule, "not localhost: a box never reaches the services of its host")
        rules.append(text)
    return tuple(rules)


def _flag(option: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _bad(option, value, "True or False")
    return value


def _callback(option: str, value: object) -> "Optional[Callable[..., object]]":
    if value is not None and not callable(value):
        raise _bad(option, value, "a function, or None")
    return value


@dataclass(frozen=True)
class Options:
    """What was asked for, checked. Two sandboxes with equal words have the same posture."""

    image: str
    setup: Optional[str]
    workspace: Optional[str]
    workspace_max_bytes: Optional[int]
    persist: bool
    name: Optional[str]
    persist_ttl_s: float
    memory_mb: Optional[int]
    cpus: Optional[float]
    pids: int
    timeout_s: float
    network: bool
    user: Optional[str]
    cap_drop: Tuple[str, ...]
    mounts: Tuple[Tuple[str, str, bool], ...]
    tmpfs: Dict[str, str]
    tmpfs_given: bool
    profiles: Tuple[str, ...]
    env: Dict[str, str]
    max_output_bytes: int
    enforce_limits: bool
    security_profile: Optional[str]
    apparmor: Optional[str]
    seccomp: Optional[str]
    require_limits: bool
    deps_readonly: bool
    pyc_cache: bool
    track_files: bool
    egress_allow: Optional[Tuple[str, ...]]
    prewarm: int
    on_stdout: "Optional[Callable[[bytes], object]]"
    on_stderr: "Optional[Callable[[bytes], object]]"
    on_blocked: "Optional[Callable[[Dict[str, Any]], object]]"

    def limits(self) -> List[str]:
        words = [] if self.memory_mb is None else ["--memory", f"{self.memory_mb}m"]
        if self.cpus is not None:
            words += ["--cpus", digits(self.cpus)]
        words += ["--pids-limit", str(self.pids)]
        if self.require_limits:
            words.append("--require-limits")
        elif not self.enforce_limits:
            words.append("--allow-uncapped")
        return words

    def words(self, for_setup: bool = False) -> List[str]:
        """The words of `kern box` that say how the box is confined."""
        words = list(self.profiles)
        if self.image != "host":
            words += ["--image", self.image]
        words += ["--ro", *self.limits()]
        for capability in () if for_setup else self.cap_drop:
            words += ["--cap-drop", capability]
        if for_setup or self.network:
            words += ["--network", "host"]
        elif self.egress_allow:
            words += ["--egress-allow", ",".join(self.egress_allow)]
        if self.user is not None:
            words += ["--uid-range", "--user", self.user]
        if self.security_profile is not None and not for_setup:
            words += ["--security-profile", self.security_profile]
        if self.apparmor is not None:
            words += ["--apparmor", self.apparmor]
        if self.seccomp is not None and not for_setup:
            words += ["--seccomp", self.seccomp]
        if not for_setup or self.tmpfs_given:
            for target, size in self.tmpfs.items():
                words += ["--tmpfs", f"{target}:{size}"]
        for source, target, read_only in self.mounts:
            words += bind_words(source, target, read_only)
        return words


def _workspace(value: object) -> Optional[str]:
    if value is None:
        return None
    if not isinstance(value, (str, os.PathLike)):
        raise _bad("workspace", value, "the path of a directory, or None")
    real = check_source(os.path.abspath(os.fspath(value)), "workspace")
    if not os.path.isdir(real):
        raise SandboxError(f"workspace: {_show(value)} is not a directory")
    return real


def _seccomp(value: object) -> Optional[str]:
    if value is None:
        return None
    if not isinstance(value, (str, os.PathLike)) or not os.path.isfile(value):
        raise _bad("seccomp", value, "the path of a seccomp profile in JSON")
    return os.path.abspath(os.fspath(value))


def _check_together(options: Options, name: Optional[str], workspace: Optional[str]) -> None:
    if options.egress_allow is not None and options.network:
        raise SandboxError("egress_allow: a list and network=True exclude each other")
    if options.require_limits and not options.enforce_limits:
        raise SandboxError("require_limits: excludes enforce_limits=False")
    if options.require_limits and os.environ.get("KERN_ALLOW_UNCAPPED"):
        raise SandboxError("require_limits: excludes the environment variable KERN_ALLOW_UNCAPPED")
    if options.persist and (name is None or workspace is None):
        raise SandboxError("persist: needs name and workspace, which two processes share the box by")
    if options.persist and options.prewarm:
        raise SandboxError("prewarm: excludes persist, whose one box is warm already")
    if name is not None and not options.persist:
        raise SandboxError("name: only a persist=True sandbox has one")


def make_options(given: Mapping[str, Any]) -> Options:
    """Checks what a caller gave. An option that is not known is an error that names the nearest."""
    known = {field.name for field in fields(Options)} - {"tmpfs_given"}
    for option in given:
        if option not in known:
            import difflib

            near = difflib.get_close_matches(str(option), known, 1)
            raise SandboxError(f"{option}: there is no such option" + (f"; did you mean {near[0]}?" if near else ""))
    get = given.get
    memory = get("memory_mb", 512)
    if memory is not None:
        _number("memory_mb", memory, 4, 1 << 24, "MiB", True)
    cpus = get("cpus")
    if cpus is not None:
        _number("cpus", cpus, 0.01, 4096, "CPUs", False)
    mounts = tuple(check_mounts(get("mounts")))
    profile = get("security_profile")
    if profile is not None and profile != "untrusted":
        raise _bad("security_profile", profile, '"untrusted", or None')
    maximum = get("workspace_max_bytes")
    if maximum is not None:
        _number("workspace_max_bytes", maximum, 1, 1 << 60, "bytes", True)
    setup = get("setup")
    if setup is not None and (not isinstance(setup, str) or not setup.strip() or "\0" in setup):
        raise _bad("setup", setup, "a shell command")
    name = get("name")
    if name is not None:
        _text("name", name, NAME, "up to 64 letters, digits, '_', '.' or '-', the first a letter, a digit or '_'")
    user = get("user")
    options = Options(
        image=_text("image", get("image", DEFAULT_IMAGE), re.compile(r"[^\s-][^\s]*"),
                    'a reference such as "python:3.12-slim", or "host"'),
        setup=setup,
        workspace=_workspace(get("workspace")),
        workspace_max_bytes=maximum,
        persist=_flag("persist", get("persist", False)),
        name=name,
        persist_ttl_s=_number("persist_ttl_s", get("persist_ttl_s", 3600), 1, 30 * 86400, "seconds", False),
        memory_mb=memory,
        cpus=cpus,
        pids=int(_number("pids", get("pids", 256), 2, 4194304, "processes", True)),
        timeout_s=check_timeout(get("timeout_s", 30)),
        network=_flag("network", get("network", False)),
        user=None if user is None else _text("user", user, USER, 'an account of the image: "node", "1000" or "1000:1000"'),
        cap_drop=_words("cap_drop", get("cap_drop", ("ALL",)), CAPABILITY, 'capability names, such as "ALL" or "NET_RAW"'),
        mounts=mounts,
        tmpfs=_tmpfs(get("tmpfs"), memory, [target for _, target, _ in mounts]),
        tmpfs_given=get("tmpfs") is not None,
        profiles=_words("profiles", get("profiles") or (), PROFILE, 'profiles such as "vcpu:heavy"'),
        env=_environment(get("env")),
        max_output_bytes=int(_number("max_output_bytes", get("max_output_bytes", 64 << 20), 1, 1 << 40, "bytes", True)),
        enforce_limits=_flag("enforce_limits", get("enforce_limits", True)),
        security_profile=profile,
        apparmor=None if get("apparmor") is None else _text("apparmor", get("apparmor"), re.compile(r"[^\s-][^\s]*"),
                                                           "the name of a loaded AppArmor profile"),
        seccomp=_seccomp(get("seccomp")),
        require_limits=_flag("require_limits", get("require_limits", False)),
        deps_readonly=_flag("deps_readonly", get("deps_readonly", True)),
        pyc_cache=_flag("pyc_cache", get("pyc_cache", True)),
        track_files=_flag("track_files", get("track_files", True)),
        egress_allow=_egress(get("egress_allow")),
        prewarm=int(_number("prewarm", get("prewarm", 0), 0, 256, "boxes", True)),
        on_stdout=_callback("on_stdout", get("on_stdout")),
        on_stderr=_callback("on_stderr", get("on_stderr")),
        on_blocked=_callback("on_blocked", get("on_blocked")),
    )
    _check_together(options, name, options.workspace)
    targets = [target for _, target, _ in options.mounts]
    for target in options.tmpfs:
        if target in targets:
            raise MountRefused(f"tmpfs: something else is mounted at {target} already")
    return options

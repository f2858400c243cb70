"""What a call returns, and how the outcome is told from kern's report alone: nothing that the code printed decides."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Literal, Optional

SandboxFaultType = Literal["timeout", "escape_blocked", "oom", "killed", "exec_failed", "startup_failed", "workspace_full"]
KERN_ORDER: "tuple[SandboxFaultType, ...]" = (
    "timeout", "workspace_full", "escape_blocked", "oom", "killed", "exec_failed", "startup_failed")
BENIGN = ("kern: security-profile=", "kern: warning:", "kern: note:")


@dataclass(frozen=True)
class SandboxFault:
    """Something that the sandbox did, as opposed to the code."""

    type: SandboxFaultType
    message: str


@dataclass(frozen=True)
class Usage:
    """What the call used. None: not known."""

    wall_ms: Optional[float] = None
    cpu_ms: Optional[float] = None
    peak_memory_bytes: Optional[int] = None


@dataclass(frozen=True)
class FileInfo:
    """A regular file of the workspace; `change` is "created" or "modified" since the call began."""

    path: str
    size: int
    change: str


class Result:
    """One rich value: what a notebook would show, by MIME type."""

    def __init__(self, data: Dict[str, Any]) -> None:
        self.data = data

    def formats(self) -> List[str]:
        return list(self.data)

    def _text(self, mime: str) -> Optional[str]:
        value = self.data.get(mime)
        return value if isinstance(value, str) else None

    def _bytes(self, mime: str) -> Optional[bytes]:
        value = self.data.get(mime)
        if not isinstance(value, str):
            return None
        try:
            return base64.b64decode(value, validate=False)
        except ValueError:
            return None

    @property
    def text(self) -> Optional[str]:
        return self._text("text/plain")

    @property
    def html(self) -> Optional[str]:
        return self._text("text/html")

    @property
    def markdown(self) -> Optional[str]:
        return self._text("text/markdown")

    @property
    def svg(self) -> Optional[str]:
        return self._text("image/svg+xml")

    @property
    def latex(self) -> Optional[str]:
        return self._text("text/latex")

    @property
    def json(self) -> Any:
        return self.data.get("application/json")

    @property
    def png(self) -> Optional[bytes]:
        return self._bytes("image/png")

    @property
    def jpeg(self) -> Optional[bytes]:
        return self._bytes("image/jpeg")

    def __repr__(self) -> str:
        return f"Result({', '.join(self.data)})"


def split_stderr(text: str) -> "tuple[str, List[str]]":
    """(what the code wrote, the lines that kern wrote about itself)."""
    if "kern: " not in text:
        return text, []
    mine: List[str] = []
    notes: List[str] = []
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        if line.lstrip(" \t\r\v\f").startswith(BENIGN):
            notes.append(line.rstrip("\n"))
        else:
            mine.append(line)
    return "".join(mine), notes


@dataclass
class ExecutionResult:
    """The outcome of one call. A non-zero exit code of the code's own is no fault."""

    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0
    duration_ms: float = 0.0
    fault: Optional[SandboxFault] = None
    files: List[FileInfo] = field(default_factory=list)
    results: List[Result] = field(default_factory=list)
    truncated: bool = False
    usage: Usage = field(default_factory=Usage)
    denied: Dict[str, Any] = field(default_factory=dict)
    report: Optional[Dict[str, Any]] = field(default=None, repr=False)
    _split: Optional["tuple[str, str, List[str]]"] = field(default=None, init=False, repr=False, compare=False)

    @property
    def success(self) -> bool:
        return self.exit_code == 0 and self.fault is None

    def _parts(self) -> "tuple[str, List[str]]":
        if self._split is None or self._split[0] is not self.stderr:
            self._split = (self.stderr, *split_stderr(self.stderr))
        return self._split[1], self._split[2]

    @property
    def code_stderr(self) -> str:
        """stderr without kern's own notes: what to show a model."""
        return self._parts()[0]

    @property
    def runtime_notes(self) -> List[str]:
        """The lines of stderr that kern wrote about itself."""
        return list(self._parts()[1])

    def to_dict(self) -> Dict[str, Any]:
        """Plain data, ready for json.dumps."""
        return {
            "stdout": self.stdout,
            "stderr": self.stderr,
            "exit_code": self.exit_code,
            "duration_ms": self.duration_ms,
            "success": self.success,
            "fault": None if self.fault is None else {"type": self.fault.type, "message": self.fault.message},
            "files": [{"path": f.path, "size": f.size, "change": f.change} for f in self.files],
            "results": [r.data for r in self.results],
            "truncated": self.truncated,
            "usage": vars(self.usage),
            "denied": self.denied,
        }


def parse_report(data: bytes) -> Optional[Dict[str, Any]]:
    try:
        found = json.loads(data.decode("utf-8", "replace")) if data else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


@dataclass(frozen=True)
class End:
    """How a box ended, as far as this side saw it. executed: its command was (None: not known)."""

    code: int
    deadline: bool
    full: bool
    executed: Optional[bool]


def _mib(value: Any) -> str:
    return f"{value / 1048576:.0f} MiB" if isinstance(value, (int, float)) else "unknown"


def _describe(kind: str, report: Dict[str, Any], image: str, command: str) -> str:
    fault = report.get("fault") or {}
    text = str(fault.get("message") or kind)
    if kind == "oom":
        limit = fault.get("limit_bytes") or ((report.get("limits") or {}).get("memory") or {}).get("asked")
        peak = (report.get("usage") or {}).get("peak_memory_bytes")
        return f"out of memory: the cap is {_mib(limit)} and the peak was {_mib(peak)}; raise memory_mb"
    if kind == "exec_failed":
        return f"{text}: image {image!r} has no usable {command!r}; name an image that has it"
    if kind == "killed":
        memory = (report.get("limits") or {}).get("memory") or {}
        if memory and memory.get("enforced") is False:
            return text + "; the memory cap does not bind on this machine (`kern doctor` says why)"
    return text


def classify(end: End, report: Optional[Dict[str, Any]], timeout_s: float, image: str, command: str) -> Optional[SandboxFault]:
    """The fault of a call. The order is a security property: what this side did itself comes first."""
    told = report or {}
    executed = bool(told.get("started")) if report is not None else bool(end.executed)
    if end.deadline and not executed:
        return SandboxFault("startup_failed", f"kern was still building the box after {timeout_s:g} s; run it again: the second "
                            "call is faster when the image was cold, else look at slow mounts")
    if end.deadline:
        return SandboxFault("timeout", f"the call ran longer than {timeout_s:g} s")
    if end.full:
        return SandboxFault("workspace_full", "the workspace grew beyond workspace_max_bytes")
    kind = (told.get("fault") or {}).get("type")
    for wanted in KERN_ORDER:
        if kind == wanted:
            return SandboxFault(wanted, _describe(wanted, told, image, command))
    if report is None:
        if executed:
            return SandboxFault("killed", "kern ended without a report; somebody killed it")
        return SandboxFault("startup_failed", f"kern ended with code {end.code} and without a report")
    return None

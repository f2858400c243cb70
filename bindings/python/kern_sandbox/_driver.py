"""The Python programs that boxes run, and the frames that they speak (see driver)."""

from __future__ import annotations

import errno
import fcntl
import functools
import json
import os
import re
from typing import Any, List, Optional, Tuple

from ._errors import SandboxError
from ._process import memory_file
from ._result import Result

HEADER = 9
MARK = 16
LINE = re.compile(r"^[^ \t\n#]", re.MULTILINE)
GOES_ON = re.compile(r"[)\]}]|(?:elif|else|except|finally)\b")  # a line that belongs to the statement before it
# What is no expression for sure: by its first word, or an assignment.
WORD = re.compile(r"\s*(?:assert|async|break|class|continue|def|del|for|from|global|if|import|nonlocal|pass|raise|return|try|while|with)\b")
ASSIGNED = re.compile(r"\s*(?![^=\n]*\blambda\b)[A-Za-z_][\w.,:\[\] \t]*(?:\*\*|//|<<|>>|[-+*/%&|^@])?(?<!:)=(?!=)")
WHOLE = re.compile(r"[\r\f]|\b__future__\b|\A(?:.*\n)?.*coding[:=]")  # code that cannot be cut in two
CHUNK = 1 << 16
FIRST = 1 << 12  # few calls have results
SLACK = 1 << 13  # a frame that does not fit is refused page by page: its header does
F_ADD_SEALS, F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW = 1033, 1, 2, 4


@functools.lru_cache(maxsize=None)
def source(name: str) -> bytes:
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "driver", name), "rb") as file:
        return file.read()


@functools.lru_cache(maxsize=None)
def _command(name: str) -> List[str]:
    """The words that start a program of driver/, without its comments: it is parsed at every start."""
    return ["python3", "-c", "\n".join(line for line in source(name).decode().splitlines() if not line.startswith("#"))]


def warm() -> List[str]:
    return list(_command("warm.py"))


def frame(kind: bytes, body: bytes) -> bytes:
    return kind + len(body).to_bytes(8, "big") + body


def cell(kind: bytes, code: str, mark: bytes) -> bytes:
    return frame(kind, mark + code.encode("utf-8", "surrogatepass"))


def split(code: str) -> Tuple[Optional[str], str, str]:
    """(what runs the last part, the code before its last statement, that and what follows behind as many line breaks): only
    there can a last expression be. None runs it when it takes the whole syntax to tell."""
    at = last = -1
    for found in LINE.finditer(code):
        at = found.start()
        if GOES_ON.match(code, at) is None:
            last = at
    if WHOLE.search(code) or last >= 0 and code[last] in "*@":
        return None, code, ""
    if last < 0:
        return "exec", "", code
    tail = "\n" * code.count("\n", 0, last) + code[last:]
    if WORD.match(tail) is None and ASSIGNED.match(tail) is None:
        return "eval", code[:last], tail
    return None if ";" in tail else "exec", code[:last], tail


def one_call(code: str) -> Tuple[List[str], bytes]:
    """The words that run code in a box for one call, and what the box's descriptor 0 holds then."""
    runner, *parts = split(code)
    data = b"\0".join([*(part.encode("utf-8", "surrogatepass") for part in parts), source("helper.py")])
    *words, text = _command("boot.py")
    return [*words, f"{text}\n_kern_boot({runner}, {len(data)})"], data


def warm_up() -> bytes:
    """What a box is told first that gets its cells by a socket."""
    return frame(b"W", source("helper.py") + source("serve.py"))


class CallFile:
    """A nameless file in memory that is a box's descriptor 0: holds the cell, takes the results. Of a fixed size, so that
    a box cannot fill the host's memory through it."""

    def __init__(self, data: bytes, room: int) -> None:
        self.start = len(data)
        self.room = room
        self.fd = memory_file("kern-call")
        try:
            os.ftruncate(self.fd, self.start + room + SLACK)
            done = 0
            while done < len(data):
                done += os.pwrite(self.fd, memoryview(data)[done:], done)
            fcntl.fcntl(self.fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW)
        except OSError as problem:
            if problem.errno != errno.EINVAL:  # no memfd: no seals
                os.close(self.fd)
                raise SandboxError(f"cannot hand the code to the box: {problem.strerror}") from None

    def results(self) -> Tuple[List[Result], bool]:
        """(what the code showed, whether some of it did not fit)."""
        parser = Parser(self.room)
        at = self.start
        while not parser.broken:  # zeros end the frames
            part = os.pread(self.fd, FIRST if at == self.start else CHUNK, at)
            if not part:
                break
            parser.feed(part)
            at += len(part)
        return parser.results, parser.dropped or not parser.broken or at - self.start - len(parser.buffer) > self.room

    def close(self) -> None:
        os.close(self.fd)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


class Parser:
    """Frames from a box. Whatever does not fit the protocol ends it; nothing here can make a fault."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.buffer = bytearray()
        self.results: List[Result] = []
        self.dropped = False
        self.broken = False
        self.end: Optional[Tuple[int, int]] = None  # exit code, CPU milliseconds
        self.skip = 0

    def feed(self, data: bytes) -> None:
        if self.skip:
            used = min(self.skip, len(data))
            self.skip -= used
            data = data[used:]
        self.buffer += data
        while not self.broken and self.end is None and len(self.buffer) >= HEADER:
            kind, size = bytes(self.buffer[:1]), int.from_bytes(self.buffer[1:HEADER], "big")
            if kind == b"E" and size == 12:
                if len(self.buffer) < HEADER + size:
                    return
                body = bytes(self.buffer[HEADER:HEADER + size])
                self.end = int.from_bytes(body[:4], "big") & 255, int.from_bytes(body[4:], "big")
                del self.buffer[:HEADER + size]
                return
            if kind != b"R" or size > 1 << 40:
                self.broken = True
                return
            if size > self.room:
                self.dropped = True
                have = len(self.buffer) - HEADER
                self.skip = max(0, size - have)
                del self.buffer[:HEADER + size]
                continue
            if len(self.buffer) < HEADER + size:
                return
            self._result(bytes(self.buffer[HEADER:HEADER + size]))
            self.room -= size
            del self.buffer[:HEADER + size]

    def _result(self, body: bytes) -> None:
        try:
            value: Any = json.loads(body, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return
        if isinstance(value, dict):
            value.setdefault("text/plain", "")
            self.results.append(Result(value))


def send(fd: int, data: bytes) -> bool:
    """Writes all to a blocking socket; False when the box is gone."""
    view = memoryview(data)
    while len(view):
        try:
            view = view[os.write(fd, view):]
        except OSError as problem:
            if problem.errno in (errno.EPIPE, errno.ECONNRESET):
                return False
            raise SandboxError(f"cannot reach the box: {problem.strerror}") from None
    return True

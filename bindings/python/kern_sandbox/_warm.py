"""Boxes that are there before the call: kernel() keeps one interpreter for many cells, a pool keeps several that each
serve one call. Both speak with driver/warm.py over a socket that is descriptor 0 of the box."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, List, Optional

from . import _driver
from ._errors import SandboxError
from ._options import check_timeout
from ._process import Capture, Running, close
from ._result import ExecutionResult, SandboxFault

if TYPE_CHECKING:
    from ._sandbox import Sandbox

LIFE = 86400  # seconds after which kern ends a kernel's box, whatever became of this process
POOL_LIFE = 600  # the same for a box that waits in a pool


class WarmBox:
    """A box whose interpreter waits for cells."""

    def __init__(self, sandbox: "Sandbox", life: float) -> None:
        mine, theirs = socket.socketpair()
        try:
            self.running = sandbox._start(_driver.warm(), theirs.fileno(), life)
        except BaseException:
            mine.close()
            raise
        finally:
            theirs.close()
        self.socket = mine
        self.fd = mine.fileno()
        _driver.send(self.fd, _driver.warm_up())  # shorter than what a socket takes at once

    def ended(self) -> bool:
        return self.running.ended()

    def age(self) -> float:
        return time.monotonic() - self.running.born

    def call(self, sandbox: "Sandbox", kind: bytes, code: str, timeout_s: float, on_stdout: Any, on_stderr: Any) -> ExecutionResult:
        """Runs one cell. The result has a fault if the box did not live through it."""
        limit = sandbox.options.max_output_bytes
        mark = os.urandom(_driver.MARK)
        begin = time.monotonic()
        parser = _driver.Parser(limit)
        outs = [Marked(limit, mark, feed) for feed in (on_stdout, on_stderr)]
        data = memoryview(_driver.cell(kind, code, mark))
        self.socket.setblocking(False)
        with sandbox._tracking() as track:
            data = self._push(data)
            sender = None
            if len(data):  # longer than the socket takes at once: the rest goes while the answers are read
                self.socket.setblocking(True)
                sender = threading.Thread(target=_driver.send, args=(self.fd, bytes(data)), daemon=True)
                sender.start()

            def answer() -> bool:
                try:
                    part = self.socket.recv(1 << 16)
                except (BlockingIOError, ConnectionResetError):
                    return False
                parser.feed(part)
                return parser.end is not None or parser.broken

            how = self.running.drain(outs[0], outs[1], begin + timeout_s, track.check, self.fd, answer)
            if how == "answered" and parser.end is not None:
                for descriptor, sink in ((self.running.out, outs[0]), (self.running.err, outs[1])):
                    self._drain_mark(descriptor, sink, begin + timeout_s)
            elif how == "answered":  # garbage on the channel: whoever wrote it is no driver any more
                self.running.end()
                how = self.running.drain(outs[0], outs[1], None)
            if sender is not None and how == "ended":
                sender.join(1)
            result = sandbox._result(outs[0], outs[1], begin, parser.results, parser.dropped)
            track.finish(result)
        if how == "answered" and parser.end is not None:
            result.exit_code = parser.end[0]
            result.usage = type(result.usage)(result.duration_ms, float(parser.end[1]), None)
        else:
            sandbox._judge(result, self.running, timeout_s, "python3")
            if parser.broken and result.fault is None or result.fault is not None and parser.broken and result.fault.type == "killed":
                result.fault = SandboxFault("killed", "the code wrote to the channel of the interpreter's driver")
        return result

    def _push(self, data: memoryview) -> memoryview:
        try:
            while len(data):
                data = data[os.write(self.fd, data):]
        except BlockingIOError:
            pass
        except OSError:
            return data[len(data):]  # the box is gone, which the drain sees
        return data

    def _drain_mark(self, descriptor: int, sink: "Marked", deadline: float) -> None:
        """What the cell printed has all been written before the driver answered: read on until its mark."""
        import select

        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while not sink.marked and poll.poll(max(0.0, min(1.0, deadline - time.monotonic())) * 1000):
            if not self.running._take(descriptor, sink.add):
                break
        sink.finish()

    def close(self) -> None:
        self.socket.close()
        self.running.close()


class Marked(Capture):
    """A stream up to the mark that ends a cell."""

    def __init__(self, cap: int, mark: bytes, feed: Optional[Callable[[bytes], None]] = None) -> None:
        super().__init__(cap, feed)
        self.mark = mark
        self.marked = False
        self.pending = b""

    def add(self, data: bytes) -> None:
        if self.marked:
            return
        data = self.pending + data
        at = data.find(self.mark)
        if at >= 0:
            self.marked = True
            self.pending = b""
            if at:
                super().add(data[:at])
            return
        # The mark may be cut in two by a read: keep back what may be its beginning.
        keep = 0
        for size in range(min(len(self.mark) - 1, len(data)), 0, -1):
            if self.mark.startswith(data[-size:]):
                keep = size
                break
        self.pending = data[len(data) - keep:] if keep else b""
        if len(data) > keep:
            super().add(data[:len(data) - keep] if keep else data)

    def finish(self) -> None:
        if self.pending and not self.marked:
            super().add(self.pending)
        self.pending = b""


class Kernel:
    """One warm Python interpreter: names and imports live from cell to cell. A fault ends it."""

    def __init__(self, sandbox: "Sandbox") -> None:
        self._sandbox = sandbox
        self._lock = threading.Lock()
        self._dead: Optional[str] = None
        self._closing = False
        self._box: Optional[WarmBox] = WarmBox(sandbox, LIFE)
        sandbox._kernels.add(self)
        try:
            first = self.run_code("", timeout_s=max(sandbox.options.timeout_s, 30))
        except BaseException:
            self.close()
            raise
        if first.fault is not None:
            self.close()
            text = first.stderr.strip()
            raise SandboxError(f"the kernel did not start ({first.fault.type}): {first.fault.message}" + (f"\n{text}" if text else ""))

    def run_code(self, code: str, *, timeout_s: Optional[float] = None, on_stdout: "Optional[Callable[[bytes], object]]" = None,
                 on_stderr: "Optional[Callable[[bytes], object]]" = None) -> ExecutionResult:
        from ._sandbox import check_code

        check_code(code)
        limit = self._sandbox.options.timeout_s if timeout_s is None else check_timeout(timeout_s)
        with self._lock:
            if self._dead is not None:
                raise SandboxError(f"kernel is dead: a prior cell ended it ({self._dead})")
            if self._box is None:
                raise SandboxError("kernel is closed")
            if self._box.running.owner != os.getpid():
                raise SandboxError("kernel: it belongs to the process that this one was forked from")
            with self._sandbox._feeds(on_stdout, on_stderr) as feeds:
                try:
                    result = self._box.call(self._sandbox, b"C", code, limit, feeds.out, feeds.err)
                except BaseException:
                    self._dead = "interrupted"
                    self._end()
                    raise
            if self._closing:
                raise SandboxError("kernel is closed")
            if result.fault is not None or self._box.ended():
                self._dead = result.fault.type if result.fault is not None else "exit"
                self._end()
            return result

    @property
    def alive(self) -> bool:
        return self._box is not None

    def _end(self) -> None:
        box, self._box = self._box, None
        self._sandbox._kernels.discard(self)
        if box is not None:
            box.close()

    def close(self) -> None:
        """Ends the box, and with it a cell that another thread waits for: that throws there."""
        box = self._box
        if box is None or box.running.owner != os.getpid():  # a fork has a copy, maybe of a lock that is held
            self._box = None
            if box is not None:
                box.socket.close()
            return
        self._closing = True
        box.running.end()
        with self._lock:
            self._end()

    def __enter__(self) -> "Kernel":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Pool:
    """Boxes of one sandbox, hence of one posture, that wait for a call each. One thread refills it, when no call has come
    for a moment: the pool is for a burst, and a refill within it would compete for the CPU."""

    QUIET = 0.03

    def __init__(self, sandbox: "Sandbox", size: int) -> None:
        self.sandbox = sandbox
        self.size = size
        self.ready: List[WarmBox] = []
        self.used: List[WarmBox] = []
        self.lock = threading.Condition()
        self.closed = False
        self.last_take = 0.0
        self.trouble: Optional[BaseException] = None
        self.owner = os.getpid()
        self.thread = threading.Thread(target=self._work, name="kern-prewarm", daemon=True)
        self.thread.start()

    def take(self) -> Optional[WarmBox]:
        while self.owner == os.getpid():  # what a fork has is a copy, and the boxes are not
            with self.lock:
                self.last_take = time.monotonic()
                box = self.ready.pop(0) if self.ready else None
                self.lock.notify()
            if box is None:
                return None
            if box.age() < POOL_LIFE and not box.ended():
                return box
            self.give_back(box)
        return None

    def give_back(self, box: WarmBox) -> None:
        """Ends a box that served its call, in the background."""
        box.running.signal(9 if box.ended() else 15)
        with self.lock:
            if not self.closed:
                self.used.append(box)
                self.lock.notify()
                return
        box.close()

    def _work(self) -> None:
        while True:
            with self.lock:
                while not self.closed and not self.used and len(self.ready) >= self.size:
                    self.lock.wait()
                if self.closed:
                    return
                rest = self.last_take + self.QUIET - time.monotonic()
                if rest > 0:
                    self.lock.wait(rest)
                    continue
                used, self.used = self.used, []
                missing = self.size - len(self.ready)
            for box in used:
                box.close()
            if missing <= 0:
                continue
            try:
                fresh = WarmBox(self.sandbox, POOL_LIFE + self.sandbox.options.timeout_s + 5)
                fresh.socket.settimeout(None)
                fresh.running.settle(10)
            except BaseException as problem:  # the next call starts its box itself, and says what is wrong
                self.trouble = problem
                with self.lock:
                    if not self.closed:
                        self.lock.wait(5)
                continue
            with self.lock:
                if not self.closed:
                    self.ready.append(fresh)
                    continue
            fresh.close()

    def close(self) -> None:
        with self.lock:
            self.closed = True
            self.lock.notify()
        self.thread.join()
        for box in self.ready + self.used:
            box.running.end()
        for box in self.ready + self.used:
            box.close()
        self.ready, self.used = [], []


__all__ = ["Kernel", "Pool", "WarmBox", "close"]

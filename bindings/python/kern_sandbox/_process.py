"""One running kern: started with descriptors of its own, drained while it runs, ended by this side's deadline. Waits in one
poll over the pipes and a pidfd; no thread, no timer, and nothing left open afterwards."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from typing import Callable, Dict, List, Optional, Union

from ._errors import SandboxError
from ._result import parse_report

CHUNK = 1 << 16
REPORT_LIMIT = 4 << 20
REPORT_CHUNK = 1 << 14
SIGNALS = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}  # no box inherits what this process ignores or blocks
GRACE = 2.0  # seconds that kern has to end a box and write its report, after it was told to


class Capture:
    """What a stream said: all of it up to the cap, else the head and the tail."""

    def __init__(self, cap: int, feed: Optional[Callable[[bytes], None]] = None) -> None:
        self.head_room = cap - cap // 2
        self.tail_room = cap // 2
        self.feed = feed
        self.head: List[bytes] = []
        self.tail: List[bytes] = []
        self.tail_size = 0
        self.dropped = 0

    def add(self, data: bytes) -> None:
        if self.feed is not None:
            self.feed(data)
        if self.head_room > 0:
            self.head.append(data[: self.head_room])
            data, self.head_room = data[self.head_room:], self.head_room - len(data)
            if not data:
                return
        self.tail.append(data)
        self.tail_size += len(data)
        while self.tail_size > self.tail_room:
            extra = self.tail_size - self.tail_room
            first = self.tail[0]
            if len(first) <= extra:
                self.tail.pop(0)
                self.tail_size -= len(first)
                self.dropped += len(first)
            else:
                self.tail[0] = first[extra:]
                self.tail_size -= extra
                self.dropped += extra

    @property
    def truncated(self) -> bool:
        return self.dropped > 0

    def text(self) -> str:
        gap = f"\n[... {self.dropped} bytes left out ...]\n".encode() if self.dropped else b""
        return b"".join([*self.head, gap, *self.tail]).decode("utf-8", "replace")


def close(*descriptors: int) -> None:
    for descriptor in descriptors:
        if descriptor >= 0:
            try:
                os.close(descriptor)
            except OSError:
                pass


def remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def _above(descriptor: int) -> int:
    """The same, above the three that a child has: where one of this process's own was closed, it may be given out."""
    if descriptor > 2:
        return descriptor
    found = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(descriptor)
    return found


def memory_file(name: str) -> int:
    """A nameless file in memory, or on a disk where there are none in memory."""
    try:
        return _above(os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    except OSError:
        descriptor, path = tempfile.mkstemp(prefix=name + "-")
        os.unlink(path)
        return _above(descriptor)


class Cancel:
    """Ends, from another thread, what one thread runs: the boxes that the holder starts while it is in `with`."""

    _current = threading.local()

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.cancelled = False
        self.running: "Union[Running, Errand, None]" = None

    def __enter__(self) -> "Cancel":
        Cancel._current.cancel = self
        return self

    def __exit__(self, *_: object) -> None:
        Cancel._current.cancel = None

    @staticmethod
    def watch(running: "Union[Running, Errand, None]") -> None:
        """What the thread's holder would have to end, from now on."""
        mine: "Optional[Cancel]" = getattr(Cancel._current, "cancel", None)
        if mine is not None:
            with mine.lock:
                mine.running = running
                if running is not None and mine.cancelled:
                    running.end()

    @staticmethod
    def check() -> None:
        """Throws when what the thread does was cancelled meanwhile."""
        mine: "Optional[Cancel]" = getattr(Cancel._current, "cancel", None)
        if mine is not None and mine.cancelled:
            raise SandboxError("the call was cancelled")

    def cancel(self) -> None:
        with self.lock:
            self.cancelled = True
            if self.running is not None:
                self.running.end()


class Errand:
    """A command of kern's that runs no box, such as a pull, and that a Cancel ends."""

    def __init__(self, words: List[str]) -> None:
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        start_new_session=True)

    def end(self) -> None:
        self.process.terminate()

    def wait(self, limit: float) -> bool:
        """Whether it did it, in so many seconds. Throws when it was cancelled."""
        watched = os.pidfd_open(self.process.pid)
        try:
            poll = select.poll()
            poll.register(watched, select.POLLIN)
            Cancel.watch(self)
            if not poll.poll(limit * 1000):
                self.end()
                poll.poll(GRACE * 1000)
        finally:
            Cancel.watch(None)
            os.close(watched)
            self.process.kill()
            code = self.process.wait()
        Cancel.check()
        return code == 0


class Running:
    """A kern that was started. `close` ends whatever is left of it."""

    def __init__(self, kern: str, words: List[str], command: List[str], stdin: Optional[int], env: Dict[bytes, bytes],
                 file: str = "") -> None:
        self.file = file  # what only kern has to read, removed as soon as it has
        self.pid, self.owner = -1, os.getpid()
        self.code: Optional[int] = None
        made: List[int] = []
        try:
            for _ in range(3):
                made += map(_above, os.pipe())
            self.out, out, self.err, err, self.alive, alive = made
            self.report = memory_file("kern-report")
            made.append(self.report)
            null = -1
            if stdin is None:
                stdin = null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
                made.append(null)
            argv = [kern, *words, "--report", f"fd:{self.report}", "--", *command]
            # bytes: nobody has to encode them again. Who reads its stderr owns the box, which ends with this process.
            environment = {**os.environb, **env, b"KERN_ALIVE_FD": b"%d" % alive, b"KERN_OWNER_FD": b"2"}
            environment.pop(b"KERN_STARTED_FD", None)
            places = ((stdin, 0), (out, 1), (err, 2), (self.report, self.report), (alive, alive))
            # Not subprocess: posix_spawn never copies this process, whatever its size, and takes a third of the time.
            self.pid = os.posix_spawn(kern, argv, environment, setsid=True, setsigdef=SIGNALS, setsigmask=(),
                                      file_actions=[(os.POSIX_SPAWN_DUP2, *place) for place in places])
        except OSError as problem:
            close(*made)
            raise SandboxError(f"cannot start {kern!r}: {problem.strerror}") from None
        close(out, err, alive, null)
        os.set_blocking(self.out, False)
        os.set_blocking(self.err, False)
        os.set_blocking(self.alive, False)
        try:
            self.pidfd = os.pidfd_open(self.pid)
        except ProcessLookupError:  # over, and the kernel has reaped it, as this process ignores SIGCHLD: what is always at its end
            self.pidfd, far = os.pipe()
            os.close(far)
        except OSError as problem:
            self.pidfd = -1
            self.close()
            raise SandboxError(f"cannot watch kern: {problem.strerror}") from None
        self.born = time.monotonic()
        self.alive_said = b""
        self.executed: Optional[bool] = None
        self.report_data = b""
        self.told_to_end = False

    def _take_alive(self) -> bool:
        try:
            data = os.read(self.alive, 64)
        except BlockingIOError:
            return True
        if data:
            self.alive_said += data
            return True
        # End of file after the one byte that says "accepted": the command was executed. Any other byte: it was not.
        self.executed = self.alive_said == b"A"
        self._remove_file()
        return False

    def _remove_file(self) -> None:
        if self.file:
            remove(self.file)
            self.file = ""

    def settle(self, limit: float) -> None:
        """Waits until kern has read what it was given by name, and removes that."""
        poll = select.poll()
        poll.register(self.alive, select.POLLIN)
        until = time.monotonic() + limit
        while self.file and poll.poll(max(0.0, until - time.monotonic()) * 1000) and self._take_alive():
            pass

    def _take(self, descriptor: int, sink: Callable[[bytes], None]) -> bool:
        """Reads once; False at the end of the stream."""
        try:
            data = os.read(descriptor, CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if data:
            sink(data)
        return bool(data)

    def _read_report(self) -> None:
        while len(self.report_data) < REPORT_LIMIT:
            data = os.pread(self.report, REPORT_CHUNK, len(self.report_data))
            self.report_data += data
            if len(data) < REPORT_CHUNK:
                return

    def end(self) -> None:
        """Tells kern to end the box at once. Two signals: the first is the box's, the second means it."""
        self.told_to_end = True
        for number in (signal.SIGTERM, signal.SIGQUIT):
            self.signal(number)

    def signal(self, number: int) -> None:
        try:
            signal.pidfd_send_signal(self.pidfd, number)
        except OSError:
            pass

    def drain(self, out: Capture, err: Capture, deadline: Optional[float], check: Optional[Callable[[], Optional[float]]] = None,
              channel: int = -1, on_channel: Optional[Callable[[], bool]] = None) -> str:
        """Takes all that comes until kern ended ("ended") or on_channel says that it has what it waits for ("answered").
        deadline: when to end the box, by the monotonic clock. check: called now and then, returns when to call it again,
        None to end the box."""
        poll = select.poll()
        sinks: Dict[int, Callable[[], bool]] = {
            self.out: lambda: self._take(self.out, out.add),
            self.err: lambda: self._take(self.err, err.add),
        }
        if self.file:  # else only the report tells, or at the end its lack
            sinks[self.alive] = self._take_alive
        if channel >= 0:
            poll.register(channel, select.POLLIN)
        for descriptor in sinks:
            poll.register(descriptor, select.POLLIN)
        poll.register(self.pidfd, select.POLLIN)
        self.deadline_hit = self.check_hit = False
        Cancel.watch(self)
        hard: Optional[float] = None
        check_at = time.monotonic() if check else None
        try:
            while True:
                now = time.monotonic()
                if deadline is not None and now >= deadline and not self.told_to_end:
                    self.deadline_hit = True
                    self.end()
                if check and check_at is not None and now >= check_at and not self.told_to_end:
                    check_at = check()
                    if check_at is None:
                        self.check_hit = True
                        self.end()
                if self.told_to_end:
                    hard = now + GRACE if hard is None else hard
                    if now >= hard:
                        self.signal(signal.SIGKILL)
                        hard = now + GRACE
                    wait = hard - now
                else:
                    times = [moment for moment in (deadline, check_at) if moment is not None]
                    wait = min(times) - now if times else -1.0
                ready = poll.poll(None if wait < 0 else wait * 1000 + 0.5)
                ended = False
                for descriptor, _ in ready:
                    if descriptor == self.pidfd:
                        ended = True
                    elif descriptor == channel:
                        if on_channel is not None and on_channel():
                            return "answered"
                    elif descriptor in sinks and not sinks[descriptor]():
                        poll.unregister(descriptor)
                        del sinks[descriptor]
                if ended:
                    self._drain_rest(sinks)
                    return "ended"
        except BaseException:
            self.signal(signal.SIGKILL)
            raise
        finally:
            Cancel.watch(None)

    def _drain_rest(self, sinks: Dict[int, Callable[[], bool]]) -> None:
        """kern is gone, and with it every process of the box: what its pipes still hold is all there is."""
        for descriptor, take in sinks.items():
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            while poll.poll(0) and take():
                pass
        self._read_report()
        for _ in range(2):  # the byte, and the end behind it
            if self.executed is None and not self.report_data:
                self._take_alive()

    def wait(self) -> int:
        """The exit code of a kern that ended; of one that a signal ended, 128 and the signal."""
        if self.code is None:
            try:
                status = os.waitpid(self.pid, 0)[1]
                self.code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
            except ChildProcessError:  # this process ignores SIGCHLD, or somebody in it waits for all children: kern told, too
                told = parse_report(self.report_data) or {}
                self.code = int(told.get("exit", 1))
        return self.code

    def ended(self, timeout: float = 0) -> bool:
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(timeout * 1000))

    def close(self) -> None:
        """Ends the box, if it still is, and gives everything back. A forked copy of its owner has nothing to end."""
        if self.code is None and self.owner == os.getpid():
            if self.pidfd < 0:
                os.kill(self.pid, signal.SIGKILL)
            elif not self.ended():
                self.end()
                if not self.ended(GRACE):
                    self.signal(signal.SIGKILL)
            self.wait()
        self._remove_file()
        close(self.out, self.err, self.report, self.alive, self.pidfd)
        self.out = self.err = self.report = self.alive = self.pidfd = -1

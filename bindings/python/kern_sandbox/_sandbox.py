"""The sandbox: a workspace on the host, and a box for each call. Isolation is kern's; this file asks for it, feeds it and
reads its report."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import queue
import tempfile
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Literal, Optional, Sequence, Union

from . import _driver, _image
from ._binary import find_kern
from ._errors import SandboxError
from ._options import DEFAULT_IMAGE, Options, check_timeout, digits, is_text, make_options
from ._process import GRACE, Capture, Running, remove
from ._pyc import PycCache
from ._result import End, ExecutionResult, FileInfo, Result, SandboxFault, Usage, classify, parse_report
from ._warm import Kernel, Pool
from ._workspace import ARGUMENT_LIMIT, CLOSED, Workspace, remove_tree

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import SandboxOptions

Language = Literal["python", "bash", "sh", "node"]
LANGUAGES = {"python": ("python3", ".py"), "bash": ("bash", ".sh"), "sh": ("sh", ".sh"), "node": ("node", ".js")}
BACKSTOP = 5  # seconds that kern's own deadline lies behind this side's
Callback = Optional[Callable[[bytes], object]]
_numbers = itertools.count(1)
_all_open: "weakref.WeakSet[Sandbox]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """A sandbox that was forgotten leaves nothing behind, either."""
    for sandbox in list(_all_open):
        sandbox.close()


def check_code(code: object) -> str:
    if not isinstance(code, str):
        raise SandboxError(f"code: a string is needed, not {type(code).__name__}")
    if "\0" in code:
        raise SandboxError("code: it has a NUL character")
    if not code.isascii() and not is_text(code):
        raise SandboxError("code: it has a lone surrogate, which is no text")
    return code


class _Feed:
    """Hands a stream to a callback from a thread of its own: a slow one loses chunks, the box never waits for it."""

    def __init__(self, callback: Callable[[bytes], object]) -> None:
        self.callback = callback
        self.stopped = False
        self.queue: "queue.Queue[Optional[bytes]]" = queue.Queue(1024)
        self.thread = threading.Thread(target=self._work, name="kern-output", daemon=True)
        self.thread.start()

    def __call__(self, data: bytes) -> None:
        try:
            self.queue.put_nowait(data)
        except queue.Full:
            pass

    def _work(self) -> None:
        while True:
            data = self.queue.get()
            if data is None or self.stopped:
                return
            try:
                self.callback(data)
            except Exception:
                pass  # what a callback throws is its own business

    def close(self) -> None:
        """Lets the callback have what is queued, within a second; what it has not taken by then it loses."""
        try:
            self.queue.put(None, timeout=1)
            self.thread.join(1)
        except queue.Full:
            pass
        self.stopped = True


class _Feeds:
    def __init__(self, out: Callback, err: Callback) -> None:
        self.out = None if out is None else _Feed(out)
        self.err = None if err is None else _Feed(err)

    def __enter__(self) -> "_Feeds":
        return self

    def __exit__(self, *_: object) -> None:
        for feed in (self.out, self.err):
            if feed is not None:
                feed.close()


class _Track:
    """The workspace around one call: what changed, and whether it grew too large."""

    def __init__(self, workspace: Workspace, options: Options) -> None:
        self.workspace, self.limit, self.track = workspace, options.workspace_max_bytes, options.track_files
        self.full = False
        self.check: Optional[Callable[[], Optional[float]]] = self._measure if self.limit is not None else None

    def __enter__(self) -> "_Track":
        self.before = self.workspace.seen() if self.track else {}
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def _measure(self) -> Optional[float]:
        begin = time.monotonic()
        if self.limit is not None and self.workspace.size() > self.limit:
            self.full = True
            return None
        cost = time.monotonic() - begin
        return time.monotonic() + max(0.05, 10 * cost)

    def finish(self, result: ExecutionResult) -> None:
        if self.limit is not None and not self.full and self.workspace.fd >= 0:
            self._measure()
        if self.full:
            result.fault = SandboxFault("workspace_full", "")
        if self.workspace.fd < 0:
            raise SandboxError(CLOSED)
        if self.track:
            result.files = self.workspace.changes(self.before)


class Sandbox:
    """A workspace and the boxes that share it. Files persist from call to call, processes do not."""

    def __init__(self, **options: "Unpack[SandboxOptions]") -> None:
        self.options = make_options(options)
        self._workspace: Optional[Workspace] = None
        self._pool: Optional[Pool] = None
        self._resident: Any = None
        self._kernels: "set[Kernel]" = set()
        self._first: Dict[str, Any] = {}
        self._words: Optional[List[str]] = None  # how its boxes are confined: none is started before that is known
        self._kern = ""
        self._opening = threading.RLock()
        self._calls: "set[Running]" = set()
        self._calls_lock = threading.Lock()
        self._pyc = PycCache(self)

    # ---- Life

    def open(self) -> "Sandbox":
        """Finds kern, makes the workspace, has the image brought here, runs `setup`. A second call does nothing."""
        with self._opening:
            if self._workspace is None:
                self._open()
            return self

    def _open(self) -> None:
        self._kern = find_kern()
        self._workspace = Workspace(self.options.workspace)
        self._owner = os.getpid()
        _all_open.add(self)
        try:
            _image.fetch(self._kern, self.options.image)
            self._first = self._workspace.seen() if not self._workspace.mine else {}
            if self.options.user is not None:
                from ._user import share

                share(self, self._workspace.path)
            if self.options.setup is not None:
                self._run_setup(self.options.setup)
            self._words = self._box_words()
            if self.options.persist:
                from ._persist import Resident

                self._resident = Resident(self)
            if self.options.prewarm:
                self._pool = Pool(self, self.options.prewarm)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends what is left, and removes the workspace if it was made here. A resident box lives on."""
        _all_open.discard(self)
        if self._workspace is not None and self._owner != os.getpid():  # a fork's copy: all of it is the parent's
            self._kernels.clear()
            self._calls.clear()
            self._pool, self._workspace.mine = None, False
        self._words = None
        self._end_calls()
        for kernel in list(self._kernels):
            kernel.close()
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
        workspace, self._workspace = self._workspace, None
        if workspace is not None:
            workspace.close()
            if workspace.mine and os.path.isdir(workspace.path) and self.options.user is not None:
                from ._user import clear

                clear(self, workspace.path)
                remove_tree(workspace.path)

    def _end_calls(self) -> None:
        """A call that another thread waits for ends now; it throws there, for want of a workspace."""
        with self._calls_lock:
            for running in self._calls:
                running.end()
            for running in self._calls:
                running.ended(GRACE)

    @contextlib.contextmanager
    def _calling(self, running: Running) -> Iterator[None]:
        with self._calls_lock:
            self._calls.add(running)
        try:
            yield
        finally:
            with self._calls_lock:
                self._calls.discard(running)

    def destroy(self) -> None:
        """close(), and the resident box of a persist sandbox is stopped."""
        if self.options.persist:
            from ._persist import stop

            stop(self._kern or find_kern(), str(self.options.name))
        self.close()

    def __enter__(self) -> "Sandbox":
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:
            pass

    def _ready(self) -> Workspace:
        """For calls: a sandbox that another thread is still opening is not open."""
        if self._words is None:
            raise SandboxError("the sandbox is not open: use `with Sandbox() as box:` or call open()")
        return self._need()

    def _need(self) -> Workspace:
        if self._workspace is None:
            raise SandboxError("the sandbox is not open: use `with Sandbox() as box:` or call open()")
        return self._workspace

    # ---- Calls

    def run_code(self, code: str, *, language: "Language" = "python", timeout_s: Optional[float] = None,
                 on_stdout: Callback = None, on_stderr: Callback = None) -> ExecutionResult:
        """Runs a program text. The value of a last expression, what display() was given and open figures are `results`."""
        check_code(code)
        workspace = self._ready()
        if not isinstance(language, str) or language not in LANGUAGES:
            raise SandboxError(f"language: {language!r} is none of {', '.join(LANGUAGES)}")
        limit = self.options.timeout_s if timeout_s is None else check_timeout(timeout_s)
        binary, suffix = LANGUAGES[language]
        if language == "node" and self.options.image == DEFAULT_IMAGE:
            return ExecutionResult(exit_code=127, fault=SandboxFault(
                "exec_failed", f"image {DEFAULT_IMAGE!r} has no 'node': name one that has it, such as image=\"node:20-slim\""))
        with self._feeds(on_stdout, on_stderr) as feeds:
            if language == "python":
                return self._run_python(code, limit, feeds)
            words = [binary, "-c" if language != "node" else "-e", code]
            name = None
            if len(code.encode("utf-8", "surrogatepass")) >= ARGUMENT_LIMIT:
                name = workspace.add_code(code, suffix)
                words = [binary, "/workspace/" + name]
            try:
                return self._run(words, limit, feeds)
            finally:
                if name is not None:
                    workspace.remove(name)

    def run(self, command: Sequence[str], *, timeout_s: Optional[float] = None, on_stdout: Callback = None,
            on_stderr: Callback = None) -> ExecutionResult:
        """Runs a program with its arguments; no shell is involved."""
        self._ready()
        if isinstance(command, (str, bytes)) or not isinstance(command, Sequence) or not command:
            raise SandboxError(f"run: {command!r} is not a list of words; for a shell: run([\"sh\", \"-c\", ...])")
        for word in command:
            if not isinstance(word, str) or "\0" in word or not is_text(word):
                raise SandboxError(f"run: {word!r} is not a word: strings without NUL and lone surrogates are")
        limit = self.options.timeout_s if timeout_s is None else check_timeout(timeout_s)
        with self._feeds(on_stdout, on_stderr) as feeds:
            return self._run(list(command), limit, feeds)

    def kernel(self) -> Kernel:
        """One warm Python interpreter in one box."""
        self._ready()
        if self._resident is not None:
            self._resident.ensure()
        return Kernel(self)

    def _feeds(self, out: Callback, err: Callback) -> _Feeds:
        for name, callback in (("on_stdout", out), ("on_stderr", err)):
            if callback is not None and not callable(callback):
                raise SandboxError(f"{name}: {callback!r} is not allowed: a function, or None")
        return _Feeds(out or self.options.on_stdout, err or self.options.on_stderr)

    def _run_python(self, code: str, limit: float, feeds: _Feeds) -> ExecutionResult:
        pool = self._pool
        warm = pool.take() if pool is not None else None
        if pool is not None and warm is not None:
            try:
                with self._calling(warm.running):
                    result = warm.call(self, b"O", code, limit, feeds.out, feeds.err)
                if self._words is None:
                    raise SandboxError(CLOSED)
            finally:
                pool.give_back(warm)
            self._tell_blocked(result)
            return result
        words, data = _driver.one_call(code)
        call = _driver.CallFile(data, self.options.max_output_bytes)
        try:
            return self._run(words, limit, feeds, call)
        finally:
            call.close()

    def _run(self, command: List[str], limit: float, feeds: _Feeds, call: Optional[_driver.CallFile] = None) -> ExecutionResult:
        if self._resident is None:
            return self._run_once(command, limit, feeds, call)
        # A resident box may have ended since the last call: of its age, or with a call that ran out of memory.
        try:
            result = self._run_once(command, limit, feeds, call)
            if result.fault is None or result.fault.type != "startup_failed" or not self._resident.ensure():
                return result
        except SandboxError:
            if not self._resident.ensure():
                raise
        return self._run_once(command, limit, feeds, call)

    def _run_once(self, command: List[str], limit: float, feeds: _Feeds, call: Optional[_driver.CallFile]) -> ExecutionResult:
        cap = self.options.max_output_bytes
        out, err = Capture(cap, feeds.out), Capture(cap, feeds.err)
        with self._tracking() as track:
            begin = time.monotonic()
            running = self._start(command, None if call is None else call.fd, limit + BACKSTOP)
            try:
                with self._calling(running):
                    running.drain(out, err, begin + limit, track.check)
                if self._words is None:
                    raise SandboxError(CLOSED)
                results, dropped = ([], False) if call is None else call.results()
                result = self._result(out, err, begin, results, dropped)
                self._judge(result, running, limit, command[0], track)
            finally:
                running.close()
        self._tell_blocked(result)
        return result

    def _start(self, command: List[str], stdin: Optional[int], life: float) -> Running:
        self._need()
        if self._words is None:
            raise SandboxError(CLOSED)
        if self._resident is not None:
            return self._resident.start(command, stdin, life)  # type: ignore[no-any-return]
        words = ["box", f"kern-{os.getpid()}-{next(_numbers)}", *self._words, *self._pyc.words(), "--timeout", digits(life)]
        return self._spawn(words, command, stdin)

    def _spawn(self, words: List[str], command: List[str], stdin: Optional[int]) -> Running:
        """Starts kern with the sandbox's environment in a private file, which is gone again when kern has read it."""
        if not self.options.env:
            return Running(self._kern, words, command, stdin, self._kern_environment())
        path = self._write_env()
        try:
            return Running(self._kern, [*words, "--env-file", path], command, stdin, self._kern_environment(), path)
        except BaseException:
            remove(path)
            raise

    def _write_env(self) -> str:
        path = ""
        try:
            handle, path = tempfile.mkstemp(prefix="kern-env-")  # 0600, O_EXCL and O_NOFOLLOW
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.writelines(f"{name}={value}\n" for name, value in self.options.env.items())
            return path
        except OSError as problem:
            remove(path)
            raise SandboxError(f"env: cannot write its file: {problem}; TMPDIR names where temporary files go") from None

    @contextlib.contextmanager
    def _env_file(self) -> Iterator[str]:
        """The environment's file for as long as the block runs; '' without an environment."""
        path = self._write_env() if self.options.env else ""
        try:
            yield path
        finally:
            if path:
                remove(path)

    def _kern_environment(self) -> Dict[bytes, bytes]:
        return {} if self.options.enforce_limits else {b"KERN_NO_SCOPE": b"1"}

    def _box_words(self, for_setup: bool = False) -> List[str]:
        from ._mounts import bind_words

        workspace = self._need()
        words = self.options.words(for_setup)
        words += [*bind_words(workspace.path, "/workspace", False), "--workdir", "/workspace"]
        if self.options.deps_readonly and not for_setup and workspace.has_deps():
            words += bind_words(workspace.path + "/.deps", "/workspace/.deps", True)
        words += _image.environment(self, for_setup)
        return words

    def _run_setup(self, setup: str) -> None:
        workspace = self._need()
        workspace.make_deps()
        text = setup.strip()
        if text.startswith("pip install "):
            text = ("pip install --target /workspace/.deps --no-cache-dir --disable-pip-version-check "
                    + text[len("pip install "):])
        limit = max(self.options.timeout_s, 120)
        cap = self.options.max_output_bytes
        out, err = Capture(cap), Capture(cap)
        words = ["box", f"kern-{os.getpid()}-{next(_numbers)}", *self._box_words(True), "--timeout", digits(limit + BACKSTOP)]
        running = self._spawn(words, ["sh", "-c", text], None)
        begin = time.monotonic()
        try:
            running.drain(out, err, begin + limit)
            result = self._result(out, err, begin, [], False)
            self._judge(result, running, limit, "sh")
        finally:
            running.close()
        if not result.success:
            why = result.fault.message if result.fault is not None else (result.code_stderr.strip() or result.stdout.strip())
            raise SandboxError(f"setup failed (exit {result.exit_code}): {why[-2000:]}")

    # ---- Outcomes

    def _tracking(self) -> _Track:
        return _Track(self._need(), self.options)

    def _result(self, out: Capture, err: Capture, begin: float, results: List[Result], dropped: bool) -> ExecutionResult:
        return ExecutionResult(stdout=out.text(), stderr=err.text(), duration_ms=(time.monotonic() - begin) * 1000,
                               results=results, truncated=out.truncated or err.truncated or dropped)

    def _judge(self, result: ExecutionResult, running: Running, limit: float, command: str, track: Optional[_Track] = None) -> None:
        """Fills in how a box ended. Throws when kern could not build it: then no code ran."""
        code = running.wait()
        report = parse_report(running.report_data)
        if track is not None:
            track.finish(result)
        full = result.fault is not None and result.fault.type == "workspace_full"
        end = End(code, running.deadline_hit, full, running.executed)
        result.exit_code = code if not running.deadline_hit else 137
        result.fault = classify(end, report, limit, self.options.image, command)
        result.report = report
        told = report or {}
        used = told.get("usage") or {}
        result.usage = Usage(used.get("wall_ms"), used.get("cpu_ms"), used.get("peak_memory_bytes"))
        result.denied = told.get("denied") or {}
        self._pyc.learn((told.get("image") or {}).get("digest"))
        if result.fault is None or result.fault.type != "startup_failed" or running.deadline_hit:
            return
        said = [line for line in result.stderr.splitlines() if line.startswith(("kern: ", "hint: "))]
        if report is None and any("--report" in line for line in said):
            raise SandboxError(f"{self._kern!r} is too old for this package: it has no --report; install a newer kern")
        if code == 125:
            raise SandboxError("kern could not build the box: " + ("\n".join(said) or result.fault.message))
        result.fault = SandboxFault("startup_failed", _image.explain(self.options.image, result.fault.message, bool(told.get("image"))))

    def _tell_blocked(self, result: ExecutionResult) -> None:
        callback = self.options.on_blocked
        if callback is None:
            return
        events: List[Dict[str, Any]] = [{"kind": "syscall", "name": name, "count": count}
                                        for name, count in (result.denied.get("syscalls") or {}).items()]
        for kind in ("host", "device"):
            for found in result.denied.get(kind + "s") or []:
                events.append({"kind": kind, "count": 1, **(found if isinstance(found, dict) else {"name": found})})
        for event in events:
            try:
                callback(event)
            except Exception:
                pass

    # ---- The workspace

    @property
    def workspace(self) -> str:
        return self._ready().path

    def write_file(self, path: "Union[str, os.PathLike[str]]", data: Union[str, bytes, bytearray, memoryview]) -> None:
        self._ready().write(path, data)

    def read_file(self, path: "Union[str, os.PathLike[str]]") -> bytes:
        return self._ready().read(path)

    def list_files(self) -> List[FileInfo]:
        """All regular files; `change` is against what was there when the sandbox was opened."""
        return self._ready().list(self._first)

    def snapshot(self, destination: "Union[str, os.PathLike[str]]") -> None:
        """Writes the workspace as .tar.gz, with what setup installed."""
        self._ready().snapshot(destination)

    def restore(self, source: "Union[str, os.PathLike[str]]") -> None:
        """Unpacks a snapshot over the workspace. Nothing is written unless all of it is acceptable."""
        self._ready().restore(source)


def run_code(code: str, *, language: "Language" = "python", **options: "Unpack[SandboxOptions]") -> ExecutionResult:
    """Runs one program text in a sandbox of its own."""
    check_code(code)
    with Sandbox(**options) as sandbox:
        return sandbox.run_code(code, language=language)

"""kern-mcp: a sandbox for models, as a Model Context Protocol server over stdin and stdout. One session backs the
connection. Speaks the current revision, which has no handshake, and those before it, which begin with `initialize`.

stdout carries the protocol and nothing else; what there is to say goes to stderr."""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from . import __version__
from ._errors import SandboxError
from ._process import Cancel
from ._result import ExecutionResult
from ._sandbox import LANGUAGES, Sandbox
from ._warm import Kernel

MODERN = ("2026-07-28",)
HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
META = "io.modelcontextprotocol/"
FRAME_LIMIT = 64 << 20
TEXT_LIMIT = 100_000
READ_LIMIT = 32 << 20
AT_ONCE = 32
PARSE_ERROR, INVALID_REQUEST, NO_METHOD, BAD_PARAMS, UNSUPPORTED_VERSION = -32700, -32600, -32601, -32602, -32022
SERVER = {"name": "kern", "title": "kern sandbox", "version": __version__}
INSTRUCTIONS = ("Runs code in a throwaway Linux box: no network unless configured, capped memory and time. Files in /workspace stay "
                "between calls; processes do not.")

HELP = """usage: kern-mcp [--help] [--version]

A Model Context Protocol server on stdin and stdout: run_code, write_file, read_file and list_files in a kern box.
It is configured by the environment:

  KERN_MCP_IMAGE       image of the boxes (python:3.12-slim); "host": this machine's own programs, read-only
  KERN_MCP_SETUP       a command that runs once, with a network, such as "pip install pandas"
  KERN_MCP_MEMORY_MB   memory cap (1024)
  KERN_MCP_TIMEOUT     seconds for a call that names none (60)
  KERN_MCP_WORKSPACE   a folder to keep files in; otherwise a temporary one
  KERN_MCP_PROFILES    profiles of kern.toml, by comma
  KERN_MCP_EGRESS      hosts that the code may reach, by comma
  KERN_MCP_KERNEL=1    one warm Python interpreter: names live from call to call
  KERN_MCP_QUIET=1     nothing on stderr
  KERN_BIN             the kern to drive
"""

_TEXT = {"type": "string"}
TOOLS: List[Dict[str, Any]] = [
    {
        "name": "run_code",
        "title": "Run code",
        "description": "Run a program in an isolated Linux box and return its output, the value of a last expression and its charts. "
                       "Files go to the current directory, /workspace, and stay for later calls.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "code": {**_TEXT, "description": "The program text."},
                "language": {**_TEXT, "enum": list(LANGUAGES), "default": "python"},
                "timeout_s": {"type": "number", "exclusiveMinimum": 0, "maximum": 86400, "description": "Seconds before it is stopped."},
            },
            "required": ["code"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False},
    },
    {
        "name": "write_file",
        "title": "Write a file",
        "description": "Write a text file in /workspace; folders are made.",
        "inputSchema": {
            "type": "object",
            "properties": {"path": {**_TEXT, "description": "Relative to /workspace."}, "content": _TEXT},
            "required": ["path", "content"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True, "openWorldHint": False},
    },
    {
        "name": "read_file",
        "title": "Read a file",
        "description": "Read a file of /workspace; images come back as images.",
        "inputSchema": {
            "type": "object",
            "properties": {"path": {**_TEXT, "description": "Relative to /workspace."}},
            "required": ["path"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    {
        "name": "list_files",
        "title": "List files",
        "description": "List the files of /workspace with their sizes.",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
]
IMAGES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


class RpcError(Exception):
    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.data = code, data


def options_from(environment: Mapping[str, str]) -> Dict[str, Any]:
    """The sandbox that the environment asks for. A number that is none throws."""

    def get(name: str) -> str:
        return environment.get("KERN_MCP_" + name, "").strip()

    def number(name: str, standard: str, kind: Callable[[str], Any]) -> Any:
        try:
            return kind(get(name) or standard)
        except ValueError:
            raise SandboxError(f"KERN_MCP_{name}: {get(name)!r} is not a number") from None

    options: Dict[str, Any] = {
        "memory_mb": number("MEMORY_MB", "1024", int),
        "timeout_s": number("TIMEOUT", "60", float),
        "track_files": True,
    }
    for name, option in (("IMAGE", "image"), ("SETUP", "setup"), ("WORKSPACE", "workspace")):
        if get(name):
            options[option] = get(name)
    for name, option in (("PROFILES", "profiles"), ("EGRESS", "egress_allow")):
        if get(name):
            options[option] = [word.strip() for word in get(name).split(",") if word.strip()]
    return options


def check_arguments(tool: Mapping[str, Any], given: Any) -> Dict[str, Any]:
    """Arguments against the tool's schema, as far as our schemas go."""
    schema = tool["inputSchema"]
    if given is None:
        given = {}
    if not isinstance(given, dict):
        raise RpcError(BAD_PARAMS, f"{tool['name']}: arguments must be an object")
    for name in schema.get("required", ()):
        if name not in given:
            raise RpcError(BAD_PARAMS, f"{tool['name']}: {name} is missing")
    for name, value in given.items():
        wanted = schema["properties"].get(name)
        if wanted is None:
            raise RpcError(BAD_PARAMS, f"{tool['name']}: there is no argument {name!r}")
        if wanted["type"] == "string" and not isinstance(value, str):
            raise RpcError(BAD_PARAMS, f"{tool['name']}: {name} must be a string")
        if wanted["type"] == "number" and (isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 86400):
            raise RpcError(BAD_PARAMS, f"{tool['name']}: {name} must be a number above 0, of at most 86400")
        if "enum" in wanted and value not in wanted["enum"]:
            raise RpcError(BAD_PARAMS, f"{tool['name']}: {name} must be one of {', '.join(wanted['enum'])}")
    return given


def text_block(text: str) -> Dict[str, Any]:
    if not text.isascii():  # a lone surrogate, which a file name or a value of the code may have, breaks the client's reader
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return {"type": "text", "text": text}


def shorten(text: str) -> str:
    if len(text) <= TEXT_LIMIT:
        return text
    half = TEXT_LIMIT // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def image_block(data: bytes, mime: str) -> Dict[str, Any]:
    return {"type": "image", "data": base64.b64encode(data).decode("ascii"), "mimeType": mime}


def show_result(result: ExecutionResult) -> Dict[str, Any]:
    """A result as a model sees it: what was printed, what was shown, who stopped it."""
    parts = []
    if result.stdout:
        parts.append(shorten(result.stdout).rstrip("\n"))
    if result.code_stderr:
        parts.append("[stderr]\n" + shorten(result.code_stderr).rstrip("\n"))
    images = []
    for value in result.results:
        picture = value.png or value.jpeg
        if picture is not None:
            images.append(image_block(picture, "image/png" if value.png else "image/jpeg"))
        else:
            parts.append(shorten(value.markdown or value.text or ""))
    if result.files:
        parts.append("[files] " + ", ".join(f"{file.path} ({file.change}, {file.size} bytes)" for file in result.files[:50]))
    if result.truncated:
        parts.append("[output truncated]")
    if result.fault is not None:
        parts.append(f"[sandbox: {result.fault.type}] {result.fault.message}")
    elif result.exit_code != 0:
        parts.append(f"[exit code {result.exit_code}]")
    return {"content": [text_block("\n".join(parts) or "[no output]"), *images], "isError": not result.success}


class Session:
    """The sandbox behind the connection, opened when the first tool needs it."""

    def __init__(self, options: Dict[str, Any], with_kernel: bool) -> None:
        self.sandbox = Sandbox(**options)
        self.with_kernel = with_kernel
        self.lock = threading.Lock()
        self.cell_lock = threading.Lock()
        self.kernel: Optional[Kernel] = None

    def open(self) -> Sandbox:
        with self.lock:
            Cancel.check()  # while another call had the image brought here
            return self.sandbox.open()

    def run_code(self, code: str, language: str = "python", timeout_s: Optional[float] = None) -> Dict[str, Any]:
        sandbox = self.open()
        if not self.with_kernel or language != "python":
            return show_result(sandbox.run_code(code, language=language, timeout_s=timeout_s))  # type: ignore[arg-type]
        with self.cell_lock:
            Cancel.check()  # else the interpreter would end, which others use
            fresh = ""
            if self.kernel is not None and not self.kernel.alive:
                self.kernel = None
                fresh = "[the interpreter was restarted: names of earlier calls are gone, files are there]"
            if self.kernel is None:
                self.kernel = sandbox.kernel()
            shown = show_result(self.kernel.run_code(code, timeout_s=timeout_s))
            if fresh:
                shown["content"].insert(0, text_block(fresh))
            return shown

    def write_file(self, path: str, content: str) -> Dict[str, Any]:
        self.open().write_file(path, content)
        return {"content": [text_block(f"wrote {len(content.encode())} bytes to {path}")], "isError": False}

    def read_file(self, path: str) -> Dict[str, Any]:
        data = self.open()._need().read(path, READ_LIMIT)
        for magic, mime in IMAGES:
            if data.startswith(magic):
                return {"content": [image_block(data, mime)], "isError": False}
        try:
            return {"content": [text_block(shorten(data.decode("utf-8")))], "isError": False}
        except UnicodeDecodeError:
            blob = {"uri": "file:///workspace/" + path.lstrip("/"), "mimeType": "application/octet-stream",
                    "blob": base64.b64encode(data).decode("ascii")}
            return {"content": [{"type": "resource", "resource": blob}], "isError": False}

    def list_files(self) -> Dict[str, Any]:
        files = self.open().list_files()
        lines = "\n".join(f"{file.size:>10}  {file.path}" for file in files)
        return {"content": [text_block(shorten(lines) or "[no files]")], "isError": False}

    def close(self) -> None:
        with self.lock:
            self.sandbox.close()


class Server:
    def __init__(self, session: Session, read: int, write: int, quiet: bool) -> None:
        self.session, self.read, self.write, self.quiet = session, read, write, quiet
        self.write_lock = threading.Lock()
        self.calls: Dict[Any, Cancel] = {}
        self.calls_lock = threading.Lock()
        self.broken = False
        self.pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="kern-mcp")

    # ---- Frames

    def log(self, text: str) -> None:
        if not self.quiet:
            print(f"kern-mcp: {text}", file=sys.stderr, flush=True)

    def send(self, message: Dict[str, Any]) -> None:
        data = memoryview(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode("utf-8") + b"\n")
        with self.write_lock:
            try:
                while not self.broken and len(data):
                    data = data[os.write(self.write, data):]
            except OSError:
                self.broken = True  # the client is gone, which reading will tell, too

    def fail(self, identity: Any, code: int, message: str, data: Any = None) -> None:
        error: Dict[str, Any] = {"code": code, "message": message}
        if data is not None:
            error["data"] = data
        self.send({"id": identity, "error": error})

    def frames(self) -> Iterator[bytes]:
        """Lines of the client. One that is too long is answered with an error, and passed over."""
        pending: List[bytes] = []
        size, over = 0, False
        while True:
            try:
                data = os.read(self.read, 1 << 16)
            except OSError:
                data = b""
            if not data:
                return
            *lines, rest = data.split(b"\n")
            for line in lines:
                if not over and size + len(line) <= FRAME_LIMIT:
                    yield b"".join([*pending, line])
                else:
                    self.fail(None, INVALID_REQUEST, f"a message may have at most {FRAME_LIMIT} bytes")
                pending, size, over = [], 0, False
            size += len(rest)
            if size > FRAME_LIMIT:
                pending, over = [], True
            elif rest:
                pending.append(rest)

    def serve(self) -> None:
        try:
            for line in self.frames():
                if self.broken:
                    break
                if line.strip():
                    self.handle_line(line)
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):  # a client that loses patience sends them now: what ends, ends whole
                signal.signal(number, signal.SIG_IGN)
            with self.calls_lock:
                for cancel in self.calls.values():
                    cancel.cancel()
            self.pool.shutdown(wait=True)
            self.session.close()

    def handle_line(self, line: bytes) -> None:
        try:
            message = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError):
            self.fail(None, PARSE_ERROR, "not JSON")
            return
        for one in message if isinstance(message, list) and message else [message]:
            self.handle(one)

    def handle(self, message: Any) -> None:
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            self.fail(None, INVALID_REQUEST, "not a JSON-RPC 2.0 message")
            return
        method, identity = message.get("method"), message.get("id")
        if not isinstance(method, str):
            if "result" not in message and "error" not in message:
                self.fail(identity if isinstance(identity, (str, int)) else None, INVALID_REQUEST, "no method")
            return
        params = message.get("params") if message.get("params") is not None else {}
        if "id" not in message:
            self.notified(method, params)
            return
        if isinstance(identity, bool) or not isinstance(identity, (str, int, float)):
            self.fail(None, INVALID_REQUEST, "an id is a string or a number")
            return
        try:
            if not isinstance(params, dict):
                raise RpcError(BAD_PARAMS, "params must be an object")
            self.request(identity, method, params)
        except RpcError as problem:
            self.fail(identity, problem.code, str(problem), problem.data)

    def notified(self, method: str, params: Any) -> None:
        if method == "notifications/cancelled" and isinstance(params, dict):
            identity = params.get("requestId")
            with self.calls_lock:
                found = self.calls.get(identity) if isinstance(identity, (str, int, float)) else None
            if found is not None:
                self.log(f"call {identity} is cancelled")
                found.cancel()

    # ---- Requests

    def is_modern(self, params: Dict[str, Any]) -> bool:
        """Whether the request belongs to the revisions without a handshake; it then says so itself."""
        meta = params.get("_meta")
        version = meta.get(META + "protocolVersion") if isinstance(meta, dict) else None
        if version is None:
            return False
        if version not in MODERN:
            raise RpcError(UNSUPPORTED_VERSION, f"protocol version {version!r} is not supported",
                           {"supported": list(MODERN), "requested": version})
        if not isinstance(meta, dict) or not isinstance(meta.get(META + "clientCapabilities"), dict):
            raise RpcError(BAD_PARAMS, f"_meta: {META}clientCapabilities is missing")
        return True

    def request(self, identity: Any, method: str, params: Dict[str, Any]) -> None:
        modern = self.is_modern(params)
        reply: Optional[Dict[str, Any]] = None
        if method == "tools/call":
            self.start_call(identity, params, modern)
            return
        if method == "tools/list":
            reply = {"tools": TOOLS}
        elif method == "server/discover" and modern:
            reply = {"supportedVersions": list(MODERN), "capabilities": {"tools": {}}, "instructions": INSTRUCTIONS}
        elif method == "initialize" and not modern:
            version = params.get("protocolVersion")
            if not isinstance(version, str):
                raise RpcError(BAD_PARAMS, "protocolVersion is missing")
            reply = {"protocolVersion": version if version in HANDSHAKE else HANDSHAKE[0],
                     "capabilities": {"tools": {"listChanged": False}}, "serverInfo": SERVER, "instructions": INSTRUCTIONS}
        elif method == "ping" and not modern:
            reply = {}
        if reply is None:
            if method == "server/discover":
                raise RpcError(BAD_PARAMS, f"_meta: {META}protocolVersion is missing")
            raise RpcError(NO_METHOD, f"there is no method {method!r}")
        if modern:
            reply.update({"ttlMs": 3_600_000, "cacheScope": "public"})
        self.answer(identity, reply, modern)

    def answer(self, identity: Any, reply: Dict[str, Any], modern: bool) -> None:
        if modern:
            reply = {**reply, "resultType": "complete", "_meta": {META + "serverInfo": SERVER}}
        self.send({"id": identity, "result": reply})

    def start_call(self, identity: Any, params: Dict[str, Any], modern: bool) -> None:
        name = params.get("name")
        tool = next((tool for tool in TOOLS if tool["name"] == name), None)
        if tool is None:
            raise RpcError(BAD_PARAMS, f"there is no tool {name!r}")
        arguments = check_arguments(tool, params.get("arguments"))
        meta = params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        cancel = Cancel()
        with self.calls_lock:
            if identity in self.calls:
                raise RpcError(INVALID_REQUEST, f"the id {identity!r} is in use")
            self.calls[identity] = cancel
        self.pool.submit(self.run_call, identity, str(name), arguments, token, modern, cancel)

    def run_call(self, identity: Any, name: str, arguments: Dict[str, Any], token: Any, modern: bool, cancel: Cancel) -> None:
        done = threading.Event()
        if isinstance(token, (str, int)) and not isinstance(token, bool):
            threading.Thread(target=self.tell_progress, args=(token, name, done), daemon=True).start()
        try:
            if cancel.cancelled:
                return
            try:
                with cancel:
                    reply = getattr(self.session, name)(**arguments)
            except (SandboxError, OSError) as problem:
                reply = {"content": [text_block(str(problem))], "isError": True}
            except Exception as problem:  # never silence: the client would wait for ever
                self.log(f"{name}: {problem!r}")
                reply = {"content": [text_block(f"kern-mcp failed: {problem!r}")], "isError": True}
        finally:
            done.set()
            with self.calls_lock:
                self.calls.pop(identity, None)
        if not cancel.cancelled:  # nobody wants to hear of it any more
            self.answer(identity, reply, modern)

    def tell_progress(self, token: Any, name: str, done: threading.Event) -> None:
        seconds = 0
        while not done.wait(1):
            seconds += 1
            self.send({"method": "notifications/progress",
                       "params": {"progressToken": token, "progress": seconds, "message": f"{name}: {seconds} s"}})


def split_arguments(words: List[str]) -> Tuple[Optional[str], int]:
    """(what to print instead of serving, exit code)"""
    if not words:
        return None, 0
    if words[0] in ("-h", "--help"):
        return HELP, 0
    if words[0] == "--version":
        return f"kern-mcp {__version__}\n", 0
    return f"kern-mcp: unknown argument {words[0]!r}\nhint: kern-mcp --help\n", 2


def stop(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    text, code = split_arguments(sys.argv[1:])
    if text is not None:
        (sys.stderr if code else sys.stdout).write(text)
        return code
    # Whatever prints by mistake must not reach the client: its descriptor is kept for the protocol alone.
    out = os.dup(1)
    os.dup2(2, 1)
    quiet = os.environ.get("KERN_MCP_QUIET", "") not in ("", "0")
    try:
        session = Session(options_from(os.environ), os.environ.get("KERN_MCP_KERNEL", "") not in ("", "0"))
    except SandboxError as problem:
        print(f"kern-mcp: {problem}\nhint: kern-mcp --help", file=sys.stderr)
        return 2
    server = Server(session, 0, out, quiet)
    signal.signal(signal.SIGTERM, stop)
    server.log(f"version {__version__}, image {session.sandbox.options.image}")
    try:
        server.serve()
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

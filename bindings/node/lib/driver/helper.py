# What a call needs only now and then: rich results, how a cell failed; and cells that come by a socket. Values become {mime:
# text} frames, bytes in base64. `chan` is the descriptor that they go to. What goes wrong with a result is never the cell's
# fault, so it is swallowed.
import os
import sys
from gc import collect, freeze

LIMIT = 32 << 20
read, write, getpid, leave, number_to = os.read, os.write, os.getpid, os._exit, int.to_bytes
METHODS = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_latex_", "text/latex"),
    ("_repr_json_", "application/json"),
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
)
shown = []  # figures of this cell that were shown by hand


def encode(mime, value):
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], dict):
        value = value[0]  # a payload with its metadata
    if value is None:
        return None
    if isinstance(value, (bytes, bytearray, memoryview)):
        import binascii

        return binascii.b2a_base64(bytes(value), newline=False).decode("ascii")
    if mime == "application/json":
        import json

        return json.loads(value) if isinstance(value, str) else value
    return value if isinstance(value, str) else str(value)


def is_figure(value):
    module = sys.modules.get("matplotlib.figure")
    return module is not None and isinstance(value, module.Figure)


def png(figure):
    import io

    sink = io.BytesIO()
    figure.savefig(sink, format="png")
    return sink.getvalue()


def bundle(value):
    found = {}
    try:
        made = value._repr_mimebundle_() if hasattr(type(value), "_repr_mimebundle_") else None
        if isinstance(made, tuple):
            made = made[0]
        for mime, payload in (made or {}).items():
            found[str(mime)] = encode(mime, payload)
    except Exception:
        pass
    for name, mime in METHODS:
        if mime not in found and hasattr(type(value), name):
            try:
                found[mime] = encode(mime, getattr(value, name)())
            except Exception:
                pass
    if is_figure(value):
        shown.append(value)
        found["image/png"] = encode("image/png", png(value))
    if not isinstance(found.get("text/plain"), str):
        try:
            found["text/plain"] = repr(value)
        except Exception as problem:
            found["text/plain"] = "<%s whose repr fails: %s>" % (type(value).__name__, type(problem).__name__)
    return {mime: payload for mime, payload in found.items() if payload is not None}


def put(kind, body):
    view = memoryview(kind + len(body).to_bytes(8, "big") + body)
    while len(view) > 0:
        view = view[write(chan, view):]


def show(value):
    try:
        import json

        text = json.dumps(bundle(value), default=str)
        data = text.encode("utf-8", "backslashreplace")
        if len(data) > LIMIT:
            data = json.dumps({"text/plain": "<a result of %d bytes, more than the %d that fit>" % (len(data), LIMIT)}).encode()
        put(b"R", data)
    except Exception:
        pass


def figures(keep):
    """Each figure that is open at the end of a cell and was not shown; a kernel closes them then."""
    try:
        plot = sys.modules["matplotlib.pyplot"]
        for number in plot.get_fignums():
            figure = plot.figure(number)
            if not any(figure is other for other in shown):
                show(figure)
        del shown[:]
        if not keep:
            plot.close("all")
    except BaseException:
        pass


def ended(text, name):
    """How a cell ended that raised something: says so as the interpreter would; the exit code."""
    kind, value, trace = sys.exc_info()
    try:
        if isinstance(value, SystemExit):
            if value.code is None or isinstance(value.code, int):
                return int(value.code or 0) & 255
            sys.stderr.write(str(value.code) + "\n")
            return 1
        while trace is not None and trace.tb_frame.f_code.co_filename != name:
            trace = trace.tb_next
        if sys.excepthook is not sys.__excepthook__:
            sys.excepthook(kind, value, trace)
        else:
            import linecache
            import traceback

            linecache.cache[name] = (len(text), None, text.splitlines(True), name)
            traceback.print_exception(kind, value, trace)
    except BaseException:
        pass
    return 130 if kind is KeyboardInterrupt else 1


def finish():
    """What the interpreter does at its end belongs to a call: waits for threads, runs what was registered, and lets go of
    what the names hold, such as a file that was written and not closed."""
    try:
        threads, at_exit = sys.modules.get("threading"), sys.modules.get("atexit")
        if threads is not None:
            threads._shutdown()
        if at_exit is not None:
            at_exit._run_exitfuncs()
        main.clear()
        collect()
    except BaseException:
        pass


def flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            pass


def serve(frame):
    """Cells by a socket. After each, a mark on both streams and the exit code: then all that it printed is out."""
    out, err, pid, cells, times = 201, 202, getpid(), 0, os.times
    for number, there in ((1, out), (2, err)):
        try:
            os.dup2(number, there, inheritable=False)
        except OSError:
            pass
    import _ast  # noqa: F401  with the types of all syntax nodes, which no cell shall wait for

    compile("0", "<kern>", "exec", 0x400)
    freeze()  # what is there before the first cell is no cell's garbage
    while True:
        kind, body = frame()
        if kind not in (b"O", b"C"):
            leave(0)
        token, text = body[:16], body[16:].decode("utf-8", "surrogatepass")
        cells += len(text) > 0
        code = run(text, "<cell>" if kind == b"O" else "<cell %d>" % cells)
        if getpid() != pid:  # a child that the code forked came back here
            flush()
            leave(code)
        if "matplotlib.pyplot" in sys.modules:
            figures(kind == b"O")
        if kind == b"O":
            finish()
        flush()
        for number in (out, err):
            try:
                write(number, token)
            except OSError:
                pass
        put(b"E", number_to(code, 4, "big") + number_to(int(sum(times()[:4]) * 1000), 8, "big"))
        if kind == b"O":
            leave(code)

# What a call needs only now and then: a look at the whole code, rich results, how it failed. A kernel's cells and those of a
# prewarmed box are run by it, too (serve.py). Values become {mime: text} frames, bytes in base64. What goes wrong with a
# result is never the code's fault, so it is swallowed.
import os
import sys

import __main__

LIMIT = 32 << 20
CHANNEL = 200
main, write, exit = __main__.__dict__, os.write, sys.exit
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
        view = view[write(CHANNEL, view):]


def show(*values):
    for value in values:
        put_result(value)


def put_result(value):
    try:
        import json

        found = bundle(value)
        try:
            text = json.dumps(found, default=str, allow_nan=False)
        except ValueError:  # a NaN, which is no JSON, or a circle: the rest stays
            text = json.dumps({mime: payload for mime, payload in found.items() if isinstance(payload, str)})
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
                put_result(figure)
        del shown[:]
        if not keep:
            plot.close("all")
    except BaseException:
        pass


def last(value):
    main["_"] = value
    put_result(value)


def tell(text, name):
    """How code ended that raised something: says so as the interpreter would; the exit code."""
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


def run(text, name, compile=compile, exec=exec, eval=eval):
    """Runs a cell and shows the value of a last expression; the exit code."""
    try:
        import _ast

        tree = compile(text, name, "exec", 0x400, True)
        final = tree.body.pop() if tree.body and type(tree.body[-1]) is _ast.Expr else None
        exec(compile(tree, name, "exec", 0, True), main)
        if final is not None:
            value = eval(compile(_ast.Expression(final.value), name, "eval", 0, True), main)
            if value is not None:
                last(value)
        return 0
    except BaseException:
        return tell(text, name)


def leave(code):
    """The end of one call."""
    if "matplotlib.pyplot" in sys.modules:
        figures(True)
    exit(code)


def join(head, tail):
    return (head + tail.lstrip(b"\n")).decode("utf-8", "surrogatepass")


def whole(head, tail):
    leave(run(join(head, tail), "<cell>"))


def ended(head, tail):
    leave(tell(join(head, tail), "<cell>"))

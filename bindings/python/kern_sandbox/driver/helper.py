# Rich results, loaded into the interpreter of a box when there is one to show: values become {mime: text} frames, bytes
# in base64. `put` comes from boot.py. What goes wrong here is never the cell's fault, so it is swallowed.
import json
import sys

LIMIT = 32 << 20
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


def show(value):
    try:
        text = json.dumps(bundle(value), default=str)
        data = text.encode("utf-8", "backslashreplace")
        if len(data) > LIMIT:
            data = json.dumps({"text/plain": "<a result of %d bytes, more than the %d that fit>" % (len(data), LIMIT)}).encode()
        put(b"R", data)
    except Exception:
        pass


def figures(keep):
    """Each figure that is open at the end of a cell and was not shown; a kernel closes them then."""
    plot = sys.modules["matplotlib.pyplot"]
    for number in plot.get_fignums():
        figure = plot.figure(number)
        if not any(figure is other for other in shown):
            show(figure)
    del shown[:]
    if not keep:
        plot.close("all")

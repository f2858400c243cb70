# How a kernel and a prewarmed box take cells, behind helper.py: by a socket, see warm.py.
from gc import collect, freeze

getpid, die, number_to = os.getpid, os._exit, int.to_bytes


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
            die(0)
        token, text = body[:16], body[16:].decode("utf-8", "surrogatepass")
        cells += len(text) > 0
        code = run(text, "<cell>" if kind == b"O" else "<cell %d>" % cells)
        if getpid() != pid:  # a child that the code forked came back here
            flush()
            die(code)
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
            die(code)

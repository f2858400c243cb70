# What the interpreter of a kernel or of a prewarmed box runs, as `python3 -c`: takes cells from descriptor 0, a socket. A
# frame is one byte that says what it is, eight bytes of length, and the payload. In: W helper.py and serve.py, first of all;
# C a mark and a cell of several, O a mark and the only one. Out: R a rich result (JSON), E the end of a cell.
def _kern_warm(len=len):
    import builtins, os, sys
    read, number, chan = os.read, int.from_bytes, os.dup2(0, 200, False)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    global _kern_warm
    del _kern_warm
    def take(size):
        data = read(chan, size)
        while data and len(data) < size:
            part = read(chan, size - len(data))
            data = data + part if part else b""
        return data
    def frame():
        head = take(9)
        return head[:1], take(number(head[1:], "big")) if head else b""
    kern = {"__name__": "kern"}
    def display(*values, **_):
        kern["show"](*values)
    display.__module__, builtins.display = "builtins", display
    exec(frame()[1], kern)
    kern["serve"](frame)
_kern_warm()

# What the Python interpreter in a box runs for one call, as `python3 -c`: takes the code from descriptor 0, a file that begins
# with three texts, a NUL between each (what stands before the last line that is not indented; the rest, behind as many line
# breaks; helper.py), and runs it as __main__. Rich results are written behind that, see helper.py. The client adds the line
# that calls this, with the size of the texts, and with eval or exec for the rest, whatever it is; None when only a look at the
# whole can tell.
#
# This text is parsed at every start, and each expression in it costs: it holds what the usual call needs. Nor does it use
# compile(), which would make the types of all syntax nodes, a tenth of an interpreter's start. exec and eval do not, and a
# profiler that raises takes the code from them before it runs: so the rest is compiled first, and nothing runs unless both
# parts are sound. Where they are not, which takes in a syntax warning, helper.py has a look at the whole, and says it. Whatever the code does to these
# functions or descriptors costs it its own results: no fault is read from here.
#
# A sixth of a short program's time is the interpreter's end, which looks for garbage again and again among what its start
# made. It is left out where nobody could notice: nothing that the code left has a finalizer or is a class that has one,
# nothing is registered for the end, there is no thread, and no library but the interpreter's own (`ends` names those of
# them, and the modules, that may have more to do). To have only the code's things to look at, what the start made is frozen,
# though not for code that may watch that, and thawed before any other end.
def _kern_boot(run, size, exec=exec, eval=eval, type=type):
    import builtins, gc, os, sys
    global _kern_boot
    del _kern_boot
    os.dup2(0, 200, False)
    os.close(0)
    os.set_inheritable(os.open("/dev/null", 2), True)
    head, tail, *later = os.read(200, size).split(b"\0")
    quick = not [word for word in (b"gc", b"audit", b"trace", b"profile") if word in head or word in tail]
    if quick:
        gc.freeze()
    main, kern, kept, blocks, end = globals(), {}, [], sys.getallocatedblocks, os._exit
    ends = {"_ctypes", "_dbm", "_gdbm", "_interpreters", "_sqlite3", "_xxsubinterpreters", "atexit", "threading", "weakref"}
    def display(*values, do="show", **_):
        if later:
            exec(later.pop(), kern)
        kern[do](*values)
    def keep(frame, event, _):
        if event == "call":
            sys.setprofile(None)
            sys.modules["_imp"]._fix_co_filename(frame.f_code, "<cell>")
            kept.append(frame.f_code)
            kept[1]  # the first is compiled and no more
            del filters[0]
    builtins.display, filters = display, sys.modules["_warnings"].filters
    filters.insert(0, ("error", None, SyntaxWarning, None, 0))
    try:
        for run, text in (run, tail), (exec, head):
            sys.setprofile(keep)
            try:
                run(text, main)
                value = eval(kept[0], main)
                if value is not None:
                    display(value, do="last")
            except:
                if kept[1:]:
                    display(head, tail, do="ended")
        if not kept[1:]:
            sys.setprofile(None)
            del filters[0]
            display(head, tail, do="whole")
        if "matplotlib.pyplot" in sys.modules:
            display(0, do="leave")
        try:
            loaded, out, err = sys.modules, sys.stdout, sys.stderr
            if quick and out is sys.__stdout__ and err is sys.__stderr__ and 0 < blocks() < 99999 and not ends & loaded.keys():
                left = gc.get_objects()
                kinds = {thing if type(thing) is type else type(thing) for thing in left}
                library = loaded["_frozen_importlib_external"].ExtensionFileLoader
                foreign = library in kinds and [1 for thing in left if type(thing) is library and "/lib-dynload/" not in thing.path]
                if not foreign and True not in {"__del__" in base.__dict__ for kind in kinds for base in kind.__mro__}:
                    out.flush()
                    err.flush()
                    end(0)
        except:
            pass
    finally:
        gc.unfreeze()

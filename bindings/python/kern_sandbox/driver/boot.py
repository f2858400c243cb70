# What the Python interpreter in a box runs for one call, as `python3 -c`: takes the code from descriptor 0, a file that holds
# four ends in 64 bytes and then four texts (what stands before the last line that is not indented; the rest, behind as many
# line breaks; cell.py; helper.py), and runs it as __main__. Rich results are written behind that, see helper.py. This text is
# parsed at every start, so it holds what the usual call needs, and no compile(): that would make the types of all syntax
# nodes, which takes a tenth of an interpreter's start. exec and eval do not, and a profiler that raises takes the code from
# them before it runs. A syntax warning counts as an error here: cell.py compiles the whole again, and says it. Whatever the
# code does to these functions or descriptors costs it its own results: no fault is read from here.
def _kern_boot(exec=exec, eval=eval, BaseException=BaseException):
    import os, sys
    chan, leave, main, kept, code = os.dup2(0, 200, False), sys.exit, globals(), [], 0
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    del main["_kern_boot"]
    a, b, c, d = map(int, os.read(chan, 64).split())
    data = os.read(chan, d)
    head, tail, later = data[:a].decode("utf-8", "surrogatepass"), data[a:b].decode("utf-8", "surrogatepass"), [data[c:], data[b:c]]
    def helper(name, *words):
        while name not in kern:
            exec(later.pop(), kern)
        return kern[name](*words)
    def display(*values, **_):
        for value in values:
            helper("show", value)
    kern, main["__builtins__"].display = {"chan": chan, "main": main, "helper": helper}, display
    def keep(frame, event, _):
        if event == "call":
            kept.append(frame.f_code)
            raise KeyError
    filters = sys.modules["_warnings"].filters
    filters.insert(0, ("error", None, SyntaxWarning, None, 0))
    for run, text in (exec, head), (eval, tail), (exec, tail):
        sys.setprofile(keep)
        try:
            run(text, main)
        except KeyError:
            sys.modules["_imp"]._fix_co_filename(kept[-1], "<cell>")
            if len(kept) == 2:
                break
        except Exception:
            if run is exec or not tail or ";" in tail:
                break
        finally:
            sys.setprofile(None)
    del filters[0]
    text = head + tail.lstrip("\n")
    if len(kept) == 2:
        try:
            exec(kept[0], main)
            value = eval(kept[1], main)
            if value is not None:
                main["_"] = value
                helper("show", value)
        except BaseException:
            code = helper("ended", text, "<cell>")
    else:
        code = helper("run", text, "<cell>")
    if "matplotlib.pyplot" in sys.modules:
        helper("figures", True)
    leave(code)
_kern_boot()

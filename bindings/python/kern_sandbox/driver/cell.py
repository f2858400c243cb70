# Any cell: one whose last line is no expression, and those that come by a socket. `main` and `helper` come from whoever
# runs this text.
def run(text, name, compile=compile, exec=exec, eval=eval, type=type):
    """Runs a cell and shows the value of a last expression; the exit code."""
    try:
        import _ast

        tree = compile(text, name, "exec", 0x400, True)
        last = tree.body.pop() if tree.body and type(tree.body[-1]) is _ast.Expr else None
        exec(compile(tree, name, "exec", 0, True), main)
        if last is not None:
            value = eval(compile(_ast.Expression(last.value), name, "eval", 0, True), main)
            if value is not None:
                main["_"] = value
                helper("show", value)
        return 0
    except BaseException:
        return helper("ended", text, name)

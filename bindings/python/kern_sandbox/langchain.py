"""A LangChain tool that runs code in a kern box. Needs langchain-core: pip install "kern-sandbox[langchain]"."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, Optional

from langchain_core.tools import StructuredTool
from pydantic import BaseModel, Field

from ._errors import SandboxError
from ._result import ExecutionResult
from ._sandbox import Sandbox

if TYPE_CHECKING:
    from typing_extensions import Literal, Unpack

    from ._options import SandboxOptions

    ToolLanguage = Literal["python", "bash", "javascript"]

TEXT_LIMIT = 8000  # characters that go back to the model
LANGUAGES = {"python": ("python", "Python"), "bash": ("bash", "bash"), "javascript": ("node", "JavaScript (Node)")}
DESCRIPTION = ("Run {what} code in an isolated, throwaway Linux box and return what it printed{value}. No network unless configured. "
               "Files in the current directory stay for later calls; variables do not.")


class CodeInput(BaseModel):
    code: str = Field(description="The program text to run.")


def for_model(result: ExecutionResult, limit: int = TEXT_LIMIT) -> str:
    """A result as a model should read it: output, values, who stopped it; never more than `limit` characters. What the
    sandbox says comes last and is never cut off."""
    parts = [result.stdout.rstrip("\n"), result.code_stderr.rstrip("\n")]
    parts += [value.markdown or value.text or "" for value in result.results]
    text = "\n".join(part for part in parts if part)
    verdict = ""
    if result.fault is not None:
        verdict = f"[sandbox: {result.fault.type}] {result.fault.message}"
    elif result.exit_code != 0:
        verdict = f"[exit code {result.exit_code}]"
    elif not text:
        verdict = "[no output]"
    verdict = verdict[:1000]
    room = limit - len(verdict) - 1
    if len(text) > room:
        gap = "\n[... output left out ...]\n"
        half = (room - len(gap)) // 2
        text = text[:half] + gap + text[-half:]
    return "\n".join(part for part in (text, verdict) if part)


class _Session:
    """The sandbox behind a tool: the caller's own, or one that is opened for the first call and closed with the tool."""

    def __init__(self, sandbox: Optional[Sandbox], options: Any) -> None:
        self.sandbox = sandbox if sandbox is not None else Sandbox(**options)
        self.lock = threading.Lock()
        if sandbox is None:
            weakref.finalize(self, self.sandbox.close)

    def run(self, code: str, language: Any) -> "tuple[str, Optional[ExecutionResult]]":
        try:
            with self.lock:
                self.sandbox.open()
            result = self.sandbox.run_code(code, language=language)
        except SandboxError as problem:
            return f"[sandbox: error] {problem}"[:TEXT_LIMIT], None
        return for_model(result), result


def kern_code_tool(language: "ToolLanguage" = "python", *, sandbox: Optional[Sandbox] = None, tool_name: Optional[str] = None,
                   description: Optional[str] = None, **options: "Unpack[SandboxOptions]") -> StructuredTool:
    """A StructuredTool named run_python, run_bash or run_javascript. The model reads text; the ExecutionResult is the
    artifact of the message. options are those of Sandbox; or give an open sandbox that other tools share."""
    if language not in LANGUAGES:
        raise SandboxError(f"language: {language!r} is none of {', '.join(LANGUAGES)}")
    if sandbox is not None and options:
        raise SandboxError("kern_code_tool: give a sandbox or its options, not both")
    kern_language, what = LANGUAGES[language]
    session = _Session(sandbox, options)

    def run(code: str) -> "tuple[str, Optional[ExecutionResult]]":
        return session.run(code, kern_language)

    value = ", and the value of a last expression" if language == "python" else ""
    return StructuredTool.from_function(
        func=run, name=tool_name or f"run_{language}", description=description or DESCRIPTION.format(what=what, value=value),
        args_schema=CodeInput, response_format="content_and_artifact")


__all__ = ["for_model", "kern_code_tool"]

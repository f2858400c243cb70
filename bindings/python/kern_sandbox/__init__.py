"""kern_sandbox: run code that nobody has read in a box that kern makes, and learn who stopped it.

    import kern_sandbox as kern
    result = kern.run_code("print(sum(range(100)))", image="host")
    print(result.stdout, result.fault)
"""

from typing import TYPE_CHECKING

from ._errors import MountRefused, SandboxError
from ._mounts import MountSpec
from ._options import DEFAULT_TMPFS_MB, SandboxOptions
from ._result import ExecutionResult, FileInfo, Result, SandboxFault, SandboxFaultType, Usage
from ._sandbox import Language, Sandbox, run_code
from ._warm import Kernel

if TYPE_CHECKING:
    from .langchain import kern_code_tool

__version__ = "0.1.0"
version = __version__

__all__ = [
    "DEFAULT_TMPFS_MB", "ExecutionResult", "FileInfo", "Kernel", "Language", "MountRefused", "MountSpec", "Result", "Sandbox", "SandboxError",
    "SandboxFault", "SandboxFaultType", "SandboxOptions", "Usage", "kern_code_tool", "run_code", "version",
]


def __getattr__(name: str) -> object:
    if name == "kern_code_tool":  # needs langchain-core, which nobody else pays for
        from .langchain import kern_code_tool

        return kern_code_tool
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

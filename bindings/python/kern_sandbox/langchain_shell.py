"""An execution policy for LangChain's ShellToolMiddleware: the agent's shell lives in one kern box. Needs langchain:
pip install "kern-sandbox[langchain-shell]"."""

from __future__ import annotations

import itertools
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Mapping, Sequence

from langchain.agents.middleware._execution import BaseExecutionPolicy  # not exported, the only contract there is

from ._binary import find_kern
from ._errors import SandboxError
from ._mounts import bind_words, check_source
from ._options import make_options

LIFE = 86400  # seconds after which kern ends the box, whatever became of this process
_numbers = itertools.count(1)


@dataclass
class KernExecutionPolicy(BaseExecutionPolicy):
    """Runs the shell in a kern box with the workspace at /workspace. `options` are those of Sandbox that say how a box is
    confined: image, memory_mb, cpus, pids, network, egress_allow, mounts, tmpfs, profiles, user, security_profile and so on."""

    options: Dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("workspace", "setup", "persist", "prewarm", "on_stdout", "on_stderr", "on_blocked"):
            if name in self.options:
                raise SandboxError(f"{name}: a shell's box has no such option")
        self._checked = make_options(self.options)

    def spawn(self, *, workspace: Path, env: Mapping[str, str], command: Sequence[str]) -> "subprocess.Popen[str]":
        checked = make_options({**self.options, "env": {**(self.options.get("env") or {}), **env}})
        source = check_source(str(workspace), "workspace")
        words = [find_kern(), "box", f"kern-shell-{os.getpid()}-{next(_numbers)}", *checked.words(), "--init",
                 *bind_words(source, "/workspace", False), "--workdir", "/workspace", "--timeout", str(LIFE), "--quiet"]
        # A nameless file: the environment is on no command line, and nothing is left to remove.
        file = os.memfd_create("kern-env", 0)
        try:
            os.write(file, "".join(f"{name}={value}\n" for name, value in checked.env.items()).encode())
            if checked.env:
                words += ["--env-file", f"/proc/self/fd/{file}"]
            return subprocess.Popen(
                [*words, "--", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=(file,),
                env={**os.environ, "KERN_OWNER_FD": "2"}, text=True, encoding="utf-8", errors="replace", bufsize=1, start_new_session=True)
        finally:
            os.close(file)


__all__ = ["KernExecutionPolicy"]

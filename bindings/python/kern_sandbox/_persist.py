"""persist=True: one resident box for all who share its name and workspace. It is started detached; each call is a
`kern exec` into it. A box of that name with another posture is refused, never used."""

from __future__ import annotations

import hashlib
import json
import subprocess
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from ._errors import SandboxError
from ._options import digits
from ._process import Running

if TYPE_CHECKING:
    from ._sandbox import Sandbox

LABEL = "kern-sandbox.posture"
IDLE = ["sh", "-c", "trap exit TERM; while :; do sleep 3600 & wait; done"]


def _ask(kern: str, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([kern, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)


def _labels(row: Dict[str, Any]) -> Dict[str, str]:
    found = row.get("labels") or {}
    if isinstance(found, dict):
        return found
    return dict(text.split("=", 1) for text in found if "=" in text)


def _find(kern: str, name: str) -> Optional[Dict[str, Any]]:
    done = _ask(kern, "ps", "--json")
    try:
        rows = json.loads(done.stdout)
        return next((row for row in rows if row.get("name") == name), None)
    except (ValueError, AttributeError, TypeError):
        raise SandboxError("cannot list kern's boxes: " + (done.stderr.strip() or done.stdout.strip()[:200])) from None


class Resident:
    def __init__(self, sandbox: "Sandbox") -> None:
        options = sandbox.options
        self.sandbox, self.name = sandbox, str(options.name)
        self.kern = sandbox._kern
        words = sandbox._box_words()
        self.words = words
        self.posture = hashlib.sha256(json.dumps([words, sorted(options.env.items())]).encode()).hexdigest()[:32]
        self.ensure()

    def ensure(self) -> bool:
        """Has the box run; whether it had to be started."""
        for _ in range(3):  # somebody else may start the same box at the same moment
            row = _find(self.kern, self.name)
            if row is None:
                trouble = self._start(self.words)
                if not trouble:
                    return True
                continue
            if _labels(row).get(LABEL) != self.posture:
                raise SandboxError(f"persist: a box named {self.name!r} runs already with another posture (other options, another "
                                   "workspace, or not of this package); destroy() it, or take another name")
            return False
        raise SandboxError(f"persist: cannot start the box {self.name!r}: {trouble}")

    def _start(self, words: List[str]) -> str:
        """Starts the box; what went wrong, or ''."""
        options = self.sandbox.options
        more = ["--detach", "--init", "--label", f"{LABEL}={self.posture}", "--timeout", digits(options.persist_ttl_s)]
        with self.sandbox._env_file() as path:
            env = ["--env-file", path] if path else []
            done = _ask(self.kern, "box", self.name, *words, *more, *env, "--", *IDLE)
        return "" if done.returncode == 0 else (done.stderr.strip() or f"code {done.returncode}")

    def start(self, command: List[str], stdin: Optional[int], life: float) -> Running:
        words = ["exec", self.name, "--workdir", "/workspace", "--timeout", digits(life)]
        return Running(self.kern, words, command, stdin, {})


def stop(kern: str, name: str) -> None:
    """Ends the resident box; none is fine."""
    if _find(kern, name) is not None:
        _ask(kern, "stop", name)

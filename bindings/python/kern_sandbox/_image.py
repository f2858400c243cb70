"""What depends on the image: bringing it here before the first call, the environment of its boxes, what to say when it
cannot be had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, List

if TYPE_CHECKING:
    from ._sandbox import Sandbox

OFFLINE = 'without a registry: image="host" uses this machine\'s own programs, `kern load -i FILE` brings an image by file'
DEFAULTS: Dict[str, str] = {"PYTHONPATH": "/workspace/.deps", "MPLBACKEND": "Agg", "MPLCONFIGDIR": "/tmp/.matplotlib"}


def prepare(sandbox: "Sandbox") -> None:
    """Pulls the image on a budget of its own, so that a download is charged to no call. What goes wrong here the first
    call reports as its outcome."""


def environment(sandbox: "Sandbox", for_setup: bool) -> List[str]:
    """Words that set what every box has, unless `env` sets it. None of it is secret."""
    words: List[str] = []
    for name, value in DEFAULTS.items():
        if name not in sandbox.options.env:
            words += ["-e", f"{name}={value}"]
    return words


def explain(image: str, message: str) -> str:
    if image == "host" or "image" not in message and "registr" not in message:
        return message
    return f"{message}; {OFFLINE}"

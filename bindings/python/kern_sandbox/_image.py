"""What depends on the image: bringing it here before the first call, the environment of its boxes, what to say when it
cannot be had."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Dict, List, Set, Tuple

from ._process import Errand

if TYPE_CHECKING:
    from ._sandbox import Sandbox

OFFLINE = 'without a registry: image="host" uses this machine\'s own programs, `kern load -i FILE` brings an image by file'
OTHER = re.compile(r"profile|volume|mount|limit|option|egress|--[a-z]")  # kern refused for another reason
DEFAULTS: Dict[str, str] = {"PYTHONPATH": "/workspace/.deps", "MPLBACKEND": "Agg", "MPLCONFIGDIR": "/tmp/.matplotlib"}

PULL_LIMIT = 1800  # seconds
_here: Set[Tuple[str, str]] = set()


def fetch(kern: str, image: str) -> None:
    """Has an image brought here: what that takes is no call's time, and a Cancel ends it. Where it cannot be had, the first
    call says why."""
    if image == "host" or (kern, image) in _here:
        return
    for words in (["inspect", image], ["pull", "--quiet", image]):
        if Errand([kern, *words]).wait(PULL_LIMIT):
            _here.add((kern, image))
            return


def environment(sandbox: "Sandbox", for_setup: bool) -> List[str]:
    """Words that set what every box has, unless `env` sets it. None of it is secret."""
    words: List[str] = []
    for name, value in DEFAULTS.items():
        if name not in sandbox.options.env:
            words += ["-e", f"{name}={value}"]
    return words


def explain(image: str, message: str, resolved: bool) -> str:
    """What to do when kern had no image to build a box with."""
    if image == "host" or resolved or OTHER.search(message):
        return message
    return f"{message}; {OFFLINE}"

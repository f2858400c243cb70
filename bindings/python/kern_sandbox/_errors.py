"""What is thrown: mistakes of the programmer, and boxes that kern would not build. Faults of a run are data instead."""

from __future__ import annotations


class SandboxError(RuntimeError):
    """A bad option, a sandbox used out of order, no usable kern, or a box that kern could not build."""


class MountRefused(SandboxError):
    """The sandbox will not give that path to a box."""

"""The warning of a jitted function that runs eagerly, or compiles again and again."""

from __future__ import annotations


class JitWarning(UserWarning):
    """A jitted function runs eagerly, or compiles again and again; the message says which line and why."""

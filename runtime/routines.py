"""Kernels of the native runtime: what a Program calls by name as if its own kernels had been compiled to it."""

from __future__ import annotations

from eagerjit.runtime.native.library import native

NAMES = {"routine scan": "scan_kernel", "routine order": "order_kernel"}
"""The native functions, by the names that Programs know them under."""


def address(name: str) -> int:
    """Where a routine lies."""
    return native().address(NAMES[name])

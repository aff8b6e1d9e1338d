"""Kernels of the native runtime: what a Program calls by name as if its own kernels had been compiled to it."""

from __future__ import annotations

from eagerjit.runtime.native.library import routine

_PARTS = {
    **dict.fromkeys(("running", "recurrence", "positions", "search"), "search"),
    "scan": "scan",
    "order": "order",
    "weighted_rows": "sparse",
}

NAMES = {f"routine {name}": f"{name}_kernel" for name in _PARTS}
"""The native functions, by the names that Programs know them under."""


def address(name: str) -> int:
    """Where a routine lies."""
    return routine(_PARTS[name.removeprefix("routine ")]).address(NAMES[name])

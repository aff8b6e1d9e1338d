"""The named tuples that functions with several results return."""

from __future__ import annotations

from typing import Any

from eagerjit.calling import RETURNED


def __getattr__(name: str) -> Any:
    if name in RETURNED:
        return RETURNED[name]
    raise AttributeError(f"module 'eagerjit.return_types' has no attribute '{name}'")


def __dir__() -> list[str]:
    return list(RETURNED)

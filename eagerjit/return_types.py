"""The named tuples that functions with several results return."""

from __future__ import annotations

from typing import Any

from eagerjit.calling import ValuesIndices

_NAMES = "cummax cummin kthvalue max median min mode nanmedian sort topk".split()


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return ValuesIndices
    raise AttributeError(f"module 'eagerjit.return_types' has no attribute '{name}'")


def __dir__() -> list[str]:
    return _NAMES

"""The named tuples that functions with several results return."""

from __future__ import annotations

import importlib
from typing import Any

from eagerjit.calling.results import RETURNED

_MADE_IN = "bins decompositions factored numeric reflectors segments statistics"


def _all() -> dict[str, Any]:
    for name in _MADE_IN.split():
        importlib.import_module(f"eagerjit.ops.{name}")
    return RETURNED


def __getattr__(name: str) -> Any:
    if name in RETURNED or name in _all():
        return RETURNED[name]
    raise AttributeError(f"module 'eagerjit.return_types' has no attribute '{name}'")


def __dir__() -> list[str]:
    return list(_all())

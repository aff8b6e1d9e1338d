"""Utilities beside tensors: data loading and the like. Each module is imported when it is first used."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("set_module", "swap_tensors"):
        return getattr(importlib.import_module("eagerjit.utils.exchange"), name)
    if not name.startswith("__"):
        try:
            return importlib.import_module(f"eagerjit.utils.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"eagerjit.utils.{name}":
                raise
    raise AttributeError(f"module 'eagerjit.utils' has no attribute '{name}'")

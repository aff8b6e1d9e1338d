"""Modules that code imports while it runs."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from typing import Any


def absolute_name(name: str, level: int, names: dict[str, Any]) -> str:
    """The module that an import statement names, in code with these globals."""
    if not level:
        return name
    package = names.get("__package__") or names.get("__name__", "").rpartition(".")[0]
    return importlib.util.resolve_name("." * level + name, package)


def not_loaded(name: str, wanted: Sequence[str]) -> str | None:
    """The first module that importing one, and names from it, would load; None where all are there."""
    if name not in sys.modules:
        return name
    module = sys.modules[name]
    parts = [f"{name}.{part}" for part in wanted if hasattr(module, "__path__") and not hasattr(module, part)]
    return next((part for part in parts if part not in sys.modules and is_found(part)), None)


def is_found(name: str) -> bool:
    """Whether a module could be loaded."""
    parent = name.rpartition(".")[0]
    if parent and parent not in sys.modules:
        return is_found(parent)
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False

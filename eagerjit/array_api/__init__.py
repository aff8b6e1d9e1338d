"""The Python array API standard, version 2024.12 (https://data-apis.org/array-api/2024.12): its names and no others.

Functions take and give eagerjit's tensors, work in compiled functions and record gradients. Where tensors themselves
follow PyTorch rather than the standard, `docs/array_api.md` says so.
"""

from __future__ import annotations

import importlib
import math as _math
from typing import Any

_MODULES = ("types", "info", "creation", "elementwise", "manipulation", "searching", "sets", "statistics")
"""What the standard has in its main namespace is what these define as their `__all__`."""

_EXTENSIONS = {"linalg": "matmul matrix_transpose tensordot vecdot", "fft": ""}
"""Modules that are imported when they are first used, and which of their functions the main namespace has too."""

e, inf, nan, pi = _math.e, _math.inf, _math.nan, _math.pi
newaxis = None
__array_api_version__ = "2024.12"

__all__ = ["__array_api_version__", "e", "inf", "nan", "newaxis", "pi", *_EXTENSIONS]
for _name in _MODULES:
    _module = importlib.import_module(f"eagerjit.array_api.{_name}")
    globals().update({_function: getattr(_module, _function) for _function in _module.__all__})
    __all__ += _module.__all__
_LATE = {_function: _module for _module, _functions in _EXTENSIONS.items() for _function in _functions.split()}
__all__ += _LATE


def __getattr__(name: str) -> Any:
    """An extension, or a function of one."""
    if name in _EXTENSIONS:
        return importlib.import_module(f"eagerjit.array_api.{name}")
    if name in _LATE:
        globals()[name] = value = getattr(importlib.import_module(f"eagerjit.array_api.{_LATE[name]}"), name)
        return value
    raise AttributeError(f"the array API standard {__array_api_version__} has no {name}")


def __dir__() -> list[str]:
    return sorted(__all__)

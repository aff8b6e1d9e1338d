"""Functions of CPython with types of our own.

The functions that `ctypes.pythonapi` has as attributes are shared by all of a process, and so are the types that any
library gives them: a number counts as an address for one and as an object for another.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any


def function(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """A function by name, which is called with the GIL; what it raises comes out."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


increment = function("Py_IncRef", None, ctypes.py_object)
"""Keeps an object for one more holder, whom Python does not know of."""

decrement = function("Py_DecRef", None, ctypes.c_void_p)
"""Takes a holder of the object at an address away."""

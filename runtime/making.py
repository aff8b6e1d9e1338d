"""Functions that make tensors natively, large ones by operators; Python serves what native code does not know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerjit.runtime import layout
from eagerjit.runtime.entry import OpCall

EMPTY, ZEROS, ONES = 0, 1, 2  # sizes one by one, or one sequence of them
FULL, ARANGE, LINSPACE, EYE = 3, 4, 5, 6
DRAW = 7  # sizes as above; made by an operator of (state, sizes, dtype)
TENSOR, FROM_NUMPY = 32, 33  # of data
RANDINT, RANDPERM = 34, 35  # drawn too: of (low, high, sizes), by an operator of (state, sizes, low, high, dtype), of n
LIKE, NEW = 8, 16  # added to those that take sizes: the shape, or the dtype, is that of a tensor that comes first


class MakeCall(OpCall):
    """A function that makes a tensor from numbers: `kind` is one of those above.

    A plain Python callable until native code is loaded. `function` has the same meaning, for all arguments, in a trace
    too; `dtype` and `device` are the options that native code reads, the latter if it is None. `operator` is what
    native code calls for random numbers and for many floats of one value, with the first argument that it is called
    with: the state or the value.
    """

    __slots__ = ()

    def __init__(self, kind: int, function: Callable[..., Any], operator: tuple[OpCall, Any] | None = None):
        super().__init__(function.__name__, function, operator, ("dtype", "device"))
        self.__doc__, self.__module__, self.__wrapped__ = function.__doc__, function.__module__, function
        self._kind = kind

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if layout.serves("make_call"):
            self._call_natively("make_call")
        return self.slow(*args, **kwargs)

"""Views as users call them: native code reads the arguments and makes the view; Python serves what it does not know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerjit.runtime import layout
from eagerjit.runtime.entry import OpCall
from eagerjit.runtime.parameters import parameters

RESHAPE, PERMUTE, EXPAND = 1, 2, 3  # any number of sizes or dimensions, or one sequence of them
TRANSPOSE, REVERSE, TURN, UNSQUEEZE, SQUEEZE, FLATTEN, DETACH = range(4, 11)  # TURN: REVERSE of two dimensions at most
ITEM, SELECT, NARROW, SPLIT, CHUNK, UNBIND = range(11, 17)
MAKE = 17  # no view: a tensor over an ndarray
CONTIGUOUS = 18  # no view: the tensor itself, or a copy

CLONE = 6
"""Where `ops` have, behind those of the views, what copies a tensor that has no such view, if they have it."""


class ViewCall(OpCall):
    """A function that makes views: `kind` is one of the numbers above, `ops` are what goes on the tape.

    A plain Python callable until its first call loads native code. `function` has the same meaning, for all arguments,
    in a trace too.
    """

    __slots__ = ()

    def __init__(self, kind: int, function: Callable[..., Any], ops: tuple[Any, ...] | None):
        taken = parameters(function)
        super().__init__(function.__name__, function, ops, taken.names, taken.defaults)
        self.__doc__, self.__wrapped__ = function.__doc__, function
        self._kind = kind

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if layout.ready() and layout.serves("view_call"):
            self._call_natively("view_call")
        return self.slow(*args, **kwargs)


class TensorCall(ViewCall):
    """A function that makes a tensor over an ndarray: native from the first call on after native code was loaded."""

    __slots__ = ()

    def __init__(self, function: Callable[..., Any]):
        super().__init__(MAKE, function, ())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if layout.serves("view_call"):
            self._call_natively("view_call")
        return self.slow(*args, **kwargs)

"""What public functions have in common beside ops: NumPy's names for arguments, `out=`, in-place versions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from eagerjit.runtime import mode
from eagerjit.tensors.outputs import taken_out
from eagerjit.tensors.promotion import TYPE_NAMES, can_cast
from eagerjit.tensors.tensor import Tensor

ARGUMENT_NAMES = {
    "axis": "dim",
    "axis0": "dim0",
    "axis1": "dim1",
    "keepdims": "keepdim",
    "x": "input",
    "self": "input",
    "x1": "input",
    "x2": "other",
    "size": "shape",
    "a": "input",
}
"""PyTorch's name of a parameter by another one that it takes."""


def named_once(name: str, **arguments: Any) -> Any:
    """The value of the one argument that is given of those which are names of the same. Raises TypeError for others."""
    given = [value for value in arguments.values() if value is not None]
    if len(given) != 1:
        raise TypeError(f"{name}() takes exactly one of {', '.join(arguments)}, but {len(given)} are given")
    return given[0]


def public(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as users call it.

    It takes `out=`, and NumPy's names of arguments beside PyTorch's. Raises TypeError where what the annotations say
    is a Tensor is something else.
    """
    code = inspect.unwrap(function).__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    tensors = [(i, n) for i, n in enumerate(names) if function.__annotations__.get(n) == "Tensor"]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        write = None
        if kwargs:
            write = taken_out(call.__name__, args, kwargs)
            kwargs = {known_name(key, names): value for key, value in kwargs.items()}
        for position, name in tensors:
            argument = args[position] if position < len(args) else kwargs.get(name)
            if not isinstance(argument, Tensor) and (position < len(args) or name in kwargs):
                raise TypeError(
                    f"{call.__name__}(): argument '{name}' (position {position + 1}) must be Tensor, "
                    f"not {type(argument).__name__}"
                )
        result = function(*args, **kwargs)
        return result if write is None else write(result)

    call.__name__ = call.__qualname__ = function.__name__.rstrip("_")
    return call


def by_any_name(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that takes NumPy's names of arguments beside PyTorch's."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount + function.__code__.co_kwonlyargcount]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            kwargs = {known_name(key, names): value for key, value in kwargs.items()}
        return function(*args, **kwargs)

    return call


def sizes_by_name(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of any number of sizes or dimensions, which may also be given as one sequence by name."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for name in _SEVERAL & kwargs.keys():
            args = (*args, kwargs.pop(name))
        return function(*args, **kwargs)

    return call


_SEVERAL = frozenset({"size", "shape", "dims", "repeats"})


def known_name(key: str, names: tuple[str, ...]) -> str:
    """A parameter's name from PyTorch's or NumPy's."""
    alias = ARGUMENT_NAMES.get(key)
    return alias if key not in names and alias in names else key


def written(function: Callable[..., Any], name: str = "") -> Callable[..., Tensor]:
    """The in-place version of a function: its result copied into its first argument."""

    def write(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        # A gradient may need the tensor as it was.
        before = self.clone() if mode.grad_mode() and self._requires_grad else self
        result = function(before, *args, **kwargs)
        if not can_cast(result.dtype, self.dtype):
            source, wanted = TYPE_NAMES[result.dtype], TYPE_NAMES[self.dtype]
            raise RuntimeError(f"{write.__name__}(): result type {source} can't be cast to the output type {wanted}")
        return self.copy_(result)

    write.__name__ = write.__qualname__ = name or f"{function.__name__}_"
    write.__doc__ = f"In-place version of `{write.__name__[:-1]}`."
    return write


def own_memory(result: Any, arguments: tuple[Any, ...]) -> Any:
    """What an operation's body gave, copied where sizes of 1 made it a view of an argument."""
    if isinstance(result, tuple):
        parts = [own_memory(part, arguments) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
    base = result
    while isinstance(base, Tensor) and base._view is not None:
        base = base._view.base
        if any(base is argument for argument in arguments):
            return result.clone()
    return result

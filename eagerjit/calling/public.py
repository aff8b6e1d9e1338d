"""What public functions have in common beside ops: NumPy's names for arguments, `out=`, in-place versions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from eagerjit.calling.kinds import is_integer
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
    is a Tensor, a bool or an int is something else.
    """
    names = parameter_names(function)
    kinds = typed(function, names)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        write = None
        if kwargs:
            write = taken_out(call.__name__, args, kwargs)
            kwargs = {known_name(key, names): value for key, value in kwargs.items()}
        refuse_others(call.__name__, kinds, args, kwargs)
        result = function(*args, **kwargs)
        return result if write is None else write(result)

    call.__name__ = call.__qualname__ = function.__name__.rstrip("_")
    return call


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """The parameters that a function written in Python has by name, or the one that it wraps."""
    code = inspect.unwrap(function).__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


class Typed(NamedTuple):
    """A parameter whose arguments are of certain types alone; integers are of many, which are asked."""

    position: int
    name: str
    types: tuple[type, ...]
    asks: Callable[[Any], bool] | None = None


_TYPES: dict[str, tuple[Any, ...]] = {
    "Tensor": ((Tensor,),),
    "Tensor | None": ((Tensor, type(None)),),
    "bool": ((bool,),),
    "int": ((int,), is_integer),
}


def typed(function: Callable[..., Any], names: Sequence[str]) -> list[Typed]:
    """What a function's annotations say of its parameters, where that leaves no doubt."""
    found = [(i, name, _TYPES.get(function.__annotations__.get(name, ""))) for i, name in enumerate(names)]
    return [Typed(i, name, *types) for i, name, types in found if types]


def refuse_others(called: str, kinds: list[Typed], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise TypeError for an argument of another type."""
    for position, name, types, asks in kinds:
        if position < len(args):
            argument = args[position]
        elif name in kwargs:
            argument = kwargs[name]
        else:
            continue
        if not (isinstance(argument, types) if asks is None else asks(argument)):
            place = f"argument '{name}' (position {position + 1})"
            raise TypeError(f"{called}(): {place} must be {types[0].__name__}, not {type(argument).__name__}")


def by_any_name(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that takes NumPy's names of arguments beside PyTorch's."""
    names = parameter_names(function)

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
        # A gradient may need the tensor as it was, be it that of another argument.
        given = (self, *args, *kwargs.values()) if mode.grad_mode() else ()
        before = self.clone() if any(isinstance(a, Tensor) and a._requires_grad for a in given) else self
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

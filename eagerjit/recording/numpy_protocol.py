"""What NumPy gets of Python numbers of a call being traced: Python's own, to which the trace is tied."""

from __future__ import annotations

from typing import Any

import numpy as np


class NumberForNumPy:
    """A number that NumPy asks before it takes it for an object that it does not know.

    Errors of functions that do not take it name the class that it stands for, C code's among them.
    """

    __slots__ = ()

    def __init_subclass__(cls, called: str):
        cls.__name__ = called

    def _value(self) -> Any:
        raise NotImplementedError

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._value(), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if any(map(_decides, (*inputs, *options.get("out", ())))):
            return NotImplemented
        return getattr(ufunc, method)(*settled(inputs), **settled(options))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if not all(issubclass(kind, (NumberForNumPy, np.ndarray)) for kind in types):
            return NotImplemented
        return function(*settled(args), **settled(kwargs))


def _decides(value: Any) -> bool:
    """Whether another operand, a tensor or a stand-in, is asked instead."""
    found = getattr(type(value), "__array_ufunc__", None)
    return found is not None and not isinstance(value, NumberForNumPy) and found is not np.ndarray.__array_ufunc__


def settled(value: Any) -> Any:
    """A value with Python's numbers in place of traced ones."""
    if isinstance(value, NumberForNumPy):
        return value._value()
    if type(value) in (list, tuple):
        return type(value)(map(settled, value))
    return {key: settled(held) for key, held in value.items()} if type(value) is dict else value

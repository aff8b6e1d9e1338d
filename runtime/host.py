"""Python functions that a Program calls: found by name, given arrays over the Program's memory."""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from eagerjit.runtime import direct, dtypes
from eagerjit.runtime.cpython import function
from eagerjit.runtime.program import HostCall

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""(*arguments with ndarrays for tensors) -> an ndarray or a tuple of them, by the name that Programs know it under.

One with a method `selecting(results)` gives the function that computes those of its results alone; one with a method
`of_numbers(*numbers)` takes and gives numbers, as a tuple.
"""

_NUMPY = {d.code: d.numpy for d in dtypes.HELD}


class Memory:
    """Memory at an address, kept alive by its owner, as NumPy's array interface describes it."""

    def __init__(self, owner: object, description: dict[str, Any]):
        self.owner, self.__array_interface__ = owner, description


def memory_at(
    address: int,
    shape: tuple[int, ...],
    dtype: np.dtype,
    read_only: bool = False,
    strides: tuple[int, ...] | None = None,
    owner: object = None,
) -> np.ndarray:
    """An array over memory that its owner keeps alive; contiguous unless it has strides, which are in bytes."""
    description = {"version": 3, "data": (address, read_only), "shape": shape, "typestr": f"|V{dtype.itemsize}"}
    if strides is not None:
        description["strides"] = strides
    return np.asarray(Memory(owner, description)).view(dtype)


_READ, _WRITE = 0x100, 0x200  # of PyMemoryView_FromMemory
_view = function("PyMemoryView_FromMemory", ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)


def _lent(address: int, shape: tuple[int, ...], dtype: np.dtype, access: int) -> np.ndarray:
    """A contiguous array over memory of the Program's, made in a sixth of the time of `memory_at`."""
    size = math.prod(shape) * dtype.itemsize
    return np.ndarray(shape, dtype, _view(address, size, access)) if size else np.empty(shape, dtype)


def bound(call: HostCall) -> BoundCall | NumbersCall:
    """A HostCall ready to run. Raises RuntimeError where its function is not loaded."""
    if call.function not in FUNCTIONS:
        raise RuntimeError(f"a compiled program calls {call.function}(), which is not loaded")
    return NumbersCall(call) if hasattr(FUNCTIONS[call.function], "of_numbers") else BoundCall(call)


def _note_place(error: Exception, call: HostCall) -> None:
    """Say on which line of a compiled function a call failed: no frame of it is in the traceback."""
    if call.place:
        error.add_note(f"Compiled from {call.place}.")


_KINDS = {dtypes.float64.code: ctypes.c_double, dtypes.int64.code: ctypes.c_int64, dtypes.bool_.code: ctypes.c_bool}


class NumbersCall:
    """A call of a function that takes and gives numbers, for which arrays would take longer than the function."""

    about = None

    def __init__(self, call: HostCall):
        self.call = call
        self._function = FUNCTIONS[call.function].of_numbers  # type: ignore[attr-defined]
        self._given: list[Any] = [_KINDS[code] for _, code, _, _ in call.arguments]
        self._found: list[tuple[int, Any]] = [(index, _KINDS[code]) for index, code, _ in call.results]
        self._words = ctypes.c_int64 * call.n_words

    def __call__(self, address: int) -> None:
        """Call the function and put its results into the Program's memory."""
        words = self._words.from_address(address)[:]
        numbers = [kind.from_address(word).value for kind, word in zip(self._given, words, strict=False)]
        try:
            found = self._function(*numbers)
        except Exception as error:
            _note_place(error, self.call)
            raise
        for (index, kind), word in zip(self._found, words[len(self._given) :], strict=True):
            kind.from_address(word).value = found[index]


class BoundCall:
    """A HostCall ready to run on the words of a Program: addresses, sizes and numbers in the order of its arguments.

    `about` is for the native function that the native executor asks first, if there is one; what that declines because
    it takes long is asked of it again, other threads running meanwhile.
    """

    def __init__(self, call: HostCall):
        function: Any = FUNCTIONS[call.function]
        if hasattr(function, "selecting"):
            function = function.selecting(frozenset(index for index, _, _ in call.results))
        self.call, self.function = call, function
        numbers = itertools.count()
        known: dict[str, Any] = {"lent": _lent}
        self._taken = eval(f"lambda words: {_spelled(tuple(call.arguments), numbers, known)}", known)
        self._results: list[tuple[int, int, int, np.dtype]] = []
        at = next(numbers)
        for index, code, ndim in call.results:
            self._results.append((index, at, at + 1 + ndim, _NUMPY[code]))
            at += 1 + ndim
        self.about = direct.description(call, direct.QUICK)
        self._unhurried = direct.unhurried(call)
        self._words = ctypes.c_int64 * call.n_words

    def __call__(self, address: int) -> None:
        """Call the function and put its results into the Program's memory."""
        if self._unhurried is not None and self._unhurried(address):
            return
        words = self._words.from_address(address)[:]
        try:
            with np.errstate(all="ignore"):
                made = self.function(*self._taken(words))
        except Exception as error:
            _note_place(error, self.call)
            raise
        results = made if isinstance(made, tuple) else (made,)
        for index, at, end, dtype in self._results:
            result, shape = results[index], tuple(words[at + 1 : end])
            if result.shape != shape:
                raise RuntimeError(f"{self.call.function}() gave shape {list(result.shape)} instead of {list(shape)}")
            np.copyto(_lent(words[at], shape, dtype, _WRITE), result)


def _spelled(entry: Any, numbers: Iterator[int], known: dict[str, Any]) -> str:
    """The value of one argument as an expression of the words, of which it takes the next; `known` are its names."""
    if isinstance(entry, str) and entry[:1] in ("$", "="):
        return f"words[{next(numbers)}]" if entry == "$size" else "None" if entry == "$none" else repr(entry[1:])
    if isinstance(entry, str) or not isinstance(entry, Sequence):
        known[name := f"value{len(known)}"] = dtypes.BY_SHORT[entry] if isinstance(entry, str) else entry
        return name
    if entry and entry[0] == "$tensor":
        _, code, ndim, number = entry
        address = next(numbers)
        shape = "".join([f"words[{next(numbers)}], " for _ in range(ndim)])
        known[name := f"value{len(known)}"] = _NUMPY[code]
        return f"lent(words[{address}], ({shape}), {name}, {_READ}){'.item()' if number else ''}"
    return f"({''.join([f'{_spelled(e, numbers, known)}, ' for e in entry])})"

"""Functions of a tensor's layout whose answers are kept: sizes, strides, dtype.

A `Remembered` begins as a plain Python callable, and stays one where native execution is off; otherwise native code
(`native/remembered.py`) answers what was asked before.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any, ClassVar

from eagerjit.runtime import heap_types, layout
from eagerjit.runtime.entry import DirectlyCalled
from eagerjit.runtime.native import context as c
from eagerjit.runtime.native.operators import HASH_FACTOR, HASH_SEED
from eagerjit.runtime.once import lock

MAX_ANSWERS = 1024
"""Answers of one function; beyond, all are forgotten: a program that never repeats itself must not fill memory."""


class Remembered(DirectlyCalled, heap_types.raw_base("RememberedBase", c.REMEMBERED_FIELDS)):  # type: ignore[misc]
    """A function of a tensor, and of numbers or None, whose result is immutable.

    It must depend on nothing but dtype, sizes and strides of the tensor and on the numbers. What it raises is not kept.
    """

    __slots__ = ("__dict__", "__weakref__", "_answers", "_capacity", "_words", "function", "learner")
    native_slots: ClassVar = {c.REMEMBERED_FUNCTION: "function", c.REMEMBERED_LEARN: "learner"}

    def __init__(self, function: Callable[..., Any]):
        functools.update_wrapper(self, function)
        self.function, self.learner = function, self._learn
        self._answers: dict[bytes, tuple[Any, Any]] = {}
        self._words: Any = ()
        self._capacity = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if layout.loaded():
            with lock:
                self._make_room()
        return self.function(*args, **kwargs)

    def __reduce__(self) -> str:
        return str(self.__qualname__)

    def _learn(self, key: bytes, arguments: tuple[Any, ...]) -> Any:
        """Call the function and keep its answer."""
        result = self.function(*arguments)
        with lock:
            if key not in self._answers:
                if 2 * len(self._answers) >= self._capacity:
                    self._make_room()
                self._file(key, result)
        return result

    def _make_room(self) -> None:
        """Gives native code a table that is less than half full; answers known before live until it has it."""
        before = self._answers, self._words
        known = self._answers.items() if len(self._answers) < MAX_ANSWERS else ()
        self._capacity = max(16, 4 * len(known))
        table = (ctypes.c_int64 * (1 + 4 * self._capacity))(self._capacity - 1)
        self._answers, self._words = {}, table
        for key, (_, answer) in known:
            self._file(key, answer)
        self._table = ctypes.addressof(table)
        self._call_natively("remembered_call")
        del before

    def _file(self, key: bytes, answer: Any) -> None:
        """Adds an answer to the table, the word that says so last."""
        place = ctypes.create_string_buffer(key, len(key))
        self._answers[key] = place, answer
        hashed, table = _hash(key), self._words
        at = hashed & (self._capacity - 1)
        while table[1 + 4 * at + 3]:
            at = (at + 1) & (self._capacity - 1)
        table[1 + 4 * at : 4 + 4 * at] = [hashed, ctypes.addressof(place), len(key) // 8]
        table[1 + 4 * at + 3] = id(answer)


def _hash(key: bytes) -> int:
    """The hash of a key, as native code computes it."""
    mixed = HASH_SEED
    for start in range(0, len(key), 8):
        mixed = (mixed ^ int.from_bytes(key[start : start + 8], "little")) * HASH_FACTOR % 2**64
        mixed ^= mixed >> 29
    return mixed >> 24

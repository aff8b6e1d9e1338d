"""What native code knows of operations on the tape when it walks backwards (`native/walk.py`)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from eagerjit.runtime import heap_types, layout
from eagerjit.runtime.native import context as c
from eagerjit.runtime.native.library import native
from eagerjit.runtime.once import lock

Needed = Sequence[Sequence[int | None]]


class OpFacts(heap_types.raw_base("OpFactsBase", c.FACTS_FIELDS)):  # type: ignore[misc]
    """An operation on the tape.

    parts   whether its result is a part of its first argument, whose gradients are added up part by part, or that with
            a part written
    fused   whether its gradients are Programs, which `add` tells of
    saved   per argument those that its gradient saves, None among them for results; None if nothing is known
    read    the same of those that its gradient computes with
    """

    __slots__ = ("__dict__", "_calls", "_tables")

    def __init__(self, parts: int, fused: bool, saved: Needed | None, read: Needed | None):
        self._parts, self._fused, self._gradients = parts, int(fused), 0
        self._tables: list[Any] = []
        self._saved, self._n_saved = self._told(saved)
        self._read, self._n_read = self._told(read)
        self._calls: list[tuple[int, Any, int, bool]] = []

    def _told(self, needed: Needed | None) -> tuple[int, int]:
        """The address of a word per argument and how many there are, -1 where nothing is known."""
        words = [sum(c.RESULTS if p is None else 1 << p for p in set(positions)) for positions in needed or ()]
        self._tables.append(table := (ctypes.c_int64 * max(len(words), 1))(*words))
        return ctypes.addressof(table), -1 if needed is None else len(words)

    def add(self, needs: int, call: Any, present: int, reads_output: bool) -> None:
        """The gradients for the arguments with a bit in `needs` are what `call` gives: those with one in `present`.

        It takes what came in, the result (None where it is not read) and the arguments.
        """
        with lock:
            self._calls.append((needs, call, present, reads_output))
            rows = [(n, id(one), found, int(reads)) for n, one, found, reads in self._calls]
            words = [len(rows), *(word for row in rows for word in row)]
            table = (ctypes.c_int64 * len(words))(*words)
            self._tables.append(table)  # a walk may read the one before
            self._gradients = ctypes.addressof(table)


class Walker(heap_types.raw_base("WalkerBase", c.WALKER_FIELDS)):  # type: ignore[misc]
    """Walks backwards: `walk(arguments)` is `walk_call` of native code, with Python's functions by their names here."""

    __slots__ = ("_kept",)

    def __init__(self, **functions: Any):
        self._kept = functions
        for name in c.WALKER_FIELDS:
            setattr(self, name, id(functions[name]))


def ready() -> bool:
    """Whether native code walks; it does once it is loaded."""
    return layout.loaded() and (hasattr(Walker, "walk") or (layout.serves("walk_call") and _install()))


def _install() -> bool:
    with lock:
        if not hasattr(Walker, "walk"):
            heap_types.install_native_method(Walker, "walk", native().address("walk_call"), "Walk backwards.")
    return True

"""What native code knows of operations on the tape when it walks backwards (`native/walk.py`)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from eagerjit.runtime import heap_types, layout
from eagerjit.runtime.native import context as c
from eagerjit.runtime.native.library import native
from eagerjit.runtime.once import lock


class OpFacts(heap_types.raw_base("OpFactsBase", c.FACTS_FIELDS)):  # type: ignore[misc]
    """An operation on the tape.

    span    whether its result is a part of its first argument, whose gradients are added up part by part
    fused   whether its gradients are Programs, which `add` tells of
    saved   per argument those that its gradient reads, None among them for results; None if nothing is known
    """

    __slots__ = ("__dict__", "_calls", "_tables")

    def __init__(self, span: bool, fused: bool, saved: Sequence[Sequence[int | None]] | None):
        self._span, self._fused = int(span), int(fused)
        words = [sum(c.RESULTS if p is None else 1 << p for p in set(read)) for read in saved or ()]
        self._n_saved = -1 if saved is None else len(words)
        table = (ctypes.c_int64 * max(len(words), 1))(*words)
        self._saved, self._gradients = ctypes.addressof(table), 0
        self._tables = [table]
        self._calls: list[tuple[int, Any, int, bool]] = []

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

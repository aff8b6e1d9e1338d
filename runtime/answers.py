"""What native code knows by heart: answers by keys of words, in a table that it reads (`native/answers.py`)."""

from __future__ import annotations

import ctypes
from typing import Any

from eagerjit.runtime.native.agreed import HASH_FACTOR, HASH_SEED

MAX_ANSWERS = 1024
"""Answers of one function; beyond, all are forgotten: a program that never repeats itself must not fill memory."""


class Answers:
    """The answers of one function, whose `_table` native code reads. Callers hold the lock."""

    def __init__(self, owner: Any):
        self._owner = owner
        self._known: dict[bytes, tuple[Any, ...]] = {}
        self._capacity = 0
        self._words: Any = None
        self._make_room()

    def __len__(self) -> int:
        return len(self._known)

    def keep(self, key: bytes, answer: Any, named: Any = None) -> None:
        """Adds an answer, unless another thread has just done so; what the key names by address lives as long."""
        if key in self._known:
            return
        if 2 * len(self._known) >= self._capacity:
            self._make_room()
        self._file(key, answer, named)

    def _make_room(self) -> None:
        """Gives native code a table that is less than half full; answers known before live until it has it."""
        before = self._known, self._words
        known = self._known.items() if len(self._known) < MAX_ANSWERS else ()
        self._capacity = max(16, 4 * len(known))
        table = (ctypes.c_int64 * (1 + 4 * self._capacity))(self._capacity - 1)
        self._known, self._words = {}, table
        for key, (_, answer, named) in known:
            self._file(key, answer, named)
        self._owner._table = ctypes.addressof(table)
        del before

    def _file(self, key: bytes, answer: Any, named: Any) -> None:
        """Adds an answer to the table, the word that says so last."""
        place = ctypes.create_string_buffer(key, len(key))
        self._known[key] = place, answer, named
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

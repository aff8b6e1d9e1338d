"""Tensors that a recording alone still holds: the code of the call has dropped them, and nothing can read them."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Mapping
from typing import Any


class _Sample:
    """An object that nothing but a table holds."""


def _references(table: Mapping[int, tuple[Any, ...]], reference: weakref.ref[Any]) -> int:
    """How many references there are to what a table holds; 0 where it holds something else."""
    held = reference()
    known = table.get(id(held))
    return sys.getrefcount(held) if known is not None and known[0] is held else 0


def _references_by_table() -> int:
    """The number for what nothing else holds, which versions of CPython count differently."""
    sample = _Sample()
    table, reference = {id(sample): (sample,)}, weakref.ref(sample)
    del sample
    return _references(table, reference)


_BY_TABLE = _references_by_table()


def is_dropped(table: Mapping[int, tuple[Any, ...]], reference: weakref.ref[Any]) -> bool:
    """Whether nothing but this table, by the identity of what it holds, keeps what a weak reference leads to."""
    return _references(table, reference) == _BY_TABLE

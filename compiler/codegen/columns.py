"""Columns summed over many rows: the sums stay in registers.

A loop over rows with a vector loop over columns in it, which adds each element to its column's sum in memory, waits for
that in every row. So the loops change places, columns outside and rows inside: for all rows where columns are few, else
for a few rows at a time, so that memory is still read by rows. Where what lies beside each other are the elements of a
column, squares of it are turned in registers.
"""

from __future__ import annotations

from eagerjit.compiler.codegen.builder import BITS
from eagerjit.compiler.codegen.transpose import crosses
from eagerjit.compiler.loops import Index, Let, Load, Loop, Stmt, Store
from eagerjit.runtime.records import record

MOST = 31
"""Columns at most: with more of them rows are better read as they lie, a few beside each other."""

ROWS = 8
"""How many are read beside each other then."""


@record(frozen=True)
class Plan:
    """The statements of a row, its vector loop, and what that adds to: memory, by its loads and stores.

    `across` are loads of elements that lie beside the next row's, to be turned by squares of so many `lanes`.
    """

    rows: tuple[Stmt, ...]
    vector: Loop
    sums: tuple[Load, ...]
    across: tuple[Load, ...]
    lanes: int


def plan(loop: Loop, stored: set[str], width_bits: int) -> Plan | None:
    """The plan for a loop over rows whose vector loop does nothing but add to sums of columns."""
    *rows, vector = loop.body or (None,)
    if loop.kind != "serial" or not isinstance(vector, Loop) or vector.kind != "vector":
        return None
    body = vector.body
    if not all(isinstance(s, Let | Load) for s in rows) or not all(isinstance(s, Let | Load | Store) for s in body):
        return None
    changing = {loop.var, *(s.name for s in (*rows, *body) if isinstance(s, Let | Load))}
    if vector.start in changing or vector.stop in changing:
        return None
    stores = [s for s in body if isinstance(s, Store)]
    loads = [s for s in (*rows, *body) if isinstance(s, Load)]
    sums: list[Load] = []
    for store in stores:
        of_param = [s for s in loads if s.param == store.param]
        if len(of_param) != 1 or [s.param for s in stores].count(store.param) != 1 or store.second:
            return None
        (load,) = of_param
        if load.index != store.index or not _stays(store.index, vector.var, changing) or load in rows:
            return None
        if not any(isinstance(s, Let) and s.name == store.value and load.name in s.args for s in body):
            return None
        sums.append(load)
    across = tuple(
        s
        for s in body
        if isinstance(s, Load) and s.param not in stored and crosses(s.index, vector.var, {loop.var}, changing)
    )
    lanes = width_bits // (64 if any(BITS[s.dtype] == 64 for s in across) else 32)
    return Plan(tuple(rows), vector, tuple(sums), across, lanes) if sums else None


def _stays(index: Index, variable: str, changing: set[str]) -> bool:
    """Whether every row has the same place, and neighbours in a row lie beside each other."""
    return (variable, 1) in index and not any(name in changing for name, _ in index)

"""Vector loops over elements that are numbered over two dimensions: `rem i s` and `floordiv i s` of the variable.

Divisions of lanes are slow, and what they are an index of would be gathered. But mostly the lanes of a step lie in one
row: then the row is the same for all, and the place in it goes up by one. Else they are counted, lane by lane.
"""

from __future__ import annotations

from eagerjit.compiler.codegen.builder import Builder, Value
from eagerjit.compiler.codegen.counted import repeat
from eagerjit.compiler.codegen.transpose import wrapping
from eagerjit.compiler.loops import Let, Loop


def numbering(loop: Loop) -> tuple[Let, ...]:
    """A vector loop's `rem` and `floordiv` statements, if they number its elements over two dimensions."""
    return wrapping(loop.body, loop.var) or ()


def counted_lanes(b: Builder, rem: Value, quotient: Value, size: Value, lanes: int) -> dict[str, Value]:
    """Per lane what `rem` and `floordiv` give, from those of the first lane."""
    kind = b.type("i64", lanes)
    tables, current = [b.alloca(kind) for _ in range(2)], [b.alloca("i64") for _ in range(2)]
    for slot, value in zip(current, (rem, quotient), strict=True):
        b.emit(f"store i64 {value.text}, ptr {slot}")

    def one(lane: Value) -> None:
        values = [_load(b, slot, 0) for slot in current]
        for table, value in zip(tables, values, strict=True):
            place = b.name("%p")
            b.emit(f"{place} = getelementptr i64, ptr {table}, i64 {lane.text}")
            b.emit(f"store i64 {value.text}, ptr {place}")
        ends = (values[0] + 1).eq(size)
        following = b.select(ends, 0, values[0] + 1), b.select(ends, values[1] + 1, values[1])
        for slot, value in zip(current, following, strict=True):
            b.emit(f"store i64 {value.text}, ptr {slot}")

    repeat(b, b.constant("i64", 0), 1, b.constant("i64", lanes), one)
    return {op: _load(b, table, lanes) for op, table in zip(("rem", "floordiv"), tables, strict=True)}


def _load(b: Builder, slot: str, lanes: int) -> Value:
    result = Value(b, "i64", lanes, b.name("%v"), b.depth)
    b.emit(f"{result.text} = load {b.type('i64', lanes)}, ptr {slot}")
    return result

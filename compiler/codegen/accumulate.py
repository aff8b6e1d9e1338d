"""Accumulators: running values in stack slots (registers, once LLVM has promoted them), folded in a fixed order."""

from __future__ import annotations

from eagerjit.compiler.codegen.builder import BITS, FLOATS, SIGNED, Builder, Value
from eagerjit.compiler.codegen.cast import cast, literal
from eagerjit.compiler.codegen.counted import repeat
from eagerjit.compiler.codegen.scalar import apply
from eagerjit.runtime.records import record

INF = float("inf")
COMBINE = {"add": "add", "mul": "mul", "maximum": "maximum", "minimum": "minimum", "and": "and", "or": "or"}
COMPENSATED = "compensated"
EXTREMES = ("argmax", "argmin")


@record
class Accumulator:
    """`lanes` 0: one running scalar. `folds`: its lanes partition the elements, and finishing combines them.

    `copies`: instead of its lanes, which are as many results, that many vectors partition the elements.
    `lost_slot` adds up what rounding takes from a compensated sum.
    """

    op: str
    dtype: str
    lanes: int
    folds: bool
    slot: str
    index_slot: str
    copies: int = 0
    lost_slot: str = ""


def open_accumulator(b: Builder, op: str, dtype: str, lanes: int, folds: bool, copies: int = 0) -> Accumulator:
    """Reserves the slots."""
    if op not in (*COMBINE, *EXTREMES, COMPENSATED) or (op == COMPENSATED and folds):
        raise TypeError(f"no accumulator {op!r}")
    slot = b.alloca(f"[{copies} x {b.type(dtype, lanes)}]" if copies else b.type(dtype, lanes))
    index_slot = b.alloca(b.type("i64", lanes)) if op in EXTREMES else ""
    lost_slot = b.alloca(b.type(dtype, lanes)) if op == COMPENSATED else ""
    return Accumulator(op, dtype, lanes, folds, slot, index_slot, copies, lost_slot)


def has_parts(a: Accumulator) -> bool:
    """Whether its lanes lie one after the other in memory, bits apart, and no copies do."""
    return a.folds and not a.copies and a.dtype != "bool"


def part(b: Builder, a: Accumulator, position: Value, lanes: int) -> Accumulator:
    """Those of its lanes that elements from a position on belong to."""
    first = position & (a.lanes - 1)

    def place(slot: str, dtype: str) -> str:
        found = b.name("%p")
        b.emit(f"{found} = getelementptr {b.type(dtype, 0)}, ptr {slot}, i64 {first.text}")
        return found

    index_slot = place(a.index_slot, "i64") if a.index_slot else ""
    return Accumulator(a.op, a.dtype, lanes, a.folds, place(a.slot, a.dtype), index_slot)


def neutral(op: str, dtype: str) -> int | float | bool:
    """The value that changes nothing."""
    if op in ("maximum", "argmax"):
        return -INF if dtype in FLOATS else False if dtype == "bool" else _smallest(dtype)
    if op in ("minimum", "argmin"):
        return INF if dtype in FLOATS else True if dtype == "bool" else ~_smallest(dtype)
    return {"add": 0, COMPENSATED: 0, "mul": 1, "and": -1, "or": 0}[op]


def _smallest(dtype: str) -> int:
    return -(1 << (BITS[dtype] - 1)) if dtype in SIGNED else 0


def initialize(b: Builder, a: Accumulator) -> None:
    """Starts over."""
    start = b.broadcast(literal(b, a.dtype, neutral(a.op, a.dtype)), a.lanes)
    if a.copies:
        zero, stop = b.constant("i64", 0), b.constant("i64", a.copies)
        repeat(b, zero, 1, stop, lambda position: store(b, _copy(b, a, position), start))
        return
    store(b, a.slot, start)
    if a.index_slot:
        store(b, a.index_slot, b.broadcast(b.constant("i64", -1), a.lanes))
    if a.lost_slot:
        store(b, a.lost_slot, start)


def accumulate(
    b: Builder, a: Accumulator, value: Value, index: Value | None, mask: Value | None, position: Value | None = None
) -> None:
    """Takes one element per lane; lanes that are off in `mask` keep what they have. `position`: which copy does."""
    slot = a.slot if position is None else _copy(b, a, position & (a.copies - 1))
    value = b.broadcast(cast(value, a.dtype), a.lanes)
    old = load(b, slot, a.dtype, a.lanes)
    if a.op in EXTREMES:
        assert index is not None
        old_index = load(b, a.index_slot, "i64", a.lanes)
        better = _more_extreme(a.op, value, old) | (old_index < 0)
        better = better & mask if mask else better
        store(b, slot, b.select(better, value, old))
        store(b, a.index_slot, b.select(better, index, old_index))
        return
    if a.op == COMPENSATED:
        store(b, slot, old + value)
        store(b, a.lost_slot, load(b, a.lost_slot, a.dtype, a.lanes) + apply(b, "lost", (old, value), a.dtype))
        return
    new = _combined(b, COMBINE[a.op], value, old)
    store(b, slot, b.select(mask, new, old) if mask else new)


def _combined(b: Builder, op: str, value: Value, old: Value) -> Value:
    """The two as one: minimum and maximum test only the new value for NaN on the way."""
    operands = (old, value) if op in ("minimum", "maximum") else (value, old)
    return apply(b, op, operands, value.dtype)


def finish(b: Builder, a: Accumulator, dtype: str) -> Value:
    """The result: lanes that partition the elements are folded as a balanced tree."""
    if a.copies:
        return cast(_fold_copies(b, a), dtype)
    value = load(b, a.slot, a.dtype, a.lanes)
    if a.op in EXTREMES:
        index = load(b, a.index_slot, "i64", a.lanes)
        return cast(_fold_extremes(b, a, value, index) if a.folds else index, dtype)
    if a.op == COMPENSATED:
        return cast(apply(b, "restored", (value, load(b, a.lost_slot, a.dtype, a.lanes)), a.dtype), dtype)
    return cast(_fold(b, COMBINE[a.op], value) if a.folds else value, dtype)


def _copy(b: Builder, a: Accumulator, position: Value) -> str:
    """The slot of one of an accumulator's vectors."""
    place = b.name("%p")
    b.emit(f"{place} = getelementptr {b.type(a.dtype, a.lanes)}, ptr {a.slot}, i64 {position.text}")
    return place


def _fold_copies(b: Builder, a: Accumulator) -> Value:
    """What `finish` gives, for as many results as an accumulator's vectors have lanes."""
    half = a.copies // 2
    while half:

        def one(position: Value, half: int = half) -> None:
            low, high = _copy(b, a, position), _copy(b, a, position + half)
            first, second = (load(b, slot, a.dtype, a.lanes) for slot in (low, high))
            store(b, low, _combined(b, COMBINE[a.op], first, second))

        repeat(b, b.constant("i64", 0), 1, b.constant("i64", half), one)
        half //= 2
    return load(b, a.slot, a.dtype, a.lanes)


def _more_extreme(op: str, new: Value, old: Value) -> Value:
    """Whether `new` beats `old`: a NaN beats every number."""
    if new.dtype == "bool":
        return new & ~old if op == "argmax" else old & ~new
    beats = new > old if op == "argmax" else new < old
    return beats | (new.is_nan() & ~old.is_nan()) if new.is_float else beats


def _fold_extremes(b: Builder, a: Accumulator, value: Value, index: Value) -> Value:
    """The smallest index of the lanes that hold the extreme; a lane that took nothing (index -1) doesn't count."""
    extreme = b.broadcast(_fold(b, a.op.removeprefix("arg") + "imum", value), a.lanes)
    holds = value.eq(extreme)
    if value.is_float:
        holds = holds | (value.is_nan() & extreme.is_nan())
    beyond = b.constant("i64", (1 << 63) - 1)
    text = f"<{a.lanes} x i64> {b.select(holds & (index >= 0), index, beyond).text}"
    smallest = b.pure("i64", 0, f"call i64 @llvm.vector.reduce.smin.v{a.lanes}i64({text})", index.depth)
    return b.select(smallest.eq(beyond), -1, smallest)


def _fold(b: Builder, op: str, value: Value) -> Value:
    """The lanes combined as a balanced tree: lane l with lane l + half."""
    while value.lanes > 1:
        value = _combined(b, op, *_halves(b, value))
    return _first(b, value)


def _halves(b: Builder, value: Value) -> tuple[Value, Value]:
    """The lower and the upper half of the lanes."""
    half = value.lanes // 2
    kind = b.type(value.dtype, value.lanes)
    parts = []
    for start in (0, half):
        lanes = ", ".join(f"i32 {start + i}" for i in range(half))
        text = f"shufflevector {kind} {value.text}, {kind} poison, <{half} x i32> <{lanes}>"
        parts.append(b.pure(value.dtype, half, text, value.depth))
    return parts[0], parts[1]


def _first(b: Builder, value: Value) -> Value:
    text = f"extractelement {b.type(value.dtype, value.lanes)} {value.text}, i64 0"
    return b.pure(value.dtype, 0, text, value.depth)


def load(b: Builder, slot: str, dtype: str, lanes: int) -> Value:
    """What a slot holds."""
    result = Value(b, dtype, lanes, b.name("%v"), b.depth)
    b.emit(f"{result.text} = load {b.type(dtype, lanes)}, ptr {slot}")
    return result


def store(b: Builder, slot: str, value: Value) -> None:
    """Puts a value into a slot."""
    b.emit(f"store {b.type(value.dtype, value.lanes)} {value.text}, ptr {slot}")

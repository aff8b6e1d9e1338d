"""Accumulators: running values in stack slots (registers, once LLVM has promoted them), folded in a fixed order."""

from __future__ import annotations

from dataclasses import dataclass

from eagerjit.compiler.codegen.builder import BITS, FLOATS, SIGNED, Builder, Value
from eagerjit.compiler.codegen.cast import cast, literal
from eagerjit.compiler.codegen.scalar import apply

INF = float("inf")
COMBINE = {"add": "add", "mul": "mul", "maximum": "maximum", "minimum": "minimum", "and": "and", "or": "or"}
EXTREMES = ("argmax", "argmin")


@dataclass(slots=True)
class Accumulator:
    """`lanes` 0: one running scalar. `folds`: its lanes partition the elements, and finishing combines them."""

    op: str
    dtype: str
    lanes: int
    folds: bool
    slot: str
    index_slot: str


def open_accumulator(b: Builder, op: str, dtype: str, lanes: int, folds: bool) -> Accumulator:
    """Reserves the slots."""
    if op not in COMBINE and op not in EXTREMES:
        raise TypeError(f"no accumulator {op!r}")
    slot = b.alloca(b.type(dtype, lanes))
    index_slot = b.alloca(b.type("i64", lanes)) if op in EXTREMES else ""
    return Accumulator(op, dtype, lanes, folds, slot, index_slot)


def neutral(op: str, dtype: str) -> int | float | bool:
    """The value that changes nothing."""
    if op in ("maximum", "argmax"):
        return -INF if dtype in FLOATS else False if dtype == "bool" else _smallest(dtype)
    if op in ("minimum", "argmin"):
        return INF if dtype in FLOATS else True if dtype == "bool" else ~_smallest(dtype)
    return {"add": 0, "mul": 1, "and": -1, "or": 0}[op]


def _smallest(dtype: str) -> int:
    return -(1 << (BITS[dtype] - 1)) if dtype in SIGNED else 0


def initialize(b: Builder, a: Accumulator) -> None:
    """Starts over."""
    _store(b, a.slot, b.broadcast(literal(b, a.dtype, neutral(a.op, a.dtype)), a.lanes))
    if a.index_slot:
        _store(b, a.index_slot, b.broadcast(b.constant("i64", -1), a.lanes))


def accumulate(b: Builder, a: Accumulator, value: Value, index: Value | None, mask: Value | None) -> None:
    """Takes one element per lane; lanes that are off in `mask` keep what they have."""
    value = b.broadcast(cast(value, a.dtype), a.lanes)
    old = _load(b, a.slot, a.dtype, a.lanes)
    if a.op in EXTREMES:
        assert index is not None
        old_index = _load(b, a.index_slot, "i64", a.lanes)
        better = _more_extreme(a.op, value, old) | (old_index < 0)
        better = better & mask if mask else better
        _store(b, a.slot, b.select(better, value, old))
        _store(b, a.index_slot, b.select(better, index, old_index))
        return
    # The accumulator is the second operand: minimum and maximum then test only the new value for NaN on the way.
    new = apply(b, COMBINE[a.op], (value, old), a.dtype)
    _store(b, a.slot, b.select(mask, new, old) if mask else new)


def finish(b: Builder, a: Accumulator, dtype: str) -> Value:
    """The result: lanes that partition the elements are folded as a balanced tree."""
    value = _load(b, a.slot, a.dtype, a.lanes)
    if a.op in EXTREMES:
        index = _load(b, a.index_slot, "i64", a.lanes)
        return cast(_fold_extremes(b, a, value, index) if a.folds else index, dtype)
    if a.folds:
        lanes = a.lanes
        while lanes > 1:
            low, high = _halves(b, value)
            value = apply(b, COMBINE[a.op], (low, high), a.dtype)
            lanes //= 2
        value = _first(b, value)
    return cast(value, dtype)


def _more_extreme(op: str, new: Value, old: Value) -> Value:
    """Whether `new` beats `old`: a NaN beats every number."""
    if new.dtype == "bool":
        return new & ~old if op == "argmax" else old & ~new
    beats = new > old if op == "argmax" else new < old
    return beats | (new.is_nan() & ~old.is_nan()) if new.is_float else beats


def _fold_extremes(b: Builder, a: Accumulator, value: Value, index: Value) -> Value:
    """Of equals (two NaNs, too) the smaller index wins; a lane that took nothing (index -1) never does."""
    lanes = a.lanes
    while lanes > 1:
        (low, high), (low_index, high_index) = _halves(b, value), _halves(b, index)
        tie = ~_more_extreme(a.op, low, high) & (high_index < low_index)
        better = (_more_extreme(a.op, high, low) | tie | (low_index < 0)) & (high_index >= 0)
        value, index = b.select(better, high, low), b.select(better, high_index, low_index)
        lanes //= 2
    return _first(b, index)


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


def _load(b: Builder, slot: str, dtype: str, lanes: int) -> Value:
    result = Value(b, dtype, lanes, b.name("%v"), b.depth)
    b.emit(f"{result.text} = load {b.type(dtype, lanes)}, ptr {slot}")
    return result


def _store(b: Builder, slot: str, value: Value) -> None:
    b.emit(f"store {b.type(value.dtype, value.lanes)} {value.text}, ptr {slot}")

"""Dtype promotion, PyTorch's rules: dimensions before 0-d tensors before Python numbers."""

from __future__ import annotations

from typing import Any

from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.runtime import dtypes
from eagerjit.runtime.dtypes import DType
from eagerjit.state import Defaults
from eagerjit.tensors.tensor import Tensor

TYPE_NAMES = {
    dtypes.float32: "Float",
    dtypes.float64: "Double",
    dtypes.float16: "Half",
    dtypes.bfloat16: "BFloat16",
    dtypes.int64: "Long",
    dtypes.int32: "Int",
    dtypes.int16: "Short",
    dtypes.int8: "Char",
    dtypes.uint8: "Byte",
    dtypes.uint16: "UInt16",
    dtypes.uint32: "UInt32",
    dtypes.uint64: "UInt64",
    dtypes.bool_: "Bool",
    dtypes.complex64: "ComplexFloat",
    dtypes.complex128: "ComplexDouble",
    **{dtype: dtype.name.capitalize() for dtype in dtypes.FLOAT8},
}
"""Names of dtypes in messages and legacy constructors."""

_KIND_ORDER = {"bool": 0, "bits": 0, "quantized": 1, "uint": 1, "int": 1, "float": 2, "complex": 3}


def promote_types(a: DType, b: DType) -> DType:
    """The smallest dtype that holds both. RuntimeError for uint64 and a signed one, which no dtype does."""
    if a is b:
        return a
    if isinstance(a, dtypes.Absent) or isinstance(b, dtypes.Absent):
        raise RuntimeError(f"eagerjit has no tensors of {a!r} and {b!r} that could be promoted")
    if a in dtypes.FLOAT8 or b in dtypes.FLOAT8:
        names = f"{TYPE_NAMES[a]} and {TYPE_NAMES[b]}"
        raise RuntimeError(f"Promotion for Float8 Types is not supported, attempted to promote {names}")
    if a.kind == "complex" or b.kind == "complex":
        wide = dtypes.complex128 in (a, b) or dtypes.float64 in (a, b)
        return dtypes.complex128 if wide else dtypes.complex64
    if a.kind == "float" or b.kind == "float":
        if a.kind != b.kind:
            return a if a.kind == "float" else b
        return dtypes.float32 if a.bits == b.bits else max(a, b, key=lambda d: d.bits)
    if a.kind == "bool":
        return b
    if b.kind == "bool":
        return a
    if a.kind == b.kind:
        return max(a, b, key=lambda d: d.bits)
    signed, unsigned = (a, b) if a.kind == "int" else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    if unsigned is dtypes.uint64:
        raise RuntimeError(
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
            f"{TYPE_NAMES[a]} and {TYPE_NAMES[b]}: no dtype holds both"
        )
    return next(d for d in dtypes.ALL if d.kind == "int" and d.bits > unsigned.bits)


def _combine(higher: DType | None, lower: DType | None) -> DType | None:
    if higher is None or lower is None:
        return lower if higher is None else higher
    if higher.kind == "complex":
        return higher
    if higher.kind == "float":
        if lower.kind == "complex":
            return dtypes.COMPLEX_OF.get(higher, dtypes.complex64)
        return higher
    if higher.kind == "bool" or lower.is_differentiable:
        return promote_types(higher, lower)
    return higher


def number_dtype(value: Any) -> DType:
    """The dtype that a Python number has where no tensor decides."""
    if isinstance(value, bool):
        return dtypes.bool_
    if isinstance(value, (int, SymbolicInt)):
        return dtypes.int64
    if isinstance(value, (float, TracedFloat)):
        return Defaults.dtype
    if isinstance(value, complex):
        return dtypes.COMPLEX_OF.get(Defaults.dtype, dtypes.complex64)
    raise TypeError(f"unsupported operand: {type(value).__name__}")


_OPERAND_NAMES = frozenset(("tensor", "other", "scalar", "scalar1", "scalar2"))


def result_type(*operands: Any, **named: Any) -> DType:
    """The dtype of an arithmetic operation on tensors and numbers, which may be named as PyTorch names them."""
    if named:
        if not named.keys() <= _OPERAND_NAMES:
            raise TypeError(f"result_type() got an unexpected keyword argument among {', '.join(named)}")
        operands = (*operands, *named.values())
    ranked: list[DType | None] = [None, None, None]
    for x in operands:
        rank, dtype = (0 if x.ndim else 1, x.dtype) if isinstance(x, Tensor) else (2, number_dtype(x))
        known = ranked[rank]
        ranked[rank] = dtype if known is None else promote_types(known, dtype)
    out = _combine(ranked[0], _combine(ranked[1], ranked[2]))
    assert out is not None
    return out


def can_cast(source: DType, target: DType) -> bool:
    """Whether an in-place operation may store `source` values in a `target` tensor."""
    return _KIND_ORDER[source.kind] <= _KIND_ORDER[target.kind] and not (
        target.kind == "bool" and source.kind != "bool"
    )

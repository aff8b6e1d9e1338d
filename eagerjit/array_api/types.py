"""Dtypes and what is asked of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from eagerjit.array_api.operands import check_array
from eagerjit.devices import check_device
from eagerjit.runtime import dtypes as _dtypes
from eagerjit.runtime.dtypes import DType
from eagerjit.tensors import limits
from eagerjit.tensors.promotion import number_dtype, promote_types
from eagerjit.tensors.tensor import Tensor

bool = _dtypes.bool_
uint8, uint16, uint32, uint64 = _dtypes.uint8, _dtypes.uint16, _dtypes.uint32, _dtypes.uint64
int8, int16, int32, int64 = _dtypes.int8, _dtypes.int16, _dtypes.int32, _dtypes.int64
float32, float64 = _dtypes.float32, _dtypes.float64
complex64, complex128 = _dtypes.complex64, _dtypes.complex128

DTYPES = (bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64, complex64, complex128)
"""The dtypes of the standard; tensors have float16 and bfloat16 besides."""

__all__ = [*(d.name for d in DTYPES), "astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int",),
    "unsigned integer": ("uint",),
    "integral": ("int", "uint"),
    "real floating": ("float",),
    "complex floating": ("complex",),
    "numeric": ("int", "uint", "float", "complex"),
}


class finfo_object(NamedTuple):
    """The limits of a floating point dtype."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class iinfo_object(NamedTuple):
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def _dtype_of(name: str, type: Any) -> DType:
    if isinstance(type, Tensor):
        return type.dtype
    if not isinstance(type, DType):
        raise TypeError(f"{name}(): expected a dtype or a Tensor, not {type.__class__.__name__}")
    return type


def _with_number(dtype: DType, number: DType) -> DType:
    """The dtype of a tensor and a Python number: the tensor's, or one of its size for a number of a higher kind."""
    if number.kind == "complex" and dtype.kind == "float":
        return _dtypes.COMPLEX_OF.get(dtype, _dtypes.complex64)
    higher = dtype.kind == "bool" or (number.is_differentiable and not dtype.is_differentiable)
    return number if higher else dtype


def astype(x: Tensor, dtype: DType, /, *, copy: Any = True, device: Any = None) -> Tensor:
    """The tensor in another dtype; with `copy=False` itself where nothing changes.

    Raises TypeError for complex numbers that shall become real ones: take their `real` or `imag`.
    """
    if check_array("astype", x).dtype.is_complex and dtype.kind not in ("complex", "bool"):
        raise TypeError(f"astype(): {x.dtype.name} cannot become {dtype.name}; take the real or the imaginary part")
    check_device(device)
    return x.to(dtype, copy=copy)


def can_cast(from_: Any, to: DType, /) -> Any:
    """Whether a dtype, or a tensor's, is promoted to another: integers to wider ones, real numbers to complex ones."""
    source, target = _dtype_of("can_cast", from_), _dtype_of("can_cast", to)
    if isdtype(source, "integral") and isdtype(target, "integral"):
        return source.fits_in(target)
    inexact = source.is_differentiable and target.is_differentiable
    return source is target or (inexact and promote_types(source, target) is target)


def finfo(type: Any, /) -> finfo_object:
    """The limits of a floating point dtype or of a tensor's; of a complex one those of its parts."""
    dtype = _dtype_of("finfo", type)
    found = limits.finfo(dtype)
    dtype = _dtypes.REAL_OF.get(dtype, dtype)
    return finfo_object(found.bits, found.eps, found.max, found.min, found.smallest_normal, dtype)


def iinfo(type: Any, /) -> iinfo_object:
    """The limits of an integer dtype or of a tensor's."""
    dtype = _dtype_of("iinfo", type)
    found = limits.iinfo(dtype)
    return iinfo_object(found.bits, found.max, found.min, dtype)


def isdtype(dtype: DType, kind: Any) -> Any:
    """Whether a dtype is another, of a kind ("bool", "signed integer", "unsigned integer", "integral", "real floating",
    "complex floating", "numeric"), or any of a tuple of these.
    """
    if isinstance(kind, tuple):
        return any([isdtype(dtype, k) for k in kind])
    if isinstance(kind, DType):
        return dtype is kind
    if not isinstance(kind, str):
        raise TypeError(f"isdtype(): a kind is a dtype, a name or a tuple of them, not {type(kind).__name__}")
    if kind not in _KINDS:
        raise ValueError(f"isdtype(): there is no kind of dtypes named {kind!r}, but {', '.join(_KINDS)}")
    return dtype.kind in _KINDS[kind]


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that tensors, dtypes and Python numbers promote to; tensors count by dtype alone, of any rank.

    Raises ValueError if there is neither a tensor nor a dtype.
    """
    known = [x.dtype if isinstance(x, Tensor) else x for x in arrays_and_dtypes if isinstance(x, (Tensor, DType))]
    if not known:
        raise ValueError("result_type(): expected at least one Tensor or dtype")
    dtype = known[0]
    for other in known[1:]:
        dtype = promote_types(dtype, other)
    for number in arrays_and_dtypes:
        if not isinstance(number, (Tensor, DType)):
            dtype = _with_number(dtype, number_dtype(number))
    return dtype

"""Which Python numbers fit in which dtypes, and what becomes of those that do not."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.runtime import dtypes
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.keys import LARGEST_BFLOAT16
from eagerjit.tensors.promotion import TYPE_NAMES, result_type
from eagerjit.tensors.tensor import Tensor

_INTEGERS = tuple(d for d in dtypes.ALL if d.kind in ("int", "uint"))
_LARGEST = {
    dtypes.float16: 65504.0,
    dtypes.bfloat16: LARGEST_BFLOAT16,
    dtypes.float32: float(np.finfo(np.float32).max),
    dtypes.complex64: float(np.finfo(np.float32).max),
}
"""The largest finite number of what has less room than Python's floats."""

HALVES = (dtypes.float16, dtypes.bfloat16)
"""Dtypes whose single elements may overflow."""

_NAMES = {
    dtypes.int32: "int", dtypes.float16: "c10::Half", dtypes.bfloat16: "c10::BFloat16", dtypes.float32: "float",
    dtypes.complex64: "c10::complex<float>",
}  # fmt: skip
_NUMBERS = (int, float, SymbolicInt, TracedFloat)


def whole(value: Any) -> int:
    """What stands for an integer, as one of Python's. Raises ValueError beyond 64 bits."""
    number = operator.index(value)
    if not -(2**63) <= number < 2**63:
        raise ValueError("Overflow when unpacking long long")
    return number


def whole_or_traced(value: Any) -> Any:
    """The same; an integer of a call being recorded stays what it is."""
    return value if isinstance(value, SymbolicInt) else whole(value)


def wholes(values: Sequence[Any]) -> tuple[int, ...]:
    """The same of several. Raises TypeError for all that is no integer of 64 bits, as PyTorch does."""
    for position, value in enumerate(values):
        if not -(2**63) <= operator.index(value) < 2**63:
            raise TypeError(f'failed to unpack the object at pos {position + 1}: "Overflow when unpacking long long"')
    return tuple(map(operator.index, values))


def fits(value: Any, dtype: DType) -> bool:
    """Whether a dtype has room for a number. Unsigned ones take the negatives of the integers that they have."""
    if dtype in _LARGEST:
        size = abs(value)
        return bool(size <= _LARGEST[dtype]) or not size < np.inf
    limits = np.iinfo(dtype.numpy)  # type: ignore[type-var]
    lowest = -int(limits.max) if limits.min == 0 and isinstance(value, int) else int(limits.min)
    # Any float up to 2**63 passes for an int64, as in PyTorch, which compares with the limit as a float.
    return bool(lowest <= value <= int(limits.max)) or (type(value) is float and value == float(limits.max))


def fits_exactly(value: int, dtype: DType) -> bool:
    """Whether a dtype of integers has an integer; any other has all."""
    return dtype not in _INTEGERS or int(np.iinfo(dtype.numpy).min) <= value <= int(np.iinfo(dtype.numpy).max)  # type: ignore


def check_fit(value: Any, dtype: DType) -> bool:
    """Refuse a number that a dtype cannot hold; whether another number of its kind might not fit.

    Floats beyond the largest of 16 bits are a kind of their own (`runtime/keys.py`).
    """
    if isinstance(value, complex):
        if value.imag and not dtype.is_complex and dtype is not dtypes.bool_:
            _refuse(dtype)
        return any([check_fit(part, dtype) for part in (value.real, value.imag)])
    if type(value) is int and not -(2**63) <= value < 2**64:
        raise OverflowError("int too big to convert")
    if not (dtype in _LARGEST or dtype in _INTEGERS) or isinstance(value, bool) or not isinstance(value, _NUMBERS):
        return False
    if type(value) is SymbolicInt and dtype in (dtypes.int64, dtypes.float32, dtypes.bfloat16, dtypes.complex64):
        return False
    if not fits(value, dtype):
        _refuse(dtype)
    if dtype is dtypes.int64 and type(value) is int:
        return False  # what is larger is no int that native code takes
    return dtype is dtypes.float16 or dtype in _INTEGERS


def _refuse(dtype: DType) -> None:
    raise RuntimeError(f"value cannot be converted to type {_NAMES.get(dtype, f'{dtype.name}_t')} without overflow")


def fitted(value: Any, dtype: DType) -> Any:
    """A number for a dtype: integers for integers, negative ones wrapped around where there is no sign."""
    if dtype not in HALVES or isinstance(value, complex) or (type(value) is int and not -(2**63) <= value < 2**64):
        check_fit(value, dtype)
    elif type(value) in (int, float) and not fits(value, dtype):  # a single element may overflow
        with np.errstate(over="ignore"):
            return float(np.asarray(float(value)).astype(dtype.numpy))
    value = value.real if isinstance(value, complex) and not dtype.is_complex else value
    if type(value) is int and dtype.is_floating_point:
        return float(value)
    if dtype.kind not in ("int", "uint") or not isinstance(value, (int, float)) or type(value) is SymbolicInt:
        return value
    limits = np.iinfo(dtype.numpy)  # type: ignore[type-var]
    return int(value) % (int(limits.max) + 1) if limits.min == 0 else min(int(value), int(limits.max))


def element(value: Any, dtype: DType) -> Any:
    """What stands for a number among the data of a new tensor: one of Python's or NumPy's, a tensor with one element.

    Raises TypeError for what is no such number, ValueError for an integer beyond 64 bits.
    """
    if dtype.is_complex and not isinstance(value, (str, bytes)):
        return complex(value)
    if dtype.is_differentiable:
        return math.ldexp(value, 0)  # float(), for numbers alone
    if dtype is dtypes.bool_:
        return bool(value if isinstance(value, (float, complex, np.bool_)) else operator.index(value))
    return fitted(value if isinstance(value, float) else whole(value), dtype)


def integers_fit(arguments: tuple[Any, ...]) -> bool:
    """Check the bounds of random integers, the upper one excluded; whether there was any to check."""
    *_, low, high, dtype = arguments
    if dtype not in (*_INTEGERS, dtypes.bool_) or dtype is dtypes.int64:
        return False
    for name, bound in (("from", low), ("to - 1", high - 1)):
        if not (0 <= bound <= 1 if dtype is dtypes.bool_ else fits_exactly(bound, dtype)):
            raise RuntimeError(f"{name} is out of bounds for {TYPE_NAMES[dtype]}")
    return True


def places_fit(arguments: tuple[Any, ...]) -> bool:
    """Check the number of places in a permutation; whether there was any to check."""
    *_, shape, dtype = arguments
    return check_fit(shape[0], dtype)


def filled_fits(arguments: tuple[Any, ...]) -> bool:
    """Check the numbers of an operation that writes them into its first argument's dtype; whether there was any."""
    dtype = arguments[0].dtype
    return any([check_fit(value, dtype) for value in arguments[1:]])


def limits_fit(arguments: tuple[Any, ...]) -> bool:
    """Check the numbers of an operation whose result has the dtype of all arguments together; whether there was any."""
    dtype = result_type(*(a for a in arguments if a is not None))
    return any([check_fit(value, dtype) for value in arguments])


def promoting_limits(*limits: Any) -> list[Any]:
    """What `clamp` promotes its argument with: a tensor beside a number stands for a number, if it can."""
    given = [x for x in limits if x is not None]
    if not _mixed(given):
        return given
    if any(isinstance(x, Tensor) and (x.ndim or x._requires_grad) for x in given):
        raise TypeError("clamp(): 'min' and 'max' must both be Numbers or both be Tensors")
    return [_of_kind(x.dtype) if isinstance(x, Tensor) else x for x in given]


def _mixed(limits: list[Any]) -> bool:
    return len({isinstance(x, Tensor) for x in limits if x is not None}) == 2


def _of_kind(dtype: DType) -> Any:
    return 1j if dtype.is_complex else 1.0 if dtype.is_floating_point else 1


def clamp_fits(arguments: tuple[Any, ...]) -> bool:
    """Check the limits of `clamp`; whether others of their kinds might not do."""
    input, *limits = arguments
    return limits_fit((input, *promoting_limits(*limits))) or _mixed(limits)


def where_fits(arguments: tuple[Any, ...]) -> bool:
    """Check the integer that `where` mixes with a tensor of integers."""
    _, *branches = arguments
    tensors = [b for b in branches if isinstance(b, Tensor)]
    if len(tensors) != 1 or tensors[0].dtype in HALVES or any(isinstance(b, complex) for b in branches):
        return False
    return limits_fit(tuple(branches))


def reachable(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of an operation with integers that int64 lacks as floats where they meet a real tensor, and else as
    the ones of the same bits that it has. Raises OverflowError for those beyond 64 bits.
    """
    beyond = [type(a) is int and not -(2**63) <= a < 2**63 for a in arguments]
    if not any(beyond):
        return arguments
    real = any(a.dtype.is_differentiable for a in arguments if isinstance(a, Tensor))
    return tuple(_of_64_bits(a, real) if b else a for a, b in zip(arguments, beyond, strict=True))


def _of_64_bits(value: int, real: bool) -> int | float:
    if not 0 <= value < 2**64:
        raise OverflowError("int too big to convert")
    return float(value) if real else value - 2**64

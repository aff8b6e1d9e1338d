"""What sums make of `alpha`, the factor of their second operand."""

from __future__ import annotations

from typing import Any

from eagerjit.recording.numbers import TracedFloat
from eagerjit.runtime import dtypes
from eagerjit.tensors.fitting import check_fit
from eagerjit.tensors.promotion import result_type
from eagerjit.tensors.tensor import Parameter, Tensor

_NUMBERS, _PLAIN = frozenset((int, float)), frozenset((Tensor, Parameter))
_FITS = 1e30
"""A bound of what float32 can hold."""


def is_bool(x: Any) -> bool:
    return x.dtype is dtypes.bool_ if isinstance(x, Tensor) else isinstance(x, bool)


def only(scaled: tuple[Any, ...]) -> Any:
    """The one operand after a factor. Raises TypeError if there are more."""
    if len(scaled) > 1:
        raise TypeError(f"received an invalid combination of {2 + len(scaled)} arguments")
    return scaled[0]


def plus(plain: Any, scaled: Any, input: Any, other: Any, alpha: Any, sign: int = 1) -> Tensor:
    """input + sign * alpha * other, by an operation for an alpha of 1, or by one for any."""
    if is_one(alpha):
        return plain(input, other)
    if type(alpha) in _NUMBERS and type(input) in _PLAIN and type(other) in _PLAIN and -_FITS < alpha < _FITS:
        if (dtype := input.dtype) is other.dtype and (dtype is dtypes.float32 or dtype is dtypes.float64):
            return scaled(input, other, alpha if sign > 0 else -alpha)  # whatever is checked below holds
    alpha = factor(alpha, input, other)
    if isinstance(alpha, complex) or not result_type(input, other).is_differentiable:
        return plain(input, other * alpha)
    if sign < 0 and any(map(is_bool, (input, other))):
        return plain(input, other)  # says what it refuses
    return scaled(input, other, alpha if sign > 0 else -alpha)


def is_one(value: Any) -> bool:
    return type(value) is int and value == 1


def factor(alpha: Any, input: Any, other: Any) -> Any:
    """`alpha` as a factor of `other`. Raises RuntimeError where the result's dtype cannot hold it."""
    dtype = result_type(input, other)
    if isinstance(alpha, (float, TracedFloat)) and not dtype.is_differentiable:
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if type(alpha) is bool and dtype is not dtypes.bool_:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if isinstance(alpha, complex) and not dtype.is_complex:
        kind = "non-complex input tensors, argument alpha must not be a complex number."
        whole = "integral input tensors, argument alpha must not be a floating point number."
        raise RuntimeError(f"For {kind if dtype.is_differentiable else whole}")
    check_fit(alpha, dtype)
    return bool(alpha) if dtype is dtypes.bool_ else alpha

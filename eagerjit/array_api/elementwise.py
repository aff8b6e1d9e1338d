"""Functions of single elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import eagerjit
from eagerjit.array_api.operands import check_array, common
from eagerjit.tensors.promotion import result_type
from eagerjit.tensors.tensor import Tensor

__all__ = [
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert",
    "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "clip", "conj", "copysign", "cos",
    "cosh", "divide", "equal", "exp", "expm1", "floor", "floor_divide", "greater", "greater_equal", "hypot", "imag",
    "isfinite", "isinf", "isnan", "less", "less_equal", "log", "log1p", "log2", "log10", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative", "nextafter", "not_equal",
    "positive", "pow", "real", "reciprocal", "remainder", "round", "sign", "signbit", "sin", "sinh", "sqrt", "square",
    "subtract", "tan", "tanh", "trunc",
]  # fmt: skip


_OF_TENSORS = frozenset(
    "atan2 copysign equal greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor "
    "maximum minimum nextafter not_equal".split()
)
"""Functions that take no numbers in PyTorch, at least not first."""


def _unary(name: str, doc: str, compute: Callable[[Tensor], Tensor] | None = None) -> Callable[[Tensor], Tensor]:
    """A function of one tensor: eagerjit's of that name, or another."""
    compute = compute or getattr(eagerjit, name)

    def function(x: Tensor, /) -> Tensor:
        return compute(check_array(name, x))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _binary(name: str, doc: str, compute: Callable[[Any, Any], Tensor] | None = None) -> Callable[[Any, Any], Tensor]:
    """A function of two tensors, or a tensor and a Python number."""
    compute = compute or getattr(eagerjit, name)

    def function(x1: Any, x2: Any, /) -> Tensor:
        operands = common(name, x1, x2)
        if name in _OF_TENSORS:
            operands = tuple(x if isinstance(x, Tensor) else _tensor(x, *operands) for x in operands)
        return compute(*operands)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _sign(x: Tensor) -> Tensor:
    if x.dtype.is_complex:
        size = eagerjit.abs(x)
        return eagerjit.where(x == 0, 0, eagerjit.complex(x.real / size, x.imag / size))
    found = eagerjit.sign(x)
    return eagerjit.where(eagerjit.isnan(x), x, found) if x.dtype.is_floating_point else found


def _round(x: Tensor) -> Tensor:
    if x.dtype.is_complex:
        return eagerjit.complex(eagerjit.round(x.real), eagerjit.round(x.imag))
    return eagerjit.round(x)


def _remainder(x1: Any, x2: Any) -> Tensor:
    """Zeros have the sign of x2 too, which PyTorch's do not."""
    found = eagerjit.remainder(x1, x2)
    if not found.dtype.is_floating_point:
        return found
    return eagerjit.where(found == 0, eagerjit.copysign(found, x2), found)


def _expm1(x: Tensor) -> Tensor:
    if not x.dtype.is_complex:
        return eagerjit.expm1(x)
    power, a, half = eagerjit.exp(x), x.real, eagerjit.sin(x.imag / 2)
    near = eagerjit.expm1(a) * eagerjit.cos(x.imag) - 2 * half * half
    return eagerjit.complex(eagerjit.where(eagerjit.isfinite(x), near, power.real - 1), power.imag)


def _tensor(number: Any, *operands: Any) -> Tensor:
    """A number as a tensor of the operands' dtype."""
    return eagerjit.full((), number, dtype=result_type(*operands))


def _pow(x1: Any, x2: Any) -> Tensor:
    """The powers 0.5 and -0.5 are no square roots, which are others of -0.0 and -infinity."""
    if not isinstance(x2, Tensor) and x2 in (0.5, -0.5):
        x2 = _tensor(x2, x1, x2)
    return eagerjit.pow(x1, x2)


# -- of one tensor ----------------------------------------------------------------------------------------------------

abs = _unary("abs", "Absolute values; of complex numbers their magnitudes, real numbers.")
acos = _unary("acos", "Inverse cosines, in radians.")
acosh = _unary("acosh", "Inverse hyperbolic cosines.")
asin = _unary("asin", "Inverse sines, in radians.")
asinh = _unary("asinh", "Inverse hyperbolic sines.")
atan = _unary("atan", "Inverse tangents, in radians.")
atanh = _unary("atanh", "Inverse hyperbolic tangents.")
bitwise_invert = _unary("bitwise_invert", "Bits flipped; of bools the negation.", eagerjit.bitwise_not)
ceil = _unary("ceil", "The smallest integers not below, in the tensor's dtype.")
conj = _unary("conj", "Complex conjugates; a real tensor itself.")
cos = _unary("cos", "Cosines of radians.")
cosh = _unary("cosh", "Hyperbolic cosines.")
exp = _unary("exp", "e to the power of elements.")
expm1 = _unary("expm1", "exp(x) - 1, exact near 0.", _expm1)
floor = _unary("floor", "The largest integers not above, in the tensor's dtype.")
imag = _unary("imag", "Imaginary parts of complex numbers.")
isfinite = _unary("isfinite", "Whether elements are neither infinite nor NaN; complex ones in both parts.")
isinf = _unary("isinf", "Whether elements are infinite; complex ones in either part.")
isnan = _unary("isnan", "Whether elements are NaN; complex ones in either part.")
log = _unary("log", "Natural logarithms.")
log10 = _unary("log10", "Logarithms to base 10.")
log1p = _unary("log1p", "log(1 + x), exact near 0.")
log2 = _unary("log2", "Logarithms to base 2.")
logical_not = _unary("logical_not", "Whether elements are False or 0.")
negative = _unary("negative", "Elements with the other sign.")
positive = _unary("positive", "The tensor itself.")
real = _unary("real", "Real parts; a real tensor itself.")
reciprocal = _unary("reciprocal", "1 / x.")
round = _unary(
    "round", "The nearest integers, halves to even, in the tensor's dtype; of complex numbers in both parts.", _round
)
sign = _unary("sign", "-1, 0 or 1, NaN for NaN; complex numbers divided by their magnitudes.", _sign)
signbit = _unary("signbit", "Whether the sign bit is set, that of -0.0 and NaN too.")
sin = _unary("sin", "Sines of radians.")
sinh = _unary("sinh", "Hyperbolic sines.")
sqrt = _unary("sqrt", "Square roots.")
square = _unary("square", "x * x.")
tan = _unary("tan", "Tangents of radians.")
tanh = _unary("tanh", "Hyperbolic tangents.")
trunc = _unary("trunc", "Elements without their fractions, in the tensor's dtype.")

# -- of two -----------------------------------------------------------------------------------------------------------

add = _binary("add", "x1 + x2.")
atan2 = _binary("atan2", "The angles of the points (x2, x1), in radians.")
bitwise_and = _binary("bitwise_and", "Bits that are set in both.")
bitwise_left_shift = _binary("bitwise_left_shift", "x1 * 2**x2.")
bitwise_or = _binary("bitwise_or", "Bits that are set in either.")
bitwise_right_shift = _binary("bitwise_right_shift", "x1 / 2**x2, rounded down.")
bitwise_xor = _binary("bitwise_xor", "Bits that are set in one.")
copysign = _binary("copysign", "The magnitude of x1 with the sign of x2, that of -0.0 and NaN too.")
divide = _binary("divide", "x1 / x2, a floating point number; of integers in the default dtype.")
equal = _binary("equal", "Whether x1 == x2.", eagerjit.eq)
floor_divide = _binary("floor_divide", "x1 / x2, rounded down.")
greater = _binary("greater", "Whether x1 > x2.", eagerjit.gt)
greater_equal = _binary("greater_equal", "Whether x1 >= x2.", eagerjit.ge)
hypot = _binary("hypot", "sqrt(x1**2 + x2**2) without overflow.")
less = _binary("less", "Whether x1 < x2.", eagerjit.lt)
less_equal = _binary("less_equal", "Whether x1 <= x2.", eagerjit.le)
logaddexp = _binary("logaddexp", "log(exp(x1) + exp(x2)) without overflow.")
logical_and = _binary("logical_and", "Whether both are true.")
logical_or = _binary("logical_or", "Whether either is true.")
logical_xor = _binary("logical_xor", "Whether one is true and not the other.")
maximum = _binary("maximum", "The larger one; NaN if either is.")
minimum = _binary("minimum", "The smaller one; NaN if either is.")
multiply = _binary("multiply", "x1 * x2.")
nextafter = _binary("nextafter", "The next number after x1 towards x2.")
not_equal = _binary("not_equal", "Whether x1 != x2.", eagerjit.ne)
pow = _binary("pow", "x1 to the power of x2.", _pow)
remainder = _binary("remainder", "What floor division leaves, with the sign of x2.", _remainder)
subtract = _binary("subtract", "x1 - x2.")


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """x limited to [min, max], in the dtype of x; a limit is a number, a tensor or None for none."""
    check_array("clip", x)
    if min is None and max is None:
        return x.clone()
    limits = [bound.to(x.dtype) if isinstance(bound, Tensor) else bound for bound in (min, max)]
    if any(isinstance(bound, Tensor) for bound in limits):  # eagerjit takes tensors or numbers, not one of each
        limits = [bound if bound is None or isinstance(bound, Tensor) else _tensor(bound, x) for bound in limits]
    return eagerjit.clip(x, *limits).to(x.dtype)

"""Elementwise functions that are used now and then, those of bits among them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from eagerjit.calling.dispatch import Op, emit
from eagerjit.calling.elementwise import ElementwiseOp
from eagerjit.calling.public import public, written
from eagerjit.calling.results import returned
from eagerjit.compiler.ops import Primitive, bits
from eagerjit.ops.elementary import ELEMENTARY, define, logarithmic_rules, reals
from eagerjit.ops.inplace import inplace
from eagerjit.ops.pointwise import NUMBERS_FOR, POINTWISE, as_dtype, power, promoted
from eagerjit.runtime import dtypes
from eagerjit.runtime.dtypes import DType
from eagerjit.tensors.creation import ones_like
from eagerjit.tensors.outputs import write_out
from eagerjit.tensors.promotion import TYPE_NAMES, result_type
from eagerjit.tensors.tensor import Tensor


@define
def _logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """log(exp(input) + exp(other)) without overflow."""
    top, larger, below = _ordered(input, other)
    return top.where(top.isinf(), larger + below.exp().log1p())


@define
def _logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    """log2(2**input + 2**other) without overflow."""
    top, larger, below = _ordered(input, other)
    return top.where(top.isinf(), larger + below.exp2().log1p() / math.log(2))


def _ordered(input: Tensor, other: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The larger one twice, and how far the smaller is below it: of the latter two the slopes at a tie are one side's.

    Those of `maximum` and `abs` are a half and zero there, and the slopes of these are nothing.
    """
    difference = input - other
    first = difference > 0.0
    larger, below = input.where(first, other), (-difference).where(first, difference)
    return POINTWISE["maximum"].call(input, other), larger, below


@define
def _hypot(input: Tensor, other: Tensor) -> Tensor:
    """sqrt(input**2 + other**2) without overflow."""
    size = POINTWISE["maximum"].call(input.detach().abs(), other.detach().abs())
    scale = size.where((size > 0.0).logical_and(size.isfinite()), 1.0)
    x, y = input / scale, other / scale
    total = x * x + y * y
    root = total.where(total != 0.0, 1.0).sqrt() * scale
    infinite = input.isinf().logical_or(other.isinf())
    return root.where(total != 0.0, total).where(infinite.logical_not(), math.inf)


@define
def _xlog1py(input: Any, other: Any) -> Tensor:
    """input * log1p(other), 0 where input is 0."""
    input, other = reals("xlog1py", (input, other))
    zero = (input == 0.0).logical_and(other.isnan().logical_not())
    return (input * other.where(zero.logical_not(), 0.0).log1p()).where(zero.logical_not(), 0.0)


ELEMENTARY["xlog1py"].rules = logarithmic_rules("xlog1py", 1.0)


@define
def _entr(input: Tensor) -> Tensor:
    """-input * log(input): 0 at 0, -inf below."""
    x = input.where(input > 0.0, 1.0)
    return (-x * x.log()).where(input > 0.0, (input * 0.0).where(input == 0.0, input.where(input.isnan(), -math.inf)))


ELEMENTARY["entr"].rules = (lambda g, out, input: g * (-input.log() - 1.0),)


def _no_slope(g: Any, *arguments: Any) -> Any:
    return g.new_zeros(g.shape)


def _heaviside(input: Tensor, values: Tensor) -> Tensor:
    """0 below 0, 1 above, and `values` where input is 0."""
    if input.dtype.is_complex or values.dtype.is_complex:
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if input.dtype is not values.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    return values.where(input == 0, (input > 0).to(input.dtype))


def _no_rule(*given: Any) -> Any:
    raise RuntimeError("derivative for aten::heaviside is not implemented")


_heaviside_op = ElementwiseOp("heaviside", _heaviside, (_no_rule, _no_rule))


@public
def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """0 below 0, 1 above, and `values` where input is 0."""
    return _heaviside_op.call(input, values)


def _most_precise(*operands: Any) -> dtypes.DType:
    whole = any(x.dtype.is_complex if isinstance(x, Tensor) else isinstance(x, complex) for x in operands)
    return dtypes.complex128 if whole else dtypes.float64


def float_power(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
    """input ** exponent in float64, or complex128."""
    dtype = _most_precise(input, exponent)
    base, raised = (x.to(dtype) if isinstance(x, Tensor) else x * 1.0 for x in (input, exponent))
    result = power.call(base, raised)
    return result if out is None else write_out("float_power", result, out)


def float_power_(self: Tensor, exponent: Any) -> Tensor:
    """In-place version of `float_power`."""
    dtype = _most_precise(self, exponent)
    if self.dtype is not dtype:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {self.dtype} but the operation's result requires dtype "
            f"{TYPE_NAMES[dtype]}"
        )
    return written(float_power)(self, exponent)


@public
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """input * 2**other; with integers as exponents of input's dtype, and exact where 2**other alone would not be."""
    if isinstance(other, Tensor) and other.dtype is dtypes.bool_ and input.dtype is not dtypes.bool_:
        raise NotImplementedError("\"ldexp_cpu_exp\" not implemented for 'Bool'")
    exponents = isinstance(other, Tensor) and other.dtype.kind in ("int", "uint")
    if not exponents or not input.dtype.is_floating_point:
        return input * power.call(2.0, other)
    scaled, rest = input.double(), other.long()
    for _ in range(3 if input.dtype is dtypes.float64 else 1):  # a double has room for 2**1000, and for no 2**2000
        step = rest.clamp(-1000, 1000)
        scaled, rest = scaled * power.call(2.0, step.double()), rest - step
    return scaled.to(input.dtype)


@public
def rsub(input: Tensor, other: Any, alpha: Any = 1) -> Tensor:
    """other - alpha * input."""
    return other - (input if type(alpha) is int and alpha == 1 else input * alpha)


@public
def is_complex(input: Tensor) -> bool:
    """Whether elements are complex numbers."""
    return input.dtype.is_complex


@public
def isreal(input: Tensor) -> Tensor:
    """Whether elements have no imaginary part."""
    return input.imag == 0 if input.dtype.is_complex else ones_like(input, dtype=dtypes.bool_)


# -- bits -------------------------------------------------------------------------------------------------------------


@returned("frexp")
class MantissaExponent(NamedTuple):
    """The result of `frexp`."""

    mantissa: Tensor
    exponent: Tensor


class _Format(NamedTuple):
    """How a floating dtype's numbers are bits: integers of the same width, and how many of them are the fraction."""

    integer: DType
    fraction: int
    bias: int


_FORMATS = {
    dtypes.float64: _Format(dtypes.int64, 52, 1022),
    dtypes.float32: _Format(dtypes.int32, 23, 126),
    dtypes.float16: _Format(dtypes.int16, 10, 14),
    dtypes.bfloat16: _Format(dtypes.int16, 7, 126),
}


def _bits(x: Tensor, dtype: DType) -> Tensor:
    return emit(bits.bitcast, x, dtype=dtype)


def _shifted(x: Tensor, count: int) -> Tensor:
    return emit(bits.shift_right, x, as_dtype(count, x.dtype))


def _frexp(input: Tensor) -> tuple[Tensor, Tensor]:
    """Mantissa in [0.5, 1) and exponent of 2."""
    x = input if input.dtype in (dtypes.float32, dtypes.float64) else as_dtype(input, dtypes.float32)
    integer, fraction, bias = _FORMATS[x.dtype]
    small = x.abs() < 2.0**-bias
    pattern = _bits((x * 2.0 ** (fraction + 2)).where(small, x), integer)
    exponent = as_dtype(_shifted(pattern, fraction), dtypes.int32).bitwise_and(2 * bias + 3) - bias
    exponent = (exponent - (fraction + 2)).where(small, exponent)
    mantissa = _bits(pattern.bitwise_and(~((2 * bias + 3) << fraction)).bitwise_or(bias << fraction), x.dtype)
    plain = x.isfinite().logical_and(x != 0.0)
    return as_dtype(mantissa.where(plain, x), input.dtype), exponent.where(plain, 0)


_frexp_op = ElementwiseOp("frexp", _frexp, (lambda g, out, input: g[0] / power.call(2.0, out[1].to(g[0].dtype)),))


@public
def frexp(input: Tensor) -> MantissaExponent:
    """Mantissa and exponent: input = mantissa * 2**exponent, 0.5 <= |mantissa| < 1."""
    if not input.dtype.is_floating_point:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    return MantissaExponent(*_frexp_op.call(input))


def _nextafter(input: Tensor, other: Tensor) -> Tensor:
    """The next number after input towards other."""
    dtype = result_type(input, other)
    if not dtype.is_floating_point:
        raise NotImplementedError(f'"nextafter_cpu" not implemented for {dtype}')
    x, y = as_dtype(input, dtype), as_dtype(other, dtype)
    integer = _FORMATS[dtype].integer
    pattern = _bits(x, integer)
    outwards = (x < y) == (x > 0.0)
    moved = _bits((pattern + 1).where(outwards, pattern - 1), dtype)
    smallest = _bits((as_dtype(0, integer) + 1).where(y > 0.0, as_dtype(1 - 2 ** (integer.bits - 1), integer)), dtype)
    moved = smallest.where(x == 0.0, moved)
    return y.where(x == y, moved).where(x.isnan().logical_or(y.isnan()).logical_not(), x + y)


nextafter = ElementwiseOp(
    "nextafter", _nextafter, (lambda g, out, input, other: g.where(input != other, 0.0), _no_slope)
)
nextafter.promotion = "arithmetic"


# -- integers ---------------------------------------------------------------------------------------------------------


def _integer_op(name: str, primitive: Primitive, doc: str) -> Op:
    def body(input: Tensor, other: Tensor) -> Tensor:
        x, y = promoted(name, "arithmetic", (input, other))
        if x.dtype.kind not in ("int", "uint"):
            raise NotImplementedError(f'"{name}_cpu" not implemented for {x.dtype}')
        return emit(primitive, x, y)

    body.__doc__ = doc
    body.__annotations__ |= dict.fromkeys(NUMBERS_FOR.get(name, ()), "Any")
    op = ElementwiseOp(name, body, numbers=("input", "other"), differentiable=False)
    op.promotion = "arithmetic"
    return op


gcd = _integer_op("gcd", bits.gcd, "Greatest common divisors.")
lcm = _integer_op("lcm", bits.lcm, "Least common multiples.")
bitwise_left_shift = _integer_op("bitwise_left_shift", bits.shift_left, "input * 2**other.")
bitwise_right_shift = _integer_op("bitwise_right_shift", bits.shift_right, "input / 2**other, rounded down.")


def reflected_left_shift(self: Tensor, other: Any) -> Tensor:
    """other << self."""
    return bitwise_left_shift.call(other, self)


def reflected_right_shift(self: Tensor, other: Any) -> Tensor:
    """other >> self."""
    return bitwise_right_shift.call(other, self)


logaddexp, logaddexp2, hypot = (ELEMENTARY[n] for n in ("logaddexp", "logaddexp2", "hypot"))
xlog1py, entr = ELEMENTARY["xlog1py"], ELEMENTARY["entr"]
hypot_, gcd_, lcm_, nextafter_, bitwise_left_shift_, bitwise_right_shift_ = (
    inplace(op).method() for op in (hypot, gcd, lcm, nextafter, bitwise_left_shift, bitwise_right_shift)
)
heaviside_, ldexp_ = map(written, (heaviside, ldexp))

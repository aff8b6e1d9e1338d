"""Elementwise functions that are used now and then; NumPy computes those that need bits or loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from eagerjit.calling import public, written
from eagerjit.ops.elementary import ELEMENTARY, define
from eagerjit.ops.host import HostOp, broadcast
from eagerjit.ops.inplace import inplace
from eagerjit.ops.pointwise import POINTWISE, is_operand, power
from eagerjit.promotion import result_type
from eagerjit.runtime import dtypes
from eagerjit.tensor import Tensor, new_tensor


@define
def _logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """log(exp(input) + exp(other)) without overflow."""
    top = POINTWISE["maximum"].call(input, other)
    return top.where(top.isinf(), top + (-(input - other).abs()).exp().log1p())


@define
def _logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    """log2(2**input + 2**other) without overflow."""
    top = POINTWISE["maximum"].call(input, other)
    return top.where(top.isinf(), top + (-(input - other).abs()).exp2().log1p() / math.log(2))


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
def _xlog1py(input: Tensor, other: Tensor) -> Tensor:
    """input * log1p(other), 0 where input is 0."""
    zero = (input == 0.0).logical_and(other.isnan().logical_not())
    return (input * other.where(zero.logical_not(), 0.0).log1p()).where(zero.logical_not(), 0.0)


@define
def _entr(input: Tensor) -> Tensor:
    """-input * log(input): 0 at 0, -inf below."""
    x = input.where(input > 0.0, 1.0)
    return (-x * x.log()).where(input > 0.0, (input * 0.0).where(input == 0.0, input.where(input.isnan(), -math.inf)))


@public
def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """0 below 0, 1 above, and `values` where input is 0."""
    if input.dtype is not values.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    return values.where(input == 0, (input > 0).to(input.dtype))


def float_power(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
    """input ** exponent in float64."""
    base, raised = (x.double() if isinstance(x, Tensor) else float(x) for x in (input, exponent))
    result = power.call(base, raised)
    return result if out is None else out.copy_(result)


def float_power_(self: Tensor, exponent: Any) -> Tensor:
    """In-place version of `float_power`."""
    if self.dtype is not dtypes.float64:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {self.dtype} but the operation's result requires dtype Double"
        )
    return written(float_power)(self, exponent)


@public
def ldexp(input: Tensor, other: Any) -> Tensor:
    """input * 2**other."""
    return input * power.call(2.0, other)


def rsub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """other - alpha * input."""
    return other - (input if type(alpha) is int and alpha == 1 else input * alpha)


@public
def is_complex(input: Tensor) -> bool:
    """Whether elements are complex numbers."""
    return input.dtype.is_complex


@public
def isreal(input: Tensor) -> Tensor:
    """Whether elements have no imaginary part."""
    return input.imag == 0 if input.dtype.is_complex else input.new_ones(input.shape, dtype=dtypes.bool_)


# -- computed by NumPy ------------------------------------------------------------------------------------------------


class MantissaExponent(NamedTuple):
    """The result of `frexp`."""

    mantissa: Tensor
    exponent: Tensor


def _frexp_arrays(input: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mantissa in [0.5, 1) and exponent of 2."""
    wide = input.astype(np.float32) if input.dtype == dtypes.bfloat16.numpy else input
    mantissa, exponent = np.frexp(wide)
    return np.asarray(mantissa, input.dtype), np.asarray(exponent, np.int32)


_frexp = HostOp(
    "frexp",
    _frexp_arrays,
    (lambda g, out, input: g[0] / power.call(2.0, out[1].to(g[0].dtype)),),
    types=lambda input: [(input.dtype, input.shape), (dtypes.int32, input.shape)],
    on_host="works on bits of numbers",
)


@public
def frexp(input: Tensor) -> MantissaExponent:
    """Mantissa and exponent: input = mantissa * 2**exponent, 0.5 <= |mantissa| < 1."""
    if not input.dtype.is_floating_point:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    return MantissaExponent(*_frexp.call(input))


def _tensors(operands: tuple[Any, ...], dtype: Any) -> list[Tensor]:
    """Operands, numbers among them, as tensors of one dtype."""
    return [x.to(dtype) if isinstance(x, Tensor) else new_tensor(np.asarray(x, dtype.numpy)) for x in operands]


def _integer_op(name: str, function: Callable[..., Any], doc: str) -> Callable[..., Any]:
    def compute(input: np.ndarray, other: np.ndarray) -> np.ndarray:
        return np.asarray(function(input, other), input.dtype)

    op = HostOp(name, compute, differentiable=False, doc=doc, types=broadcast, on_host="works on bits of numbers")

    def call(input: Any, other: Any) -> Tensor:
        for x in (input, other):
            if not is_operand(x):
                raise TypeError(f"{name}(): argument must be Tensor or Number, not {type(x).__name__}")
        dtype = result_type(input, other)
        if dtype.kind not in ("int", "uint"):
            raise NotImplementedError(f'"{name}_cpu" not implemented for {dtype}')
        return op.call(*_tensors((input, other), dtype))

    call.__name__, call.__doc__ = name, doc
    return public(call)


def _shift(function: Callable[..., Any]) -> Callable[..., Any]:
    """A shift that pushes everything out where the count is the width or more, or negative."""

    def shift(input: np.ndarray, other: np.ndarray) -> np.ndarray:
        bits = input.dtype.itemsize * 8
        valid = (other >= 0) & (other < bits)
        out = np.where((input < 0) & (function is np.right_shift), -1, 0).astype(input.dtype)
        return np.where(valid, function(input, np.where(valid, other, 0)), out)

    return shift


gcd = _integer_op("gcd", np.gcd, "Greatest common divisors.")
lcm = _integer_op("lcm", np.lcm, "Least common multiples.")
bitwise_left_shift = _integer_op("bitwise_left_shift", _shift(np.left_shift), "input * 2**other.")
bitwise_right_shift = _integer_op("bitwise_right_shift", _shift(np.right_shift), "input / 2**other, rounded down.")


def reflected_left_shift(self: Tensor, other: Any) -> Tensor:
    """other << self."""
    return bitwise_left_shift(other, self)


def reflected_right_shift(self: Tensor, other: Any) -> Tensor:
    """other >> self."""
    return bitwise_right_shift(other, self)


def _next_array(input: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The next number after input towards other."""
    if input.dtype == dtypes.bfloat16.numpy:
        import ml_dtypes

        return np.nextafter(input, other.astype(ml_dtypes.bfloat16))
    return np.nextafter(input, other)


_nextafter = HostOp("nextafter", _next_array, differentiable=False, types=broadcast, on_host="works on bits of numbers")


@public
def nextafter(input: Tensor, other: Tensor) -> Tensor:
    """The next number after input towards other."""
    dtype = result_type(input, other)
    if not dtype.is_floating_point:
        raise NotImplementedError(f'"nextafter_cpu" not implemented for {dtype}')
    return _nextafter.call(*_tensors((input, other), dtype))


logaddexp, logaddexp2, hypot = (ELEMENTARY[n] for n in ("logaddexp", "logaddexp2", "hypot"))
xlog1py, entr = ELEMENTARY["xlog1py"], ELEMENTARY["entr"]
hypot_ = inplace(hypot).method()
heaviside_, ldexp_, gcd_, lcm_, nextafter_ = map(written, (heaviside, ldexp, gcd, lcm, nextafter))
bitwise_left_shift_, bitwise_right_shift_ = written(bitwise_left_shift), written(bitwise_right_shift)

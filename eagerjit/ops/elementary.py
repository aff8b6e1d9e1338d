"""Functions of numbers written in others; each is one kernel whose gradient is derived."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from eagerjit.autograd.formal import RELU_LIKE
from eagerjit.calling.dispatch import Op, emit
from eagerjit.calling.elementwise import ElementwiseOp
from eagerjit.calling.public import public
from eagerjit.compiler.ops import elementwise
from eagerjit.ops.pointwise import as_dtype, promoted, tensor_beside, wide
from eagerjit.ops.wording import OF_FLOATS, OF_REAL_NUMBERS, also
from eagerjit.runtime import dtypes
from eagerjit.runtime.parameters import parameters
from eagerjit.tensors.promotion import TYPE_NAMES, result_type
from eagerjit.tensors.tensor import Tensor

ELEMENTARY: dict[str, Op] = {}
"""Ops by public name."""


_FLOATS_ONLY = ("frac", "hardshrink", "hypot", "logaddexp", "logaddexp2", "softshrink")

_FAR = 1e9
"""Where 1 is lost beside a square, and what is left of inverse hyperbolic functions is log(2 * input)."""


def define(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """An op of real numbers: operands in one floating dtype."""
    name = function.__name__.strip("_")
    taken = parameters(function)
    count = len(taken.required)

    def body(*arguments: Any) -> Tensor:
        if name in _FLOATS_ONLY and not (dtype := result_type(*arguments[:count])).is_floating_point:
            raise NotImplementedError(f'"{name}_cpu" not implemented for {dtype}')
        operands = promoted(name, "float", arguments[:count])
        half = operands[0].dtype in (dtypes.float16, dtypes.bfloat16)
        wide = [as_dtype(x, dtypes.float32) if half else x for x in operands]
        return as_dtype(function(*wide, *arguments[count:]), operands[0].dtype)

    body.takes = taken  # type: ignore[attr-defined]
    body.__doc__ = also(function.__doc__, OF_FLOATS if name in _FLOATS_ONLY else OF_REAL_NUMBERS)
    body.__annotations__ = function.__annotations__
    ELEMENTARY[name] = op = ElementwiseOp(name, body, numbers=taken.names)
    op.promotion = "float"
    op.steady = frozenset(range(count, len(taken.names)))
    return function


def horner(x: Tensor, coefficients: Any) -> Tensor:
    """The polynomial with these coefficients, highest first."""
    out: Any = coefficients[0]
    for c in coefficients[1:]:
        out = out * x + c
    return out


@define
def _asinh(input: Tensor) -> Tensor:
    """Inverse hyperbolic sine."""
    size = input.abs()
    near = (size + size * size / (1.0 + (size * size + 1.0).sqrt())).log1p()
    return near.where(size < _FAR, size.log() + math.log(2)).copysign(input)


@define
def _acosh(input: Tensor) -> Tensor:
    """Inverse hyperbolic cosine."""
    above = input - 1.0
    near = (above + above.sqrt() * (input + 1.0).sqrt()).log1p()
    return near.where(input < _FAR, input.log() + math.log(2))


ELEMENTARY["asinh"].rules = (lambda g, out, input: g * (input * input + 1.0).rsqrt(),)
ELEMENTARY["acosh"].rules = (lambda g, out, input: g * (input * input - 1.0).rsqrt(),)


@define
def _atanh(input: Tensor) -> Tensor:
    """Inverse hyperbolic tangent."""
    size = input.abs()
    return (0.5 * (2.0 * size / (1.0 - size)).log1p()).copysign(input)


ELEMENTARY["atanh"].rules = (lambda g, out, input: g / (1.0 - input * input),)


@define
def _frac(input: Tensor) -> Tensor:
    """What trunc leaves."""
    return input - input.trunc()


@define
def _deg2rad(input: Tensor) -> Tensor:
    """Degrees as radians."""
    return input * (math.pi / 180)


@define
def _rad2deg(input: Tensor) -> Tensor:
    """Radians as degrees."""
    return input * (180 / math.pi)


@define
def _logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(input / (1 - input)), input kept eps away from 0 and 1."""
    if input.dtype.is_complex:
        raise NotImplementedError(f'"logit_cpu" not implemented for {input.dtype}')
    if eps is not None:
        input = emit(elementwise.maximum, input, as_dtype(eps, input.dtype))
        input = emit(elementwise.minimum, input, as_dtype(1.0 - eps, input.dtype))
    return (input / (1.0 - input)).log()


def _logit_rule(g: Any, out: Any, input: Any, eps: Any) -> Any:
    """Infinite at 0 and 1; where the input is kept away from these it is 0."""
    low, high, beyond = (0.0, 1.0, math.nan) if eps is None else (eps, 1.0 - eps, 0.0)
    return (g / (input * (1.0 - input))).where((input < low).logical_or(input > high).logical_not(), beyond)


ELEMENTARY["logit"].rules = (_logit_rule, None)


@define
def _sinc(input: Tensor) -> Tensor:
    """sin(pi * input) / (pi * input), 1 at 0."""
    x = input * math.pi
    safe = x.where(x != 0.0, 1.0)
    return (safe.sin() / safe).where(x != 0.0, 1.0)


_SINC_SLOPE = [(-1.0) ** k * 2 * k / math.factorial(2 * k + 1) for k in range(10, 0, -1)]
"""Of the power series of sinc's slope, highest power first."""


def _sinc_rule(g: Any, out: Any, input: Any) -> Any:
    """By a power series near 0, where the formula's terms are equal up to their last digits."""
    x = input.to(wide(input.dtype)) * math.pi
    near = x.abs() < 1.0
    small, large = x.where(near, 0.0), x.where(near.logical_not(), 1.0)
    series = small * horner(small * small, _SINC_SLOPE)
    return g * (math.pi * series.where(near, (large * large.cos() - large.sin()) / (large * large)))


ELEMENTARY["sinc"].rules = (_sinc_rule,)


def reals(name: str, operands: tuple[Any, ...]) -> list[Tensor]:
    """Operands in one floating dtype. Raises NotImplementedError for complex numbers."""
    if (dtype := result_type(*operands)).is_complex:
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{TYPE_NAMES[dtype]}'")
    return promoted(name, "float", operands)


def _xlogy(input: Any, other: Any) -> Tensor:
    """input * log(other), 0 where input is 0; halves are rounded after each."""
    input, other = reals("xlogy", (input, other))
    pole = (input == 0.0).logical_and((other <= 0.0).logical_or(other.isinf()))
    return (input * other.where(pole.logical_not(), 1.0).log()).where(pole.logical_not(), 0.0) + 0.0  # never -0.0


def logarithmic_rules(name: str, shift: float) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Of input * log(other + shift): a gradient of zero gives zero at poles of the logarithm, too."""

    def of_input(g: Any, out: Any, input: Any, other: Any) -> Any:
        pole = (input == 0.0).logical_and(tensor_beside(other, input) <= -shift)
        return ELEMENTARY[name].call(g, other).where(pole.logical_not(), 0.0)

    def of_other(g: Any, out: Any, input: Any, other: Any) -> Any:
        base = other + shift
        pole = (tensor_beside(input, other) == 0.0).logical_and(base == 0.0)
        return g * input / base.where(pole.logical_not(), 1.0)

    return of_input, of_other


_xlogy_op = ElementwiseOp("xlogy", _xlogy, logarithmic_rules("xlogy", 0.0), ("input", "other"))
_xlogy_op.promotion = "float"
ELEMENTARY["xlogy"] = _xlogy_op


def _fmax(input: Tensor, other: Tensor) -> Tensor:
    """The larger one; a number where the other is NaN."""
    a, b = promoted("fmax", "arithmetic", (input, other))
    return a.where((a >= b).logical_or(b.isnan()), b) if a.dtype.is_differentiable else a.maximum(b)


def _fmin(input: Tensor, other: Tensor) -> Tensor:
    """The smaller one; a number where the other is NaN."""
    a, b = promoted("fmin", "arithmetic", (input, other))
    return a.where((a <= b).logical_or(b.isnan()), b) if a.dtype.is_differentiable else a.minimum(b)


for _name, _extreme in (("fmax", _fmax), ("fmin", _fmin)):
    ELEMENTARY[_name] = _op = ElementwiseOp(_name, _extreme, numbers=("input", "other"))
    _op.promotion = "arithmetic"


@define
def _copysign(input: Tensor, other: Any) -> Tensor:
    """|input| with other's sign."""
    return (-input.abs()).where(other.signbit(), input.abs())


@define
def _hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """input where its size exceeds lambd, else 0."""
    return input.where((input.abs() <= lambd).logical_not(), 0.0)


@define
def _softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """input moved towards 0 by lambd."""
    if lambd < 0:
        raise RuntimeError(f"softshrink: lambda must not be negative, but found {lambd}")
    return (input - lambd).where(input > lambd, (input + lambd).where(input < -lambd, input * 0.0))


def _tanhshrink(input: Tensor) -> Tensor:
    """input - tanh(input), rounded after each."""
    (x,) = promoted("tanhshrink", "float", (input,))
    return x - x.tanh()


ELEMENTARY["tanhshrink"] = ElementwiseOp("tanhshrink", _tanhshrink, numbers=("input",))


@define
def _prelu(input: Tensor, weight: Tensor) -> Tensor:
    """input where positive, else weight * input; weight broadcasts."""
    return weight.where((input > 0.0).logical_not(), 1.0) * input


def _threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    """value up to the threshold, else input."""
    if input.dtype is dtypes.bool_:
        raise NotImplementedError("\"threshold\" not implemented for 'Bool'")
    above = (as_dtype(input, wide(input.dtype)) <= threshold).logical_not()
    return input.where(above, value if input.dtype.is_differentiable else int(value))


ELEMENTARY["threshold"] = ElementwiseOp("threshold", _threshold, numbers=("threshold", "value"))
ELEMENTARY["threshold"].steady = ELEMENTARY["threshold"].numbers
for _name in ("hardshrink", "softshrink", "prelu", "threshold"):
    ELEMENTARY[_name].formal = RELU_LIKE
for _name in ("frac", "deg2rad", "rad2deg"):
    ELEMENTARY[_name].saved_by = ()


def _real(name: str, input: Tensor) -> None:
    if input.dtype.is_complex:
        raise RuntimeError(f"{name} does not support complex inputs.")


@public
def isposinf(input: Tensor) -> Tensor:
    """Whether elements are +infinity. Raises RuntimeError for complex numbers."""
    _real("isposinf", input)
    return input.isinf().logical_and(input > 0)


@public
def isneginf(input: Tensor) -> Tensor:
    """Whether elements are -infinity. Raises RuntimeError for complex numbers."""
    _real("isneginf", input)
    return input.isinf().logical_and(input < 0)


def ravel(input: Tensor) -> Tensor:
    """All elements as a vector, whose elements lie side by side."""
    return input.contiguous().reshape(-1)


def fliplr(input: Tensor) -> Tensor:
    """Reversed along the second dimension."""
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return input.flip(1)


def flipud(input: Tensor) -> Tensor:
    """Reversed along the first dimension."""
    if input.ndim == 0:
        raise RuntimeError("Input must be >= 1-d.")
    return input.flip(0)


FUNCTIONS = {
    f.__name__: f
    for f in (
        isposinf, isneginf, ravel, fliplr, flipud
    )
}  # fmt: skip
"""Functions over tensors, by name."""

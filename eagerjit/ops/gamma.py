"""The gamma function and its kin, modified Bessel functions: in float64, from their series."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from eagerjit.calling.dispatch import Op
from eagerjit.calling.elementwise import ElementwiseOp
from eagerjit.calling.kinds import is_integer
from eagerjit.calling.public import public, written
from eagerjit.ops.activation import only_floats
from eagerjit.ops.elementary import ELEMENTARY, horner
from eagerjit.ops.inplace import inplace
from eagerjit.ops.pointwise import as_dtype, promoted
from eagerjit.runtime import dtypes
from eagerjit.runtime.parameters import parameters
from eagerjit.tensors.tensor import Tensor

BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
"""B2, B4, ..., B16."""

STIRLING = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI, 1)][::-1]
"""log(gamma(x)) is (x - 0.5) * log(x) - x + log(2 pi) / 2 + 1/x times a polynomial of 1/x^2: this one."""

_NUMERATOR = (
    3.5034919693752703e-06, 0.0020060336974132543, 0.07607933039433513, 0.8996434294072653, 4.633919876422871,
    12.034214806432464, 16.83402977447469, 12.796616076979177, 4.9555050018838465, 0.7631532572329335,
)  # fmt: skip
_DENOMINATOR = (
    0.0004958614219298528, 0.030129458765842932, 0.521464682371881, 3.828211309519747, 14.136984972982521,
    28.615799419875593, 32.93016180938467, 21.371004070442456, 7.257314261322458, 1.0,
)  # fmt: skip
"""log(gamma(z)) / ((z - 1) * (z - 2)) as a quotient of polynomials of z - 0.5, highest powers first: fitted by least
squares at 120 Chebyshev nodes of [0.5, 3], where it is within 2.7e-18 of the function."""

TINY = 2.0**-960
"""Smaller arguments are not multiplied with pi, which might round them to few bits."""

SHIFT = 10
"""How far arguments are moved up before an asymptotic series is used."""


def _op(name: str, rules: tuple[Any, ...] | None, count: int = 1) -> Callable[[Callable[..., Tensor]], Op]:
    """An op of real numbers whose function computes in float64."""

    def made(function: Callable[..., Tensor]) -> Op:
        def body(*arguments: Any) -> Tensor:
            operands = promoted(name, "float", arguments[-count:])
            only_floats(name, operands[0])
            wide = [as_dtype(x, dtypes.float64) for x in operands]
            return as_dtype(function(*arguments[:-count], *wide), operands[0].dtype)

        body.takes = parameters(function)  # type: ignore[attr-defined]
        body.__doc__, body.__annotations__ = function.__doc__, function.__annotations__
        ELEMENTARY[name] = op = ElementwiseOp(name, body, rules)
        op.promotion = "float"
        return op

    return made


# -- gamma ------------------------------------------------------------------------------------------------------------


def _sine(x: Tensor) -> Tensor:
    """|sin(pi * x)| for any x, exactly 0 for integers: what is nearest is taken off first."""
    return ((x - x.round()) * math.pi).sin().abs()


def _cotangent(x: Tensor) -> Tensor:
    """cot(pi * x) for any x, exactly 0 between integers; at integers that from the right."""
    rest = x - x.round() + 0.0
    far = ((0.5 - rest.abs()) * math.pi).tan().copysign(rest)
    return (1.0 / (rest * math.pi).tan()).where(rest.abs() <= 0.25, far)


@_op("lgamma", (lambda g, out, input: g * digamma.call(input),))
def lgamma(input: Tensor) -> Tensor:
    """log(|gamma(input)|)."""
    low = input < 0.5
    z = (1.0 - input).where(low, input)
    small = z < SHIFT
    product: Any = 1.0
    for i in range(SHIFT):
        product = product * (z + float(i))
    w = (z + float(SHIFT)).where(small, z)
    out = (w - 0.5) * w.log() - w + 0.5 * math.log(2 * math.pi) + horner(1.0 / (w * w), STIRLING) / w
    out = out - product.where(small, 1.0).log()
    near = z <= 3.0  # what is above loses digits beside the zeros at 1 and 2
    t = z.where(near, 0.5) - 0.5
    out = ((z - 1.0) * (z - 2.0) * (horner(t, _NUMERATOR) / horner(t, _DENOMINATOR)) + 0.0).where(near, out)
    out = out.where(w.isinf().logical_not(), math.inf)
    sine, tiny = _sine(input), input.abs() < TINY
    reflected = (input * 0.0).where(tiny, math.log(math.pi)) - input.abs().where(tiny, sine).log()
    out = (reflected - out).where(low, out)
    return out.where(sine.where(low, 1.0) != 0.0, math.inf).where(input.isinf().logical_not(), math.inf)


@_op("digamma", (lambda g, out, input: g * polygamma_op.call(1, input),))
def digamma(input: Tensor) -> Tensor:
    """The derivative of log(gamma(input))."""
    low = input < 0.5
    z = (1.0 - input).where(low, input)
    total: Any = 0.0
    for i in range(SHIFT):
        total = total + 1.0 / (z + float(i))
    w = z + float(SHIFT)
    series = [b / (2 * k) for k, b in enumerate(BERNOULLI, 1)]
    square = 1.0 / (w * w)
    out = w.log() - 0.5 / w - horner(square, series[::-1]) * square - total
    reflected = out - math.pi * _cotangent(input)
    reflected = reflected.where(input != input.round(), (-1.0 / input).where(input == 0.0, math.nan))
    return reflected.where(low, out)


def _hurwitz(s: Any, q: Tensor) -> Tensor:
    """Sum of (q + k)**-s over k >= 0, q > 0: the first terms, then Euler and Maclaurin's formula."""
    total: Any = 0.0
    for i in range(SHIFT):
        total = total + (q + float(i)) ** (-s)
    w = q + float(SHIFT)
    lead = w ** (1.0 - s)
    power = lead / w
    total = total + lead / (s - 1.0) + 0.5 * power
    factor: Any = s * power / w
    for k, b in enumerate(BERNOULLI, 1):
        total = total + factor * (b / math.factorial(2 * k))
        factor = factor * (s + (2.0 * k - 1.0)) * (s + 2.0 * k) / (w * w)
    return total


@_op("polygamma", (None, lambda g, out, n, input: g * polygamma_op.call(n + 1, input)))
def polygamma_op(n: int, input: Tensor) -> Tensor:
    """The n-th derivative of digamma, n >= 1."""
    low = input < 0.5
    out = _hurwitz(float(n + 1), (1.0 - input).where(low, input)) * ((-1.0) ** (n + 1) * math.factorial(n))
    if n == 1:
        sine = _sine(input)
        return (math.pi**2 / (sine * sine) - out).where(low, out)
    reflected = out * (-1.0) ** n - _cotangents(n, input) * math.pi
    return reflected.where(low, out).where(input != math.inf, math.nan)  # as PyTorch has it


def _cotangents(n: int, x: Tensor) -> Any:
    """The n-th derivative of cot(pi * x): a polynomial p in c = cot(pi * x), of which the next is -(1 + c^2) p'."""
    polynomial = [1.0, 0.0]  # highest power first
    for _ in range(n):
        slope = [c * (len(polynomial) - 1 - i) for i, c in enumerate(polynomial[:-1])]
        polynomial = [-a - b for a, b in zip([*slope, 0.0, 0.0], [0.0, 0.0, *slope], strict=True)]
    return horner(_cotangent(x), polynomial) * math.pi**n


def polygamma(n: Any, input: Any, *, out: Tensor | None = None) -> Tensor:
    """The n-th derivative of digamma; as a method polygamma(n). Raises TypeError where n is no integer."""
    if isinstance(n, Tensor) and is_integer(input):
        n, input = input, n
    if not is_integer(n):
        raise TypeError(f"polygamma(): argument 'n' (position 1) must be int, not {type(n).__name__}")
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    options = {} if out is None else {"out": out}
    return digamma.call(input, **options) if n == 0 else polygamma_op.call(int(n), input, **options)


@_op("zeta", (None, lambda g, out, input, other: g * -input * zeta.call(input + 1.0, other)), 2)
def zeta(input: Any, other: Any) -> Tensor:
    """Hurwitz's zeta function: the sum of (k + other)**-input over k >= 0; NaN below 1, infinite at its poles."""
    negative, whole = other <= 0.0, input == input.floor()
    finite = (input > 1.0).logical_and(input < math.inf)
    s, first = input.where(finite, 2.0), other - other.floor()
    out = _hurwitz(s, first.where(negative, other))  # the terms of positive numbers
    less = _hurwitz(s, 1.0 - first) - _hurwitz(s, (1.0 - other).where(negative, 2.0))
    out = (out + less * (1.0 - 2.0 * s.remainder(2.0))).where(negative, out)
    at_infinity = (other**-input).where(other <= 1.0, math.nan).where(negative.logical_not(), math.inf)
    out = out.where(input != math.inf, at_infinity)
    out = out.where(whole.logical_or((other > 0.0).logical_and(input == input)), math.nan)
    out = out.where(other != math.inf, math.nan)  # as PyTorch has it
    out = out.where(negative.logical_and(other == other.floor()).logical_not(), math.inf)
    return out.where((input < 1.0).logical_not(), math.nan).where(input != 1.0, math.inf)


@public
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """log of the multivariate gamma function of dimension p."""
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    out: Any = p * (p - 1) / 4 * math.log(math.pi)
    for i in range(p):
        out = out + lgamma.call(input - i / 2)
    return out.contiguous()  # type: ignore[no-any-return]


# -- Bessel functions -------------------------------------------------------------------------------------------------


def bessel_i(order: int, x: Tensor) -> Tensor:
    """exp(-x) * I_order(x), x >= 0: the power series below 15, the asymptotic one above."""
    small = x < 15.0
    t = x.where(small, 0.0) * 0.5
    square = t * t
    series: Any = 1.0
    for k in range(36, 0, -1):
        series = 1.0 + series * square / float(k * (k + order))
    series = series * (t if order else 1.0) * (-x).exp()
    z = x.where(small.logical_not(), 15.0)
    factor, term = 1.0 / (8.0 * z), 1.0
    coefficients = []
    for k in range(1, 21):
        term = term * -(4.0 * order**2 - (2 * k - 1) ** 2) / k
        coefficients.append(term)
    asymptotic = horner(factor, [*coefficients[::-1], 1.0]) / (z.sqrt() * math.sqrt(2.0 * math.pi))
    return series.where(small, asymptotic)


@_op("i0", (lambda g, out, input: g * i1.call(input),))
def i0(input: Tensor) -> Tensor:
    """Modified Bessel function of the first kind, order 0."""
    return bessel_i(0, input.abs()) * input.abs().exp()


@_op("i0e", (lambda g, out, input: g * (i1e.call(input) - input.sign() * out),))
def i0e(input: Tensor) -> Tensor:
    """exp(-|input|) * i0(input)."""
    return bessel_i(0, input.abs())


def _nonzero(input: Any) -> Any:
    """1 in the place of 0: what divides by it has derivatives, which are not asked for there."""
    return input.where(input != 0.0, 1.0)


@_op("i1", (lambda g, out, input: g * (i0.call(input) - (out / _nonzero(input)).where(input != 0.0, 0.5)),))
def i1(input: Tensor) -> Tensor:
    """Modified Bessel function of the first kind, order 1."""
    return input.sign() * bessel_i(1, input.abs()) * input.abs().exp()


def _i1e_rule(g: Any, out: Any, input: Any) -> Any:
    slope = i0e.call(input) - out * (input.sign() + (1.0 / _nonzero(input)).where(input != 0.0, 0.0))
    return g * slope.where(input != 0.0, 0.5)


@_op("i1e", (_i1e_rule,))
def i1e(input: Tensor) -> Tensor:
    """exp(-|input|) * i1(input)."""
    return input.sign() * bessel_i(1, input.abs())


lgamma_, digamma_, i0_ = (inplace(op).method() for op in (lgamma, digamma, i0))
mvlgamma_ = written(mvlgamma)


def _of_degree(self: Tensor, n: int) -> Tensor:
    return polygamma(n, self)


polygamma_ = written(_of_degree, "polygamma_")

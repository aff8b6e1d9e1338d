"""Complex functions in terms of real ones: each takes and gives pairs of a real and an imaginary part.

A part is a `Real`, whose operators record real operations: kernels see nothing else. Where C's functions of complex
numbers say what becomes of infinities, zeros and branch cuts, these follow; what would overflow on the way is scaled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from eagerjit.compiler.ir import Node
from eagerjit.compiler.ops import elementwise
from eagerjit.compiler.ops.declare import Primitive
from eagerjit.runtime import dtypes

Emit = Callable[..., Node]


class Real:
    """A real value in the making."""

    __slots__ = ("emit", "node")

    def __init__(self, emit: Emit, node: Node):
        self.emit, self.node = emit, node

    def of(self, op: Primitive, *others: Real | float, **attributes: Any) -> Real:
        """An operation of this value and others, numbers among them."""
        return Real(self.emit, self.emit(op, self.node, *(self.like(x).node for x in others), **attributes))

    def like(self, x: Real | float) -> Real:
        """A number in this value's dtype."""
        if isinstance(x, Real):
            return x
        return Real(self.emit, self.emit(elementwise.constant, value=x, dtype=self.node.dtype))

    def __add__(self, other: Real | float) -> Real:
        return self.of(elementwise.add, other)

    def __sub__(self, other: Real | float) -> Real:
        return self.of(elementwise.sub, other)

    def __mul__(self, other: Real | float) -> Real:
        return self.of(elementwise.mul, other)

    def __truediv__(self, other: Real | float) -> Real:
        return self.of(elementwise.div, other)

    def __rtruediv__(self, other: float) -> Real:
        return self.like(other) / self

    def __neg__(self) -> Real:
        return self.of(elementwise.neg)

    def __abs__(self) -> Real:
        return self.of(elementwise.abs_)

    def __lt__(self, other: Real | float) -> Real:
        return self.of(elementwise.lt, other)

    def __gt__(self, other: Real | float) -> Real:
        return self.of(elementwise.gt, other)

    def __and__(self, other: Real) -> Real:
        return self.of(elementwise.logical_and, other)

    def __or__(self, other: Real) -> Real:
        return self.of(elementwise.logical_or, other)

    def equals(self, other: Real | float) -> Real:
        """Whether both are the same number."""
        return self.of(elementwise.eq, other)

    def differs(self, other: Real | float) -> Real:
        """Whether both are not the same number."""
        return self.of(elementwise.ne, other)

    def is_infinite(self) -> Real:
        """Whether this is one of the infinities."""
        return self.of(elementwise.isinf)

    def is_finite(self) -> Real:
        """Whether this is a number and no infinity."""
        return self.of(elementwise.isfinite)

    def choose(self, x: Real, y: Real | float) -> Real:
        """x where this condition holds, else y."""
        return self.of(elementwise.where, x, x.like(y))

    def signed(self, sign: Real) -> Real:
        """This absolute value with another's sign."""
        return sign.of(elementwise.signbit).choose(-self, self)

    def __getattr__(self, name: str) -> Callable[..., Real]:
        """A function by its primitive's name."""
        op = getattr(elementwise, name)
        return lambda *others: self.of(op, *others)

    @property
    def is_single(self) -> bool:
        """Whether this has 24 significant bits rather than 53."""
        return self.node.dtype is dtypes.float32


Pair = tuple[Real, Real]


def add(x: Pair, y: Pair) -> Pair:
    return x[0] + y[0], x[1] + y[1]


def sub(x: Pair, y: Pair) -> Pair:
    return x[0] - y[0], x[1] - y[1]


def mul(x: Pair, y: Pair) -> Pair:
    (a, b), (c, d) = x, y
    return a * c - b * d, a * d + b * c


def div(x: Pair, y: Pair) -> Pair:
    """By Smith's method: nothing overflows unless the quotient does."""
    (a, b), (c, d) = x, y
    steep = abs(c) < abs(d)
    large, small = steep.choose(d, c), steep.choose(c, d)
    ratio = small / large
    scale = 1.0 / (large + small * ratio)
    re = (steep.choose(a * ratio, a) + steep.choose(b, b * ratio)) * scale
    im = (steep.choose(b * ratio, b) - steep.choose(a, a * ratio)) * scale
    zero = c.equals(0.0) & d.equals(0.0)
    return zero.choose(a / abs(c), re), zero.choose(b / abs(c), im)


def neg(x: Pair) -> Pair:
    return -x[0], -x[1]


def conj(x: Pair) -> Pair:
    return x[0], -x[1]


def reciprocal(x: Pair) -> Pair:
    return div(real(x[0].like(1.0)), x)


def real(x: Real) -> Pair:
    return x, x.like(0.0)


def _ordered(x: Pair) -> tuple[Real, Real, Real]:
    """The larger and the smaller absolute value of the parts, and their ratio: 0 for zeros."""
    a, b = abs(x[0]), abs(x[1])
    large, small = a.maximum(b), a.minimum(b)
    return large, small, large.equals(0.0).choose(large, small / large)


def _is_infinite(x: Pair) -> Real:
    return x[0].is_infinite() | x[1].is_infinite()


def magnitude(x: Pair) -> Real:
    """The absolute value; an infinite part makes it infinite, whatever the other is."""
    large, _, ratio = _ordered(x)
    return _is_infinite(x).choose(large.like(math.inf), large * (ratio * ratio + 1.0).sqrt())


def _log_magnitude(x: Pair) -> Real:
    large, small, ratio = _ordered(x)
    far = large.log() + (ratio * ratio).log1p() * 0.5
    near = ((large - 1.0) * (large + 1.0) + small * small).log1p() * 0.5
    found = ((large > 0.5) & (large < 2.0)).choose(near, far)
    return _is_infinite(x).choose(large.like(math.inf), found)


def log(x: Pair) -> Pair:
    return _log_magnitude(x), x[1].atan2(x[0])


def _scaled_log(factor: float) -> Callable[[Pair], Pair]:
    def function(x: Pair) -> Pair:
        re, im = log(x)
        return re * factor, im * factor

    return function


def log1p(x: Pair) -> Pair:
    a, b = x
    near = (a * (a + 2.0) + b * b).log1p() * 0.5
    small = (abs(a) < 0.5) & (abs(b) < 0.5)
    return small.choose(near, _log_magnitude((a + 1.0, b))), b.atan2(a + 1.0)


def exp(x: Pair) -> Pair:
    """Two factors where e**a alone would overflow."""
    a, b = x
    most, shift = (80.0, 40.0) if a.is_single else (700.0, 350.0)
    high = a > most
    size, more = high.choose(a - shift, a).exp(), high.choose(a.like(math.exp(shift)), 1.0)
    re, im = size * b.cos() * more, b.equals(0.0).choose(b, size * b.sin() * more)
    lost = b.is_finite().logical_not()
    gone, endless = lost & a.equals(-math.inf), lost & a.equals(math.inf)
    return gone.choose(a.like(0.0), endless.choose(a, re)), gone.choose(a.like(0.0), im)


def expm1(x: Pair) -> Pair:
    a, b = x
    half = (b * 0.5).sin()
    return a.expm1() * b.cos() - half * half * 2.0, b.equals(0.0).choose(b, a.exp() * b.sin())


def sqrt(x: Pair) -> Pair:
    """The root with a real part that is not negative, with the sign of the imaginary part."""
    a, b = x
    large = abs(a).maximum(abs(b))
    most, least = (1e30, 1e-30) if a.is_single else (1e300, 1e-290)
    high, low = large > most, large < least
    down, up = (2.0**-2, 2.0**1), (2.0**60, 2.0**-30)
    before = high.choose(a.like(down[0]), low.choose(a.like(up[0]), 1.0))
    after = high.choose(a.like(down[1]), low.choose(a.like(up[1]), 1.0))
    scaled = a * before, b * before
    root = ((abs(scaled[0]) + magnitude(scaled)) * 0.5).sqrt()
    other = root.equals(0.0).choose(root, abs(scaled[1]) / (root * 2.0))
    right = a.of(elementwise.signbit).logical_not()
    re, im = right.choose(root, other) * after, (right.choose(other, root) * after).signed(b)
    endless = a.is_infinite()
    re = endless.choose(right.choose(a, abs(b - b)), re)
    im = endless.choose(right.choose(b - b, abs(a)).signed(b), im)
    above = b.is_infinite()
    return above.choose(abs(b), re), above.choose(b, im)


def rsqrt(x: Pair) -> Pair:
    return reciprocal(sqrt(x))


def _factor(zero: Real, size: Real, angle: Real) -> Real:
    """size * angle, with the sign of that but 0 where `zero`, a part that the angle belongs to, is 0."""
    return zero.equals(0.0).choose(size.of(elementwise.signbit).choose(-zero, zero), size * angle)


def _is_endless(x: Pair) -> Real:
    """Whether the real part is infinite, and the angle no number."""
    return x[0].is_infinite() & x[1].is_finite().logical_not()


def sinh(x: Pair) -> Pair:
    a, b = x
    re = (a.equals(0.0) | _is_endless(x)).choose(a, a.sinh() * b.cos())
    return re, _factor(b, a.cosh(), b.sin())


def cosh(x: Pair) -> Pair:
    a, b = x
    re = _is_endless(x).choose(abs(a), a.cosh() * b.cos())
    return re, a.equals(0.0).choose(_factor(a, b.sin(), a), _factor(b, a.sinh(), b.sin()))


def sin(x: Pair) -> Pair:
    return _turned(sinh)(x)


def cos(x: Pair) -> Pair:
    return cosh((-x[1], x[0]))


def tanh(x: Pair) -> Pair:
    """Kahan's way; far from the imaginary axis what is left of the imaginary part."""
    a, b = x
    most = 9.0 if a.is_single else 19.0
    far = abs(a) > most
    slope, size = b.tan(), far.choose(a.like(0.0), a).sinh()
    beta, rho = slope * slope + 1.0, (size * size + 1.0).sqrt()
    below = beta * size * size + 1.0
    one = (b.is_finite() | a.is_infinite()).choose(a.like(1.0).signed(a), math.nan)
    rest = b.sin() * b.cos() * (abs(a) * -2.0).exp() * 4.0
    im = b.equals(0.0).choose(b, far.choose(_is_endless(x).choose(b.like(0.0), rest), slope / below))
    return far.choose(one, a.equals(0.0).choose(a, beta * rho * size / below)), im


def sigmoid(x: Pair) -> Pair:
    re, im = exp(neg(x))
    return reciprocal((re + 1.0, im))


def _real_asinh(x: Real) -> Real:
    size = abs(x)
    most = 1e15
    square = size * size
    near = (size + square / ((square + 1.0).sqrt() + 1.0)).log1p()
    return (size > most).choose(size.log() + math.log(2.0), near).signed(x)


def _beside(x: Pair) -> tuple[Pair, Pair]:
    """The roots of 1 - x and 1 + x; 1 + 0i is a real number, so that the sign of a zero survives."""
    return sqrt((x[0].like(1.0) - x[0], -x[1])), sqrt((x[0] + 1.0, x[1]))


def asin(x: Pair) -> Pair:
    a, b = x
    minus, plus = _beside(x)
    infinite = _is_infinite(x)
    re = a.atan2(infinite.choose(abs(b), mul(minus, plus)[0]))
    im = infinite.choose(a.like(math.inf).signed(b), _real_asinh(mul(conj(minus), plus)[1]))
    return a.equals(0.0).choose(a, re), im


def acos(x: Pair) -> Pair:
    a, b = x
    minus, plus = _beside(x)
    infinite = _is_infinite(x)
    re = infinite.choose(abs(b).atan2(a), minus[0].atan2(plus[0]) * 2.0)
    im = infinite.choose(a.like(math.inf).signed(-b), _real_asinh(mul(conj(plus), minus)[1]))
    return (a.equals(0.0) & b.isnan()).choose(a.like(math.pi / 2), re), im


def acosh(x: Pair) -> Pair:
    re, im = acos(x)
    return abs(im), re.signed(x[1])


def atanh(x: Pair) -> Pair:
    a, b = x
    size, square = abs(a), b * b  # at the right pole log1p takes what is large, at the left one what is near -1
    left = a.like(1.0) - size
    re = ((size * 4.0 / (left * left + square)).log1p() * 0.25).signed(a)
    im = (b * 2.0).atan2(left * (size + 1.0) - square) * 0.5
    infinite = _is_infinite(x)
    right = b.isnan().choose(b, b.like(math.pi / 2).signed(b))
    re = infinite.choose(a.like(0.0).signed(a), a.equals(0.0).choose(a, re))
    return re, infinite.choose(right, im)


def _turned(function: Callable[[Pair], Pair]) -> Callable[[Pair], Pair]:
    """-i f(ix)."""

    def turned(x: Pair) -> Pair:
        re, im = function((-x[1], x[0]))
        return im, -re

    return turned


def pow_(x: Pair, y: Pair) -> Pair:
    """exp(y log x); powers of 0 are 0 for exponents with a positive real part, and 1 for 0."""
    re, im = exp(mul(y, log(x)))
    zero, nothing = x[0].equals(0.0) & x[1].equals(0.0), y[0].equals(0.0) & y[1].equals(0.0)
    empty = re.like(0.0)
    at_zero = (y[0] > 0.0).choose(empty, math.nan)
    re, im = zero.choose(at_zero, re), zero.choose(at_zero, im)
    return nothing.choose(re.like(1.0), re), nothing.choose(empty, im)


def where(condition: Real, x: Pair, y: Pair) -> Pair:
    return condition.choose(x[0], y[0]), condition.choose(x[1], y[1])


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": add, "sub": sub, "mul": mul, "div": div, "neg": neg, "reciprocal": reciprocal, "pow": pow_, "where": where,
    "exp": exp, "expm1": expm1, "log": log, "log1p": log1p, "log2": _scaled_log(1 / math.log(2)),
    "log10": _scaled_log(1 / math.log(10)), "sqrt": sqrt, "rsqrt": rsqrt, "sin": sin, "cos": cos, "tan": _turned(tanh),
    "sinh": sinh, "cosh": cosh, "tanh": tanh, "asin": asin, "acos": acos, "atan": _turned(atanh), "sigmoid": sigmoid,
    "conj": conj, "magnitude": magnitude, "complex_asinh": _turned(asin), "complex_acosh": acosh,
    "complex_atanh": atanh,
    "real": lambda x: x[0], "imag": lambda x: x[1], "complex": lambda re, im: (re, im),
    "eq": lambda x, y: x[0].equals(y[0]) & x[1].equals(y[1]),
    "ne": lambda x, y: x[0].differs(y[0]) | x[1].differs(y[1]),
    "isnan": lambda x: x[0].isnan() | x[1].isnan(),
    "isinf": _is_infinite,
    "isfinite": lambda x: x[0].is_finite() & x[1].is_finite(),
    "logical_not": lambda x: x[0].equals(0.0) & x[1].equals(0.0),
}  # fmt: skip
"""By the primitive's name: complex operands are pairs, as complex results are."""

"""Bessel functions and Airy's, without gradients: in float64, from integrals whose sums converge exponentially.

The trapezoidal rule on a periodic or rapidly vanishing analytic integrand (Trefethen and Weideman 2014) needs a few
nodes for all digits; far out asymptotic series do, as given in NIST's Digital Library of Mathematical Functions
(chapters 9 and 10).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from eagerjit.calling.dispatch import Op
from eagerjit.calling.elementwise import ElementwiseOp
from eagerjit.ops.gamma import bessel_i
from eagerjit.ops.pointwise import as_dtype, promoted
from eagerjit.runtime import dtypes
from eagerjit.tensors.tensor import Tensor

BESSEL: dict[str, Op] = {}
"""Ops by public name."""

_EULER = 0.5772156649015329
_FAR = 25.0
"""Where the asymptotic series of J and Y have all digits."""


def _declare(name: str, doc: str, function: Callable[[Any], Any]) -> None:
    """An op of float32 and float64, of integers too."""

    def body(input: Tensor) -> Tensor:
        (operand,) = promoted(name, "float", (input,))
        if operand.dtype not in (dtypes.float32, dtypes.float64):
            raise NotImplementedError(f'"{name}_cpu" not implemented for {operand.dtype}')
        return as_dtype(function(as_dtype(operand, dtypes.float64)), operand.dtype)

    body.__doc__ = doc
    BESSEL[name] = ElementwiseOp(f"special_{name}", body, differentiable=False)


def _sum(terms: Sequence[Any]) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _series(x: Any, coefficients: Sequence[float]) -> Any:
    """The polynomial with these coefficients, lowest first."""
    out: Any = coefficients[-1]
    for c in coefficients[-2::-1]:
        out = out * x + c
    return out


def _alternating(coefficients: Sequence[float]) -> tuple[list[float], list[float]]:
    """Those at even and at odd places, every second with the other sign."""
    signs = [(-1.0) ** (k // 2) * c for k, c in enumerate(coefficients)]
    return signs[::2], signs[1::2]


# -- of the first and second kind -------------------------------------------------------------------------------------


def _angles(count: int) -> list[float]:
    """The sines of the midpoints of equal parts of a quarter turn."""
    return [math.sin((j + 0.5) * math.pi / (2 * count)) for j in range(count)]


_FEW, _MANY = _angles(16), _angles(32)
_LOGARITHMIC = [
    sum((-1.0) ** k * math.cos((2 * j + 1) * k * math.pi / 64) / k for k in range(1, 32)) for j in range(32)
]
"""At the nodes of _MANY, the sum of (-1)^k cos(2 k angle) / k: of Neumann's series for Y0."""


def _far(order: int, x: Any) -> tuple[Any, Any]:
    """J and Y of x >= 25."""
    a = [1.0]
    for k in range(1, 22):
        a.append(a[-1] * (4 * order**2 - (2 * k - 1) ** 2) / (8.0 * k))
    even, odd = _alternating(a)
    inverse = 1.0 / x
    p, q = _series(inverse * inverse, even), _series(inverse * inverse, odd) * inverse
    cosine, sine = x.cos(), x.sin()
    c, s = (cosine + sine, sine - cosine) if order == 0 else (sine - cosine, -sine - cosine)
    scale = (inverse / math.pi).sqrt()
    return scale * (p * c - q * s), scale * (p * s + q * c)


def _first(order: int, x: Any) -> Any:
    """J of x >= 0."""
    near = x <= _FAR
    inside = x.where(near, 0.0)
    parts = [(inside * s).cos() if order == 0 else (inside * s).sin() * s for s in _FEW]
    return (_sum(parts) * (1.0 / len(_FEW))).where(near, _far(order, x.where(near.logical_not(), _FAR))[0])


def _j(order: int, x: Any) -> Any:
    """J, even or odd as its order is."""
    size = _first(order, x.abs())
    return size if order == 0 else (-size).where(x.signbit(), size)


def _ends(out: Any, x: Any, at_zero: float) -> Any:
    """Not a number below 0, a pole at 0."""
    return out.where(x > 0.0, (x * 0.0 + at_zero).where(x == 0.0, math.nan))


def _y(order: int, x: Any) -> Any:
    """Y: Neumann's series as an integral up to 25."""
    near = (x > 0.0).logical_and(x <= _FAR)
    inside = x.where(near, 1.0)
    log, nodes = (inside * 0.5).log() + _EULER, list(zip(_MANY, _LOGARITHMIC, strict=True))
    scale = 2.0 / (math.pi * len(_MANY))
    if order == 0:
        out = _sum([(inside * s).cos() * (log - 2.0 * w) for s, w in nodes]) * scale
    else:
        out = _sum([(inside * s).sin() * (s * (log - 2.0 * w)) for s, w in nodes]) * scale
        out = out - 2.0 / math.pi * _first(0, inside) / inside
    return _ends(out.where(near, _far(order, x.where(x > _FAR, _FAR))[1]), x, -math.inf)


def _spherical_j0(x: Any) -> Any:
    usual = (x != 0.0).logical_and(x.isinf().logical_not())
    inside = x.where(usual, 1.0)
    return (inside.sin() / inside).where(usual, (x * 0.0 + 1.0).where(x == 0.0, 0.0))


# -- modified ---------------------------------------------------------------------------------------------------------


def _i(order: int, x: Any) -> Any:
    """I, even or odd as its order is."""
    scaled = bessel_i(order, x.abs())
    return (scaled if order == 0 else x.sign() * scaled) * x.abs().exp()


def _harmonic(k: int) -> float:
    return sum(1.0 / i for i in range(1, k + 1))


_NODES = [0.3 * j for j in range(22)]
_WEIGHTS = [(0.3 if j else 0.15) * 2.0 * math.exp(-w * w) for j, w in enumerate(_NODES)]


def _second_near(order: int, x: Any) -> Any:
    """K of 0 < x <= 2, from its power series."""
    square = 0.25 * x * x
    factorials = [1.0 / (math.factorial(k) * math.factorial(k + order)) for k in range(16)]
    log = (0.5 * x).log() + _EULER
    if order == 0:
        rest = _series(square, [f * _harmonic(k) for k, f in enumerate(factorials)])
        return rest - log * _series(square, factorials)
    sums = [0.5 * f * (_harmonic(k) + _harmonic(k + 1)) for k, f in enumerate(factorials)]
    return 1.0 / x + 0.5 * x * (log * _series(square, factorials) - _series(square, sums))


def _second_far(order: int, x: Any) -> Any:
    """exp(x) * K of x >= 2: in the integral of exp(-x cosh t), x (cosh t - 1) is made the square of the variable."""
    inverse = 1.0 / x
    terms = []
    for weight, node in zip(_WEIGHTS, _NODES, strict=True):
        term = weight * math.sqrt(0.5) * (x + 0.5 * node * node).rsqrt()
        terms.append(term * (1.0 + node * node * inverse) if order else term)
    return _sum(terms)


def _second(order: int, x: Any, scaled: bool) -> Any:
    """K, or exp(x) * K."""
    low = x <= 2.0
    inside, outside = x.where((x > 0.0).logical_and(low), 1.0), x.where(low.logical_not(), 2.0)
    near, far = _second_near(order, inside), _second_far(order, outside)
    out = (near * inside.exp()).where(low, far) if scaled else near.where(low, far * (-outside).exp())
    return _ends(out, x, math.inf)


# -- Airy's -----------------------------------------------------------------------------------------------------------


# Ai(x) is the integral of exp(i (t^3 / 3 + x t)) / (2 pi) over any line above the real axis.


def _airy_right(x: Any) -> Any:
    """Ai(x), x >= 1: the line through the saddle point, at the height sqrt(x)."""
    step, height = 0.155, x.sqrt()
    factor = (height * -(step * step)).exp()
    power, odd, square = 1.0, factor, factor * factor
    total: Any = 0.5
    for j in range(1, 41):
        power, odd = power * odd, odd * square
        total = total + power * math.cos((step * j) ** 3 / 3.0)
    return total * (x * height * (-2.0 / 3.0)).exp() * (step / math.pi)


def _multiples(angle: Any, count: int) -> list[tuple[Any, Any]]:
    """The cosines and sines of 1, 2, ... times an angle, from those of powers of two times it."""
    turns: list[tuple[Any, Any]] = [(1.0, 0.0)]
    for j in range(1, count + 1):
        low = j & -j
        if low == j:
            turns.append(((angle * float(j)).cos(), (angle * float(j)).sin()))
            continue
        (a, b), (c, d) = turns[j - low], turns[low]
        turns.append((a * c - b * d, a * d + b * c))
    return turns[1:]


def _airy_left(x: Any) -> Any:
    """Ai(x), -10.5 <= x < -4.5: the line at the height 3/4."""
    step, height = 0.13, 0.75
    total: Any = 0.5
    for j, (cosine, sine) in enumerate(_multiples((x - height**2) * step, 59), 1):
        s = step * j
        weight = math.exp(-height * s * s)
        total = total + cosine * (weight * math.cos(s**3 / 3.0)) - sine * (weight * math.sin(s**3 / 3.0))
    return total * ((height**2 / 3.0 - x) * height).exp() * (step / math.pi)


def _airy_series(x: Any) -> Any:
    """Ai(x) around 0: two power series in x^3."""
    cube, one, other = x * x * x, 1.0, 1.0
    for k in range(25, 0, -1):
        one = 1.0 + one * cube * (1.0 / ((3 * k - 1) * 3 * k))
        other = 1.0 + other * cube * (1.0 / (3 * k * (3 * k + 1)))
    first, second = 3 ** (-2 / 3) / math.gamma(2 / 3), 3 ** (-1 / 3) / math.gamma(1 / 3)
    return one * first - other * x * second


def _airy_oscillating(x: Any) -> Any:
    """Ai(-x) far out."""
    u = [1.0]
    for k in range(1, 30):
        u.append(u[-1] * (6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216.0 * k * (2 * k - 1)))
    even, odd = _alternating(u)
    root = x.sqrt()
    phase = 2.0 / 3.0 * x * root
    inverse = 1.0 / phase
    p, q = _series(inverse * inverse, even), _series(inverse * inverse, odd) * inverse
    cosine, sine = phase.cos(), phase.sin()
    return (p * (cosine + sine) + q * (sine - cosine)) * (2.0 * math.pi * root).rsqrt()


def _airy(x: Any) -> Any:
    """Ai(x)."""
    high, low, far = x >= 1.0, x < -4.5, x < -10.5
    out = _airy_series(x.where(low.logical_or(high).logical_not(), 0.0))
    out = _airy_right(x.where(high, 1.0)).where(high, out)
    out = _airy_left(x.where(low.logical_and(far.logical_not()), -5.0)).where(low, out)
    out = _airy_oscillating((-x).where(far, 11.0)).where(far, out)
    return out.where(x.abs() < math.inf, math.nan)


_OF_BOTH_ORDERS: dict[str, tuple[str, Callable[[int, Any], Any]]] = {
    "bessel_j": ("Bessel function of the first kind", _j),
    "bessel_y": ("Bessel function of the second kind", _y),
    "modified_bessel_i": ("Modified Bessel function of the first kind", _i),
    "modified_bessel_k": ("Modified Bessel function of the second kind", partial(_second, scaled=False)),
    "scaled_modified_bessel_k": (
        "exp(input) times the modified Bessel function of the second kind", partial(_second, scaled=True),
    ),
}  # fmt: skip
for _name, (_doc, _function) in _OF_BOTH_ORDERS.items():
    for _order in (0, 1):
        _declare(f"{_name}{_order}", f"{_doc}, order {_order}.", partial(_function, _order))
_declare(
    "spherical_bessel_j0", "Spherical Bessel function of the first kind, order 0: sin(input) / input.", _spherical_j0
)
_declare("airy_ai", "Airy's function Ai.", _airy)

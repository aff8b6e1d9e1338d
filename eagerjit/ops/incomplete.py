"""Incomplete gamma functions, in float64: series, fractions, and for large arguments Temme's expansion.

With m = x/a - 1, h = m - log(1 + m) and e = sqrt(2 h), of m's sign, the upper function of large a is

    erfc(e sqrt(a/2)) / 2 + exp(-a h) / sqrt(2 pi a) * (C0 + C1/a + C2/a^2 + ...)

(N. M. Temme, "The asymptotic expansion of the incomplete gamma functions", 1979; DLMF 8.12). The Cs are
functions of m: C0 = 1/m - 1/e, and the next is the derivative by e, over e, plus a number over m.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from eagerjit.calling.dispatch import emit
from eagerjit.calling.elementwise import ElementwiseOp
from eagerjit.compiler.ops import bits
from eagerjit.ops.elementary import horner
from eagerjit.ops.gamma import SHIFT, STIRLING, lgamma
from eagerjit.ops.inplace import inplace
from eagerjit.ops.pointwise import as_dtype
from eagerjit.runtime import dtypes
from eagerjit.tensors.promotion import result_type
from eagerjit.tensors.tensor import Tensor

NEAR = 0.3
"""How far m is from 0 at most for the polynomials."""
LARGE = 1e4
"""From here on three Cs give all digits, and near m = 0 other series take hundreds of terms."""

_H = (
    0.06829630315104754, -0.07114922335762518, 0.03890841763417835, -0.04081855138537838, 0.0508767687923826,
    -0.053542312641313046, 0.055483122762153815, -0.058748295750993614, 0.06250386639598972, -0.06667068239378697,
    0.07142843685887046, -0.0769229371601295, 0.0833333363308637, -0.09090909402223452, 0.09999999995930713,
    -0.11111111106884937, 0.12500000000030634, -0.142857142857461, 0.1666666666666656, -0.1999999999999989, 0.25,
    -0.3333333333333333, 0.5,
)  # fmt: skip
"""h / m^2, and C0 to C2: polynomials of m between -NEAR and NEAR, highest powers first, through 23, 23, 15 and 10
Chebyshev nodes. They are within 1e-16, 1e-16, 5e-12 and 3e-10 of the functions."""
_C0 = (
    -0.003701600947531179, 0.003919931778646891, -0.002246777209315322, 0.0024043214622278737, -0.0030134411077875002,
    0.003241595008493438, -0.0034470367710679774, 0.003744147955860352, -0.004094239145477992, 0.00450085084412636,
    -0.004984438604611944, 0.005568245155295829, -0.006284419429769386, 0.0071803485512575696, -0.008328093510040137,
    0.009842230517781547, -0.011915478640031786, 0.0148962007642733, -0.019477513227513173, 0.027237654320987594,
    -0.04259259259259259, 0.08333333333333333, -0.3333333333333333,
)  # fmt: skip
_C1 = (
    0.0013622076579838896, -0.0014734915052697529, 0.0011412336817597803, -0.0012508047208555173,
    0.001441003279334015, -0.0015972497065581, 0.0017788091275703064, -0.002001469189741339, 0.002270868091683271,
    -0.0025972609359579146, 0.0029881319598362823, -0.0034290490658521787, 0.003802910052961634, -0.00347222222227759,
    -0.001851851851851852,
)  # fmt: skip
_C2 = (
    4.049959354769175e-05, 1.759468352585387e-05, -0.00011102808611033023, 0.00022161222026041805,
    -0.00038603422804931153, 0.0006388570951535231, -0.001033763768459085, 0.0016653811742277146,
    -0.0026813271592416327, 0.004133597882666808,
)  # fmt: skip


def _incomplete(upper: bool) -> Callable[..., Tensor]:
    def body(input: Tensor, other: Tensor) -> Tensor:
        dtype = result_type(input, other)
        if not dtype.is_floating_point:
            raise NotImplementedError(f'"igamma_cpu" not implemented for {dtype}')
        a, x = as_dtype(input, dtypes.float64), as_dtype(other, dtypes.float64)
        inside = (a > 0.0).logical_and(x > 0.0).logical_and(a < math.inf).logical_and(x < math.inf)
        out = _of_finite(a.where(inside, 1.0), x.where(inside, 1.0), upper).where(inside, math.nan)
        nothing, everything = (1.0, 0.0) if upper else (0.0, 1.0)
        # The ends, the later ones decide.
        out = out.where(x != math.inf, everything)
        out = out.where(a != math.inf, (x * 0.0 + nothing).where(x != math.inf, math.nan).where(x == x, nothing))
        out = out.where(x != 0.0, nothing)
        out = out.where(a != 0.0, (x * 0.0 + everything).where(x != math.inf, everything).where(x > 0.0, math.nan))
        out = out.where((a < 0.0).logical_or(x < 0.0).logical_not(), math.nan)
        return as_dtype(out, dtype)

    body.__doc__ = f"The {'upper' if upper else 'lower'} incomplete gamma function of input at other, regularized."
    return body


def _of_finite(a: Tensor, x: Tensor, upper: bool) -> Tensor:
    """Of positive numbers."""
    m = (x - a) / a
    near = m.abs() <= NEAR
    t = m.where(near, 0.0)
    half = (t * t * horner(t, _H)).where(near, m - (x / a).log())
    power = (-a * half).exp()
    expanded = near.logical_and(a >= LARGE)
    low = expanded.logical_not().logical_and(x < a + 1.0)  # where the series is quick
    high = expanded.logical_or(low).logical_not()
    series = emit(bits.gamma_series, a.where(low, 1.0), x.where(low, 0.0))
    fraction = emit(bits.gamma_fraction, a.where(high, 1.0), x.where(high, 2.0))
    stirling = power * (a * (0.5 / math.pi)).sqrt() * (-horner(1.0 / (a * a), STIRLING) / a).exp()
    scale = stirling.where(a >= SHIFT, (a * x.log() - x - lgamma.call(a)).exp())  # x^a exp(-x) / gamma(a)
    part = scale * series.where(low, fraction)
    out = part.where(high if upper else low, 1.0 - part)
    root, sign = (half * 2.0).sqrt() * (a * 0.5).sqrt(), 1.0 if upper else -1.0
    root = (root if upper else -root).where(m >= 0.0, -root if upper else root)
    rest = power / (a * (2.0 * math.pi)).sqrt() * (horner(t, _C0) + (horner(t, _C1) + horner(t, _C2) / a) / a)
    return out.where(expanded.logical_not(), root.erfc() * 0.5 + rest * sign)


def _density(input: Any, other: Any) -> Any:
    return ((input - 1.0) * other.log() - other - lgamma.call(input)).exp()


def _no_rule(g: Tensor, out: Tensor, input: Tensor, other: Tensor) -> Tensor:
    raise NotImplementedError("the derivative for 'igamma: input' is not implemented.")


_IGAMMA_RULES = (
    (_no_rule, lambda g, out, input, other: g * _density(input, other)),
    (_no_rule, lambda g, out, input, other: -g * _density(input, other)),
)
igamma = ElementwiseOp("igamma", _incomplete(False), _IGAMMA_RULES[0])
igammac = ElementwiseOp("igammac", _incomplete(True), _IGAMMA_RULES[1])
igamma.promotion = igammac.promotion = "arithmetic"
igamma_, igammac_ = (inplace(op).method() for op in (igamma, igammac))

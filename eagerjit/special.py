"""Special functions, elementwise."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.calling.elementwise import ElementwiseOp
from eagerjit.calling.public import public
from eagerjit.compiler.ops.error_functions import SLOPE
from eagerjit.ops import gamma as _gamma
from eagerjit.ops import incomplete as _incomplete
from eagerjit.ops import numeric as _numeric
from eagerjit.ops.bessel import BESSEL
from eagerjit.ops.elementary import ELEMENTARY, define, horner
from eagerjit.ops.normalization import log_softmax, softmax
from eagerjit.ops.pointwise import POINTWISE
from eagerjit.ops.polynomials import POLYNOMIALS
from eagerjit.ops.reduce import logsumexp as _logsumexp
from eagerjit.tensors.mistakes import explained_functions
from eagerjit.tensors.tensor import Tensor

__all__ = [
    "digamma", "entr", "erf", "erfc", "erfcx", "erfinv", "exp2", "expit", "expm1", "gammainc", "gammaincc", "gammaln",
    "i0", "i0e", "i1", "i1e", "log1p", "log_ndtr", "log_softmax", "logit", "logsumexp", "multigammaln", "ndtr", "ndtri",
    "polygamma", "psi", "round", "sinc", "softmax", "xlog1py", "xlogy", "zeta",
]  # fmt: skip
__all__ += sorted((*BESSEL, *POLYNOMIALS))

erf, erfc, erfinv = POINTWISE["erf"].call, POINTWISE["erfc"].call, POINTWISE["erfinv"].call
exp2, expit = POINTWISE["exp2"].call, POINTWISE["sigmoid"].call
expm1, log1p = POINTWISE["expm1"].call, POINTWISE["log1p"].call
logit, sinc, xlogy = (ELEMENTARY[name].call for name in ("logit", "sinc", "xlogy"))
digamma = psi = _gamma.digamma.call
gammaln, zeta = _gamma.lgamma.call, _gamma.zeta.call
i0, i0e, i1, i1e = (op.call for op in (_gamma.i0, _gamma.i0e, _gamma.i1, _gamma.i1e))
entr, xlog1py = _numeric.entr.call, _numeric.xlog1py.call
gammainc, gammaincc = _incomplete.igamma.call, _incomplete.igammac.call
multigammaln, polygamma = _gamma.mvlgamma, _gamma.polygamma
logsumexp = _logsumexp.call


@public
def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """The nearest integers, or numbers of that many decimals, halves to even."""
    return input.round(decimals=decimals)


@define
def _ndtr(input: Tensor) -> Tensor:
    """The area below the standard normal density up to input."""
    scaled = input * math.sqrt(0.5)
    return (0.5 * (-scaled).erfc()).where(scaled < -1.0, 0.5 + 0.5 * scaled.erf())


ndtr = ELEMENTARY["ndtr"].call


_TAIL = math.exp(-2.0)
"""Areas below it lose digits as 2 * area - 1."""

_NEAR = (
    (4.05544892305962419923, 31.5251094599893866154, 57.1628192246421288162, 44.0805073893200834700,
     14.6849561928858024014, 2.18663306850790267539, -0.140256079171354495875, -0.0350424626827848203418,
     -8.57456785154685413611e-4),
    (1.0, 15.7799883256466749731, 45.3907635128879210584, 41.3172038254672030440, 15.0425385692907503408,
     2.50464946208309415979, -0.142182922854787788574, -0.0380806407691578277194, -9.33259480895457427372e-4),
)  # fmt: skip
_FAR = (
    (3.23774891776946035970, 6.91522889068984211695, 3.93881025292474443415, 1.33303460815807542389,
     0.201485389549179081538, 0.0123716634817820021358, 3.01581553508235416007e-4, 2.65806974686737550832e-6,
     6.23974539184983293730e-9),
    (1.0, 6.02427039364742014255, 3.67983563856160859403, 1.37702099489081330271, 0.216236993594496635890,
     0.0134204006088543189037, 3.28014464682127739104e-4, 2.89247864745380683936e-6, 6.79019408009981274425e-9),
)  # fmt: skip
"""Rational approximations by S. Moshier (Cephes), highest power first, of what is left in tails."""


def _rest(z: Tensor, coefficients: tuple[tuple[float, ...], ...]) -> Any:
    above, below = (horner(z, c) for c in coefficients)
    return z * above / below


@define
def _ndtri(input: Tensor) -> Tensor:
    """The input of `ndtr` that gives this area."""
    tail = (input > 0.0).logical_and(input < _TAIL)
    x = (-2.0 * input.where(tail, _TAIL).log()).sqrt()
    z = 1.0 / x
    low = _rest(z, _NEAR).where(x < 8.0, _rest(z, _FAR)) - (x - x.log() / x)
    middle = math.sqrt(2.0) * (2.0 * input - 1.0).erfinv()
    return low.where(tail, middle.where(input >= 0.0, math.nan))


ELEMENTARY["ndtri"].rules = (lambda g, out, input: g * (math.sqrt(2.0 * math.pi) * (0.5 * out * out).exp()),)
ndtri = ELEMENTARY["ndtri"].call


def _direct_erfcx(input: Tensor) -> Tensor:
    """exp(input**2) * erfc(input)."""
    return (input * input).exp() * input.erfc()


_direct_erfcx_op = ElementwiseOp(
    "direct_erfcx", _direct_erfcx, (lambda g, out, input: g * (2.0 * input * out - SLOPE),)
)
"""Whose slope is no product of an infinite number and one that vanishes."""


@define
def _erfcx(input: Tensor) -> Tensor:
    """exp(input**2) * erfc(input): from 2 on a continued fraction, for there erfc vanishes."""
    large = input > 2.0
    x = input.where(large, 2.0)
    fraction: Any = x
    for k in range(60, 0, -1):
        fraction = x + (0.5 * k) / fraction
    direct = _direct_erfcx_op.call(input.where(large.logical_not(), 0.0))
    return ((1.0 / math.sqrt(math.pi)) / fraction).where(large, direct)


erfcx = ELEMENTARY["erfcx"].call


@define
def _log_ndtr(input: Tensor) -> Tensor:
    """The logarithm of `ndtr`, exact where that vanishes and where it is nearly 1."""
    scaled = input * math.sqrt(0.5)
    low = scaled < -1.0
    below = scaled.where(low, -1.0)
    tail = (0.5 * _erfcx(-below)).log() - below * below
    return tail.where(low, (-0.5 * scaled.where(low.logical_not(), 0.0).erfc()).log1p())


log_ndtr = ELEMENTARY["log_ndtr"].call


globals().update(POLYNOMIALS)
globals().update({name: op.call for name, op in BESSEL.items()})
globals().update(explained_functions({name: globals()[name] for name in __all__ if name in globals()}, __name__))

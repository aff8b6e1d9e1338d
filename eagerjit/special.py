"""Special functions, elementwise."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.calling import public
from eagerjit.ops import gamma as _gamma
from eagerjit.ops import numeric as _numeric
from eagerjit.ops.bessel import BESSEL
from eagerjit.ops.elementary import ELEMENTARY, define
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
gammainc, gammaincc = _gamma.igamma.call, _gamma.igammac.call
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


@public
def ndtri(input: Tensor) -> Tensor:
    """The input of `ndtr` that gives this area."""
    return math.sqrt(2.0) * erfinv(2.0 * input - 1.0)


@define
def _erfcx(input: Tensor) -> Tensor:
    """exp(input**2) * erfc(input): from 2 on a continued fraction, for there erfc vanishes."""
    large = input > 2.0
    x = input.where(large, 2.0)
    fraction: Any = x
    for k in range(60, 0, -1):
        fraction = x + (0.5 * k) / fraction
    near = input.where(large.logical_not(), 0.0)
    direct = (near * near).exp() * near.erfc()
    return ((1.0 / math.sqrt(math.pi)) / fraction).where(large, direct)


erfcx = ELEMENTARY["erfcx"].call


@define
def _log_ndtr(input: Tensor) -> Tensor:
    """The logarithm of `ndtr`, exact where that vanishes."""
    scaled = input * math.sqrt(0.5)
    low = scaled < -1.0
    tail = (0.5 * _erfcx(-scaled.where(low, -1.0))).log() - scaled * scaled
    return tail.where(low, (0.5 + 0.5 * scaled.where(low.logical_not(), 0.0).erf()).log())


log_ndtr = ELEMENTARY["log_ndtr"].call


globals().update(POLYNOMIALS)
globals().update({name: op.call for name, op in BESSEL.items()})
globals().update(explained_functions({name: globals()[name] for name in __all__ if name in globals()}, __name__))

"""The error function, its complement and its inverse."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from eagerjit.compiler.ops.declare import Derivative, Primitive
from eagerjit.compiler.ops.elementwise import REAL, UNIT, declare_elementwise


def _vectorized(function: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    """A NumPy function from a scalar one."""
    return lambda x: np.vectorize(function, otypes=[np.float64])(np.asarray(x, dtype=np.float64))


def _inverse(x: float) -> float:
    """Newton's method on the side where the complement keeps its digits."""
    size = abs(x)
    if not size < 1.0:
        return x * math.inf if size == 1.0 else math.nan
    y = 0.0
    for _ in range(200):
        error = math.erf(y) - size if size < 0.5 else (1.0 - size) - math.erfc(y)
        step = error * (math.sqrt(math.pi) / 2) * math.exp(y * y)
        if abs(step) <= 1e-16 * y or not step:
            break
        y -= step
    return math.copysign(y, x)


def _declared(name: str, reference: Any, rule: Derivative, doc: str, domain: tuple[float, float] = REAL) -> Primitive:
    options: Any = {"promotion": "float", "domain": domain, "cost": 12}
    return declare_elementwise(name, 1, _vectorized(reference), (rule,), doc, **options)


SLOPE = 2.0 / math.sqrt(math.pi)
"""That of erf at 0."""

erf = _declared("erf", math.erf, lambda g, out, x: g * SLOPE * (-(x * x)).exp(), "Error function.")
erfc = _declared("erfc", math.erfc, lambda g, out, x: g * -SLOPE * (-(x * x)).exp(), "1 - erf(x), exact for large x.")
erfinv = _declared("erfinv", _inverse, lambda g, out, x: g * (1.0 / SLOPE) * (out * out).exp(), "Inverse of erf.", UNIT)

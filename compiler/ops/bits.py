"""Operations on the bits of numbers, and those that no formula gives: divisors, series of as many terms as it takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.compiler.ir import TensorType
from eagerjit.compiler.ops.declare import Primitive, declare
from eagerjit.compiler.ops.elementwise import declare_elementwise
from eagerjit.runtime import dtypes


def _shift(function: Any) -> Any:
    """A shift that pushes everything out where the count is the width or more, or negative."""

    def shift(x: np.ndarray, count: np.ndarray) -> np.ndarray:
        valid = (count >= 0) & (count < x.dtype.itemsize * 8)
        out = np.where((x < 0) & (function is np.right_shift), -1, 0).astype(x.dtype)
        return np.where(valid, function(x, np.where(valid, count, 0)), out)

    return shift


shift_left = declare_elementwise(
    "shift_left", 2, _shift(np.left_shift), (), "x * 2**y; 0 where y is no bit's number.", promotion="", scalar="shl"
)
shift_right = declare_elementwise(
    "shift_right", 2, _shift(np.right_shift), (), "x / 2**y, rounded down.", promotion="", scalar="shr"
)
def _lcm(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    found = np.lcm(x, y)
    return np.abs(found) if x.dtype.itemsize >= 4 else found


gcd = declare_elementwise("gcd", 2, np.gcd, (), "Greatest common divisors.", promotion="", cost=200)
lcm = declare_elementwise("lcm", 2, _lcm, (), "Least common multiples.", promotion="", cost=200)


def _bitcast_type(x: TensorType, dtype: dtypes.DType) -> TensorType:
    if dtype.itemsize != x.dtype.itemsize:
        raise ValueError(f"bitcast: {dtype} is not as wide as {x.dtype}")
    return TensorType(dtype, x.shape)


bitcast = declare(
    Primitive(
        "bitcast",
        "elementwise",
        _bitcast_type,
        lambda x, dtype: x.view(dtype.numpy),
        "The bits of x as another dtype of the same width.",
        scalar="bitcast",
        derivative=(None,),
        traits=frozenset({"exact"}),
    )
)


def _series_reference(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    term = total = 1.0 / a
    n = a
    for _ in range(1000):
        n = n + 1.0
        term = term * x / n
        following = total + term
        if (following == total).all():
            break
        total = following
    return total


def _fraction_reference(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    b = x + 1.0 - a
    c, d = np.full_like(b, 1e300), 1.0 / np.where(b != 0, b, 1e-300)
    out = d
    for i in range(1, 1000):
        an, b = -i * (i - a), b + 2.0
        d = an * d + b
        d = 1.0 / np.where(d != 0, d, 1e-300)
        c = b + an / c
        c = np.where(c != 0, c, 1e-300)
        step = d * c
        out = out * step
        if (abs(step - 1.0) < 1e-16).all():
            break
    return out


gamma_series = declare_elementwise(
    "gamma_series",
    2,
    _series_reference,
    (),
    "1/a + x/(a(a+1)) + x²/(a(a+1)(a+2)) + ..., until the sum stays what it is.",
    promotion="",
    domain=(0.5, 4.0),
    cost=400,
)
gamma_fraction = declare_elementwise(
    "gamma_fraction",
    2,
    _fraction_reference,
    (),
    "1/(x+1-a - 1(1-a)/(x+3-a - 2(2-a)/(x+5-a - ...))) by Lentz's method, until a factor is 1.",
    promotion="",
    domain=(0.5, 4.0),
    cost=600,
)

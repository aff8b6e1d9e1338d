"""Elementwise functions that are used now and then, against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import compare, draw

FUNCTIONS: dict[str, Any] = {
    "lgamma": lambda t, x: t.lgamma(x),
    "digamma": lambda t, x: t.digamma(x),
    "trigamma": lambda t, x: t.polygamma(1, x),
    "erfinv": lambda t, x: t.erfinv(x),
    "i0": lambda t, x: t.i0(x),
    "heaviside": lambda t, x: t.heaviside(x, x * 2 + 1),
    "float_power": lambda t, x: t.float_power(x, 2),
    "ldexp": lambda t, x: t.ldexp(x, t.tensor(3)),
    "signbit": lambda t, x: t.signbit(x),
    "isreal": lambda t, x: t.isreal(x),
    "frexp": lambda t, x: tuple(t.frexp(x)),
    "nextafter": lambda t, x: t.nextafter(x.detach(), x.detach() + 1),
    "logaddexp": lambda t, x: t.logaddexp(x, -x * 0.5),
    "logaddexp2": lambda t, x: t.logaddexp2(x, -x * 0.5),
    "hypot": lambda t, x: t.hypot(x, x * 2),
}
RANGES = {
    "near 0": draw((3, 4), "float32", -2, 2, 1),
    "wide": draw((3, 4), "float64", -6, 6, 1),
    "positive": draw((3, 4), "float64", 0.1, 30, 2),
    "below 1": draw((3, 4), "float64", -0.99, 0.99, 2),
    "integers": draw((3, 4), "int64", 1, 9, 1),
}
SPECIAL = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, -0.5, 1e30, -2.5, 30, -30], np.float64)


@pytest.mark.parametrize("values", RANGES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name: str, values: str) -> None:
    # PyTorch's trigamma has nine digits.
    tolerance = {"digamma": 1e-8, "trigamma": 1e-8}.get(name) if RANGES[values].dtype == np.float64 else None
    if (name, values) == ("hypot", "integers"):
        return  # PyTorch has no kernel
    compare(FUNCTIONS[name], RANGES[values], tolerance=tolerance, grad=name != "heaviside")


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n != "trigamma"])
def test_special_values(name: str) -> None:
    compare(FUNCTIONS[name], SPECIAL, grad=False)


POSITIVE: dict[str, Any] = {
    "polygamma 2": lambda t, x: t.polygamma(2, x),
    "polygamma 3": lambda t, x: x.polygamma(3),
    "mvlgamma": lambda t, x: t.mvlgamma(x + 2, 3),
    "igamma": lambda t, x: t.igamma(x.detach(), x * 0.7),
    "igammac": lambda t, x: t.igammac(x.detach(), x * 1.4),
}


@pytest.mark.parametrize("name", POSITIVE)
def test_positive_numbers(name: str) -> None:
    compare(POSITIVE[name], draw((3, 4), "float32", 0.1, 4, 3), tolerance=1e-4)
    compare(POSITIVE[name], draw((3, 4), "float64", 0.1, 30, 2), tolerance=1e-8)


INTEGERS: dict[str, Any] = {
    "gcd": lambda t, x, y: t.gcd(x, y),
    "lcm": lambda t, x, y: t.lcm(x, y),
    "bitwise_left_shift": lambda t, x, y: t.bitwise_left_shift(y, x),
    ">>": lambda t, x, y: y >> x,
    "<<": lambda t, x, y: x << 2,
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name: str) -> None:
    for dtype in ("int64", "int32", "uint8"):
        compare(INTEGERS[name], draw((3, 4), dtype, 1, 9, 1), draw((3, 4), dtype, -9, 9, 2))

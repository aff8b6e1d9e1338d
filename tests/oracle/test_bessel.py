"""Bessel functions and Airy's: against PyTorch, whose float64 has seven digits in places, and against identities."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from oracle import compare, draw

import eagerjit as ej
from eagerjit.ops.bessel import BESSEL

EDGES = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-300, 1.0, 2.0, 25.0, -4.5, -10.5, 1e4]


@pytest.mark.parametrize("name", BESSEL)
def test_as_pytorch(name: str) -> None:
    def call(t: object, x: object) -> object:
        return getattr(t.special, name)(x)  # type: ignore[attr-defined]

    compare(call, draw((40, 50), "float64", -40, 60, 3), tolerance=5e-6)
    compare(call, draw((7, 5), "float32", 0, 20, 4), layouts=("transposed",), tolerance=1e-5)
    compare(call, np.array(EDGES), tolerance=5e-6)
    compare(call, np.zeros((0, 3)))
    compare(call, np.float64(0.5).reshape(()), tolerance=5e-6)
    for dtype in ("int64", "uint8", "bool"):
        compare(call, draw((5,), dtype, 0, 9, 5), tolerance=1e-5)
    for dtype in ("float16", "bfloat16"):
        compare(call, draw((5,), dtype, 0, 9, 5), dtypes=(dtype,))


@pytest.mark.parametrize("name", BESSEL)
def test_compiled_and_written(name: str) -> None:
    function, x = getattr(ej.special, name), ej.linspace(-30, 30, 301).double().requires_grad_()
    plain = function(x)
    assert not plain.requires_grad
    np.testing.assert_array_equal(ej.jit(lambda x: function(x))(x).numpy(), plain.numpy())
    out = ej.empty(301).double()
    assert function(x.detach(), out=out) is out
    np.testing.assert_array_equal(out.numpy(), plain.numpy())


def test_determinants() -> None:
    """Wronski's determinants hold to 13 digits, over all ways of computing the functions."""
    x, s = ej.logspace(-3, 2, 1000).double(), ej.special
    first = s.bessel_j1(x) * s.bessel_y0(x) - s.bessel_j0(x) * s.bessel_y1(x)
    second = s.modified_bessel_i0(x) * s.modified_bessel_k1(x) + s.modified_bessel_i1(x) * s.modified_bessel_k0(x)
    scaled = s.i0e(x) * s.scaled_modified_bessel_k1(x) + s.i1e(x) * s.scaled_modified_bessel_k0(x)
    for found, numerator in ((first, 2 / math.pi), (second, 1.0), (scaled, 1.0)):
        np.testing.assert_allclose((found * x).numpy(), numerator, rtol=2e-12)


def test_known_values() -> None:
    """Ai at places on both sides of every seam, to 16 digits."""
    known = {
        -12.0: -0.06655517505437264, -10.0: 0.0402412384864420, -5.0: 0.3507610090241142, -4.0: -0.07026553294928968,
        0.5: 0.2316936064808335, 1.5: 0.07174949700810541, 10.0: 1.104753255289869e-10, 100.0: 2.634482152088184e-291,
    }  # fmt: skip
    found = ej.special.airy_ai(ej.tensor([*known], dtype=ej.float64))
    np.testing.assert_allclose(found.numpy(), [*known.values()], rtol=2e-12)
    assert torch.special.airy_ai(torch.tensor(1e3, dtype=torch.float64)) == 0
    assert ej.special.airy_ai(ej.tensor(1e3, dtype=ej.float64)) == 0

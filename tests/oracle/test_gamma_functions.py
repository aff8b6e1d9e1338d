"""Functions where they are hard to compute: the gamma function and its kin at poles and huge numbers, and others."""

from __future__ import annotations

import math
import operator

import mpmath
import numpy as np
import pytest
import torch

import eagerjit as ej

RANDOM = np.random.default_rng(4)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_zeta_at_ends_and_poles(dtype: str) -> None:
    powers = [1.0, 1.5, 2.0, 3.0, 0.5, -1.0, 10.0, 60.0, math.nan, math.inf, -math.inf]
    starts = [0.0, -1.0, -3.0, -0.5, -2.5, 0.1, 1.0, 5.0, 1e5, math.inf, math.nan, -1e5, -0.0, -20.5, 1e-3]
    x, q = (v.astype(dtype) for v in np.meshgrid(powers, starts))
    expected = torch.special.zeta(torch.from_numpy(x), torch.from_numpy(q)).numpy()
    found = ej.special.zeta(ej.from_numpy(x), ej.from_numpy(q)).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-6 if dtype == "float32" else 1e-12)


def test_zeta_of_numbers() -> None:
    x = np.concatenate([RANDOM.uniform(1.01, 30.0, 200), RANDOM.integers(2, 9, 200).astype(float)])
    q = np.concatenate([np.exp(RANDOM.uniform(-3.0, 8.0, 200)), RANDOM.uniform(-50.0, 0.0, 200)])
    expected = torch.special.zeta(torch.from_numpy(x), torch.from_numpy(q)).numpy()
    found = ej.special.zeta(ej.from_numpy(x), ej.from_numpy(q))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-13)
    assert ej.jit(ej.special.zeta)(ej.from_numpy(x), ej.from_numpy(q)).numpy().tobytes() == found.numpy().tobytes()


EXACT = {
    "lgamma": (
        [-0.9999999999999993, -0.99999999, -2.5, 1e-310, -5e-324, -1e15 - 0.5, 1e300, 0.3],
        lambda x: mpmath.log(abs(mpmath.gamma(x))) if x < 1e200 else mpmath.loggamma(x),
    ),
    "digamma": ([-0.9999999999999993, -1.999999999, -0.5, -20.25, 1e-300, 1e300], mpmath.digamma),
    "atanh": ([-0.9999999999999993, -0.999999, -0.5, -1e-9, 1e-300, 0.75, 0.99999999999], mpmath.atanh),
    "special.i0e": ([1.7e308, 1e300], lambda x: 1 / mpmath.sqrt(2 * mpmath.pi * x)),
    "special.i1e": ([1.7e308, 1e300], lambda x: 1 / mpmath.sqrt(2 * mpmath.pi * x)),
    "special.scaled_modified_bessel_k0": ([1.7e308, 1e300], lambda x: mpmath.sqrt(mpmath.pi / (2 * x))),
    "special.scaled_modified_bessel_k1": ([1.7e308, 1e300], lambda x: mpmath.sqrt(mpmath.pi / (2 * x))),
}


@pytest.mark.parametrize("name", EXACT)
def test_where_digits_are_lost_easily(name: str) -> None:
    numbers, exact = EXACT[name]
    call = operator.attrgetter(name)(ej)
    with mpmath.workdps(50):
        expected = [float(exact(mpmath.mpf(x))) for x in numbers]
    np.testing.assert_allclose(call(ej.tensor(numbers, dtype=ej.float64)).numpy(), expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("n", "x"),
    [(1, 5e190), (1, -0.999999), (2, -2.75), (2, 1e120), (3, -2.25), (5, 0.3), (10, -1.5), (20, -0.5), (20, -10.5)],
)
def test_derivatives_of_digamma(n: int, x: float) -> None:
    """Between integers the cotangent is 0, which its derivatives magnify; PyTorch's are wrong there."""
    with mpmath.workdps(50):
        expected = float((-1) ** (n + 1) * mpmath.factorial(n) * mpmath.zeta(n + 1, mpmath.mpf(x)))
    assert ej.polygamma(n, ej.tensor(x, dtype=ej.float64)).item() == pytest.approx(expected, rel=1e-12)


def test_ends_of_the_gamma_function() -> None:
    x = [0.0, -0.0, -3.0, -1e306, -math.inf, math.inf, 1.7e308, math.nan]
    found = ej.lgamma(ej.tensor(x, dtype=ej.float64)).numpy()
    np.testing.assert_array_equal(found, torch.lgamma(torch.tensor(x, dtype=torch.float64)).numpy())


def lower_gamma(a: float, x: float) -> mpmath.mpf:
    """x^a exp(-x) / gamma(a) times the sum of x^n / (a (a+1) ... (a+n))."""
    base, point = mpmath.mpf(a), mpmath.mpf(x)
    term = total = 1 / base
    n = 0
    while term > total * mpmath.eps:
        n += 1
        term *= point / (base + n)
        total += term
    return total * mpmath.exp(base * mpmath.log(point) - point - mpmath.loggamma(base))


@pytest.mark.parametrize("upper", [False, True], ids=["lower", "upper"])
@pytest.mark.parametrize(
    ("least", "most", "count"), [(1e-3, 10.0, 60), (10.0, 200.0, 60), (200.0, 1e4, 40), (1e4, 1e5, 20), (1e5, 1e6, 8)]
)
def test_incomplete_gamma_functions(least: float, most: float, count: int, upper: bool) -> None:
    """PyTorch's own have eight digits where the argument is large."""
    a = np.exp(RANDOM.uniform(math.log(least), math.log(most), count))
    x = np.maximum(a + 3.0 * np.sqrt(a) * RANDOM.normal(size=count), 1e-3 * a)
    if most <= 1e4:
        x[::2] = a[::2] * RANDOM.uniform(0.2, 2.0, (count + 1) // 2)
    call = ej.special.gammaincc if upper else ej.special.gammainc
    found = call(ej.from_numpy(a), ej.from_numpy(x))
    with mpmath.workdps(320):
        lower = [lower_gamma(*pair) for pair in zip(a, x, strict=True)]
        exact = np.array([float(1 - p if upper else p) for p in lower])
    np.testing.assert_allclose(found.numpy(), exact, rtol=2e-12, atol=1e-290)
    assert ej.jit(call)(ej.from_numpy(a), ej.from_numpy(x)).numpy().tobytes() == found.numpy().tobytes()


def test_incomplete_gamma_functions_of_huge_numbers() -> None:
    """At its own argument the lower one is 1/2 + 1 / (3 sqrt(2 pi a)), and it falls to 0 within a few square roots."""
    a = 10.0 ** np.arange(5.0, 17.0)
    lower, upper = (f(ej.from_numpy(a), ej.from_numpy(a)).numpy() for f in (ej.special.gammainc, ej.special.gammaincc))
    np.testing.assert_allclose(lower, 0.5 + 1.0 / (3.0 * np.sqrt(2.0 * np.pi * a)), rtol=1e-7)
    np.testing.assert_allclose(lower + upper, 1.0, rtol=1e-15)
    for steps in (-30.0, -3.0, 3.0, 30.0):
        x = ej.from_numpy(a + steps * np.sqrt(a))
        tail = (ej.special.gammaincc if steps > 0.0 else ej.special.gammainc)(ej.from_numpy(a), x).numpy()
        normal = 0.5 * math.erfc(abs(steps) / math.sqrt(2.0))
        np.testing.assert_allclose(tail[a >= 1e12], normal, rtol=1e-6 * abs(steps) ** 3)

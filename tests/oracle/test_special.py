"""Special functions against PyTorch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from oracle import compare, draw

import eagerjit as ej

RANGES = {
    "below 1": draw((3, 4), "float64", 0.1, 0.9, 3),
    "wide": draw((3, 4), "float64", -4, 4, 2),
    "single": draw((3, 4), "float32", -4, 4, 2),
}
ANYWHERE = """erf erfc erfcx exp2 expit expm1 i0 i0e i1 i1e log_ndtr ndtr sinc round""".split()
NARROW = "digamma entr erfinv gammaln log1p logit ndtri psi".split()


@pytest.mark.parametrize("values", RANGES)
@pytest.mark.parametrize("name", [*ANYWHERE, *NARROW])
def test_values(name: str, values: str) -> None:
    if name in ANYWHERE or values == "below 1":
        compare(
            lambda t, x: getattr(t.special, name)(x), RANGES[values], tolerance=1e-4 if values == "single" else 1e-8
        )


PAIRS: dict[str, Any] = {
    "xlogy": lambda t, x, y: t.special.xlogy(x, y),
    "xlog1py": lambda t, x, y: t.special.xlog1py(x, y),
    "zeta": lambda t, x, y: t.special.zeta((x + 1).detach(), y.detach()),
    "gammainc": lambda t, x, y: t.special.gammainc(x.detach(), y),
    "gammaincc": lambda t, x, y: t.special.gammaincc(x.detach(), y),
    "multigammaln": lambda t, x, y: t.special.multigammaln(y + 1, 2),
    "polygamma": lambda t, x, y: t.special.polygamma(2, y),
    "softmax": lambda t, x, y: (t.special.softmax(x, 1), t.special.log_softmax(y, 0), t.special.logsumexp(x, 1)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name: str) -> None:
    compare(PAIRS[name], draw((3, 4), "float64", 0.1, 0.9, 3), draw((3, 4), "float64", 1.2, 5, 5), tolerance=1e-8)


def test_tails() -> None:
    values = np.array([-30.0, -8, -3, 0, 5, 30])
    compare(lambda t, x: (t.special.log_ndtr(x), t.special.erfcx(x.abs())), values, tolerance=1e-7)


def test_the_logarithm_of_what_is_nearly_all() -> None:
    def logarithms(t: Any) -> Any:
        return t.special.log_ndtr(t.tensor([-1.5, -1.4, 0.5, 3.0, 4.0, 5.5, 7.0, 12.0])).numpy()

    np.testing.assert_allclose(logarithms(ej), logarithms(torch), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quantiles_of_tails(dtype: str) -> None:
    areas = [0.0, 1e-35, 1e-20, 1e-16, 1e-10, 1e-7, 1e-5, 0.1353, 0.1354, 0.5, 0.99, 1.0, -0.1, 1.1]
    compare(lambda t, x: t.special.ndtri(x), np.array(areas, dtype), tolerance=1e-4 if dtype == "float32" else 1e-12)


POLYNOMIALS = [n for n in dir(torch.special) if "_polynomial_" in n]


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name: str) -> None:
    def call(t: Any, x: Any, n: Any) -> Any:
        function = getattr(t.special, name)
        return [function(x, n), *(function(x, k) for k in (-1, 0, 1, 2, 5, 12))]

    x = np.concatenate([draw((3, 7), "float64", -1.5, 1.5, 2), [[-1.0, 0.0, 1.0, 0.5, 2.0, -2.0, 0.25]]])
    degrees = np.array([0, 3, 1, 6, 2, 9, 4])
    compare(call, x, degrees, tolerance=1e-9)
    compare(call, x.astype(np.float32), degrees, layouts=("transposed", "contiguous"), tolerance=1e-2)
    compare(call, np.zeros((0, 7)), degrees)
    compare(lambda t, n: getattr(t.special, name)(0.5, n), degrees, tolerance=1e-4)
    compare(lambda t, n: getattr(t.special, name)(n > 2, 3), degrees, tolerance=1e-4)
    compare(lambda t, n: getattr(t.special, name)(0.5, 3), degrees)
    compare(lambda t, x: getattr(t.special, name)(x.half(), 3), x, grad=False)
    compare(lambda t, x: getattr(t.special, name)(x, 4), np.float64(0.3).reshape(()))
    jitted, eager = (f(ej.tensor(x)) for f in (ej.jit(lambda x: getattr(ej.special, name)(x, 5)),
                                               lambda x: getattr(ej.special, name)(x, 5)))
    assert ej.equal(jitted, eager) and not jitted.requires_grad


EDGES: dict[str, tuple[Any, list[float], list[float]]] = {
    "xlog1py": (lambda t, x, y: t.special.xlog1py(x, y), [0.0, 0.0, 0.0, 2.0, -1.0], [1.0, -0.5, 3.0, 3.0, 0.5]),
    "atanh": (lambda t, x, y: t.atanh(x), [1.0, -1.0, 0.5, 0.0], [0.0] * 4),
    "remainder": (
        lambda t, x, y: t.remainder(x, y), [1.0, 7.0, -7.0, 1.0, -1.0, 5.0], [0.001, 2.0, 2.0, -math.inf, math.inf, 0.1]
    ),
    "smooth_l1_loss": (
        lambda t, x, y: t.nn.functional.smooth_l1_loss(x, y, reduction="none", beta=0.7),
        [0.0, math.inf, 1.0, 3.0, math.nan], [math.inf, 0.0, 0.8, 1.0, 1.0],
    ),
    "huber_loss": (
        lambda t, x, y: t.nn.functional.huber_loss(x, y, reduction="none", delta=0.7),
        [0.0, math.inf, 1.0, 3.0, math.nan], [math.inf, 0.0, 0.8, 1.0, 1.0],
    ),
}


@pytest.mark.parametrize("name", EDGES)
def test_gradients_at_the_edges(name: str) -> None:
    call, x, y = EDGES[name]
    compare(call, np.array(x), np.array(y))


def test_the_huber_loss_is_straight_at_its_bounds() -> None:
    def slopes(t: Any) -> list[Any]:
        x = t.tensor([0.5, 1.0, -1.0, 2.0], requires_grad=True)
        loss = t.nn.functional.huber_loss(x, t.zeros(4), reduction="sum")
        (first,) = t.autograd.grad(loss, x, create_graph=True)
        (second,) = t.autograd.grad(first.sum(), x)
        return [first.tolist(), second.tolist()]

    assert slopes(ej) == slopes(torch)

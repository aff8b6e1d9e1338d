"""How many programs plain calls make of an op whose Python numbers change in every call."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import eagerjit as ej
import eagerjit.nn.functional as F
from eagerjit.calling.dispatch import OPS, Op, forget_programs
from eagerjit.ops import exponents

RATES = (0.13, 0.21, 0.34, 0.47, 0.58, 0.91)
ORDERS = (1, 2, 3)
X, Y, Z = (ej.rand(4, 6, generator=ej.Generator().manual_seed(seed)) for seed in range(3))
LABELS = ej.tensor([1, 2, 0, 1])
SIGNS = ej.tensor([1.0, -1.0, 1.0, -1.0])


def _tables(ops: Any) -> Iterator[Op]:
    for op in list(ops):
        yield op
        yield from _tables(getattr(op, "gradients", {}).values())


def programs() -> int:
    """How many there are of all ops and their gradients."""
    return sum(len(found) for op in _tables(OPS.values()) for found in getattr(op, "programs", {}).values())


def computed(function: Callable[..., Any], number: Any) -> str:
    """All bits of the result and of the gradient, as text."""
    x = (X - 0.3).requires_grad_()
    out = function(x, number)
    out.sum().backward()
    return str((out.tolist(), x.grad.tolist()))


def one_for_all(function: Callable[..., Any], numbers: tuple[Any, ...]) -> None:
    """Check that all numbers but the first share programs, which give what programs for one number alone give."""
    forget_programs()
    found, counts = [], []
    for number in numbers:
        found.append(computed(function, number))
        counts.append(programs())
    assert counts[1:] == [counts[1]] * (len(numbers) - 1)
    for number, text in zip(numbers, found, strict=True):
        forget_programs()
        assert computed(function, number) == text, number


@pytest.mark.parametrize(
    "function",
    [
        F.leaky_relu, F.elu, F.celu, F.softplus, F.hardshrink, F.softshrink,
        lambda x, v: F.softplus(x, 2.0, v),
        lambda x, v: (x / 4 + 0.4).logit(v / 8),
        lambda x, v: F.threshold(x, v, 3.0),
        lambda x, v: F.threshold(x, 0.1, v),
        lambda x, v: F.rrelu(x, v, 0.95),
        lambda x, v: F.normalize(x, eps=v),
        lambda x, v: F.cosine_similarity(x, Y, eps=v),
        lambda x, v: F.pad(x, (1, 1), value=v),
        lambda x, v: F.huber_loss(x, Y, delta=v),
        lambda x, v: F.smooth_l1_loss(x, Y, beta=v),
        lambda x, v: F.cross_entropy(x, LABELS, label_smoothing=v),
        lambda x, v: F.cross_entropy(x, Y, label_smoothing=v),
        lambda x, v: F.margin_ranking_loss(x, Y, Z, margin=v),
        lambda x, v: F.hinge_embedding_loss(x, Y.sign(), margin=v),
        lambda x, v: F.cosine_embedding_loss(x, Y, SIGNS, margin=v),
        lambda x, v: F.triplet_margin_loss(x, Y, Z, margin=v),
        lambda x, v: F.multi_margin_loss(x, LABELS, margin=v),
        lambda x, v: ej.addmm(Y, x, ej.eye(6), beta=v, alpha=v + 1.0),
        lambda x, v: ej.baddbmm(Y[None], x[None], ej.eye(6)[None], beta=v),
        lambda x, v: ej.addbmm(Y, x[None], ej.eye(6)[None], alpha=v),
        lambda x, v: ej.where(ej.isclose(x, Y, rtol=v, atol=v / 2), x, 1.0),
        lambda x, v: ej.xlogy(x, v),
        lambda x, v: ej.xlogy(v, x.abs()),
        lambda x, v: F.gaussian_nll_loss(x, Y, Z, eps=v),
        lambda x, v: F.poisson_nll_loss(x, Y, log_input=False, eps=v),
        lambda x, v: v**x,
        lambda x, v: x.scatter(1, LABELS[:, None], v),
    ],
)  # fmt: skip
def test_floats(function: Callable[..., Any]) -> None:
    one_for_all(function, RATES)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, v: x.abs() ** v,
        lambda x, v: ej.float_power(x.abs(), v),
        lambda x, v: x.norm(v),
        lambda x, v: x.norm(v, 1),
        lambda x, v: ej.linalg.vector_norm(x, v, 1),
        lambda x, v: F.normalize(x, v),
        lambda x, v: F.pairwise_distance(x, Y, v),
        lambda x, v: ej.dist(x, Y, v),
        lambda x, v: ej.renorm(x, v, 0, 0.5),
        lambda x, v: F.triplet_margin_loss(x, Y, Z, p=v),
    ],
)
def test_exponents(function: Callable[..., Any]) -> None:
    """From the ninth on, and the first eight have the same bits."""
    exponents._seen.clear()
    forget_programs()
    numbers = [1.51 + i / 30 for i in range(14)]
    found, counts = [], []
    for number in numbers:
        found.append(computed(function, number))
        counts.append(programs())
    assert counts[9:] == [counts[9]] * 5
    for number, text in zip(numbers, found, strict=True):
        exponents._seen.clear()
        forget_programs()
        assert computed(function, number) == text, number


def test_exponents_that_need_no_power_function_are_told_apart() -> None:
    """In powers, norms and their derivatives."""
    numbers = (
        1.7, 2, 2.0, 1.9, 1.0, 3, 3.0, 0.5, -0.5, -1, -2.0, 0.0, 0, 1 / 3, 2 / 3, 2.5, 2.4, 2.00000001, 4, 1e-17, -1.3,
        math.nan, math.inf,
    )  # fmt: skip

    def derivatives(function: Callable[..., Any], number: Any) -> str:
        x = (X + 0.1).requires_grad_()
        found = [function(x, number)]
        while len(found) < 4 and found[-1].requires_grad:
            (gradient,) = ej.autograd.grad(found[-1].sum(), x, create_graph=True, allow_unused=True)
            found.append(ej.zeros(3) if gradient is None else gradient)
        return str([part.tolist() for part in found])

    for function in (lambda x, v: x**v, lambda x, v: x.norm(v, 1)):
        exponents._seen.clear()
        exponents._seen.update(i + 0.1 for i in range(8))
        forget_programs()
        found, jitted = [derivatives(function, number) for number in numbers], ej.jit(function)
        for number, text in zip(numbers, found, strict=True):
            assert derivatives(jitted, number) == text, number
            exponents._seen.clear()
            forget_programs()
            assert derivatives(function, number) == text, number


@pytest.mark.parametrize("function", [ej.tril, ej.triu, lambda x, k: x.topk(k + 1)[0]])
def test_ints(function: Callable[..., Any]) -> None:
    one_for_all(function, ORDERS)


def test_what_decides_is_told_apart() -> None:
    """Numbers whose sign or size a body asks, zero among them, and those that a dtype has no room for."""
    for function in (
        F.leaky_relu,
        lambda x, v: F.cross_entropy(x, LABELS, label_smoothing=abs(v) if abs(v) < 1 else 0.0),
        lambda x, v: ej.addmm(Y, x, ej.eye(6), beta=v),
        lambda x, v: F.pad(x, (1, 1), value=v),
    ):
        numbers = (0.3, 0.0, -0.0, -0.3, 1.0, -1.0, 5e-324, 1e-300, -1e-300, 3.4e38, math.inf, -math.inf, math.nan, 0.4)
        forget_programs()
        found = [computed(function, number) for number in numbers]
        for number, text in zip(numbers, found, strict=True):
            forget_programs()
            assert computed(function, number) == text, number
    computed(F.leaky_relu, 0.3)
    for number in (3.41e38, -3.41e38):
        with pytest.raises(RuntimeError, match="cannot be converted to type float without overflow"):
            computed(F.leaky_relu, number)
    F.softshrink(X, 0.5)
    with pytest.raises(RuntimeError, match=r"must not be negative, but found -0\.5"):
        F.softshrink(X, -0.5)

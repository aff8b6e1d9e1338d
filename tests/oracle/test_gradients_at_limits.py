"""Gradients at infinities, poles and NaN, and behind masks: what PyTorch gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import eagerjit as ej

Call = Callable[[Any, Any], Any]
INF, NAN = math.inf, math.nan


def same(call: Callable[..., Any]) -> None:
    """The same numbers from both libraries, jitted or not."""
    expected = torch.tensor(call(torch, lambda f: f))
    for jit in (lambda f: f, ej.jit):
        torch.testing.assert_close(torch.tensor(call(ej, jit)), expected, equal_nan=True)


SECOND: dict[str, Call] = {
    "elu": lambda t, x: t.nn.functional.elu(x, 0.7),
    "celu": lambda t, x: t.nn.functional.celu(x, 0.7),
    "selu": lambda t, x: t.selu(x),
    "softplus": lambda t, x: t.nn.functional.softplus(x),
    "gelu": lambda t, x: t.nn.functional.gelu(x),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SECOND)
def test_second_gradients_far_out(name: str, dtype: str) -> None:
    def second(t: Any, jit: Any) -> Any:
        x = t.tensor([-3.0, 1.0, 100.0, 1000.0], dtype=getattr(t, dtype), requires_grad=True)
        (g,) = t.autograd.grad(jit(lambda x: SECOND[name](t, x))(x).sum(), x, create_graph=True)
        return t.autograd.grad(g.sum(), x)[0].tolist()

    same(second)


ACTIVATIONS = (
    "relu relu6 hardtanh hardswish hardsigmoid hardshrink softshrink leaky_relu elu selu celu silu mish softplus "
    "softsign tanhshrink logsigmoid"
).split()
EITHER = ("relu6", "hardtanh", "hardshrink", "softshrink")
"""Those for whose gradient at NaN PyTorch gives 0 or 1, by how many elements there are."""
ONE_BY_ONE = ("elu", "selu", "celu", "hardswish")
"""Those whose gradient at NaN is NaN in PyTorch where vectors of 256 bits compute it."""


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_of_nan_and_at_their_corners(name: str) -> None:
    def gradient(t: Any, jit: Any) -> Any:
        corners = [-6.0, -3.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 3.0, 6.0, 20.0]
        first = 0.0 if name in EITHER + ONE_BY_ONE else NAN
        x = t.tensor([first, *corners, *(t.tensor(corners) * 1.001).tolist()], requires_grad=True)
        y = jit(lambda x: getattr(t.nn.functional, name)(x))(x)
        y.sum().backward()
        return [*y.tolist(), *x.grad.tolist()]

    same(gradient)


@pytest.mark.parametrize("name", [name for name in ACTIVATIONS if name not in EITHER])
def test_activations_of_one_nan(name: str) -> None:
    def gradient(t: Any, jit: Any) -> Any:
        x = t.tensor([NAN], requires_grad=True)
        jit(lambda x: getattr(t.nn.functional, name)(x))(x).sum().backward()
        return x.grad.tolist()

    same(gradient)


def log_prob(name: str, value: Any, *rest: float) -> Call:
    """The log probability of a value by a distribution of a tensor and numbers."""
    return lambda t, x: getattr(t.distributions, name)(x, *rest, validate_args=False).log_prob(t.tensor(value))


MASKED: dict[str, Call] = {
    "xlogy": lambda t, x: t.xlogy(x, t.zeros_like(x)),
    "xlogy of negative numbers": lambda t, x: t.xlogy(x, -t.ones_like(x)),
    "xlogy of a number": lambda t, x: t.xlogy(x, 0.0),
    "xlog1py": lambda t, x: t.special.xlog1py(x, -t.ones_like(x)),
    "kl_div": lambda t, x: t.nn.functional.kl_div(t.ones_like(x), -x, reduction="none"),
    "Gamma": log_prob("Gamma", 0.0, 1.0),
    "InverseGamma": log_prob("InverseGamma", 0.0, 1.0),
    "Beta": log_prob("Beta", 0.0, 2.0),
    "Chi2": log_prob("Chi2", 0.0),
    "Dirichlet": log_prob("Dirichlet", [0.0, 0.5, 0.5]),
    "log_ndtr": lambda t, x: t.special.log_ndtr(x * INF),
}


@pytest.mark.parametrize("name", MASKED)
def test_behind_a_mask(name: str) -> None:
    def masked(t: Any, jit: Any) -> Any:
        x = t.tensor([0.5, 1.0, 3.0], requires_grad=True)
        jit(lambda x: t.where(t.tensor([False] * 3), MASKED[name](t, x), t.zeros(3)).sum())(x).backward()
        return x.grad.tolist()

    same(masked)


FIRST: dict[str, Call] = {
    "max": lambda t, x: x.max(),
    "min": lambda t, x: x.min(),
    "max of several": lambda t, x: t.cat([x, x]).max(),
    "amax": lambda t, x: x.amax(0),
    "amin": lambda t, x: x.amin(),
    "amax of rows": lambda t, x: x.reshape(2, 2).amax(1),
    "maximum": lambda t, x: t.maximum(x, t.ones(4)),
    "minimum": lambda t, x: t.minimum(t.ones(4), x),
    "maximum with itself": lambda t, x: t.maximum(x, x),
    "log_ndtr": lambda t, x: t.special.log_ndtr(x),
    "erfcx": lambda t, x: t.special.erfcx(-x.abs()),
    "ndtri": lambda t, x: t.special.ndtri(x),
    "nextafter": lambda t, x: t.nextafter(x, t.ones(4)),
    "angle": lambda t, x: t.angle(x),
}


@pytest.mark.parametrize("name", FIRST)
def test_first_gradients(name: str) -> None:
    def first(t: Any, jit: Any) -> Any:
        x = t.tensor([NAN, 1.0, INF, 0.25], requires_grad=True)
        jit(lambda x: FIRST[name](t, x).sum())(x).backward()
        return x.grad.tolist()

    same(first)


FAR: dict[str, Call] = {
    "huber_loss": lambda t, x: t.nn.functional.huber_loss(x, t.ones(6), reduction="none", delta=0.5),
    "smooth_l1_loss": lambda t, x: t.nn.functional.smooth_l1_loss(x, t.ones(6), reduction="none", beta=0.5),
    "prelu": lambda t, x: t.nn.functional.prelu(x[None], t.tensor([0.5, INF, INF, NAN, 0.25, INF])),
}


@pytest.mark.parametrize("name", FAR)
def test_gradients_far_from_the_other_branch(name: str) -> None:
    def gradient(t: Any, jit: Any) -> Any:
        x = t.tensor([NAN, 1.25, 3e38, 2.0, -3e38, INF], requires_grad=True)
        jit(lambda x: FAR[name](t, x).sum())(x).backward()
        return x.grad.tolist()

    same(gradient)


@pytest.mark.parametrize("name", ["xlogy", "xlog1py"])
@pytest.mark.parametrize("number", [2, 0.5, -1.0])
def test_logarithms_with_numbers(name: str, number: float) -> None:
    def gradient(t: Any, jit: Any) -> Any:
        x = t.tensor([0.0, 0.5, 3.0, INF], requires_grad=True)
        function = getattr(t.special, name)
        jit(lambda x: (function(number, x + 1.0) + function(x, number)).sum())(x).backward()
        return x.grad.tolist()

    same(gradient)


def test_xlogy_of_nothing_and_infinity() -> None:
    x, y = ej.tensor([0.0, 0.0], requires_grad=True), ej.tensor([INF, 0.0], requires_grad=True)
    ej.xlogy(x, y).sum().backward()
    assert x.grad.tolist() == [INF, 0.0] and y.grad.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("dtype", [ej.float32, ej.float64])
@pytest.mark.parametrize("place", [0.0, 1e-12, -1e-5])
def test_slopes_of_sinc_are_exact_near_zero(place: float, dtype: Any) -> None:
    x = ej.tensor(place, dtype=dtype, requires_grad=True)
    (first,) = ej.autograd.grad(ej.sinc(x), x, create_graph=True)
    (second,) = ej.autograd.grad(first, x)
    bound = math.pi**2 / 3
    assert first.item() == pytest.approx(-bound * place, rel=1e-6) and second.item() == pytest.approx(-bound, rel=1e-6)


@pytest.mark.parametrize("values, eps", [([[0.01, 0.02]], 0.1), ([[1e-9, 0.0]], 1e-8), ([[0.0, 0.0]], 1e-8)])
def test_cosine_similarity_of_short_vectors(values: Any, eps: float) -> None:
    def gradients(t: Any, jit: Any) -> Any:
        x, y = t.tensor(values, requires_grad=True), t.tensor([[1.0, 2.0]], requires_grad=True)
        jit(lambda x, y: t.nn.functional.cosine_similarity(x, y, eps=eps))(x, y).backward()
        return x.grad.tolist()

    same(gradients)


FLAT: dict[str, Call] = {
    "bernoulli": lambda t, x: t.bernoulli(x.clamp(0.0, 1.0)),
    "drawn with probabilities": lambda t, x: t.zeros(3).bernoulli_(x.clamp(0.0, 1.0)),
    "nextafter": lambda t, x: t.nextafter(t.ones(3), x),
    "heaviside": lambda t, x: t.heaviside(x, t.ones(3)),
    "heaviside at zero": lambda t, x: t.heaviside(t.zeros(3), x),
    "hinge_embedding_loss": lambda t, x: t.nn.functional.hinge_embedding_loss(t.ones(3), x),
    "cosine_embedding_loss": lambda t, x: t.nn.functional.cosine_embedding_loss(t.ones(3, 2), t.ones(3, 2), x),
}


@pytest.mark.parametrize("name", FLAT)
def test_what_has_a_gradient(name: str) -> None:
    def required(t: Any, jit: Any) -> bool:
        x = t.tensor([1.0, -1.0, 1.0], requires_grad=True)
        return jit(lambda x: FLAT[name](t, x))(x).requires_grad

    same(required)


def test_steps_have_no_slope() -> None:
    x = ej.tensor([0.0, 1.0, 0.5], requires_grad=True)
    (ej.bernoulli(x) + ej.nextafter(ej.ones(3), x)).sum().backward()
    assert x.grad.tolist() == [0.0] * 3


WITHOUT_RULE: dict[str, Call] = {
    "bernoulli": lambda t, x: t.bernoulli(x, 0.5),
    "//": lambda t, x: x // 2,
    "reflected //": lambda t, x: 2 // x,
    "floor_divide": lambda t, x: t.floor_divide(t.ones(2), x),
    "floor_divide_": lambda t, x: (x * 1).floor_divide_(2),
    "heaviside": lambda t, x: t.heaviside(x, t.ones(2)),
    "heaviside at zero": lambda t, x: t.heaviside(t.zeros(2), x),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WITHOUT_RULE)
def test_what_has_no_rule(name: str) -> None:
    """Its results count as computed of the tensor, and a walk backwards through them is refused."""

    def refused(t: Any, jit: Any) -> bool:
        x = t.tensor([5.0, -3.0], requires_grad=True)
        result = jit(lambda x: WITHOUT_RULE[name](t, x))(x)
        with pytest.raises(RuntimeError, match=r"derivative for aten::\w+ is not implemented"):
            result.sum().backward()
        return result.requires_grad

    same(refused)


@pytest.mark.parametrize("mode", ["floor", "trunc"])
@pytest.mark.parametrize("incoming", [float("nan"), float("inf")])
def test_rounded_quotients_are_flat_whatever_comes_in(incoming: float, mode: str) -> None:
    def gradient(t: Any, jit: Any) -> Any:
        x = t.tensor([5.0, -3.0], requires_grad=True)
        (jit(lambda x: t.div(x, 2, rounding_mode=mode))(x) * incoming).sum().backward()
        return x.grad.tolist()

    same(gradient)


@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_rounded_quotients_are_flat(mode: str) -> None:
    def gradient(t: Any, jit: Any) -> Any:
        x = t.tensor([5.0, -3.0], requires_grad=True)
        (jit(lambda x: t.div(x, 2, rounding_mode=mode) + x % 2 + t.ones(2) % x)(x)).sum().backward()
        return x.grad.tolist()

    same(gradient)

"""Going backward again through operations that have saved no values: as often as PyTorch lets one, jitted or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import eagerjit as ej

Case = Callable[[Any, Callable[..., Any]], Iterator[Any]]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def leaves(t: Any) -> tuple[Any, Any, Any]:
    x = t.arange(3.0).reshape(3, 1).requires_grad_()
    return x, t.ones(3, 1, requires_grad=True), t.ones(2, 2, requires_grad=True)


def prepared(t: Any, x: Any, y: Any, w: Any) -> tuple[Any, Any]:
    return t.cat([x, y], 1) + 1, w.t()[:, :2].reshape(4).view(2, 2)


def loss(inputs: Any, weight: Any) -> Any:
    return ((inputs @ weight) ** 2).sum()


@case
def inputs_and_weights_made_outside_of_the_loop(t, jit):
    x, y, w = leaves(t)
    inputs, weight = jit(lambda x, y, w: prepared(t, x, y, w))(x, y, w)
    for _ in range(3):
        jit(loss)(inputs, weight).backward()
        yield x.grad, y.grad, w.grad


@case
def all_in_one_function(t, jit):
    @jit
    def train(x, y, w):
        inputs, weight = prepared(t, x, y, w)
        for _ in range(3):
            loss(inputs, weight).backward()

    x, y, w = leaves(t)
    train(x, y, w)
    yield x.grad, y.grad, w.grad


@case
def gradients_of_gradients(t, jit):
    x, y, w = leaves(t)
    inputs, weight = jit(lambda x, y, w: prepared(t, x, y, w))(x, y, w)
    for _ in range(2):
        (g,) = t.autograd.grad(jit(loss)(inputs, weight), x, create_graph=True)
        (g**2).sum().backward()
        yield x.grad, y.grad, w.grad


@case
def a_view_of_what_the_loop_updates(t, jit):
    @jit
    def train(w, inputs):
        transposed = w.t()
        for _ in range(3):
            loss(inputs, transposed).backward()
            with t.no_grad():
                w -= 0.125 * w.grad
            w.grad = None

    _, _, w = leaves(t)
    train(w, t.ones(3, 2))
    yield w


@case
def a_gradient_of_the_users_own_that_saves_nothing(t, jit):
    class Twice(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x, _, _ = leaves(t)
    out = jit(Twice.apply)(x)
    for _ in range(2):
        out.sum().backward()
        yield x.grad


@case
def a_gradient_of_the_users_own_that_saves(t, jit):
    class Square(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0]

    x, _, _ = leaves(t)
    out = jit(Square.apply)(x)
    out.sum().backward()
    yield refused(out.sum().backward)


def refused(function: Callable[[], Any]) -> bool:
    try:
        function()
    except RuntimeError as error:
        return "second time" in str(error)
    return False


@case
def values_that_were_saved(t, jit):
    x, _, _ = leaves(t)
    out = jit(lambda x: (x * x).sum() + 0)(x)
    out.backward()
    yield refused(out.backward)


@case
def a_sum_of_what_is_gone(t, jit):
    x, y, _ = leaves(t)
    total = jit(lambda a, y: a + y)(jit(lambda x: x * x)(x), y)
    total.sum().backward()
    yield refused(total.sum().backward)


@case
def one_of_two_results_of_a_call(t, jit):
    def both(x, y):
        inputs = t.cat([x, y], 1)
        return (inputs * inputs).sum(), inputs

    x, y, _ = leaves(t)
    total, inputs = jit(both)(x, y)
    total.backward()
    inputs.sum().backward()
    (inputs * inputs).sum().backward()
    yield x.grad, y.grad, refused(total.backward)


@case
def one_of_two_results_of_what_is_gone(t, jit):
    def both(a, y):
        inputs = t.cat([a, y], 1)
        return (inputs * inputs).sum(), inputs

    x, y, _ = leaves(t)
    total, inputs = jit(both)(jit(lambda x: x * x)(x), y)
    total.backward()
    yield refused(inputs.sum().backward)


@case
def as_far_as_a_value_that_is_still_there(t, jit):
    def both(a, y):
        inputs = t.cat([a, y], 1)
        return (inputs * inputs).sum(), inputs

    x, y, _ = leaves(t)
    a = x * x
    total, inputs = jit(both)(a, y)
    yield t.autograd.grad(total, a)
    yield t.autograd.grad(inputs.sum(), a, retain_graph=True)
    inputs.sum().backward()
    yield x.grad, refused(inputs.sum().backward)


@case
def many_kinds_of_operations(t, jit):
    def made(x):
        wide = t.nn.functional.pad(x.expand(3, 4), (1, 1), value=2.0)
        picked = t.stack([wide.flip(0), wide.roll(1, 1), -wide, 1 - wide]).sum(0)
        parts = picked.select(1, 2)[:, None], picked[:, ::2], picked.repeat(1, 2).narrow(1, 2, 2)
        return t.cat([p.mean(1) for p in parts]).to(t.float64).clone()

    x, _, _ = leaves(t)
    out = jit(made)(x)
    for _ in range(2):
        (out**2).sum().backward()
        yield x.grad


@case
def numbers_and_constants_alone_are_kept(t, jit):
    other, half = t.full((3, 1), 2.0), t.tensor(0.5)

    def made(x, y):
        weighted = t.lerp(x, y, 0.25) + t.add(x, y, alpha=2) + t.sub(x, y, alpha=0.5)
        turned = t.einsum("ij->ji", t.addcmul(weighted, other, other, value=2))
        angles = turned.deg2rad().rad2deg() + turned.frac()
        image = t.nn.functional.interpolate(angles[None], size=5, mode="linear")
        return t.nn.functional.interpolate(image, scale_factor=2, mode="nearest")

    x, y, _ = leaves(t)
    out = jit(made)(x, y)
    for _ in range(2):
        (out**2).sum().backward()
        yield x.grad, y.grad
    kept = jit(lambda x: x * other + x / half)(x)
    kept.sum().backward()
    yield refused(kept.sum().backward)


def listed(values: Any) -> Any:
    if isinstance(values, (tuple, list)):
        return [listed(v) for v in values]
    return values.tolist() if hasattr(values, "tolist") else values


@pytest.mark.parametrize("jit", [lambda f: f, ej.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", CASES)
def test_as_often_as_in_pytorch(name: str, jit: Callable[..., Any]) -> None:
    for _ in range(2):
        expected = [listed(v) for v in CASES[name](torch, lambda f: f)]
        assert same(expected, [listed(v) for v in CASES[name](ej, jit)])


def same(expected: Any, actual: Any) -> bool:
    if isinstance(expected, list):
        return len(expected) == len(actual) and all(map(same, expected, actual))
    return actual == (pytest.approx(expected, rel=1e-5, abs=1e-6) if isinstance(expected, float) else expected)


def test_what_can_be_walked_again_holds_no_values() -> None:
    leaf, noise = ej.ones(4096, requires_grad=True), ej.ones(4096)
    total = leaf + noise
    kept = total._node
    (total * total).sum().backward()
    assert kept is not None and kept.inputs is not None
    assert all(x is leaf or not any(x._data.strides) for x in kept.inputs)
    assert not any(kept.output.strides)

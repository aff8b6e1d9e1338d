"""Gradients of gradients through compiled functions, in the ways that programs ask for them: the plain calls' bits."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import eagerjit as ej
from benchmarks import higher_order
from eagerjit.utils.checkpoint import checkpoint


def results(make: Any, peer: str) -> list[Any]:
    """Values of the gradients after each of three steps."""
    step, values = make(peer, 16, 8)
    out = []
    for _ in range(3):
        step()
        out.append([t.item() for t in values()])
    return out


@pytest.mark.parametrize("name", higher_order.PROGRAMS)
def test_the_bits_of_plain_calls(name: str) -> None:
    make = higher_order.PROGRAMS[name]
    assert results(make, "eagerjit") == results(make, "eagerjit eager")


def network() -> tuple[Any, list[ej.Tensor], Any]:
    """A function of three weights, one of them used twice, with its arguments."""
    weights = [((ej.arange(16.0).reshape(4, 4) + i) * 0.37).sin().requires_grad_() for i in range(3)]

    def function(x: ej.Tensor) -> ej.Tensor:
        a, b, c = weights
        return ((x @ a).tanh() @ b).sigmoid() @ c + (x @ a).exp()

    x = (ej.arange(8.0).reshape(2, 4) * 0.11).cos().requires_grad_()
    return function, [x, *weights], x


@pytest.mark.parametrize("chosen", [c for n in (1, 2, 3) for c in itertools.combinations(range(4), n)])
def test_gradients_for_some_of_the_leaves(chosen: tuple[int, ...]) -> None:
    """First and second gradients for some leaves are the plain ones, whatever was asked for before."""
    function, leaves, x = network()
    targets = [leaves[i] for i in chosen]

    def found(f: Any) -> list[Any]:
        out = f(x)
        first = ej.autograd.grad(out.sum(), targets, create_graph=True)
        second = ej.autograd.grad(sum((g * g).sum() for g in first), leaves, allow_unused=True, retain_graph=True)
        some = ej.autograd.grad(sum((g * g).sum() for g in first), targets, allow_unused=True)
        return [None if t is None else t.tolist() for t in (*first, *second, *some)]

    jitted = ej.jit(function)
    assert found(jitted) == found(function)
    assert found(jitted) == found(function)


@pytest.mark.parametrize("first", range(4))
@pytest.mark.parametrize("second", range(4))
def test_a_gradient_frees_what_the_plain_call_frees(first: int, second: int) -> None:
    function, leaves, x = network()

    def outcome(f: Any) -> str:
        out = f(x)
        ej.autograd.grad(out.sum(), leaves[first])
        try:
            return str(ej.autograd.grad(out.mean(), leaves[second])[0].tolist())
        except RuntimeError as error:
            return "second time" if "second time" in str(error) else str(error)

    assert outcome(ej.jit(function)) == outcome(function)


def test_a_gradient_for_one_leaf_leaves_out_the_others() -> None:
    """The products that other leaves' gradients need are not computed."""
    function, leaves, x = network()
    jitted = ej.jit(function)
    out = jitted(x)
    ej.autograd.grad(out.sum(), leaves[3], retain_graph=True)
    call = out.grad_fn.op
    alone = call.part((0,), (call.keys[[t is leaves[3] for t in out.grad_fn.inputs].index(True)],))
    complete = call.differentiable.parts[call.differentiable.complete]

    def products(part: Any) -> int:
        return str(part.plain.report.trace.graph).count("matmul")

    assert products(alone) == 1 < products(complete)


def test_a_call_stays_one_node_where_only_arguments_are_wanted() -> None:
    from eagerjit.autograd import expansion

    @ej.jit
    def both(x: ej.Tensor) -> tuple[ej.Tensor, ej.Tensor]:
        y = x.sin()
        return y, y * 2.0

    for _ in range(2):
        x = ej.arange(5.0).requires_grad_()
        first, second = both(x)
        ej.autograd.grad(first.sum() + second.sum(), x, retain_graph=True)
        assert first._node not in expansion.EXPANDED
    (slope,) = ej.autograd.grad(second.sum(), first)  # flows between results: only operations know it
    assert first._node in expansion.EXPANDED and slope.tolist() == [2.0] * 5


@pytest.mark.parametrize("name", ["var", "sinc", "softsign"])
def test_first_gradients_have_no_history_where_the_rule_is_derived(name: str) -> None:
    def slope(x: ej.Tensor) -> ej.Tensor:
        y = getattr(ej.nn.functional, name, None) or getattr(ej, name)
        (found,) = ej.autograd.grad(y((x * 2.0).sin()).sum(), x)
        return found

    jitted = ej.jit(slope)
    x = ej.linspace(0.1, 1.0, 5).requires_grad_()
    for _ in range(2):
        plain, compiled = slope(x), jitted(x)
        assert plain.requires_grad is compiled.requires_grad is False and plain.tolist() == compiled.tolist()
    assert ej.is_grad_enabled()


def test_second_gradient_under_another_default_dtype() -> None:
    def function(x: Any) -> Any:
        return (x * ej.tensor(0.1) + ej.ones(3)).exp()

    found = []
    for f in (function, ej.jit(function)):
        x = ej.tensor([1.0, 2.0, 3.0], requires_grad=True)
        ej.set_default_dtype(ej.float64)
        try:
            value = f(x)
        finally:
            ej.set_default_dtype(ej.float32)
        for _ in range(2):
            (value,) = ej.autograd.grad(value.sum(), x, create_graph=True)
        found.append(value.tolist())
    assert found[0] == found[1]


def in_turn(jit: Any, w: ej.Tensor) -> Any:
    """Functions that call others."""
    inner = jit(lambda x: x * w + x)
    part = jit(lambda x: inner(x).sin() + inner(x))
    return jit(lambda x: part(x) * x + inner(x))


def around_checkpoints(jit: Any, w: ej.Tensor) -> Any:
    """A function whose checkpoint calls others."""
    inner = jit(lambda x: x * w + x)
    return jit(lambda x: checkpoint(lambda y: inner(y).sin() * y, x, use_reentrant=False))


@pytest.mark.parametrize("make", [in_turn, around_checkpoints])
def test_third_gradients_of_calls_in_calls(make: Any) -> None:
    found: list[list[ej.Tensor]] = []
    for jit in (lambda f: f, ej.jit):
        w, x = (ej.linspace(-1.0, end, 5).requires_grad_() for end in (1.0, 2.0))
        result, gradients = make(jit, w)(x).sum(), []
        for _ in range(4):
            gradients += ej.autograd.grad(result, (x, w), create_graph=True)
            result = sum((g * g.sin()).sum() for g in gradients[-2:])  # type: ignore[assignment]
        found.append(gradients)
    for expected, got in zip(*found, strict=True):
        np.testing.assert_allclose(got.tolist(), expected.tolist(), rtol=0 if make is in_turn else 1e-4)


def repeated(x: ej.Tensor, w: ej.Tensor) -> ej.Tensor:
    return x * x + x + w


def test_uses_are_added_in_the_plain_calls_order() -> None:
    """To what another use of a tensor has left: the order decides about bits of the next gradient."""
    found = []
    for function in (repeated, ej.jit(repeated)):
        x, w = (((ej.arange(64.0) + i) * 0.7).sin().requires_grad_() for i in range(2))
        result = (function(x, w) * x).sum()
        for _ in range(3):
            gradients = ej.autograd.grad(result, (x, w), create_graph=True, allow_unused=True)
            found.append([None if g is None else g.tolist() for g in gradients])
            result = sum((g**2).sum() for g in gradients if g is not None and g.requires_grad)  # type: ignore[assignment]
    assert found[:3] == found[3:]


def test_gradients_with_a_history_of_recurrent_calls_that_change_objects() -> None:
    """Such a call cannot run again, and nothing compiled gives its gradient where another one has come before."""

    class Carried(ej.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.state, self.calls = ej.nn.GRU(3, 3), None, 0

        def forward(self, x: Any) -> Any:
            out, state = self.layer(x[:, None], self.state)
            self.state, self.calls = state.detach(), self.calls + 1
            return x + out[:, 0]

    module, head = Carried(), ej.nn.Linear(3, 3)
    with ej.no_grad():
        module(ej.ones(3, 3))
    call = ej.jit(module.forward)
    x = ej.arange(6.0).reshape(2, 3).requires_grad_()
    out = head(call(x)) + x * 2
    (grad,) = ej.autograd.grad(out.sum(), x, create_graph=True)
    ((out**2).mean() + grad.square().sum()).backward()
    assert module.calls == 2 and x.grad is not None

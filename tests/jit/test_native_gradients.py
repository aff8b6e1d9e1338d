"""Compiled calls with gradients that native code puts on the tape and walks through: Python sees none of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import eagerjit as torch
from eagerjit.compiled.gradient_tape import GradientOp
from eagerjit.compiled.tape import CallOp
from eagerjit.compiled.variants import Variant
from eagerjit.runtime.native import improving

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "one result": lambda x, w: (x * w).tanh() * 2,
    "a tuple": lambda x, w: ((x * w).sum(), x - w),
    "a dictionary": lambda x, w: {"sum": (x * w).sum(), "other": [w.exp()]},
    "an argument used twice": lambda x, w: x * w + (w * 2).sin(),
    "a result without a gradient": lambda x, w: ((x * w).sin(), x.argmax(), x.detach() * 2),
    "what saves nothing": lambda x, w: x + w,
}


def tensors_of(result: Any) -> list[torch.Tensor]:
    leaves, _ = torch.utils._pytree.tree_flatten(result)
    return leaves


def total(result: Any) -> torch.Tensor:
    return sum(t.sum() * (i + 1) for i, t in enumerate(tensors_of(result)) if t.requires_grad)


def leaves() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(3, 4, requires_grad=True), torch.randn(4, requires_grad=True)


@contextlib.contextmanager
def in_native_code() -> Iterator[None]:
    """A context in which Python refuses to do what native code should."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("Python was asked")

    improving.wait()  # where the disk does not have it, quick code does not walk
    with pytest.MonkeyPatch.context() as patch:
        for name in ("backward_onto", "release", "check"):
            patch.setattr(CallOp, name, refuse)
            patch.setattr(GradientOp, name, refuse)
        patch.setattr(Variant, "finish", refuse)
        patch.setattr(GradientOp, "backward_with_call", refuse)
        yield


def compiled(function: Callable[..., Any]) -> torch.jit.JitFunction:
    """A function that has served calls with gradients."""
    made = torch.jit(function)
    for _ in range(2):
        total(made(*leaves())).backward()
    return made


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_and_gradients_are_those_of_the_plain_call(name: str) -> None:
    plain, fast = FUNCTIONS[name], compiled(FUNCTIONS[name])
    (x, w), (y, v) = leaves(), leaves()
    for i in range(3):  # gradients are added up from the second on
        with in_native_code() if i == 0 else contextlib.nullcontext():
            expected, found = plain(x, w), fast(y, v)
            total(expected).backward()
            total(found).backward()
        assert type(found) is type(expected)
        for a, b in zip(tensors_of(expected), tensors_of(found), strict=True):
            assert torch.equal(a, b) and a.requires_grad == b.requires_grad and a.stride() == b.stride()
        assert torch.equal(x.grad, y.grad) and torch.equal(w.grad, v.grad)


def test_gradients_reach_what_was_computed_before() -> None:
    function, (x, w) = FUNCTIONS["one result"], leaves()
    fast = torch.jit(function)
    fast(x.exp(), w * 2).sum().backward()
    with in_native_code():
        found = torch.autograd.grad(fast(x.exp(), w * 2).sum(), (x, w))
    expected = torch.autograd.grad(function(x.exp(), w * 2).sum(), (x, w))
    assert all(map(torch.equal, found, expected))


def test_a_graph_can_be_walked_again_if_it_is_retained() -> None:
    fast = compiled(FUNCTIONS["one result"])
    x, w = leaves()
    with in_native_code():
        loss = fast(x, w).sum()
        loss.backward(retain_graph=True)
        first = w.grad.clone()
        loss.backward()
    assert torch.equal(w.grad, first + first)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


@pytest.mark.parametrize("written", ["argument", "result"])
def test_what_the_gradient_reads_may_not_be_overwritten(written: str) -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x * w).exp()

    fast = compiled(function)
    for call in (function, fast):
        x, w = leaves()
        y = x * 1
        out = call(y, w)
        with torch.no_grad():
            (y if written == "argument" else out).mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()


def test_part_of_the_results_or_of_the_gradients_is_left_to_python() -> None:
    function = FUNCTIONS["a tuple"]
    fast = compiled(function)
    x, w = leaves()
    for choose in (0, 1):
        expected = torch.autograd.grad(function(x, w)[choose].sum(), (w,))
        assert torch.equal(torch.autograd.grad(fast(x, w)[choose].sum(), (w,))[0], expected[0])
    (gx, gw), (hx, hw) = (torch.autograd.grad(f(x, w)[0], (x, w), create_graph=True) for f in (function, fast))
    assert torch.equal(gx, hx) and torch.equal(gw, hw)
    assert torch.equal(*(torch.autograd.grad(g.sum(), x)[0] for g in (gw, hw)))


def test_more_inputs_than_native_code_takes() -> None:
    parameters = [torch.randn(3, requires_grad=True) for _ in range(120)]

    def function(x: torch.Tensor) -> torch.Tensor:
        for p in parameters:
            x = x * p
        return x

    fast = torch.jit(function)
    x = torch.randn(3)
    for _ in range(3):
        expected = torch.autograd.grad(function(x).sum(), parameters)
        found = torch.autograd.grad(fast(x).sum(), parameters)
        assert all(map(torch.equal, expected, found))


def penalty(f: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    out = f(x, w)
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    return out.mean() + ((g.norm(2, dim=1) - 1) ** 2).mean()


def penalty_and_what_came_before(f: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    loss = penalty(f, x, w)
    return loss + (w * w).sum() + x.exp().sum()


def penalty_of_two_calls(f: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return penalty(f, x, w) - penalty(f, x * 2, w)


def gradient_for_both(f: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    found = torch.autograd.grad(f(x, w).sum(), (x, w), create_graph=True)
    return sum((g * g).sum() for g in found)


def gradient_of_a_gradient_that_needs_one(f: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    out = f(x, w)
    (g,) = torch.autograd.grad(out, x, (x * 3).sin(), create_graph=True)
    return g.square().sum() + out.sum()


def two_gradients_of_one_call(f: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    out = f(x, w)
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    (h,) = torch.autograd.grad((out * out).sum(), w, create_graph=True)
    return g.square().sum() + h.exp().sum() + out.mean()


def of_one_result_alone(f: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    (g,) = torch.autograd.grad(f(x, w)[:, 0].sum(), w, create_graph=True)
    return g.square().sum()


def of_noncontiguous_gradients(f: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    (g,) = torch.autograd.grad(f(x, w).t().contiguous().exp().sum(), x, create_graph=True)
    return g.t().contiguous().exp().sum()


def network(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A function that uses both of its arguments twice, and has values inside."""
    return (x * w).tanh().exp() + (w * 2).sin() * x.sigmoid()


PENALTIES = (
    *(penalty, penalty_and_what_came_before, penalty_of_two_calls, gradient_for_both),
    *(gradient_of_a_gradient_that_needs_one, two_gradients_of_one_call, of_one_result_alone),
    of_noncontiguous_gradients,
)


@pytest.mark.parametrize("loss", PENALTIES, ids=lambda f: f.__name__)
def test_gradients_with_a_history_are_made_and_walked_in_native_code(loss: Callable[..., torch.Tensor]) -> None:
    fast = torch.jit(network)
    for i in range(4):
        (x, w), (y, v) = leaves(), leaves()
        loss(network, x, w).backward()
        with in_native_code() if i > 1 else contextlib.nullcontext():
            loss(fast, y, v).backward()
        assert torch.equal(x.grad, y.grad) and torch.equal(w.grad, v.grad)


def test_gradients_for_some_inputs_are_computed_in_native_code() -> None:
    fast = torch.jit(network)
    for i in range(3):
        x, w = leaves()
        with in_native_code() if i else contextlib.nullcontext():
            (found,) = torch.autograd.grad(fast(x, w).sum(), w)
            (other,) = torch.autograd.grad(fast(x, w)[:1].sum(), x)
        assert torch.equal(found, torch.autograd.grad(network(x, w).sum(), w)[0])
        assert torch.equal(other, torch.autograd.grad(network(x, w)[:1].sum(), x)[0])


@pytest.mark.parametrize("retain", [False, True])
def test_what_native_code_has_walked_is_used_up_unless_it_is_retained(retain: bool) -> None:
    fast = torch.jit(network)
    for call in (network, *[fast] * 3):
        x, w = leaves()
        out = call(x, w)
        (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        loss = g.square().sum()
        loss.backward(retain_graph=retain)
        first = w.grad.clone()
        if retain:
            loss.backward()
            assert torch.equal(w.grad, first + first)
        for again in (loss, out.sum()):
            with pytest.raises(RuntimeError, match="backward through the graph a second time"):
                again.backward()


def test_what_the_gradient_of_a_gradient_reads_may_not_be_overwritten() -> None:
    fast = torch.jit(network)
    for call in (network, *[fast] * 3):
        x, w = leaves()
        out = call(x, w)
        (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        with torch.no_grad():
            w.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            g.square().sum().backward()


def test_a_third_order_takes_apart_what_native_code_has_made() -> None:
    fast = torch.jit(network)
    for _ in range(3):
        third = []
        for call in (network, fast):
            x, w = leaves()
            (g,) = torch.autograd.grad(call(x, w).sum(), x, create_graph=True)
            (h,) = torch.autograd.grad(g.square().sum(), x, create_graph=True)
            h.exp().sum().backward()
            third += [x.grad, w.grad]
        assert torch.equal(third[0], third[2]) and torch.equal(third[1], third[3])

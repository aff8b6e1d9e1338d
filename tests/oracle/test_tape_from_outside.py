"""Edges of the tape and hooks on several tensors, against PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from oracle import same

import eagerjit as ej


def _edges(t: Any) -> Any:
    x = t.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    z = y.exp()
    low, high = z.unbind()
    graph = t.autograd.graph
    inner, leaf = graph.get_gradient_edge(y), graph.get_gradient_edge(x)
    assert inner.node is y.grad_fn
    assert (leaf.node.name(), leaf.node.variable is x) == ("torch::autograd::AccumulateGrad", True)
    by_edge = t.autograd.grad(z.sum(), inner, retain_graph=True)
    several = t.autograd.grad([low, high], [leaf, inner], retain_graph=True)
    from_edge = t.autograd.grad(graph.get_gradient_edge(z.sum()), x, retain_graph=True)
    t.autograd.backward(graph.get_gradient_edge(high.sum()), inputs=[leaf])
    return by_edge, several, from_edge, x.grad


def test_edges() -> None:
    same(_edges(ej), _edges(torch))


def test_tensors_without_gradients_have_no_edge() -> None:
    for t in (ej, torch):
        with pytest.raises(RuntimeError, match="does not require gradients"):
            t.autograd.graph.get_gradient_edge(t.ones(2))


def _hooks(t: Any, mode: str) -> Any:
    a, b = (t.tensor([v, 1.0], requires_grad=True) for v in (2.0, 3.0))
    c, d = a * b, a + b
    seen: list[Any] = []
    handle = t.autograd.graph.register_multi_grad_hook((a, b, c, d), seen.append, mode=mode)
    c.sum().backward(retain_graph=True)
    c.sum().backward(inputs=(a,), retain_graph=True)
    (c * d).sum().backward(retain_graph=True)
    count = len(seen)
    handle.remove()
    c.sum().backward()
    assert len(seen) == count
    return [[g for g in found if g is not None] if mode == "all" else found.shape for found in seen], [
        [g is not None for g in found] for found in seen if mode == "all"
    ]


@pytest.mark.parametrize("mode", ["all", "any"])
def test_hooks_on_several_tensors(mode: str) -> None:
    same(_hooks(ej, mode), _hooks(torch, mode))


def test_other_modes_are_refused() -> None:
    for t in (ej, torch):
        with pytest.raises(ValueError, match="mode"):
            t.autograd.graph.register_multi_grad_hook([t.ones(1, requires_grad=True)], print, mode="some")


def _queued(t: Any) -> Any:
    calls: list[Any] = []
    x = t.ones(2, requires_grad=True)
    y = x * 3
    engine = t.autograd.Variable._execution_engine

    def inner(gradient: Any) -> None:
        z = t.ones(1, requires_grad=True)
        engine.queue_callback(lambda: calls.append(("end", x.grad is not None)))
        with t.enable_grad():
            (z * 2).sum().backward()
        calls.append(("hook", z.grad.tolist()))

    y.register_hook(inner)
    y.sum().backward()
    return calls


def test_callbacks_at_the_end_of_a_walk() -> None:
    assert _queued(ej) == _queued(torch) == [("hook", [2.0]), ("end", True)]
    with pytest.raises(RuntimeError, match="during backward"):
        ej.autograd.Variable._execution_engine.queue_callback(print)


def test_a_walk_that_fails_leaves_no_callbacks() -> None:
    calls: list[Any] = []
    x = ej.ones(2, requires_grad=True)
    y = x * 3

    def fail(gradient: Any) -> None:
        ej.autograd.Variable._execution_engine.queue_callback(lambda: calls.append("end"))
        raise KeyError("hook")

    handle = y.register_hook(fail)
    with pytest.raises(KeyError):
        y.sum().backward()
    handle.remove()
    (x * 2).sum().backward()
    assert not calls


def _hooked(t: Any) -> Any:
    calls: list[str] = []

    def doubled(name: str) -> Any:
        return lambda g: calls.append(name) or g * 2

    x = t.ones(2, requires_grad=True)
    x.register_hook(doubled("leaf"))
    x.register_post_accumulate_grad_hook(lambda p: calls.append("after"))
    y = x * 3
    y.retain_grad()
    y.register_hook(doubled("inner"))
    y.sum().backward(inputs=[x], retain_graph=True)
    y.sum().backward(inputs=[y], retain_graph=True)
    first, second = y.unbind()
    several = t.autograd.grad([first, second.exp()], [first, x], retain_graph=True)
    kept = y.grad.clone()
    several += t.autograd.grad(y.sum(), y)
    return calls, x.grad, kept, several


def test_hooks_see_gradients_that_are_asked_for_once() -> None:
    same(_hooked(ej), _hooked(torch))


def _kept(t: Any) -> Any:
    x = t.ones(2, requires_grad=True)
    seen: list[Any] = []
    x.register_hook(seen.append)
    for factor in (3.0, 4.0):
        (x * factor).sum().backward()
    return seen, x.grad


def test_gradients_that_hooks_keep_stay_what_they_are() -> None:
    same(_kept(ej), _kept(torch))

"""Loops that ask for values in every round: what a recording computes for its questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import eagerjit as torch
from eagerjit.compiled import answers


def iterated(x: Any) -> Any:
    """A fixed point: one question a round, all rounds alike."""
    rounds = 0
    while True:
        new = torch.cos(x) * 0.5 + x.mean() * 0.1
        change = (new - x).abs().max()
        x, rounds = new, rounds + 1
        if change < 1e-4:
            return x, rounds


def halved(x: Any) -> Any:
    """Descent with a line search: two kinds of question, gradients between."""
    for _ in range(4):
        x = x.detach().requires_grad_()
        loss = (x**4).sum() - x.sum()
        (g,) = torch.autograd.grad(loss, x)
        step = 1.0
        while True:
            y = (x - step * g).detach()
            if (y**4).sum() - y.sum() <= loss.detach() - 0.3 * step * (g * g).sum():
                break
            step *= 0.5
        x = y
    return x


def written(x: Any) -> Any:
    """Values are written in place, through views too, and asked for in between."""
    state = x.clone()
    row = state[0]
    for _ in range(20):
        state.mul_(0.7)
        row.add_(0.01)
        x.add_(state)
        if state.abs().max() < 0.2:
            break
    return state, row


def transposed(x: Any) -> Any:
    """The argument is no contiguous memory, and an empty part of it is asked for."""
    y = x.T
    while y.norm() > 1:
        y = y * 0.5
        if y[:0].any():
            return y
    return y


def counted(x: Any) -> Any:
    """Sizes that depend on values."""
    kept = x.flatten()
    for _ in range(10):
        kept = kept[kept > kept.mean()]
        if kept.numel() < 4 or kept.std() < 0.1:
            break
    return kept


def drawn(x: Any) -> Any:
    """Random numbers: answers draw the numbers that the call draws."""
    total = torch.zeros(())
    while total < 3:
        total = total + torch.rand_like(x).mean()
    return total, torch.rand(2)


FUNCTIONS = [iterated, halved, written, transposed, counted, drawn]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_paths_are_those_of_the_plain_call(function: Callable[[Any], Any], dtype: torch.dtype) -> None:
    jitted = torch.jit(function)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(5, 3, dtype=dtype)
        ours, theirs = x.clone(), x.clone()
        torch.manual_seed(seed + 10)
        expected = function(theirs)
        torch.manual_seed(seed + 10)
        found = jitted(ours)
        assert torch.equal(ours, theirs)
        for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in (found, expected)), strict=True):
            assert torch.equal(a, b) if isinstance(b, torch.Tensor) else a == b


@pytest.mark.parametrize("function", [iterated, halved], ids=lambda f: f.__name__)
def test_a_round_is_computed_once(function: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """All questions compute about as many operations as were recorded, and rounds that are alike share code."""
    computed: list[int] = []
    programs: set[int] = set()
    original = answers._executable

    def noted(tracer: Any, trace: Any) -> Any:
        found = original(tracer, trace)
        computed.append(len(trace.graph.nodes))
        programs.add(id(found))
        return found

    monkeypatch.setattr(answers, "_executable", noted)
    torch.manual_seed(0)
    jitted = torch.jit(function)
    x = torch.randn(6, 2)
    jitted(x)
    recorded = len(jitted.explain(x).graph.nodes)
    assert len(computed) > 5
    assert sum(computed) <= 1.5 * recorded
    assert len(programs) <= len(computed) / 2 + 2


def test_rounds_that_differ_in_sizes_share_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search through what is left of a list: every round is of another size."""
    programs: set[int] = set()
    original = answers._executable

    def noted(tracer: Any, trace: Any) -> Any:
        found = original(tracer, trace)
        programs.add(id(found))
        return found

    def chosen(scores: Any, near: Any) -> Any:
        order, kept = scores.argsort(descending=True), []
        while order.numel() > 0:
            i = order[0]
            kept.append(i.item())
            if order.numel() == 1:
                break
            rest = order[1:]
            order = rest[near[i, rest] <= 0.8]
        return torch.tensor(kept)

    torch.manual_seed(1)
    scores, near = torch.rand(40), torch.rand(40, 40)
    expected = chosen(scores, near)
    monkeypatch.setattr(answers, "_executable", noted)
    assert torch.equal(torch.jit(chosen)(scores, near), expected)
    assert len(expected) > 6
    assert len(programs) < len(expected)

"""Parts under a checkpoint that write in place: what they made is theirs, what they were given is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.utils.checkpoint

import eagerjit as ej

PARTS: dict[str, Callable[[Any], Any]] = {
    "given": lambda h: h.tanh_(),
    "given, then more": lambda h: h.tanh_() * 2,
    "a view of what is given": lambda h: h[:2].exp_().sin(),
    "given before what reads it": lambda h: h.add_(1).sin(),
    "made": lambda h: (h * 2).tanh_(),
    "made, a view": lambda h: (h * 2)[1:].mul_(3).sin(),
}


def outcome(t: Any, part: Callable[[Any], Any], use_reentrant: bool) -> Any:
    x = t.linspace(-1, 1, 4).requires_grad_()
    try:
        t.utils.checkpoint.checkpoint(part, x * 1.5, use_reentrant=use_reentrant).sum().backward()
    except RuntimeError as error:
        return "in-place operation" in str(error) or "inplace operation" in str(error)
    return x.grad.numpy()


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize("name", PARTS)
def test_checkpoints_of_parts_that_write(name: str, use_reentrant: bool) -> None:
    ours, theirs = (outcome(t, PARTS[name], use_reentrant) for t in (ej, torch))
    assert ours is True if theirs is True else ours == pytest.approx(theirs, rel=1e-5)
    assert name.startswith("made") or theirs is True


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_results_of_checkpoints_can_be_overwritten(use_reentrant: bool, jitted: bool) -> None:
    def gradients(t: Any, jit: Any) -> Any:
        def function(x: Any) -> Any:
            y = t.utils.checkpoint.checkpoint(lambda p: p.sin() * p, x, use_reentrant=use_reentrant)
            return y.mul_(x)

        x = t.linspace(-1, 1, 4).requires_grad_()
        (jit(function)(x).add_(1) ** 2).sum().backward()
        return x.grad.numpy()

    ours, theirs = gradients(ej, ej.jit if jitted else lambda f: f), gradients(torch, lambda f: f)
    assert ours == pytest.approx(theirs, rel=1e-5)

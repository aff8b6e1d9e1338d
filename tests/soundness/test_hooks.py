"""Gradient hooks around and inside of jitted functions: called as often, and as late, as in the plain call."""

from __future__ import annotations

import warnings

import eagerjit as torch
from eagerjit.compiled.fallback import JitWarning


def weight() -> torch.Tensor:
    return torch.tensor([1.0, -2.0, 3.0], requires_grad=True)






def test_what_a_hook_does_to_other_things_is_done_at_every_call() -> None:
    w, seen = weight(), []
    w.register_hook(lambda g: seen.append(1))

    @torch.jit
    def step(x: torch.Tensor) -> None:
        w.grad = None
        (w * x).sum().backward()

    with warnings.catch_warnings():
        warnings.simplefilter("error", JitWarning)
        for _ in range(4):
            step(torch.ones(3))
    assert len(seen) == 4 and step.cache_info().compiles == 1


def test_hooks_that_a_function_reads_are_those_of_every_call() -> None:
    w = weight()

    @torch.jit
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * len(w._backward_hooks or ())

    x, found = torch.ones(2), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", JitWarning)
        for _ in range(3):
            found.append(scaled(x).tolist())
            w.register_hook(abs)
    assert found == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]

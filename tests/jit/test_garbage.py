"""Recordings and the garbage collector: where garbage is looked for, and objects that it was told to leave alone."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.compiled.fallback import JitWarning


def test_garbage_of_a_recording_is_found_among_young_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole collection would look at every object of the program."""

    def function(x: torch.Tensor) -> torch.Tensor:
        cycle: list[Any] = [x * 2]
        cycle.append(cycle)
        return x + 1

    generations: list[int] = []
    collect = gc.collect

    def noting(generation: int = 2) -> int:
        generations.append(generation)
        return collect(generation)

    monkeypatch.setattr(gc, "collect", noting)
    jitted = torch.jit(function)
    assert jitted(torch.ones(2)).tolist() == [2.0, 2.0]
    assert jitted.cache_info().compiles == 1 and jitted.cache_info().eager_calls == 0
    assert set(generations) == {0}


def test_holders_of_what_never_changes_are_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """To find them is to look at every object of the program."""
    values = (1, 2.0)
    monkeypatch.setattr(gc, "get_referrers", lambda *objects: pytest.fail(f"who holds {objects}?"))
    jitted = torch.jit(lambda x: x + isinstance(values, tuple) * isinstance(x.shape, tuple), fullgraph=True)
    assert jitted(torch.ones(2)).tolist() == [2.0, 2.0]
    jitted = torch.jit(lambda x: torch.nn.functional.mse_loss(x, x), fullgraph=True)
    assert jitted(torch.ones(2)).item() == 0.0


@pytest.fixture
def frozen() -> Iterator[None]:
    """Everything is frozen once `gc.freeze` is called."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", JitWarning)
        yield
    gc.unfreeze()


def test_what_frozen_objects_hold_is_not_taken_for_new(frozen: None) -> None:
    """The collector names no frozen object among those that hold another."""
    counts = [{"calls": 0}]

    def function(x: torch.Tensor) -> torch.Tensor:
        counts[0]["calls"] += 1
        return x + 1

    jitted = torch.jit(function)
    gc.freeze()
    for _ in range(3):
        assert jitted(torch.ones(2)).tolist() == [2.0, 2.0]
    assert counts == [{"calls": 3}]


def test_what_is_made_inside_is_not_taken_for_old_where_objects_are_frozen(frozen: None) -> None:
    def function(x: torch.Tensor, rate: float) -> torch.Tensor:
        numbers = {"scale": 2}
        numbers["scale"] += 1
        pair = (numbers["scale"], rate)
        return x * pair[0] * pair[1] + np.arange(3)[1]

    jitted = torch.jit(function)
    gc.freeze()
    assert [jitted(torch.ones(1), rate).item() for rate in (1.0, 2.0, 3.0)] == [4.0, 7.0, 10.0]


def test_functions_of_tensors_compile_where_objects_are_frozen(frozen: None) -> None:
    layer = torch.nn.Linear(2, 2)
    jitted = torch.jit(lambda x: layer(x).relu().sum())
    gc.freeze()
    for _ in range(2):
        assert jitted(torch.ones(3, 2)).item() == layer(torch.ones(3, 2)).relu().sum().item()
    assert jitted.cache_info().compiles == 1 and jitted.cache_info().eager_calls == 0


def test_gradients_with_a_history_in_the_grad_of_a_parameter_are_garbage_with_it() -> None:
    """The parameter holds its gradient, and this what it was computed of: the parameter."""
    cube = torch.jit(lambda x: (x * x * x).sum())

    def step() -> tuple[weakref.ref[Any], weakref.ref[Any]]:
        x = torch.ones(3, requires_grad=True)
        cube(x).backward(create_graph=True)
        node = x.grad.grad_fn
        x.grad.sum().backward(retain_graph=True)
        assert x.grad.tolist() == [9.0, 9.0, 9.0]
        return weakref.ref(x), weakref.ref(node)

    step()  # is recorded
    for _ in range(2):  # native code makes the node of the second
        tensor, node = step()
        gc.collect()
        assert tensor() is None and node() is None

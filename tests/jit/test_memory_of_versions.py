"""What compiled versions keep alive: nothing of the arguments that they were recorded with."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

import eagerjit as torch


class Plain:
    def __init__(self, x: Any, y: Any):
        self.x, self.y = x, y


@dataclass
class Record:
    x: Any
    y: Any


class Derived(dict[str, Any]):
    pass


MAKERS: dict[str, Callable[[Any, Any], Any]] = {
    "dict": lambda x, y: {"x": x, "y": y},
    "derived": lambda x, y: Derived(x=x, y=y),
    "plain": Plain,
    "dataclass": Record,
    "namespace": lambda x, y: SimpleNamespace(x=x, y=y),
}


def product(batch: Any) -> Any:
    x, y = (batch["x"], batch["y"]) if isinstance(batch, dict) else (batch.x, batch.y)
    return (x * y).sum()


@pytest.mark.parametrize("kind", MAKERS)
def test_batches_are_freed(kind: str) -> None:
    compiled, tensors = torch.jit(product), []
    for rows in range(3, 9):
        batch = MAKERS[kind](torch.randn(rows, 4), torch.randn(rows, 4))
        tensors.append(weakref.ref(batch["x"] if isinstance(batch, dict) else batch.x))
        assert torch.equal(compiled(batch), product(batch))
        del batch
    gc.collect()
    assert [tensor() for tensor in tensors] == [None] * 6
    assert compiled.cache_info().eager_calls == 0


def test_a_version_that_knew_an_object_is_gone_and_the_object_is_served() -> None:
    compiled, first = torch.jit(product), Plain(torch.randn(3), torch.randn(3))
    assert torch.equal(compiled(first), product(first)) and len(compiled.executables) == 1
    second = Plain(torch.randn(4), torch.randn(4))
    assert torch.equal(compiled(second), product(second))
    assert len(compiled.variants) == 1
    first.x = torch.randn(3)
    assert torch.equal(compiled(first), product(first)) and compiled.cache_info().compiles == 2


@pytest.mark.parametrize("by", ["position", "name"])
@pytest.mark.parametrize("again", [False, True], ids=["once", "again"])
def test_results_that_are_kept_hold_nothing_that_backward_needed(by: str, again: bool) -> None:
    """Losses lie in lists for long, and batches, with all that was kept of them, must not."""
    compiled, losses, tensors = torch.jit(lambda x, y: (torch.tanh(x) * y).sum()), [], []
    weight = torch.randn(4, 4, requires_grad=True)
    for _ in range(6):
        x, y = torch.randn(3, 4) @ weight, torch.randn(3, 4)
        tensors += [weakref.ref(x), weakref.ref(y)]
        losses.append(compiled(x, y) if by == "position" else compiled(y=y, x=x))
        if again:
            losses[-1].backward(retain_graph=True)
        losses[-1].backward()
        del x, y
    gc.collect()
    assert [tensor() for tensor in tensors[4:]] == [None] * 8
    with pytest.raises(RuntimeError, match="second time"):
        losses[-1].backward()

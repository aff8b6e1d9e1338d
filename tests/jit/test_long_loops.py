"""Loops of many rounds inside a compiled function: what their programs cost, and where recording gives up."""

from __future__ import annotations

from typing import Any

import pytest

import eagerjit as torch
from eagerjit.jit import JitWarning
from eagerjit.recording import trace
from eagerjit.utils.data import DataLoader, TensorDataset


def total(batches: Any) -> Any:
    """Rounds with memory of their own."""
    found = torch.zeros(())
    for x in batches:
        found = found + torch.softmax(x @ x.T, -1).cumsum(0).max()
    return found


def test_programs_grow_with_the_rounds() -> None:
    """Batches of a list have sizes of their own: where a round's memory lies is told from where the last one's ends."""
    jitted = torch.jit(total)
    counts = []
    for n in (10, 20, 40):
        batches = [torch.randn(3 + i, 4) for i in range(n)]
        assert torch.equal(jitted(batches), total(batches))
        counts.append(len(jitted.explain(batches).program.instructions))
    assert counts[2] - counts[1] < 2.4 * (counts[1] - counts[0])


def test_a_data_loader_is_gone_through_eagerly() -> None:
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(10, 4)), batch_size=3)

    def epoch(batches: Any) -> Any:
        return total(x for (x,) in batches)

    jitted = torch.jit(epoch)
    with pytest.warns(JitWarning, match="test_long_loops.py:.*goes through a DataLoader"):
        found = jitted(loader)
    assert torch.equal(found, epoch(loader))


def test_batches_that_come_from_outside_are_compiled() -> None:
    loader = DataLoader(TensorDataset(torch.randn(10, 4)), batch_size=5)
    jitted = torch.jit(total)
    for _ in range(3):
        batches = [x for (x,) in loader]
        assert torch.equal(jitted(batches), total(batches))
    assert jitted.cache_info().compiles == 1


def test_endless_recordings_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "MOST_OPERATIONS", 300)
    calls = 0

    def count(x: Any) -> Any:
        nonlocal calls
        calls += 1
        for _ in range(400):
            x = x + 1
        return x

    jitted = torch.jit(count)
    with pytest.warns(JitWarning, match="test_long_loops.py:.*over 300 operations"):
        found = jitted(torch.zeros(3))
    assert torch.equal(found, torch.full((3,), 400.0))
    assert calls == 1

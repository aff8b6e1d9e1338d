"""Random views of views, written through each other, are the same jitted; see `aliases`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import eagerjit
from eagerjit.compiled import machine_code
from eagerjit.runtime import cpu
from tests.property import aliases, programs


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Code that is generated quickly, and of which nothing is kept."""
    monkeypatch.setenv("EAGERJIT_CACHE", "0")
    monkeypatch.setattr(cpu, "_target_machine", programs.hasty_machine)
    machine_code.forget()
    yield
    machine_code.forget()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("group", range(4))
def test_views_of_views(group: int) -> None:
    found = [(seed, aliases.difference(seed)[0]) for seed in range(group * 1_000_003, group * 1_000_003 + 20)]
    assert [pair for pair in found if pair[1] is not None] == []


def test_the_comparison_notices_other_memory() -> None:
    """A view and its copy are shown differently."""
    base = eagerjit.arange(4.0)
    shown = aliases.shown([base, base[1:]])
    assert shown != aliases.shown([base, base[1:].clone()]) and shown == aliases.shown([base, base[1:]])

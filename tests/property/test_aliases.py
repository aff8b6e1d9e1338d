"""Random views of views, written through each other, are the same jitted; see `aliases`."""

from __future__ import annotations

import pytest

import eagerjit
from tests.property import aliases

pytestmark = pytest.mark.usefixtures("hasty")


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

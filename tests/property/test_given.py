"""Random functions of objects and texts are the same jitted; see `given`."""

from __future__ import annotations

import pytest

from tests.property import given

pytestmark = pytest.mark.usefixtures("hasty")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("group", range(6))
def test_given(group: int) -> None:
    found = [(seed, given.difference(seed)[0]) for seed in range(group * 2_000_003, group * 2_000_003 + 12)]
    assert [pair for pair in found if pair[1] is not None] == []


@pytest.mark.filterwarnings("ignore")
def test_most_scripts_are_compiled() -> None:
    """Versions serve calls with other objects: the comparison is not one of plain calls."""
    served, plain = map(sum, zip(*(given.difference(seed)[1:] for seed in range(40)), strict=True))
    assert served > plain

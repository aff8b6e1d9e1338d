"""Random functions over a changing world are the same jitted; see `worlds`."""

from __future__ import annotations

import pytest

from tests.property import worlds

pytestmark = pytest.mark.usefixtures("hasty")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("group", range(6))
def test_worlds(group: int) -> None:
    found = [(seed, worlds.difference(seed)[0]) for seed in range(group * 1_000_003, group * 1_000_003 + 12)]
    assert [pair for pair in found if pair[1] is not None] == []


def test_the_comparison_notices_a_stale_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """A jitted function that returns its first result again differs."""
    from tests.soundness import framework

    def stale(self: framework.Run, function: object) -> object:
        kept: list[object] = []

        def called(*args: object) -> object:
            kept.append(function(*args))  # type: ignore[operator]
            return kept[0]

        return framework.Logged(self, called if self.jitted else function)

    monkeypatch.setattr(framework.Run, "jit", stale)
    assert any(worlds.difference(seed)[0] is not None for seed in range(6))

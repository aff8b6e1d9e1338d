"""Random functions over a changing world, and of changing dictionaries, are the same jitted: see their modules."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.property import dictionaries, worlds

pytestmark = pytest.mark.usefixtures("hasty")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("group", range(6))
def test_worlds(group: int) -> None:
    found = [(seed, worlds.difference(seed)[0]) for seed in range(group * 1_000_003, group * 1_000_003 + 12)]
    assert [pair for pair in found if pair[1] is not None] == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("group", range(2))
def test_dictionaries(group: int) -> None:
    found = [(seed, *dictionaries.difference(seed)) for seed in range(group * 1_000_003, group * 1_000_003 + 12)]
    assert [case for case in found if case[1] is not None] == []
    assert sum(served for _, _, served, _ in found) > 5


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("programs", [worlds, dictionaries])
def test_the_comparison_notices_a_stale_value(programs: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A jitted function that returns its first result again differs."""
    from tests.soundness import framework

    def stale(self: framework.Run, function: object) -> object:
        kept: list[object] = []

        def called(*args: object) -> object:
            kept.append(function(*args))  # type: ignore[operator]
            return kept[0]

        return framework.Logged(self, called if self.jitted else function)

    monkeypatch.setattr(framework.Run, "jit", stale)
    assert any(programs.difference(seed)[0] is not None for seed in range(6))

"""Random statements over tensors and state are the same jitted; see `statements`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.property.seen import Showing, parting, parting_from_torch
from tests.property.statements import Generator, difference

pytestmark = pytest.mark.usefixtures("hasty")

STARTS = (100, 4_000, 90_000)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", STARTS)
def test_statements(start: int) -> None:
    infos: list[Any] = []
    found = [(seed, difference(Generator(seed).program, "compiled", infos)) for seed in range(start, start + 12)]
    assert [pair for pair in found if pair[1] is not None] == []
    assert sum(info.hits + info.compiles for info in infos) > 12


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("words", ["objects_drawn", "idioms_drawn"])
def test_statements_with_more_words(words: str) -> None:
    infos: list[Any] = []
    drawn = [(seed, Generator(seed, **{words: True}).program) for seed in range(300, 312)]
    found = [(seed, difference(program, "compiled", infos)) for seed, program in drawn]
    assert [pair for pair in found if pair[1] is not None] == []
    assert sum(info.hits + info.compiles for info in infos) > 12


def test_a_difference_is_seen() -> None:
    """The comparison itself: a sign of zero, memory that is shared, a dtype, another kind of error."""
    import eagerjit as torch

    def shown(*values: Any) -> Any:
        return Showing()(list(values))

    x = torch.zeros(2)
    assert parting(shown(x, x[:1]), shown(torch.zeros(2), torch.zeros(1))) is not None
    assert parting(shown(x), shown(torch.zeros(2))) is None
    assert parting(shown(x), shown(-x)) is not None
    assert parting_from_torch(shown(x), shown(x + 1e-6)) is None
    for other in (x + 1, x.double(), x.long(), x[:1], ValueError("x")):
        assert parting_from_torch(shown(x), shown(other)) is not None
    assert parting_from_torch(shown(ValueError("a")), shown(ValueError("b"))) is None

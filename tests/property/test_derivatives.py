"""Random derivatives of derivatives are the same jitted; see `derivatives`."""

from __future__ import annotations

import pytest

from eagerjit.jit import CacheInfo
from tests.property.derivatives import Generator, Program, difference

pytestmark = pytest.mark.usefixtures("hasty")


def test_derivatives() -> None:
    infos: list[CacheInfo] = []
    parted = [(seed, difference(Generator(seed).program, infos)) for seed in range(20, 23)]
    assert [pair for pair in parted if pair[1] is not None] == []
    assert sum(info.hits + info.compiles for info in infos) > 3


def test_a_difference_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison itself: a second derivative of which the second run leaves out a factor."""
    program = Program(
        jitted=["step"], functions=[["x = torch.tanh(x @ s.w)"], ["x = f(x) * 2"]], loss="x.square().mean()",
        step="twice", calls=[["made(1, 3, 3)"]] * 2,
    )  # fmt: skip
    assert difference(program) is None
    sources = iter((program.source, program.source.replace("f0(x) * 2", "f0(x)")))
    with monkeypatch.context() as patch:
        patch.setattr(Program, "source", property(lambda _: next(sources)))
        assert difference(program) is not None

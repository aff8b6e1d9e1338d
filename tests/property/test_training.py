"""Random programs that train models are the same jitted; see `training`."""

from __future__ import annotations

import pytest

from tests.property.training import Found, Generator, Program, difference

pytestmark = pytest.mark.usefixtures("hasty")

STARTS = (300, 70_000)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", STARTS)
def test_training(start: int) -> None:
    found = Found()
    parted = [(seed, difference(Generator(seed).program, found, seed)) for seed in range(start, start + 3)]
    assert [pair for pair in parted if pair[1] is not None] == []
    assert sum(info.hits + info.compiles for info in found.infos) > 3


def test_a_difference_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison itself: a step that the second run does not take, of the optimizer or of its schedule."""
    program = Program(
        style="global", jitted=["step"], layers=["nn.Tanh()"], setup=[], loss="(out ** 2).mean()",
        gradients=[["s.opt.zero_grad()"], ["loss = loss_of(forward(x), x, y)", "loss.backward()"]], before=[],
        update=[["s.opt.step()"], ["s.schedule.step()"]], after=[], calls=[["x = made(1, 4) ; step(x, y)"]] * 3,
        optimizer="optim.SGD(s.net.parameters(), lr=0.1)", extras=["s.schedule = schedules.ExponentialLR(s.opt, 0.9)"],
    )  # fmt: skip
    assert difference(program) is None
    source = program.source
    for forgotten in ("s.opt.step()", "s.schedule.step()"):
        shorter = source.replace(f"    {forgotten}\n", "    pass\n")
        assert shorter != source
        sources = iter((source, shorter))
        with monkeypatch.context() as patch:
            patch.setattr(Program, "source", property(lambda _, sources=sources: next(sources)))
            assert difference(program) is not None

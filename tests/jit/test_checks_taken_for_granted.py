"""A recording computes nothing for checks of the library's own that nearly every call passes."""

from __future__ import annotations

import pytest

import eagerjit as torch
from eagerjit.compiled import answers

D = torch.distributions


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What recordings compute for questions."""
    found: list[object] = []

    def answer(tracer, node):
        found.append(node)
        return plain(tracer, node)

    plain = answers.answer
    monkeypatch.setattr(answers, "answer", answer)
    return found


def test_checks_are_left_to_the_compiled_call(computed: list[object]) -> None:
    f = torch.jit(lambda scale, x: D.Normal(torch.zeros(()), scale).log_prob(x).sum())
    for n in (2, 3):
        scale, x = torch.ones(n), torch.arange(float(n))
        assert f(scale, x).equal(f.__wrapped__(scale, x))
    assert not computed and f.cache_info().eager_calls == 0


def test_a_check_that_fails_is_computed_from_then_on(computed: list[object]) -> None:
    f = torch.jit(lambda scale, x: D.Normal(torch.zeros(()), scale).log_prob(x).sum())
    scale, x = torch.ones(2), torch.arange(2.0)
    for bad in (-scale, -scale, scale - 1):
        with pytest.raises(ValueError, match="Expected parameter scale"):
            f(bad, x)
    assert computed
    assert f(scale, x).equal(f.__wrapped__(scale, x))
    assert f.cache_info().compiles == 1


def test_a_branch_of_the_users_own_is_computed(computed: list[object]) -> None:
    f = torch.jit(lambda x: x if (x > 0).all() else -x)
    assert f(torch.ones(2)).tolist() == [1, 1] and f(-torch.ones(2)).tolist() == [1, 1]
    assert len(computed) == 2

"""Random programs give the same eagerly and jitted, bit for bit; see `programs`."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.programs import Generator, difference


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**31))
def test_short_programs(seed):
    found, _ = difference(seed, 5)
    assert found is None, found


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**31))
def test_long_programs(seed):
    found, _ = difference(seed, 14)
    assert found is None, found


def test_the_comparison_notices_differences(monkeypatch):
    """A jitted function that adds one to a result, or writes an argument, differs."""
    from tests.property import programs

    def wrong(function):
        def changed(*arguments):
            result = function(*arguments)
            for tensor in programs.tensors_of(result):
                tensor.detach().logical_not_() if tensor.dtype is programs.torch.bool else tensor.detach().add_(1)
            return result

        return changed

    monkeypatch.setattr(programs, "jit", wrong)
    assert all(difference(seed, 4)[0] is not None for seed in range(5))


def test_programs_are_many_and_do_much():
    """The generator reaches the operations that it knows."""
    text = "\n".join(Generator(seed).source for seed in range(150))
    wanted = (
        ".add_( .copy_( .zero_( .backward() @ .sum( .permute( .expand( .where( .cat( .stack( .gather( .to(torch."
    ).split()
    assert [w for w in wanted if w not in text] == []

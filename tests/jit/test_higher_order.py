"""Gradients of gradients through compiled functions, in the ways that programs ask for them: the plain calls' bits."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import higher_order


def results(make: Any, peer: str) -> list[Any]:
    """Values of the gradients after each of three steps."""
    step, values = make(peer, 16, 8)
    out = []
    for _ in range(3):
        step()
        out.append([t.item() for t in values()])
    return out


@pytest.mark.parametrize("name", higher_order.PROGRAMS)
def test_the_bits_of_plain_calls(name: str) -> None:
    make = higher_order.PROGRAMS[name]
    assert results(make, "eagerjit") == results(make, "eagerjit eager")

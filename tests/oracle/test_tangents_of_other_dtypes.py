"""Tangents whose dtype is another than that of what they belong to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import eagerjit as ej

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "square": lambda p: p * p,
    "sum": lambda p: p.sum() * 2,
    "two": lambda p, q: p * q,
    "complex": lambda p: p * (1 + 2j),
}
REAL, COMPLEX = [1.0, -2.0, 3.0], [1 + 2j, 2j, -1 + 0j]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_complex_tangents_of_real_numbers_keep_both_parts(name: str) -> None:
    def pushed(t: Any) -> Any:
        primals, tangents = (t.tensor(REAL), t.tensor(COMPLEX)), (t.tensor(COMPLEX), t.tensor(COMPLEX))
        count = 2 if name == "two" else 1
        return t.func.jvp(FUNCTIONS[name], primals[:count], tangents[:count])[1]

    mine, theirs = pushed(ej), pushed(torch)
    assert str(mine.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
    assert mine.tolist() == theirs.tolist()


def test_both_parts_reach_what_pytorch_casts_to_real_numbers() -> None:
    x, tangent = ej.tensor(REAL), ej.tensor(COMPLEX)
    pushed = ej.func.jvp(lambda p: p.sin(), (x,), (tangent,))[1]
    assert ej.allclose(pushed, x.cos() * tangent)


def test_the_imaginary_part_has_a_gradient() -> None:
    x, tangent = ej.tensor(REAL, requires_grad=True), ej.tensor(COMPLEX, requires_grad=True)
    pushed = ej.func.jvp(lambda p: p.sin(), (x,), (tangent,))[1]
    pushed.imag.sum().backward()
    assert ej.allclose(tangent.grad, x.detach().cos() * 1j)
    assert ej.allclose(x.grad, -x.detach().sin() * tangent.detach().imag)


REFUSED: dict[str, Callable[[Any], Any]] = {
    "jvp of integers": lambda t: t.func.jvp(FUNCTIONS["square"], (t.arange(3),), (t.ones(3),)),
    "integer tangents": lambda t: t.func.jvp(FUNCTIONS["square"], (t.ones(3),), (t.arange(3),)),
    "linearize of integers": lambda t: t.func.linearize(FUNCTIONS["square"], t.arange(3)),
    "linearized, complex": lambda t: t.func.linearize(FUNCTIONS["square"], t.ones(3))[1](t.ones(3) * 1j),
    "linearized, truths": lambda t: t.func.linearize(FUNCTIONS["square"], t.ones(3))[1](t.ones(3) > 0),
    "linearized, wider": lambda t: t.func.linearize(FUNCTIONS["square"], t.ones(3))[1](t.ones(3).double()),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    with pytest.raises((RuntimeError, ValueError)) as theirs:
        REFUSED[name](torch)
    with pytest.raises(theirs.type):
        REFUSED[name](ej)

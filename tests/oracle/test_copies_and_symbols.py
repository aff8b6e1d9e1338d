"""Copying versions of views, and functions of numbers that traces may follow, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from oracle import compare, draw

import eagerjit as ej

COPIES: dict[str, Callable[[Any, Any], Any]] = {
    "as_strided_copy": lambda t, x: t.as_strided_copy(x, (2, 2), (1, 2), 1),
    "diagonal_copy": lambda t, x: t.diagonal_copy(x, 1),
    "unfold_copy": lambda t, x: t.unfold_copy(x, 1, 2, 1),
    "split_with_sizes_copy": lambda t, x: t.split_with_sizes_copy(x, [1, 2]),
}


@pytest.mark.parametrize("name", COPIES)
def test_copies(name: str) -> None:
    x = draw((3, 4), "float64", -2, 2, 1)
    compare(COPIES[name], x)
    tensor = ej.tensor(x)
    made = COPIES[name](ej, tensor)
    for part in made if isinstance(made, tuple) else (made,):
        assert part._base is None and not part.is_set_to(tensor)
    tensor.zero_()
    assert all(part.abs().sum() > 0 for part in (made if isinstance(made, tuple) else (made,)))


NUMBERS: list[Callable[[Any], Any]] = [
    lambda t: [t.sym_int(x) for x in (-2.7, 2.7, 3, True)],
    lambda t: [t.sym_float(x) for x in (2, 2.5, True)],
    lambda t: [t.sym_max(1, 2.5), t.sym_max(3, 2.5), t.sym_max(3, 2), t.sym_min(3, 2.5), t.sym_min(2, 2.5)],
    lambda t: [t.sym_not(3), t.sym_not(False), t.sym_sum([1, 2.5]), t.sym_sum([]), t.sym_sqrt(4)],
    lambda t: t.sym_ite(True, 1, 2),
    lambda t: t.sym_ite(1, 2, 3),
    lambda t: t.sym_ite(True, 1, 2.0),
    lambda t: t.sym_float("a"),
]


@pytest.mark.parametrize("call", NUMBERS)
def test_numbers(call: Callable[[Any], Any]) -> None:
    found = []
    for library in (ej, torch):
        try:
            found.append(call(library))
        except (AssertionError, ValueError) as error:
            found.append(type(error))
    assert repr(found[0]) == repr(found[1])


def test_numbers_of_compiled_functions() -> None:
    @ej.jit(fullgraph=True)
    def call(x: Any, scale: float) -> Any:
        return x * ej.sym_max(x.shape[0], scale) + ej.sym_int(scale) + ej.sym_float(x.shape[1])

    for rows, scale in ((2, 3.5), (5, 3.5), (5, 7.25), (6, -1.5)):
        x = ej.ones(rows, 3)
        assert ej.equal(call(x, scale), x * max(float(rows), scale) + int(scale) + 3.0)

"""What docs/array_api.md lists: where tensors stay with PyTorch, and where functions take a liberty."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as pytorch

import eagerjit as torch
from eagerjit import array_api as xp

PAGE = Path(__file__).resolve().parents[2] / "docs" / "array_api.md"


def same(found: torch.Tensor, wanted: pytorch.Tensor) -> bool:
    """Whether dtype, shape and numbers are those of PyTorch, signs of zeros too."""
    ours, theirs = found.numpy(), wanted.numpy()
    if ours.dtype != theirs.dtype or not np.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f"):
        return False
    numbers = ours == ours
    return ours.dtype.kind != "f" or np.array_equal(np.signbit(ours[numbers]), np.signbit(theirs[numbers]))


def both(call: Any) -> bool:
    """Whether a call gives what it gives in PyTorch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return same(call(torch), call(pytorch))


def test_shapes_are_pytorchs() -> None:
    assert xp.ones((2, 3)).size() == (2, 3)
    assert both(lambda t: t.arange(24).reshape(2, 3, 4).T) and xp.zeros((2, 3, 4)).T.shape == (4, 3, 2)
    assert xp.matrix_transpose(xp.zeros((2, 3, 4))).shape == (2, 4, 3)
    with pytest.raises(ValueError, match="step"):
        xp.arange(3)[::-1]
    assert xp.flip(xp.arange(3)).tolist() == [2, 1, 0]


def test_operators_promote_as_pytorch_and_functions_as_the_standard() -> None:
    assert both(lambda t: t.ones(2) + t.tensor(1.0, dtype=t.float64))
    assert (xp.ones(2) + xp.asarray(1.0, dtype=xp.float64)).dtype is xp.float32
    assert xp.add(xp.ones(2), xp.asarray(1.0, dtype=xp.float64)).dtype is xp.float64
    assert both(lambda t: t.tensor([1, 2]) + 1.5) and both(lambda t: t.tensor([True]) + 2)
    with pytest.raises(RuntimeError, match="Promotion"):
        xp.asarray([1], dtype=xp.uint64) + xp.asarray([1])


def test_signs_and_roots_of_operators_are_pytorchs() -> None:
    assert both(lambda t: t.tensor([0.0, -0.0, 4.0]) % t.tensor([-2.0, 2.0, -2.0]))
    assert xp.signbit(xp.asarray([0.0, 4.0]) % -2.0).tolist() == [False, False]
    assert xp.signbit(xp.remainder(xp.asarray([0.0, 4.0]), -2.0)).tolist() == [True, True]
    roots = torch.tensor([-0.0, -math.inf])
    assert same(abs(roots**0.5), abs(pytorch.tensor([-0.0, -math.inf]) ** 0.5)) and math.isnan((roots**0.5)[1].item())
    assert xp.pow(roots, 0.5).tolist() == [0.0, math.inf] and not xp.signbit(xp.pow(roots, 0.5))[0]
    assert both(lambda t: t.tensor([math.inf, 5.0, -5.0]) // t.tensor([1.0, -math.inf, math.inf]))


def test_numbers_are_pythons() -> None:
    for library in (torch, pytorch):
        assert str(complex(library.tensor(math.nan))) == "(nan+0j)"
        assert (
            float(library.ones(1, 1)) == 1.0
            and bool(library.ones(1))
            and [5][library.zeros(1, dtype=library.int64)] == 5
        )


def test_the_standards_two_lines_on_complex_roots_are_not_followed() -> None:
    roots = xp.sqrt(xp.asarray([complex(math.inf, 1.0), complex(-math.inf, 1.0)]))
    assert roots.tolist() == np.sqrt(np.complex64([complex(math.inf, 1.0), complex(-math.inf, 1.0)])).tolist()
    assert roots.tolist() == [complex(math.inf, 0.0), complex(0.0, math.inf)]


def test_compiled_empty_is_zero() -> None:
    assert torch.jit(lambda: xp.empty((2, 3)))().tolist() == [[0.0] * 3] * 2


def test_the_page_has_a_line_for_each() -> None:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    assert len(cells) >= 15 and all(len(row) == 4 and all(row) for row in cells)

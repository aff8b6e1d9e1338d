"""einsum of one operand, which is a view where nothing is summed, against PyTorch."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from oracle import compare, draw, same

import eagerjit as ej

EQUATIONS = ["ii->i", "ij->ji", "ij->ij", "...->...", "ii", "ij->", "ij->j", "ij"]


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum_of_one_operand_without_sums_is_a_view(equation):
    compare(lambda t, x: t.einsum(equation, x), np.arange(4, dtype=np.float32).reshape(2, 2))
    seen = []
    for t in (ej, torch):
        x = t.zeros(2, 2)
        t.einsum(equation, x).fill_(1.0)
        seen.append(x)
    same(seen[0], seen[1])


def test_einsum_of_one_operand_compiled():
    def run(x: Any) -> Any:
        x = x * 1.0
        ej.einsum("ii->i", x).add_(2.0)
        return x, ej.einsum("ij->ji", x), ej.einsum("ii->", x)

    x = ej.arange(9.0).reshape(3, 3)
    for a, b in zip(run(x), ej.jit(run)(x), strict=True):
        assert ej.equal(a, b)


@pytest.mark.parametrize("equation", ["i,jk->i", "jk,i->ij", "i,j->ij", "ij,i->ij"])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float32", "bfloat16"])
def test_outer_products_are_of_any_dtypes(equation, dtype):
    arrays = [draw((2, 3)[: len(term)], dtype, 0, 1, 5) for term in equation.partition("->")[0].split(",")]
    compare(lambda t, x, y: t.einsum(equation, x, y), *arrays, dtypes=[dtype] * 2)


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("first, second", [("float64", "float32"), ("float32", "float64"), ("int64", "float32")])
def test_einsum_of_different_dtypes(first: str, second: str, jitted: bool) -> None:
    shapes = ("...m,m", (3, 1), (1,)), ("ij,jk", (2, 1), (1, 3)), ("ij,jk", (2, 3), (3, 1)), ("ij,ij", (1, 1), (1, 1))
    for equation, left, right in shapes:
        found = []
        for t in (torch, ej):
            a, b = t.full(left, 3, dtype=getattr(t, first)), t.full(right, 0.3, dtype=getattr(t, second))
            function = ej.jit(t.einsum) if jitted and t is ej else t.einsum
            try:
                result = function(equation, a, b)
                found.append((str(result.dtype).split(".")[-1], result.tolist()))
            except RuntimeError:
                found.append(RuntimeError)
        assert found[0] == found[1]


ONES = [
    ("ij,j->i", (2, 3), (1,)),
    ("ij,j->i", (2, 1), (3,)),
    ("ij,jk->ik", (2, 1), (3, 4)),
    ("ij,jk->", (1, 3), (1, 1)),
    ("ijk,kj->i", (2, 1, 3), (3, 4)),
    ("ijk,kj->i", (2, 1, 3), (1, 4)),
    ("ijk,kj->i", (2, 5, 3), (3, 1)),
    ("j,j->", (0,), (1,)),
    ("ij,jj->i", (2, 3), (1, 1)),
    ("ij,j,j->i", (2, 3), (3,), (1,)),
    ("ij,j,j->i", (2, 3), (1,), (1,)),
    ("j,j,j->", (3,), (1,), (3,)),
]


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("dtypes", ["dfd", "fdf", "lfl", "iii", "bbb", "HHH", "fff"])
@pytest.mark.parametrize("equation, shapes", [(equation, shapes) for equation, *shapes in ONES], ids=str)
def test_letters_that_one_operand_has_once(equation: str, shapes: Any, dtypes: str, jitted: bool) -> None:
    names = {"d": "float64", "f": "float32", "l": "int64", "i": "int32", "b": "bool", "H": "bfloat16"}

    def found(t: Any) -> Any:
        operands = []
        for shape, kind in zip(shapes, dtypes, strict=False):
            values = np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)
            operands.append(t.tensor(values).to(getattr(t, names[kind])))
            if kind in "df":
                operands[-1].requires_grad_()
        function = ej.jit(t.einsum) if jitted and t is ej else t.einsum
        try:
            result = function(equation, *operands)
        except RuntimeError:
            return RuntimeError
        if result.requires_grad:
            result.sum().backward()
        gradients = [x.grad.tolist() for x in operands if x.grad is not None]
        return str(result.dtype).split(".")[-1], result.tolist(), gradients

    with torch.backends.opt_einsum.flags(enabled=False):
        assert found(ej) == found(torch)


SIZES = {"z": 2, "i": 3, "j": 4, "k": 5, "a": 6}


@pytest.mark.parametrize("left", ["ij", "zij", "jiz", "ja"])
@pytest.mark.parametrize("right", ["zjk", "jkz", "ajk", "zajk", "j"])
def test_products_lie_in_memory_as_torch_has_them(left: str, right: str) -> None:
    arrays = [draw([SIZES[c] for c in term], "float32", 0, 1, 3) for term in (left, right)]
    letters = [c for c in dict.fromkeys(left + right) if c != "j"]
    for output in map("".join, itertools.islice(itertools.permutations(letters), 24)):
        strides = [t.einsum(f"{left},{right}->{output}", *map(t.tensor, arrays)).stride() for t in (torch, ej)]
        assert strides[0] == strides[1], output

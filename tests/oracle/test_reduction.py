"""Reductions, softmax and matrix products against PyTorch."""

from __future__ import annotations

import math
from typing import Any

import pytest
from oracle import compare, draw

import eagerjit as torch

NAMES = ["sum", "mean", "prod", "amax", "amin", "all", "any", "logsumexp"]
DIMS: list[Any] = [0, 1, -1, (0, 2), (1, 2), (0, 1, 2), (), 5, (0, 0)]


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", DIMS, ids=str)
@pytest.mark.parametrize("name", ["sum", "mean", "amax", "logsumexp"])
def test_over_dimensions(name: str, dim: Any, keepdim: bool) -> None:
    if dim == () and name == "logsumexp":
        return  # PyTorch's own result cannot be written into its output
    compare(lambda t, x: getattr(t, name)(x, dim, keepdim), draw((2, 3, 4), "float32", -2, 2, 1))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "all", "any", "argmax", "argmin", "max", "min"])
def test_over_everything(name: str, dtype: str) -> None:
    if dtype == "bool" and name in ("argmax", "argmin"):
        return  # PyTorch has none
    compare(
        lambda t, x: getattr(t, name)(x) if name not in ("amax", "amin") else getattr(x, name)(),
        draw((3, 4), dtype, 0, 2, 1),
        dtypes=[dtype],
    )


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "strided"])
@pytest.mark.parametrize("dim", [0, 1, None], ids=str)
@pytest.mark.parametrize("name", ["sum", "mean", "argmax", "var", "std"])
def test_layouts(name: str, dim: int | None, layout: str) -> None:
    def run(t: Any, x: Any) -> Any:
        return getattr(t, name)(x) if dim is None else getattr(t, name)(x, dim)

    compare(run, draw((5, 33), "float32", -2, 2, 1), layouts=[layout])


@pytest.mark.parametrize("size", [1, 2, 7, 31, 32, 33, 64, 100, 1000])
def test_lengths(size: int) -> None:
    compare(lambda t, x: (x.sum(), x.amax(), x.argmin(), x.softmax(0)), draw((size,), "float32", -2, 2, 1))
    compare(lambda t, x: (x.sum(0), x.sum(1), x.amax(1)), draw((3, size), "float32", -2, 2, 1))


EMPTY = {
    "sum": lambda t, x: x.sum(),
    "sum 0": lambda t, x: x.sum(0),
    "sum 1": lambda t, x: x.sum(1),
    "mean": lambda t, x: x.mean(),
    "prod": lambda t, x: x.prod(),
    "amax 0": lambda t, x: x.amax(0),
    "amax 1": lambda t, x: x.amax(1),
    "argmax": lambda t, x: x.argmax(),
    "max": lambda t, x: x.max(),
    "max dim": lambda t, x: x.max(0),
    "all": lambda t, x: x.all(),
    "softmax": lambda t, x: x.softmax(1),
    "var": lambda t, x: x.sum().item(),
}


@pytest.mark.parametrize("name", EMPTY)
def test_empty(name: str) -> None:
    compare(EMPTY[name], draw((0, 3), "float32", 0, 1, 1))


SCALAR = {
    "sum": lambda t, x: x.sum(),
    "sum 0": lambda t, x: x.sum(0),
    "mean -1": lambda t, x: x.mean(-1),
    "amax": lambda t, x: x.amax(),
    "max dim": lambda t, x: x.max(0),
    "argmax": lambda t, x: x.argmax(),
    "softmax": lambda t, x: x.softmax(0),
    "logsumexp": lambda t, x: x.logsumexp(0),
    "prod": lambda t, x: x.prod(),
    "sum 1": lambda t, x: x.sum(1),
}


@pytest.mark.parametrize("name", SCALAR)
def test_zero_dimensions(name: str) -> None:
    compare(SCALAR[name], draw((), "float32", 0, 1, 1))


MORE = {
    "max dim": lambda t, x: t.max(x, 1),
    "min keepdim": lambda t, x: tuple(x.min(0, keepdim=True)),
    "max other": lambda t, x: t.max(x, x * 0),
    "var 0": lambda t, x: x.var(0),
    "var biased": lambda t, x: x.var(1, unbiased=False),
    "var correction": lambda t, x: t.var(x, dim=(0, 1), correction=2),
    "std": lambda t, x: x.std(),
    "std bool": lambda t, x: t.std(x, False),
    "std keep": lambda t, x: x.std(1, keepdim=True),
    "norm": lambda t, x: x.norm(),
    "norm 1": lambda t, x: x.norm(1, 1),
    "norm 3": lambda t, x: t.norm(x, 3, dim=0),
    "norm inf": lambda t, x: x.norm(math.inf),
    "sum dtype": lambda t, x: x.sum(dtype=t.float64),
    "mean dtype": lambda t, x: x.mean(1, dtype=t.float64),
    "prod dim": lambda t, x: x.prod(1),
    "prod keep": lambda t, x: x.prod(0, keepdim=True),
    "axis": lambda t, x: t.sum(x, axis=1, keepdims=True),
    "argmax": lambda t, x: x.argmax(1, keepdim=True),
    "argmin": lambda t, x: t.argmin(x, dim=0),
    "all": lambda t, x: (x > 0).all(1),
    "any": lambda t, x: t.any(x > 1, dim=0, keepdim=True),
    "softmax": lambda t, x: t.softmax(x, 1),
    "log_softmax": lambda t, x: t.log_softmax(x, dim=0),
    "softmax dtype": lambda t, x: x.softmax(1, dtype=t.float64),
    "cumsum": lambda t, x: x.cumsum(1),
    "cumprod": lambda t, x: x.cumprod(0),
    "sort": lambda t, x: tuple(x.sort(1)),
    "sort down": lambda t, x: tuple(t.sort(x, dim=0, descending=True)),
    "argsort": lambda t, x: x.argsort(),
    "topk": lambda t, x: tuple(x.topk(2)),
    "topk small": lambda t, x: tuple(t.topk(x, 2, dim=0, largest=False)),
    "topk much": lambda t, x: x.topk(99),
    "median": lambda t, x: x.median(),
    "trace": lambda t, x: t.trace(x),
    "unique": lambda t, x: t.unique(x.detach().round()),
    "unique NaN": lambda t, x: t.unique(t.cat([x.detach().round().reshape(-1), t.full((3,), math.nan)])),
    "unique all": lambda t, x: t.unique(x.detach().round(), return_inverse=True, return_counts=True),
}


@pytest.mark.parametrize("name", MORE)
def test_more(name: str) -> None:
    compare(MORE[name], draw((3, 5), "float32", -2, 2, 1))


def test_product_with_zeros() -> None:
    for zeros in ([0], [0, 2]):
        values = draw((4,), "float64", 1, 2, 1)
        values[zeros] = 0
        compare(lambda t, x: x.prod(), values)


def test_ties_share_the_gradient() -> None:
    compare(lambda t, x: x.amax(), draw((6,), "float32", 1, 1, 1))
    compare(lambda t, x: t.maximum(x, x.detach()), draw((6,), "float32", 1, 1, 1))


@pytest.mark.parametrize("name", ["mean", "var", "softmax"])
def test_integers_are_refused(name: str) -> None:
    compare(lambda t, x: getattr(t, name)(x, 0), draw((3,), "int64", 0, 3, 1))


MATRICES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 3), (3, 4)),
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((1, 2, 3), (5, 3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 4)),
    ((2, 1, 2, 3), (4, 3, 2)),
    ((0, 3), (3, 4)),
    ((2, 0), (0, 3)),
    ((2, 3), (4, 3)),
    ((), (3,)),
    ((70, 33), (33, 65)),
]


@pytest.mark.parametrize(("first", "second"), MATRICES, ids=str)
def test_matmul(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    compare(lambda t, x, y: t.matmul(x, y), draw(first, "float32", -1, 1, 1), draw(second, "float32", -1, 1, 2))


@pytest.mark.parametrize("dtype", ["float64", "int64", "float16", "bfloat16"])
def test_matmul_dtypes(dtype: str) -> None:
    a, b = draw((3, 4), dtype, -2, 2, 1), draw((4, 2), dtype, -2, 2, 2)
    compare(lambda t, x, y: x @ y, a, b, dtypes=[dtype, dtype])


@pytest.mark.parametrize(
    "layouts", [("transposed", "contiguous"), ("contiguous", "transposed"), ("strided", "strided")]
)
def test_matmul_layouts(layouts: tuple[str, str]) -> None:
    compare(
        lambda t, x, y: x @ y, draw((4, 3), "float32", -1, 1, 1), draw((3, 5), "float32", -1, 1, 2), layouts=layouts
    )


EINSUMS = [
    "ij,kj->ik",
    "ij,ij->",
    "ij,ij->ij",
    "ij,kj",
    "ij->ji",
    "ij->",
    "ij,kl->ijkl",
    "ij,ik->jk",
    "...j,...j->...",
    "ij,kj->k",
    "ij, kj -> ki",
    "ij,ij->i",
    "ij->ii",
    "ij,jk->ik",
    "i,j->ij",
    "ij,kj->iz",
]


@pytest.mark.parametrize("equation", EINSUMS)
def test_einsum(equation: str) -> None:
    a, b = draw((3, 4), "float32", -1, 1, 1), draw((3, 4), "float32", -1, 1, 2)
    compare(lambda t, x, y: t.einsum(equation, *([x, y] if "," in equation else [x])), a, b)


@pytest.mark.parametrize(
    "equation", ["bij,bjk->bik", "bij,bjk,bkl->bil", "bii->bi", "bij,bij->b", "...ij,...jk->...ik", "bhij,bhkj->bhik"]
)
def test_einsum_batches(equation: str) -> None:
    shape = (2, 3, 4, 4) if "h" in equation else (2, 4, 4)
    count = equation.count(",") + 1
    compare(lambda t, *xs: t.einsum(equation, *xs[:count]), *(draw(shape, "float32", -1, 1, i) for i in range(3)))


@pytest.mark.parametrize("dims", [1, 2, 0, ([0], [1]), ([1, 0], [0, 1])], ids=str)
def test_tensordot(dims: Any) -> None:
    shape = (3, 3)
    compare(
        lambda t, x, y: t.tensordot(x, y, dims=dims), draw(shape, "float32", -1, 1, 1), draw(shape, "float32", -1, 1, 2)
    )


PRODUCTS = {
    "mm": lambda t, x, y: t.mm(x, y.T),
    "bmm": lambda t, x, y: t.bmm(x[None], y.T[None]),
    "dot": lambda t, x, y: t.dot(x[0], y[0]),
    "outer": lambda t, x, y: t.outer(x[0], y[0]),
    "addmm": lambda t, x, y: t.addmm(x @ y.T, x, y.T, beta=0.5, alpha=2),
    "mv": lambda t, x, y: t.mv(x, y[0]),
    "mixed": lambda t, x, y: x @ y.T.double(),
    "mm bad": lambda t, x, y: t.mm(x[0], y),
    "dot bad": lambda t, x, y: t.dot(x, y),
    "bmm bad": lambda t, x, y: t.bmm(x, y),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str) -> None:
    compare(PRODUCTS[name], draw((3, 4), "float32", -1, 1, 1), draw((3, 4), "float32", -1, 1, 2))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_products_of_16_bit_floats_are_rounded_once(dtype: str) -> None:
    numbers = [64.0] * 20 + [1 / 64] * 20 + [3.0, 5.0]
    for order in (numbers, numbers[::-1], numbers[::2] + numbers[1::2]):
        x = torch.tensor(order, dtype=getattr(torch, dtype))
        assert x.prod().item() == 15.0
        assert x.reshape(1, -1).prod(1).tolist() == [15.0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("dim", [0, 1])
def test_logsumexp_of_many_halves(dim: int, dtype: str) -> None:
    shape = (50_000, 2) if dim == 0 else (2, 50_000)
    compare(lambda t, x: x.logsumexp(dim), draw(shape, dtype, -1, 0, 3), dtypes=(dtype,))

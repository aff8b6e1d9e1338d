"""Calls that PyTorch refuses for dtypes, ranks or options, the class of its error, and calls beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import compare

import eagerjit

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64")

OF_DTYPES: dict[str, Any] = {
    "cross_entropy": lambda t, d: t.nn.functional.cross_entropy(t.ones(1, 2), t.tensor([1]).to(d)),
    "cross_entropy of images": lambda t, d: t.nn.CrossEntropyLoss()(t.ones(1, 2, 1, 1), t.tensor([[[1]]]).to(d)),
    "nll_loss": lambda t, d: t.nn.functional.nll_loss(t.ones(1, 2), t.tensor([1]).to(d)),
    "nll_loss of images": lambda t, d: t.nn.functional.nll_loss(t.ones(1, 2, 1), t.tensor([[1]]).to(d)),
    "binary_cross_entropy": lambda t, d: t.nn.BCELoss()(t.tensor([0.5]), t.tensor([1]).to(d)),
    "binary_cross_entropy of halves": lambda t, d: t.nn.BCELoss()(t.tensor([0.5]).half(), t.tensor([1]).to(d)),
    "abs": lambda t, d: [abs(t.tensor(1).to(d)), t.abs(t.tensor(1).to(d))],
    "abs_": lambda t, d: t.tensor(1).to(d).abs_(),
    "pos": lambda t, d: +t.tensor(1).to(d),
    "invert": lambda t, d: ~t.tensor(1).to(d),
    "bitwise_not": lambda t, d: t.bitwise_not(t.tensor(1).to(d)),
    "arange": lambda t, d: t.arange(2, dtype=d),
    "range": lambda t, d: t.range(0, 2, dtype=d),
    "ldexp": lambda t, d: t.ldexp(t.ones(2), t.ones(2).to(d)),
    "ldexp of bool": lambda t, d: t.ldexp(t.ones(2, dtype=t.bool), t.ones(2).to(d)),
    "ldexp_": lambda t, d: t.ones(2).ldexp_(t.ones(2).to(d)),
    "kthvalue": lambda t, d: tuple(t.kthvalue(t.tensor([1, 0]).to(d), 1)),
    "cumsum_": lambda t, d: t.ones(2).to(d).cumsum_(0),
    "cumprod_": lambda t, d: t.ones(2).to(d).cumprod_(0),
    "cumsum_ to int64": lambda t, d: t.ones(2).to(d).cumsum_(0, dtype=t.int64),
    "cumprod_ to bool": lambda t, d: t.ones(2).to(d).cumprod_(0, dtype=t.bool),
    "linalg.cross": lambda t, d: t.linalg.cross(t.ones(3), t.ones(3).to(d)),
    "cross": lambda t, d: t.cross(t.ones(3).to(d), t.ones(3, dtype=t.int64), 0),
    "cummax": lambda t, d: tuple(t.tensor([1, 0, 1]).to(d).cummax(0)),
    "cummin": lambda t, d: tuple(t.tensor([1, 0, 1]).to(d).cummin(0)),
    "mode": lambda t, d: tuple(t.tensor([1, 0, 1]).to(d).mode()),
    "unique": lambda t, d: t.tensor([1, 0, 1]).to(d).unique(),
    "unique along": lambda t, d: t.unique(t.tensor([[1], [0], [1]]).to(d), dim=0),
    "unique_consecutive": lambda t, d: t.tensor([1, 0, 1]).to(d).unique_consecutive(),
    "unique_consecutive along": lambda t, d: t.tensor([[1], [1]]).to(d).unique_consecutive(dim=0),
    "nansum": lambda t, d: t.tensor([1, 0, 1]).to(d).nansum(),
    "logit": lambda t, d: (t.tensor([1, 1]).to(d) / 2).logit() if d != t.bool else t.tensor([True]).logit(),
    "put_": lambda t, d: t.ones(3).put_(t.tensor([0]), t.ones(1).to(d)),
    "put_ of others": lambda t, d: t.ones(3).put_(t.tensor([0]), t.ones(2).to(d)),
    "index_copy_": lambda t, d: t.ones(3, 2).index_copy_(0, t.tensor([0]), t.ones(1, 2).to(d)),
    "index_copy_ of others": lambda t, d: t.ones(3, 2).index_copy_(0, t.tensor([0]), t.ones(2, 2).to(d)),
    "numbers": lambda t, d: [int(t.tensor(1).to(d)), float(t.tensor(1).to(d))],
}


PAIRS = [
    (name, dtype) for name in OF_DTYPES for dtype in DTYPES
    if not (name.startswith("cross_entropy") and dtype.startswith("float"))  # probabilities
]  # fmt: skip


@pytest.mark.parametrize(("name", "dtype"), PAIRS)
def test_dtypes(name, dtype):
    compare(lambda t: OF_DTYPES[name](t, getattr(t, dtype)))


OF_RANKS: dict[str, Any] = {
    "addmm": lambda t, x: t.addmm(t.tensor(1.0), x, x),
    "addmm_": lambda t, x: t.ones(2, 2).addmm_(x, t.ones(2, 2)),
    "addmm second": lambda t, x: t.ones(2, 2).addmm(t.ones(2, 2), x),
    "H": lambda t, x: x.H,
}


@pytest.mark.parametrize("rank", range(4))
@pytest.mark.parametrize("name", OF_RANKS)
def test_ranks(name, rank):
    compare(OF_RANKS[name], np.ones((2,) * rank, np.float32))


def own_gradient(t: Any) -> None:
    """A tensor made its own gradient."""
    x = t.ones(2)
    x.grad = x


CALLS: dict[str, Any] = {
    "index_fill by a matrix": lambda t: t.ones(3).index_fill(0, t.tensor([[0]]), 1.0),
    "index_copy of another rank": lambda t: t.ones(3, 2).index_copy(0, t.tensor([1]), t.ones(1, 2, 1)),
    "unflatten of a number": lambda t: t.tensor(1.0).unflatten(0, (-1, 1)),
    "its own gradient": own_gradient,
    "take_along_dim below": lambda t: t.take_along_dim(t.ones(3), t.tensor([-1])),
    "take_along_dim beyond": lambda t: t.take_along_dim(t.ones(3), t.tensor([3])),
    "take_along_dim": lambda t: t.take_along_dim(t.arange(6.0).reshape(2, 3), t.tensor([[4], [1]])),
    "slice_scatter backwards": lambda t: t.slice_scatter(t.ones(3), t.ones(3), step=-1),
    "slice_scatter nowhere": lambda t: t.ones(3).slice_scatter(t.ones(3), step=0),
    "div_ rounded": lambda t: t.ones(2).div_(2.0, rounding_mode="bad"),
    "divide_ rounded": lambda t: t.ones(2).divide_(2.0, rounding_mode="bad"),
    "int of complex": lambda t: int(t.tensor(1 + 1j)),
    "float of complex": lambda t: float(t.tensor(1 + 1j)),
    "int of real complex": lambda t: int(t.tensor(3 + 0j)),
    "vmap of item": lambda t: t.func.vmap(lambda x: x.item())(t.ones(2)),
    "vmap of number": lambda t: t.func.vmap(lambda x: 3)(t.ones(2)),
    "LPPool1d of several": lambda t: t.nn.LPPool1d(2, (1,))(t.ones(1, 1, 4)),
    "LPPool1d": lambda t: t.nn.LPPool1d(2, 2, (1,))(t.ones(1, 1, 4)),
    **{
        f"{name} out": lambda t, name=name: getattr(t, name)(t.ones(2), out=t.ones(2))
        for name in ("clone", "conj", "isfinite", "isinf", "isnan", "isneginf", "isreal", "positive", "relu", "signbit")
    },
}


@pytest.mark.parametrize("name", CALLS)
def test_call(name):
    compare(CALLS[name])


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)], ids=str)
@pytest.mark.parametrize("name", "reshape view expand permute repeat tile sum_to_size resize_".split())
def test_sizes_that_are_missing(name: str, shape: tuple[int, ...]) -> None:
    compare(lambda t, x: getattr(x, name)(), np.ones(shape), grad=False)
    compare(lambda t, x: getattr(x, name)(()), np.ones(shape), grad=False)
    with pytest.raises(TypeError):
        eagerjit.jit(lambda x: getattr(x.clone(), name)())(eagerjit.ones(shape))

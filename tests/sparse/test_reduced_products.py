"""Products of sparse matrices with other reductions than sums, and conversions of indices: as PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerjit
from tests.sparse.compared import compare, outcome

ROWS = [[0, 1.0, 2], [3, 0, 0], [0, 0, 0], [1, 1, 1]]


def csr(t: Any, dtype: str = "float32") -> Any:
    return t.tensor(ROWS, dtype=getattr(t, dtype)).to_sparse_csr()


def dense(t: Any, dtype: str = "float32") -> Any:
    return t.tensor([[1.0, 2], [2, 2], [1, 2]], dtype=getattr(t, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin", "max", "min"])
def test_gradients_go_to_the_first_of_equal_terms(reduce: str, dtype: str) -> None:
    def run(t: Any) -> Any:
        a, x = csr(t, dtype).requires_grad_(), dense(t, dtype).requires_grad_()
        y = t.sparse.mm(a, x, reduce)
        (y * t.arange(1.0, 9, dtype=y.dtype).reshape(4, 2)).sum().backward()
        return y, a.grad, x.grad

    assert not isinstance(outcome(eagerjit, run), type)
    compare(run)


CASES: dict[str, Any] = {
    **{f"{r} of {d}": lambda t, r=r, d=d: t.sparse.mm(csr(t, d), dense(t, d), reduce=r)
       for r in ("mean", "amin") for d in ("float16", "bfloat16", "int64", "complex64", "bool")},
    **{f"{r} of NaN": lambda t, r=r: t.sparse.mm(csr(t), dense(t) + t.tensor([[0, np.nan], [0, 0], [np.nan, 0]]), r)
       for r in ("mean", "amax", "amin")},
    **{f"{r} of entries that come twice": lambda t, r=r: t.sparse.mm(t.sparse_csr_tensor(
        t.tensor([0, 3, 4]), t.tensor([0, 0, 1, 1]), t.tensor([1.0, 2, -5, 4]), (2, 3)), dense(t), r)
       for r in ("mean", "amax", "amin")},
    "indices of 32 bits": lambda t: t.sparse.mm(t.sparse_csr_tensor(
        t.tensor([0, 1, 2]).int(), t.tensor([0, 1]).int(), t.tensor([1.0, 2]), (2, 3)), dense(t), "amax"),
    "no entries": lambda t: t.sparse.mm(t.zeros(2, 3).to_sparse_csr(), dense(t), "amax"),
    "no columns": lambda t: t.sparse.mm(csr(t), dense(t)[:, :0], "amax"),
    "no rows": lambda t: t.sparse.mm(t.zeros(0, 3).to_sparse_csr(), dense(t), "mean"),
    "not contiguous": lambda t: t.sparse.mm(csr(t), dense(t).t().contiguous().t(), "amin"),
    "coordinates": lambda t: t.sparse.mm(t.tensor(ROWS).to_sparse(), dense(t), "sum"),
    "columns": lambda t: t.sparse.mm(t.tensor(ROWS).to_sparse_csc(), dense(t), "sum"),
    "dense": lambda t: t.sparse.mm(t.tensor(ROWS), dense(t), "sum"),
    "sparse": lambda t: t.sparse.mm(csr(t), csr(t), "sum"),
    "prod": lambda t: t.sparse.mm(csr(t), dense(t), "prod"),
    "unknown": lambda t: t.sparse.mm(csr(t), dense(t), "bogus"),
    "no text": lambda t: t.sparse.mm(csr(t), dense(t), 3),
    "other dtype": lambda t: t.sparse.mm(csr(t), dense(t).double(), "amax"),
    "other rows": lambda t: t.sparse.mm(csr(t), dense(t)[:2], "amax"),
    "a vector": lambda t: t.sparse.mm(csr(t), dense(t)[:, 0], "mean"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_as_pytorch_computes_it(name: str) -> None:
    compare(CASES[name])


CONVERSIONS: dict[str, Any] = {
    "starts": lambda t: t._convert_indices_from_coo_to_csr(t.tensor([0, 0, 1, 3]), 5),
    "starts of 32 bits": lambda t: t._convert_indices_from_coo_to_csr(t.tensor([0, 3]).int(), size=4, out_int32=True),
    "starts of small integers": lambda t: t._convert_indices_from_coo_to_csr(t.tensor([0, 3]).short(), 4),
    "starts of nothing": lambda t: t._convert_indices_from_coo_to_csr(t.tensor([0, 3])[:0], 3),
    "no starts": lambda t: t._convert_indices_from_coo_to_csr(t.tensor([0, 3])[:0], 0),
    "starts of one": lambda t: t._convert_indices_from_coo_to_csr(t.tensor(2), 4),
    "starts into": lambda t: t._convert_indices_from_coo_to_csr(t.tensor([0, 3]), 4, out=t.zeros(5, dtype=t.int64)),
    "starts of floats": lambda t: t._convert_indices_from_coo_to_csr(t.tensor([0.0]), 4),
    "starts of bools": lambda t: t._convert_indices_from_coo_to_csr(t.tensor([True]), 4),
    "starts of a matrix": lambda t: t._convert_indices_from_coo_to_csr(t.tensor([[0]]), 4),
    "places": lambda t: t._convert_indices_from_csr_to_coo(t.tensor([0, 2, 3, 4]), t.tensor([1, 0, 2, 1])),
    "places of 32 bits": lambda t: t._convert_indices_from_csr_to_coo(
        t.tensor([0, 2, 2, 3]).int(), t.tensor([1, 0, 2]).int(), out_int32=True),
    "columns first": lambda t: t._convert_indices_from_csr_to_coo(
        t.tensor([0, 2, 3, 4]), t.tensor([1, 0, 2, 1]), transpose=True),
    "no places": lambda t: t._convert_indices_from_csr_to_coo(t.tensor([0]), t.tensor([1])[:0]),
    "places of floats": lambda t: t._convert_indices_from_csr_to_coo(t.tensor([0.0, 1]), t.tensor([1])),
    "a batch": lambda t: t._convert_indices_from_csr_to_coo(
        t.tensor([[[0, 2, 4], [0, 1, 4]], [[0, 0, 4], [0, 4, 4]]]), t.arange(16).reshape(2, 2, 4) % 4),
    "a batch, columns first": lambda t: t._convert_indices_from_csr_to_coo(
        t.tensor([[0, 2, 4], [0, 1, 4]]), t.arange(8).reshape(2, 4) % 4, transpose=True),
    "an empty batch": lambda t: t._convert_indices_from_csr_to_coo(t.arange(12).reshape(2, 2, 3)[:0],
        t.arange(16).reshape(2, 2, 4)[:0]),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversions(name: str) -> None:
    compare(CONVERSIONS[name])


def test_compiled() -> None:
    held = [csr(eagerjit)]

    def degrees(x: Any, rows: Any) -> Any:
        starts = eagerjit._convert_indices_from_coo_to_csr(rows, x.shape[0])
        places = eagerjit._convert_indices_from_csr_to_coo(starts, rows)
        return eagerjit.sparse.mm(held[0], x, "amax"), starts[1:] - starts[:-1], places

    compiled = eagerjit.jit(degrees, fullgraph=True)
    for scale, rows in ((1.0, [0, 0, 2]), (2.0, [0, 1, 1, 1, 2]), (-1.0, [])):
        x, rows = dense(eagerjit) * scale, eagerjit.tensor(rows, dtype=eagerjit.int64)
        assert all(map(eagerjit.equal, compiled(x, rows), degrees(x, rows)))
    held[0] = csr(eagerjit) * 3
    assert all(map(eagerjit.equal, compiled(x, rows), degrees(x, rows)))

"""Reading and writing at positions against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import compare, draw

PLACES = np.array([[0, 2, 1, 1], [3, 3, 0, 2], [1, 0, 0, 0]])


def at(t: Any, *places: Any) -> Any:
    """An index tensor."""
    return t.tensor(np.asarray(places[0] if len(places) == 1 else places))


CASES: dict[str, Any] = {
    "scatter column": lambda t, x, s: t.scatter(x, 1, at(t, [[1], [2]]), s),
    "scatter rows": lambda t, x, s: x.scatter(0, at(t, [[1, 2, 0, 0]]), s[:1]),
    "scatter number": lambda t, x, s: t.scatter(x, 1, at(t, PLACES), 2.5),
    "scatter add": lambda t, x, s: t.scatter(x, 1, at(t, PLACES), s, reduce="add"),
    "scatter multiply": lambda t, x, s: t.scatter(x.detach(), 1, at(t, PLACES), s.detach(), reduce="multiply"),
    "index_fill by a tensor": lambda t, x, s: t.index_fill(x, 1, at(t, [0, 2, 2, 0, 0]), s[0, 0]),
    "index_fill by a tensor, along rows": lambda t, x, s: t.index_fill(x, 0, at(t, [2, 1]), s[0, 0]),
    "index_fill of one number by a tensor": lambda t, x, s: t.index_fill(x[0, 0], 0, at(t, [0]), s[0, 0]),
    "index_fill_ by a tensor": lambda t, x, s: (x * 1).index_fill_(1, at(t, [1, 1, 3]), s[0, 0]),
    "index_fill by a tensor, out of range": lambda t, x, s: t.index_fill(x, 1, at(t, [4]), s[0, 0]),
    "index_add alpha": lambda t, x, s: t.index_add(x, 1, at(t, [0, 1, 1, 3]), s, alpha=2),
    "index_add": lambda t, x, s: x.index_add(0, at(t, [0, 0]), s[:2]),
    "index_copy": lambda t, x, s: t.index_copy(x, 1, at(t, [3, 0, 2, 1]), s),
    "index_fill": lambda t, x, s: t.index_fill(x, 1, at(t, [0, -1]), 3.0),
    "index_fill tensor": lambda t, x, s: t.index_fill(x, 0, at(t, [0]), s[0, 0]),
    "take": lambda t, x, s: t.take(x, at(t, [[0, -1], [5, 6]])),
    "put": lambda t, x, s: t.put(x, at(t, [0, -1, 5]), s[0, :3]),
    "put added": lambda t, x, s: x.put(at(t, [0, 0, 5]), s[0, :3], accumulate=True),
    "take_along_dim": lambda t, x, s: t.take_along_dim(x, at(t, [[0], [1], [2]]), 1),
    "take_along_dim 0": lambda t, x, s: t.take_along_dim(x, at(t, [[0, 1, 1, 1]]), dim=0),
    "take_along_dim flat": lambda t, x, s: t.take_along_dim(x, at(t, [0, 5])),
    "index_put": lambda t, x, s: t.index_put(x, (at(t, [0, 1]), at(t, [1, 1])), s[0, :2]),
    "index_put added": lambda t, x, s: t.index_put(x, (at(t, [0, 0]),), s[:2], accumulate=True),
    "index_put mask": lambda t, x, s: x.index_put((x.detach() > 0,), s[0, 0]),
    "masked_scatter": lambda t, x, s: t.masked_scatter(x, x.detach() > 0, s),
    "masked_select": lambda t, x, s: t.masked_select(x, s.detach() > 0),
    "where places": lambda t, x, s: t.where(x > 0),
    "where number": lambda t, x, s: t.where(x > 0, x, 0),
    "where numbers": lambda t, x, s: t.where(x > 0, 1, 2.5),
    "where method": lambda t, x, s: x.where(s > 0, 0),
    "argwhere": lambda t, x, s: t.argwhere(x > 0),
    "nonzero": lambda t, x, s: t.nonzero(x > 0, as_tuple=True),
    "gather": lambda t, x, s: t.gather(x, 1, at(t, PLACES)),
    "index_select": lambda t, x, s: t.index_select(x, 1, at(t, [0, 3, 3])),
}
UNLIKE = {"scatter column", "scatter add", "scatter multiply"}
"""PyTorch has no derivative of these."""


@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
@pytest.mark.parametrize("name", CASES)
def test_matrices(name: str, layout: str) -> None:
    if (name, layout) == ("take_along_dim flat", "transposed"):
        return  # PyTorch refuses to flatten
    x, source = draw((3, 4), "float32", -2, 2, 1), draw((3, 4), "float32", -2, 2, 9)
    compare(CASES[name], x, source, layouts=[layout, "contiguous"], grad=name not in UNLIKE)


SCALARS: dict[str, Any] = {
    "sc": lambda t, x: t.scatter(x, 0, at(t, 0), 1.5),
    "if": lambda t, x: x.index_fill(0, at(t, [0]), 2.0),
    "isel": lambda t, x: t.index_select(x, 0, at(t, [0])),
    "take": lambda t, x: t.take(x, at(t, 0)),
    "put": lambda t, x: t.put(x, at(t, 0), x.detach() * 2),
    "sr": lambda t, x: t.scatter_reduce(x, 0, at(t, 0), x.detach() * 3, "amax"),
    "nz": lambda t, x: t.nonzero(x),
    "wh": lambda t, x: t.where(x > 0),
    "sc1": lambda t, x: x.scatter(0, at(t, [0]), t.tensor([4.0])),
    "gather": lambda t, x: t.gather(x, 0, at(t, [0, 0])),
}


@pytest.mark.parametrize("name", SCALARS)
def test_zero_dimensions(name: str) -> None:
    compare(SCALARS[name], draw((), "float32", -1, 1, 1))


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_scatter_reduce(reduce: str, include_self: bool) -> None:
    def run(t: Any, x: Any, source: Any) -> Any:
        return t.scatter_reduce(x, 1, at(t, PLACES), source, reduce, include_self=include_self)

    x, source = draw((3, 4), "float32", -2, 2, 1), draw((3, 4), "float32", -2, 2, 9)
    compare(run, x, source)
    compare(run, draw((3, 4), "int64", -5, 5, 1), draw((3, 4), "int64", -5, 5, 2))
    # Ties and zeros; without the element itself PyTorch counts it among the ties all the same.
    compare(run, np.round(x), np.round(source), grad=include_self and reduce != "prod")


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
def test_index_reduce(reduce: str, include_self: bool) -> None:
    def run(t: Any, x: Any, source: Any) -> Any:
        return t.index_reduce(x, 1, at(t, 0, 1, 1, 3), source, reduce, include_self=include_self)

    compare(run, draw((3, 4), "float32", -2, 2, 1), draw((3, 4), "float32", -2, 2, 9), grad=reduce != "prod")


INPLACE: dict[str, Any] = {
    "scatter_": lambda t, x, s: x.scatter_(1, at(t, PLACES), s),
    "scatter_reduce_": lambda t, x, s: x.scatter_reduce_(1, at(t, PLACES), s, "amax"),
    "index_add_": lambda t, x, s: x.index_add_(0, at(t, 0, 2, 2), s),
    "index_copy_": lambda t, x, s: x.index_copy_(0, at(t, 1, 0, 2), s),
    "index_fill_": lambda t, x, s: x.index_fill_(1, at(t, 1, 0), 4.0),
    "index_put_": lambda t, x, s: x.index_put_((at(t, 1, 0),), s[:2], accumulate=True),
    "put_": lambda t, x, s: x.put_(at(t, 1, 0), s[0, :2]),
    "masked_scatter_": lambda t, x, s: x.masked_scatter_(s.detach() > 0, s),
    "masked_fill_": lambda t, x, s: x.masked_fill_(s.detach() > 0, 2.0),
    "cumsum_": lambda t, x, s: x.cumsum_(1),
    "fill_diagonal_": lambda t, x, s: x.fill_diagonal_(2.0),
    "squeeze_": lambda t, x, s: x.unsqueeze_(1).squeeze_(),
    "transpose_": lambda t, x, s: x.transpose_(0, 1).mul_(2),
    "t_": lambda t, x, s: x.t_(),
}


@pytest.mark.parametrize("name", INPLACE)
def test_in_place(name: str) -> None:
    compare(
        lambda t, x, s: INPLACE[name](t, x * 1, s), draw((3, 4), "float32", -2, 2, 1), draw((3, 4), "float32", -2, 2, 9)
    )


def test_out() -> None:
    def run(t: Any, x: Any) -> Any:
        values, indices, total = t.empty(0), t.empty(0, dtype=t.int64), t.empty(2)
        t.sort(x, 1, out=(values, indices))
        t.cumsum(x, 0, out=total)
        single = t.empty(3)
        t.sum(x, 1, out=single)
        return values, indices, total, single, t.exp(x, out=t.empty(3, 4, dtype=t.float64))

    compare(run, draw((3, 4), "float32", -2, 2, 1), grad=False, tolerance=1e-6)
    compare(lambda t, x: t.exp(x, out=t.empty(3, dtype=t.int64)), draw((3,), "float32", -2, 2, 1), grad=False)
    compare(lambda t, x: t.cumsum(x, 0, out=t.empty(3)), draw((3,), "float32", -2, 2, 1))

"""Functions of the namespace on tensors of every rank against PyTorch: cutting, joining, statistics, order, bins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import compare, draw

CASES: dict[str, Any] = {
    "tensor_split": lambda t, x: t.tensor_split(x, 3, 1),
    "tensor_split at": lambda t, x: x.tensor_split((1, 3), dim=1),
    "tensor_split into none": lambda t, x: x.tensor_split(0),
    "hsplit": lambda t, x: t.hsplit(x, 2),
    "hsplit in 3": lambda t, x: t.hsplit(x, 3),
    "vsplit": lambda t, x: t.vsplit(x, [1]),
    "dsplit": lambda t, x: t.dsplit(x, 2),
    "rot90": lambda t, x: [t.rot90(x, k) for k in range(-1, 5)],
    "diag_embed": lambda t, x: t.diag_embed(x),
    "diag_embed above": lambda t, x: t.diag_embed(x, 1, 0, 2),
    "diag_embed below": lambda t, x: t.diag_embed(x, -1, -3, -1),
    "diagflat": lambda t, x: t.diagflat(x, 1),
    "fill_diagonal_": lambda t, x: x.detach().clone().fill_diagonal_(5.0),
    "adjoint": lambda t, x: x.adjoint(),
    "broadcast_to": lambda t, x: x.broadcast_to((2, 3, 4)),
    "atleast_3d": lambda t, x: t.atleast_3d(x),
    "atleast_1d": lambda t, x: t.atleast_1d(x, x),
    "atleast_2d": lambda t, x: t.atleast_2d([x, x]),
    "hstack": lambda t, x: t.hstack((x, x)),
    "vstack": lambda t, x: t.vstack([x, x]),
    "dstack": lambda t, x: t.dstack([x, x]),
    "column_stack": lambda t, x: t.column_stack([x, x]),
    "block_diag": lambda t, x: t.block_diag(x, x[0], x[0, 0]),
    "var_mean": lambda t, x: t.var_mean(x, 1),
    "var_mean keepdim": lambda t, x: t.var_mean(x, dim=(0, 1), keepdim=True, correction=0),
    "std_mean": lambda t, x: t.std_mean(x, False),
    "var_mean all": lambda t, x: t.var_mean(x),
    "nansum": lambda t, x: t.nansum(x, 1),
    "nanmean": lambda t, x: t.nanmean(x, (0, 1)),
    "aminmax": lambda t, x: tuple(t.aminmax(x)),
    "aminmax dim": lambda t, x: tuple(x.aminmax(dim=1, keepdim=True)),
    "count_nonzero": lambda t, x: t.count_nonzero(x),
    "count_nonzero dims": lambda t, x: t.count_nonzero(x, (0, 1)),
    "count_nonzero dim": lambda t, x: t.count_nonzero(x, dim=1),
    "dist": lambda t, x: t.dist(x, x * 2, 3),
    "fake_quantize": lambda t, x: t.fake_quantize_per_tensor_affine(x, 0.3, 1, -4, 3),
    "fake_quantize float64": lambda t, x: t.fake_quantize_per_tensor_affine(x.double(), 0.3, 1, -4, 3),
    "fake_quantize tensors": lambda t, x: t.fake_quantize_per_tensor_affine(x, t.tensor(0.1), t.tensor([2]), -8, 7),
    "fake_quantize columns": lambda t, x: t.fake_quantize_per_channel_affine(
        x, t.linspace(0.1, 0.5, x.shape[1]), t.ones(x.shape[1], dtype=t.int32), 1, -4, 3
    ),
    "fake_quantize between steps": lambda t, x: t.fake_quantize_per_channel_affine(
        x, t.linspace(0.1, 0.5, x.shape[0]), t.full((x.shape[0],), 0.5), 0, -4, 3
    ),
    "fake_quantize NaN": lambda t, x: t.fake_quantize_per_tensor_affine(x.detach().log(), 0.3, 1, -4, 3),
    "renorm": lambda t, x: t.renorm(x, 2, 0, 1.5),
    "renorm 1": lambda t, x: t.renorm(x, 1, 1, 2),
    "cummax": lambda t, x: tuple(t.cummax(x, 1)),
    "cummin": lambda t, x: tuple(x.cummin(0)),
    "logcumsumexp": lambda t, x: t.logcumsumexp(x, 1),
    "cumsum axis": lambda t, x: t.cumsum(x, axis=1),
    **{f"{n} axis": lambda t, x, n=n: getattr(t, n)(x, axis=1) for n in "max min softmax unbind unsqueeze".split()},
    **{f"{n} method axis": lambda t, x, n=n: getattr(x, n)(axis=0) for n in "max log_softmax squeeze unbind".split()},
    "max keepdims": lambda t, x: (x.max(axis=1, keepdims=True).values, t.min(x, 0, keepdims=True).indices),
    "stack axis": lambda t, x: (t.stack((x, x), axis=1), t.repeat_interleave(x, 2, axis=0)),
    "pieces axis": lambda t, x: (*x.chunk(2, axis=1), t.narrow(x, axis=1, start=0, length=2)),
    "select axis": lambda t, x: x.select(axis=0, index=1),
    "swapaxes by name": lambda t, x: (t.swapaxes(x, axis0=0, axis1=1), t.unflatten(x, axis=0, sizes=(1, -1))),
    "cumsum dtype": lambda t, x: t.cumsum(x, 0, dtype=t.float64),
    "cov": lambda t, x: t.cov(x),
    "cov biased": lambda t, x: t.cov(x, correction=0),
    "cov weighted": lambda t, x: t.cov(x, fweights=t.tensor([1, 2, 1, 3]), aweights=t.tensor([0.1, 0.2, 0.3, 0.4])),
    "cov vector": lambda t, x: t.cov(x[0]),
    "corrcoef": lambda t, x: t.corrcoef(x),
    "diff": lambda t, x: t.diff(x, 2),
    "diff padded": lambda t, x: t.diff(x, 1, 0, x[:1], x[:2]),
    "diff often": lambda t, x: t.diff(x, 9, 0),
    "trapezoid": lambda t, x: t.trapezoid(x),
    "trapezoid x": lambda t, x: t.trapezoid(x, t.tensor([0.0, 1.0, 3.0, 4.0])),
    "trapezoid dx": lambda t, x: t.trapezoid(x, dx=0.5, dim=0),
    "cumulative_trapezoid": lambda t, x: t.cumulative_trapezoid(x, dim=1),
    "gradient": lambda t, x: t.gradient(x),
    "gradient spacing": lambda t, x: t.gradient(x, spacing=2.0, edge_order=2),
    "gradient places": lambda t, x: t.gradient(
        x, spacing=(t.tensor([0.0, 1.0, 4.0]), t.tensor([0.0, 0.5, 2.0, 3.0])), edge_order=2
    ),
    "gradient dim": lambda t, x: t.gradient(x, dim=1, spacing=0.5),
    "msort": lambda t, x: t.msort(x),
    "kthvalue": lambda t, x: tuple(t.kthvalue(x, 2, 1)),
    "kthvalue keepdim": lambda t, x: tuple(x.kthvalue(1, 0, keepdim=True)),
    "kthvalue bad": lambda t, x: t.kthvalue(x, 9),
    "median": lambda t, x: t.median(x),
    "median dim": lambda t, x: tuple(t.median(x, 1)),
    "median keepdim": lambda t, x: tuple(x.median(0, True)),
    "nanmedian": lambda t, x: t.nanmedian(x),
    "nanmedian dim": lambda t, x: tuple(t.nanmedian(x, 1)),
    "mode": lambda t, x: t.mode(x.round(), 1).values,
    "quantile": lambda t, x: t.quantile(x, 0.3),
    "quantiles": lambda t, x: t.quantile(x, t.tensor([0.1, 0.5, 0.9]), dim=1),
    "quantiles keepdim": lambda t, x: t.quantile(x, t.tensor([0.1, 0.5, 0.9]), dim=1, keepdim=True),
    "quantile of a number keepdim": lambda t, x: t.quantile(x[0, 0], 0.4, dim=0, keepdim=True),
    "quantiles of a number keepdim": lambda t, x: t.nanquantile(x[0, 0], t.tensor([0.1, 0.5]), dim=-1, keepdim=True),
    "quantile keepdim": lambda t, x: t.quantile(x, 0.4, keepdim=True),
    **{
        f"quantile {i}": (lambda t, x, i=i: t.quantile(x, 0.4, dim=0, interpolation=i))
        for i in ("lower", "higher", "midpoint", "nearest")
    },
    "nanquantile": lambda t, x: t.nanquantile(x, 0.4, dim=1),
    "histc": lambda t, x: t.histc(x.detach(), 5, -2, 2),
    "histc own range": lambda t, x: t.histc(x.detach(), 5),
    "histogram": lambda t, x: tuple(t.histogram(x.detach(), 5)),
    "histogram density": lambda t, x: tuple(t.histogram(x.detach(), 4, range=(-1.0, 1.0), density=True)),
    "histogram edges": lambda t, x: tuple(t.histogram(x.detach(), t.tensor([-1.0, 0.0, 1.0]))),
    "searchsorted": lambda t, x: t.searchsorted(t.tensor([-1.0, 0.0, 1.0]), x.detach()),
    "searchsorted right": lambda t, x: t.searchsorted(
        t.tensor([-1.0, 0.0, 1.0]), x.detach(), right=True, out_int32=True
    ),
    "searchsorted rows": lambda t, x: t.searchsorted(x.detach().sort(-1)[0], x.detach()),
    "searchsorted number": lambda t, x: t.searchsorted(t.tensor([-1.0, 0.0, 1.0]), 0.5),
    "bucketize": lambda t, x: t.bucketize(x.detach(), t.tensor([-1.0, 0.0, 1.0])),
    "isin": lambda t, x: t.isin(x.detach().round(), t.tensor([0.0, 1.0])),
    "isin inverted": lambda t, x: t.isin(x.detach().round(), 1, invert=True),
    "unique_consecutive": lambda t, x: t.unique_consecutive(x.detach().round().reshape(-1), True, True),
    "unique_consecutive dim": lambda t, x: t.unique_consecutive(x.detach().round(), dim=1),
    "unique dim": lambda t, x: t.unique(x.detach().round(), dim=0, return_inverse=True, return_counts=True),
    "unravel_index of bytes": lambda t, x: t.unravel_index(t.tensor([3, 7], dtype=t.uint8), (2, 300)),
    "unravel_index": lambda t, x: t.unravel_index(t.tensor([3, 7]), (3, 4)),
    "tril_indices": lambda t, x: t.tril_indices(3, 4, 1),
    "triu_indices": lambda t, x: t.triu_indices(4, 3, -1),
    "combinations": lambda t, x: t.combinations(x[0], 2),
    "combinations replaced": lambda t, x: t.combinations(x[0], 3, True),
    "cartesian_prod": lambda t, x: t.cartesian_prod(x[0], x[1]),
    "vander": lambda t, x: t.vander(x[0]),
    "vander increasing": lambda t, x: t.vander(x, 3, True),
    "broadcast_shapes": lambda t, x: tuple(t.broadcast_shapes((2, 1), (3,))),
    "broadcast_tensors": lambda t, x: t.broadcast_tensors(x, x[:1]),
    "narrow_copy": lambda t, x: t.narrow_copy(x, -1, 0, 2),
    "split_with_sizes": lambda t, x: x.split_with_sizes([1, 3], 1),
}

ARRAYS = {
    "matrix": draw((3, 4), "float32", -2, 2, 1),
    "vector": draw((6,), "float32", -2, 2, 2),
    "batch": draw((2, 3, 4), "float32", -2, 2, 4),
    "scalar": draw((), "float32", -1, 1, 1),
    "empty": draw((0, 3), "float32", -1, 1, 1),
}
UNLIKE = {"diagflat", "trapezoid dx", "median", "nanmedian", "vander", "vander increasing"}
"""PyTorch's results for these lose the gradient of empty tensors, or overwrite what it needs."""


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("name", CASES)
def test_like_pytorch(name: str, array: str) -> None:
    compare(CASES[name], ARRAYS[array], grad=name not in UNLIKE)


@pytest.mark.parametrize("name", CASES)
def test_layouts(name: str) -> None:
    compare(CASES[name], ARRAYS["matrix"], layouts=["transposed"], grad=name not in UNLIKE)


NAN = {
    name: lambda t, x, name=name: getattr(t, name)(x, 1)
    for name in ("nansum", "nanmean", "median", "nanmedian", "cummax", "cummin")
}
NAN["quantile"] = lambda t, x: t.quantile(x, 0.4, 1)
NAN["nanquantile"] = lambda t, x: t.nanquantile(x, t.tensor([0.2, 0.7]), 1)


@pytest.mark.parametrize("name", NAN)
def test_missing_values(name: str) -> None:
    x = draw((3, 4), "float32", -2, 2, 1)
    x[0, 1] = x[2] = np.nan

    def values(t: Any, x: Any) -> Any:
        found = NAN[name](t, x)
        return found.values if isinstance(found, tuple) else found

    compare(values, x, grad=False)

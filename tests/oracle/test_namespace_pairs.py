"""Products, sums of products by index, and functions of two matrices against PyTorch: all forms of their arguments."""

from __future__ import annotations

from typing import Any

import pytest
from oracle import compare, draw

BATCHES: dict[str, Any] = {
    "einsum lists": lambda t, x, y: t.einsum(x, [0, 1, 2], y, [0, 2, 3], [0, 1, 3]),
    "einsum lists implicit": lambda t, x, y: t.einsum(x, [0, 1, 2], y, [0, 2, 3]),
    "einsum lists ellipsis": lambda t, x, y: t.einsum(x, [..., 0, 1], y, [..., 1, 2], [..., 0, 2]),
    "einsum of a list": lambda t, x, y: t.einsum("bij,bjk->bik", [x, y]),
    "einsum ellipsis": lambda t, x, y: t.einsum("...ij,...jk", x, y),
    "einsum upper case": lambda t, x, y: t.einsum("Bij,Bjk->iB", x, y),
    "einsum unknown letter": lambda t, x, y: t.einsum("bij,bjk->biz", x, y),
    "einsum too many": lambda t, x, y: t.einsum("bij->b", x, y),
    "einsum rank": lambda t, x, y: t.einsum("bi,bjk", x, y),
    "einsum dot": lambda t, x, y: t.einsum("b.ij,bjk", x, y),
    "einsum repeated": lambda t, x, y: t.einsum("bij,bjk->bii", x, y),
    "baddbmm": lambda t, x, y: t.baddbmm(x[:, :, :1], x, y),
    "bmm": lambda t, x, y: x.bmm(y),
    "tensordot": lambda t, x, y: t.tensordot(x, y, dims=([0, 2], [0, 1])),
    "tensordot dims": lambda t, x, y: t.tensordot(x, y.permute(2, 0, 1), dims=([2], [2])),
    "tensordot sizes": lambda t, x, y: t.tensordot(x, y, dims=2),
}


@pytest.mark.parametrize("name", BATCHES)
def test_batches(name: str) -> None:
    compare(BATCHES[name], draw((2, 3, 4), "float64", -1, 1, 1), draw((2, 4, 5), "float64", -1, 1, 2))


MATRICES: dict[str, Any] = {
    "addmm": lambda t, x, y: t.addmm(x[:, :3], x, y.T, beta=0),
    "addmm of NaN": lambda t, x, y: t.addmm(x.new_full((3,), float("nan")), x, y.T, beta=0.0, alpha=2),
    "addmv of NaN": lambda t, x, y: t.addmv(x.new_full((3,), float("nan")), x, y[0], beta=0),
    "addmm sizes": lambda t, x, y: t.addmm(x, x, y),
    "addmv of no size that fits": lambda t, x, y: t.addmv(x.new_full((2,), 1.0), x, y[0], beta=0),
    "mm sizes": lambda t, x, y: t.mm(x, y),
    "mv sizes": lambda t, x, y: t.mv(x, y[0, :3]),
    "mv ranks": lambda t, x, y: t.mv(x[0], y),
    "dot sizes": lambda t, x, y: t.dot(x[0], y[0, :3]),
    "dot dtypes": lambda t, x, y: t.dot(x[0], y[0].float()),
    "mm out": lambda t, x, y: t.mm(x.detach(), y.detach().T, out=t.empty(3, 3, dtype=t.float64)),
    "matmul out": lambda t, x, y: t.matmul(x.detach(), y.detach().T, out=t.empty(0, dtype=t.float64)),
    "clamp": lambda t, x, y: t.clamp(x, y, y + 0.1),
    "clamp_min": lambda t, x, y: x.clamp_min(y),
    "lerp": lambda t, x, y: t.lerp(x, y, t.tensor(0.3).double()),
    "addcmul": lambda t, x, y: t.addcmul(x, x, y, value=2),
    "addcdiv": lambda t, x, y: t.addcdiv(x, x, y + 3, value=0.5),
    "roll": lambda t, x, y: t.roll(x, (1, -2), (0, 1)),
    "roll all": lambda t, x, y: x.roll(2),
    "flip": lambda t, x, y: t.flip(x, [0, 1]),
    "fliplr": lambda t, x, y: t.fliplr(x),
    "meshgrid": lambda t, x, y: t.meshgrid(x[0], y[0], indexing="xy"),
    "repeat_interleave": lambda t, x, y: t.repeat_interleave(x, 2, dim=1),
    "repeat_interleave counts": lambda t, x, y: x.repeat_interleave(t.tensor([1, 0, 2]), 0),
    "tile": lambda t, x, y: t.tile(x, (2,)),
    "nan_to_num": lambda t, x, y: t.nan_to_num(x / 0, posinf=3.0),
    "isclose": lambda t, x, y: t.isclose(x, x + 1e-9),
    "fmod": lambda t, x, y: t.fmod(x, 0.3),
    "remainder": lambda t, x, y: t.remainder(x, y),
    "fmax": lambda t, x, y: t.fmax(x, y),
    "logit": lambda t, x, y: t.logit(x, eps=1e-3),
    "xlogy": lambda t, x, y: t.xlogy(x, y.abs()),
    "round decimals": lambda t, x, y: t.round(x, decimals=2),
    "swapaxes": lambda t, x, y: t.swapaxes(x, 0, 1),
    "moveaxis": lambda t, x, y: t.moveaxis(x, 0, -1),
    "squeeze": lambda t, x, y: t.squeeze(x[None], (0, 1)),
    "unflatten": lambda t, x, y: x.unflatten(1, (2, -1)),
    "unflatten inferred": lambda t, x, y: t.unflatten(x, 1, (-1, 2)),
    "flatten": lambda t, x, y: t.flatten(x),
    "ravel": lambda t, x, y: t.ravel(x),
    "chunk": lambda t, x, y: t.chunk(x, 3, 1),
    "unbind": lambda t, x, y: t.unbind(x, 1),
    "norm": lambda t, x, y: t.norm(x, p=-1, dim=1),
    "norm dims": lambda t, x, y: x.norm(dim=(0, 1)),
    "prod dtype": lambda t, x, y: t.prod(x, dtype=t.float32),
    "any dims": lambda t, x, y: t.any(x > 0, dim=(0, 1)),
    "all dims": lambda t, x, y: (x > 0).all(dim=(0,), keepdim=True),
    "max out": lambda t, x, y: tuple(
        t.max(x.detach(), 1, out=(t.empty(0, dtype=t.float64), t.empty(0, dtype=t.int64)))
    ),
    "logsumexp dims": lambda t, x, y: t.logsumexp(x, (0, 1)),
    "softmax of integers": lambda t, x, y: t.softmax(x.long(), 0, dtype=t.float32),
    "sum options": lambda t, x, y: t.sum(x, dim=[0, 1], keepdim=True, dtype=t.float32),
    "mean axis": lambda t, x, y: x.mean(axis=0, keepdims=True),
    "argsort stable": lambda t, x, y: t.argsort(x, stable=True, descending=True),
    "sort stable": lambda t, x, y: tuple(t.sort(x, stable=True, dim=0)),
    "topk unsorted": lambda t, x, y: t.topk(x, 2, sorted=False).values.sort()[0],
    "take": lambda t, x, y: x.take(t.tensor([0, 3])),
    "type": lambda t, x, y: x.type(t.float32),
    "type_as": lambda t, x, y: x.type_as(y.float()),
    "to": lambda t, x, y: x.to(y.float()),
    "questions": lambda t, x, y: (
        t.is_floating_point(x),
        t.is_complex(x),
        t.is_tensor(x),
        t.numel(x),
        x.is_signed(),
        t.is_nonzero(x[0, 0]),
    ),
    "can_cast": lambda t, x, y: (t.can_cast(t.float32, t.int32), t.can_cast(t.int32, t.float32)),
    "new_full": lambda t, x, y: x.new_full((2,), 3.0),
    "new_zeros": lambda t, x, y: x.new_zeros(2, 3, dtype=t.int32),
    "new_tensor": lambda t, x, y: x.new_tensor([1, 2]),
    "equal": lambda t, x, y: (t.equal(x, x), t.allclose(x, y), t.eq(x, y)),
    "hypot": lambda t, x, y: t.hypot(x, y),
    "atan2": lambda t, x, y: t.arctan2(x, y),
    "sgn": lambda t, x, y: t.sgn(x),
    "greater_equal": lambda t, x, y: t.greater_equal(x, 0.1),
    "logical_xor": lambda t, x, y: t.logical_xor(x > 0, y > 0),
    "~": lambda t, x, y: ~(x > 0),
    "+": lambda t, x, y: +x,
    "rsub": lambda t, x, y: t.rsub(x, y, alpha=2),
    "** of a number": lambda t, x, y: 2**x,
    "/ of a number": lambda t, x, y: 1 / (y + 3),
    "// of a number": lambda t, x, y: (5 // (y + 3)).detach(),
    "% from a number": lambda t, x, y: 5 % (y + 3),
    "div trunc": lambda t, x, y: t.div(x, y, rounding_mode="trunc"),
    "true_divide": lambda t, x, y: t.true_divide(x, 2),
}


@pytest.mark.parametrize("name", MATRICES)
def test_matrices(name: str) -> None:
    x, y = draw((3, 4), "float64", -1, 1, 3), draw((3, 4), "float64", -1, 1, 4)
    compare(MATRICES[name], x, y, grad=name not in ("sgn", "% from a number"))  # PyTorch has no such gradients

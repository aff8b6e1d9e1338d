"""Views, indexing, gathering, joining and in-place writes against PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from oracle import compare, draw

import eagerjit
from eagerjit.calling.dispatch import OPS

VIEWS: dict[str, Callable[..., Any]] = {
    "view": lambda t, x: x.view(6, 4),
    "view -1": lambda t, x: x.view(-1, 2),
    "view tuple": lambda t, x: x.view((4, 6)),
    "view bad": lambda t, x: x.view(5, 5),
    "view two -1": lambda t, x: x.view(-1, -1),
    "view strided": lambda t, x: x.permute(2, 0, 1).view(24),
    "reshape strided": lambda t, x: x.permute(2, 0, 1).reshape(24),
    "reshape": lambda t, x: t.reshape(x, (3, 8)),
    "permute": lambda t, x: x.permute(2, 0, 1),
    "permute negative": lambda t, x: x.permute(-1, 0, 1),
    "permute twice": lambda t, x: x.permute(0, 0, 1),
    "permute few": lambda t, x: x.permute(0, 1),
    "transpose": lambda t, x: x.transpose(0, -1),
    "T": lambda t, x: x[0].T,
    "mT": lambda t, x: x.mT,
    "t": lambda t, x: x[1].t(),
    "t bad": lambda t, x: x.t(),
    "swapaxes": lambda t, x: t.swapaxes(x, 0, 1),
    "movedim": lambda t, x: x.movedim(0, 2),
    "movedim several": lambda t, x: t.movedim(x, (0, 1), (2, 0)),
    "expand": lambda t, x: x[:, :1].expand(2, 5, 4),
    "expand -1": lambda t, x: x[:, :1].expand(3, 2, -1, 4)[0],
    "expand bad": lambda t, x: x.expand(2, 4, 4),
    "expand few": lambda t, x: x.expand(4),
    "expand_as": lambda t, x: x[:1].expand_as(x),
    "squeeze": lambda t, x: x[:1, :, :1].squeeze(),
    "squeeze dim": lambda t, x: x[:1].squeeze(0),
    "squeeze none": lambda t, x: x.squeeze(1),
    "squeeze several": lambda t, x: x[:1, :, :1].squeeze((0, 2)),
    "unsqueeze": lambda t, x: x.unsqueeze(1),
    "unsqueeze -1": lambda t, x: x.unsqueeze(-1),
    "unsqueeze bad": lambda t, x: x.unsqueeze(7),
    "flatten": lambda t, x: x.flatten(),
    "flatten part": lambda t, x: t.flatten(x, 1),
    "flatten bad": lambda t, x: x.flatten(2, 1),
    "unflatten": lambda t, x: x.unflatten(2, (2, 2)),
    "narrow": lambda t, x: x.narrow(1, 1, 2),
    "narrow bad": lambda t, x: x.narrow(1, 2, 2),
    "select": lambda t, x: x.select(1, -1),
    "select bad": lambda t, x: x.select(1, 3),
    "split": lambda t, x: x.split(3, 2),
    "split sizes": lambda t, x: t.split(x, [1, 3], dim=2),
    "split bad": lambda t, x: x.split([1, 1], 2),
    "chunk": lambda t, x: x.chunk(3, -1),
    "unbind": lambda t, x: x.unbind(1),
    "unpack": lambda t, x: [*x],
    "diagonal": lambda t, x: x[0].diagonal(),
    "diagonal 1": lambda t, x: t.diagonal(x[0], 1),
    "diag": lambda t, x: t.diag(x[0, 0]),
    "diag matrix": lambda t, x: x[0].diag(),
    "view_as": lambda t, x: x.view_as(x.reshape(4, 6)),
    "contiguous": lambda t, x: x.permute(2, 1, 0).contiguous(),
    "size": lambda t, x: (
        x.size(0),
        x.size(-1),
        x.numel(),
        x.dim(),
        x.stride(0),
        x.stride(-1),
        x.ndim,
        len(x),
        x.is_contiguous(),
    ),
    "strides": lambda t, x: (*x.permute(2, 0, 1).stride(), x.mT.is_contiguous()),
    "dimension bad": lambda t, x: x.transpose(0, 3),
}


@pytest.mark.parametrize("name", VIEWS)
def test_view(name: str) -> None:
    compare(VIEWS[name], draw((2, 3, 4), "float32", -2, 2, 1))


MADE: dict[str, Callable[..., Any]] = {
    "cat": lambda t, x, y: t.cat([x, y]),
    "cat 1": lambda t, x, y: t.cat((x, y), dim=1),
    "cat bad": lambda t, x, y: t.cat([x, y[:, :2]]),
    "cat empty": lambda t, x, y: t.cat([t.zeros(0), x]),
    "cat none": lambda t, x, y: t.cat([]),
    "cat dtypes": lambda t, x, y: t.cat([x, y.double()]),
    "stack": lambda t, x, y: t.stack([x, y]),
    "stack 2": lambda t, x, y: t.stack((x, y), -1),
    "stack bad": lambda t, x, y: t.stack([x, y[0]]),
    "repeat": lambda t, x, y: x.repeat(2, 3),
    "repeat more": lambda t, x, y: x.repeat(2, 1, 2),
    "tile": lambda t, x, y: t.tile(x, (2,)),
    "repeat_interleave": lambda t, x, y: x.repeat_interleave(2, 1),
    "repeat_interleave all": lambda t, x, y: t.repeat_interleave(x, 2),
    "repeat_interleave counts": lambda t, x, y: x.repeat_interleave(t.tensor([1, 0, 2]), 0),
    "flip": lambda t, x, y: x.flip(0, 1),
    "roll": lambda t, x, y: t.roll(x, 1, 1),
    "roll several": lambda t, x, y: x.roll((1, -1), (0, 1)),
    "roll flat": lambda t, x, y: x.roll(2),
    "roll nothing": lambda t, x, y: x[:0].roll(1, 0),
    "tril": lambda t, x, y: t.tril(x),
    "triu 1": lambda t, x, y: x.triu(1),
    "tril bad": lambda t, x, y: x[0].tril(),
    "meshgrid": lambda t, x, y: t.meshgrid(x[0], y[1, :2], indexing="ij"),
    "meshgrid xy": lambda t, x, y: t.meshgrid(x[0], y[1, :2], indexing="xy"),
    "broadcast": lambda t, x, y: t.broadcast_tensors(x[:1], y[:, :1]),
    "gather": lambda t, x, y: x.gather(1, t.tensor([[0, 3], [1, 1], [2, 0]])),
    "gather 0": lambda t, x, y: t.gather(x, 0, t.tensor([[2, 1, 0, 0]])),
    "gather float": lambda t, x, y: x.gather(1, y),
    "gather ranks": lambda t, x, y: x.gather(1, t.tensor([0])),
    "scatter_add": lambda t, x, y: x.scatter_add(1, t.tensor([[0, 0], [1, 1], [3, 0]]), y[:, :2]),
    "index_select": lambda t, x, y: x.index_select(1, t.tensor([2, 0, 2])),
    "index_add": lambda t, x, y: x.index_add(0, t.tensor([0, 0]), y[:2], alpha=2),
    "scatter": lambda t, x, y: x.scatter(1, t.tensor([[0, 3], [1, 2], [2, 0]]), y[:, 2:]),
    "scatter 0": lambda t, x, y: t.scatter(x, 0, t.tensor([[2, 1, 0, 0]]), y[:1]),
    "scatter number": lambda t, x, y: x.scatter(1, t.tensor([[0], [1], [1]]), 7.0),
    "scatter_": lambda t, x, y: (x * 1).scatter_(1, t.tensor([[0], [1], [1]]), 1.0),
    "scatter ranks": lambda t, x, y: x.scatter(1, t.tensor([0]), 7.0),
    "index_fill": lambda t, x, y: x.index_fill(1, t.tensor([0, 2]), -1.0),
    "index_copy": lambda t, x, y: x.index_copy(1, t.tensor([0, 2]), y[:, :2]),
    "index_copy_": lambda t, x, y: (x * 1).index_copy_(0, t.tensor([1]), y[:1]),
    "take": lambda t, x, y: t.take(x, t.tensor([[0, 11], [5, 5]])),
    "take_along_dim": lambda t, x, y: t.take_along_dim(x, t.tensor([[0, 3]]), 1),
    "count_nonzero": lambda t, x, y: t.count_nonzero(x > 0, dim=1),
    "logaddexp": lambda t, x, y: t.logaddexp(x, y),
    "hypot": lambda t, x, y: t.hypot(x, y),
    "argwhere": lambda t, x, y: t.argwhere(x > 0),
    "hstack": lambda t, x, y: t.hstack([x, y]),
    "hstack vectors": lambda t, x, y: t.hstack([x[0], y[1], y[0, 0]]),
    "vstack": lambda t, x, y: t.vstack((x, y[0])),
    "masked_select": lambda t, x, y: x.masked_select(y > 0),
    "nonzero": lambda t, x, y: t.nonzero(x > 0),
    "nonzero tuple": lambda t, x, y: t.nonzero(x > 0, as_tuple=True),
    "einsum free": lambda t, x, y: (x[:, None, :] * y).sum(-1),
    "clone": lambda t, x, y: x.T.clone(),
    "bincount": lambda t, x, y: t.bincount(t.tensor([1, 1, 3]), minlength=6),
    "searchsorted": lambda t, x, y: t.searchsorted(t.tensor([1.0, 2.0, 3.0]), t.tensor([0.5, 2.0, 9.0])),
}


@pytest.mark.parametrize("name", MADE)
def test_joining_and_gathering(name: str) -> None:
    compare(MADE[name], draw((3, 4), "float32", -2, 2, 1), draw((3, 4), "float32", -2, 2, 2))


INDICES: dict[str, Callable[[Any], Any]] = {
    "int": lambda t: 1,
    "negative": lambda t: -1,
    "ints": lambda t: (1, 2),
    "slice": lambda t: slice(1, 3),
    "step": lambda t: (slice(None), slice(0, 9, 2)),
    "ellipsis": lambda t: (..., 0),
    "none": lambda t: (None, slice(None), None),
    "mixed": lambda t: (slice(1, None), None, 0, ..., slice(-2, None)),
    "tensor": lambda t: t.tensor([2, 0, 2]),
    "tensor negative": lambda t: t.tensor([-1, 0]),
    "matrix": lambda t: t.tensor([[0, 1], [2, 0]]),
    "two tensors": lambda t: (t.tensor([0, 2]), t.tensor([3, 1])),
    "broadcast": lambda t: (t.tensor([[0], [2]]), t.tensor([3, 1])),
    "separated": lambda t: (t.tensor([0, 2]), slice(None), t.tensor([1, 0])),
    "second": lambda t: (slice(None), t.tensor([3, 1])),
    "last two": lambda t: (slice(None), t.tensor([3, 1]), t.tensor([0, 1])),
    "int and tensor": lambda t: (1, t.tensor([0, 2])),
    "list": lambda t: [0, 2],
    "bool list": lambda t: [True, False, True],
    "mask": lambda t: t.tensor([True, False, True]),
    "mask all": lambda t: t.arange(24).reshape(3, 4, 2) % 3 == 0,
    "mask two": lambda t: t.arange(12).reshape(3, 4) % 2 == 0,
    "mask second": lambda t: (slice(None), t.tensor([True, False, True, True])),
    "empty tensor": lambda t: t.tensor([], dtype=t.int64),
    "int32": lambda t: t.tensor([1, 0], dtype=t.int32),
    "empty slice": lambda t: slice(2, 1),
    "tensor none": lambda t: (None, t.tensor([1, 0])),
    "out of range": lambda t: 5,
    "too many": lambda t: (0, 0, 0, 0),
    "tensor out of range": lambda t: t.tensor([0, 5]),
    "float tensor": lambda t: t.tensor([0.5]),
    "negative step": lambda t: slice(None, None, -1),
    "mask shape": lambda t: t.tensor([True, False]),
    "string": lambda t: ("a",),
    "shapes": lambda t: (t.tensor([0, 1]), t.tensor([0, 1, 2])),
    "zero-d": lambda t: t.tensor(1),
    "numpy int": lambda t: np.int64(1),
}


@pytest.mark.parametrize("name", INDICES)
def test_reading_at(name: str) -> None:
    compare(lambda t, x: x[INDICES[name](t)] * 1, draw((3, 4, 2), "float32", -2, 2, 1))


def written(key: Callable[[Any], Any], value: Callable[..., Any]) -> Callable[..., Any]:
    """A function that copies, writes, and returns the copy."""

    def function(t: Any, x: Any, y: Any) -> Any:
        z = x * 1
        z[key(t)] = value(t, y)
        return z

    return function


@pytest.mark.parametrize("name", [n for n in INDICES if n not in ("tensor", "tensor negative")])
def test_writing_a_number_at(name: str) -> None:
    a = draw((3, 4, 2), "float32", -2, 2, 1)
    compare(written(INDICES[name], lambda t, y: 7.0), a, a)


VALUES: dict[str, tuple[Callable[[Any], Any], Callable[..., Any]]] = {
    "row": (lambda t: 1, lambda t, y: y[0]),
    "broadcast row": (lambda t: 1, lambda t, y: y[0, :1]),
    "slice": (lambda t: slice(0, 2), lambda t, y: y[1:]),
    "columns": (lambda t: (slice(None), 2), lambda t, y: y[:, 0]),
    "tensor": (lambda t: t.tensor([2, 0]), lambda t, y: y[:2]),
    "two tensors": (lambda t: (t.tensor([0, 2]), t.tensor([3, 1])), lambda t, y: y[0, :2]),
    "mask": (lambda t: t.arange(12).reshape(3, 4) % 5 == 0, lambda t, y: y[0, :3]),
    "second": (lambda t: (slice(None), t.tensor([3, 1])), lambda t, y: y[:, :2]),
    "extra ones": (lambda t: 1, lambda t, y: y[None, :1]),
    "wrong shape": (lambda t: 1, lambda t, y: y),
    "other dtype": (lambda t: 0, lambda t, y: y[0].double()),
    "step": (lambda t: (slice(None), slice(0, 4, 2)), lambda t, y: y[:, :2]),
}


@pytest.mark.parametrize("name", VALUES)
def test_writing_a_tensor_at(name: str) -> None:
    key, value = VALUES[name]
    compare(written(key, value), draw((3, 4, 2), "float32", -2, 2, 1), draw((3, 4, 2), "float32", -2, 2, 2))


def chain(*steps: Callable[..., Any]) -> Callable[..., Any]:
    """A function that copies x, runs steps(library, copy, y), and returns the copy and what the last step gave."""

    def function(t: Any, x: Any, y: Any) -> Any:
        z, out = x * 1, None
        for step in steps:
            out = step(t, z, y)
        return (z, out) if hasattr(out, "shape") else z

    return function


INPLACE: dict[str, Callable[..., Any]] = {
    "add_": chain(lambda t, z, y: z.add_(y)),
    "add_ alpha": chain(lambda t, z, y: z.add_(y, alpha=2)),
    "iadd": chain(lambda t, z, y: z.__iadd__(3)),
    "mul_ by itself": chain(lambda t, z, y: z.detach().mul_(z.detach())),
    "exp_": chain(lambda t, z, y: z.exp_()),
    "sigmoid_ twice": chain(lambda t, z, y: z.sigmoid_(), lambda t, z, y: z.sigmoid_()),
    "relu_": chain(lambda t, z, y: z.relu_()),
    "clamp_": chain(lambda t, z, y: z.clamp_(-1, 1)),
    "zero_": chain(lambda t, z, y: z.zero_()),
    "fill_": chain(lambda t, z, y: z.fill_(2)),
    "fill_ tensor": chain(lambda t, z, y: z.fill_(y[0, 0])),
    "copy_": chain(lambda t, z, y: z.copy_(y)),
    "copy_ row": chain(lambda t, z, y: z.copy_(y[0])),
    "copy_ bad": chain(lambda t, z, y: z.copy_(y[:2])),
    "div_ floor": chain(lambda t, z, y: z.detach().div_(y.detach(), rounding_mode="floor")),
    "pow_": chain(lambda t, z, y: z.pow_(2)),
    "masked_fill_": chain(lambda t, z, y: z.masked_fill_(y > 0, 1.0)),
    "addcmul_": chain(lambda t, z, y: z.addcmul_(y, y, value=0.5)),
    "lerp_": chain(lambda t, z, y: z.lerp_(y, 0.25)),
    "view then write": chain(lambda t, z, y: z[0].mul_(y[1])),
    "write base": chain(lambda t, z, y: [z[1], z.mul_(y)][0] * 2),
    "write view of view": chain(lambda t, z, y: z[1:][0].exp_()),
    "transposed view": chain(lambda t, z, y: z.T.add_(y.T)),
    "reshaped view": chain(lambda t, z, y: z.view(-1)[3:5].mul_(2)),
    "two views": chain(lambda t, z, y: z[0].add_(z[1])),
    "write, read, write": chain(
        lambda t, z, y: z[0].mul_(2), lambda t, z, y: z.mul_(y), lambda t, z, y: z[:, 1].exp_()
    ),
    "view read after": chain(lambda t, z, y: [v := z[:, 0], z.mul_(y), v.exp()][-1]),
    "other view after": chain(lambda t, z, y: [v := z[0], z.view(-1)[:2].mul_(3), v * y[0]][-1]),
    "overwritten input": chain(lambda t, z, y: [w := z * y, z.add_(1), w][-1]),
    "overwritten output": chain(lambda t, z, y: [w := z.exp(), w.add_(1), w][-1]),
    "shape": chain(lambda t, z, y: z[0].add_(y)),
    "dtype": chain(lambda t, z, y: z.long().add_(y.detach())),
    "int division": chain(lambda t, z, y: z.long().div_(2)),
    "expanded": chain(lambda t, z, y: z[0].expand(3, 4).add_(1)),
    "detached": chain(lambda t, z, y: z.detach().zero_()),
    "scatter_add_": chain(lambda t, z, y: z.scatter_add_(0, t.tensor([[0, 0, 1, 1]]), y[:1])),
    "index_put_": chain(lambda t, z, y: z.index_put_((t.tensor([0, 0]),), y[:2], accumulate=True)),
    "index_add_": chain(lambda t, z, y: z.index_add_(0, t.tensor([1, 1]), y[:2])),
    "tril_": chain(lambda t, z, y: z.tril_()),
    "squeezed": chain(lambda t, z, y: z.unsqueeze(0).squeeze(0).add_(y)),
}


@pytest.mark.parametrize("name", INPLACE)
def test_in_place(name: str) -> None:
    compare(INPLACE[name], draw((3, 4), "float32", 0.2, 2, 1), draw((3, 4), "float32", 0.2, 2, 2))


LEAVES: dict[str, Callable[..., Any]] = {
    "leaf": lambda t, x: x.add_(1),
    "view of leaf": lambda t, x: x[0].add_(1),
    "setitem": lambda t, x: x.__setitem__(0, 1.0),
    "detached": lambda t, x: x.detach().add_(1),
    "data": lambda t, x: x.data.mul_(2),
    "backward after overwriting": lambda t, x: overwrite_and_backward(t, x),
    "view made without grad": lambda t, x: without_grad(t, x),
    "no grad": lambda t, x: [t.no_grad().__enter__(), x.add_(1), t.set_grad_enabled(True)][1].detach(),
}


def overwrite_and_backward(t: Any, x: Any) -> Any:
    y = x * 2
    z = y * y
    y.add_(1)
    z.sum().backward()


def without_grad(t: Any, x: Any) -> Any:
    with t.no_grad():
        view = x[0]
    view.mul_(x.sum())


@pytest.mark.parametrize("name", LEAVES)
def test_writing_to_leaves(name: str) -> None:
    compare(LEAVES[name], draw((3, 4), "float32", -2, 2, 1))


def test_rolling_by_another_number_compiles_nothing() -> None:
    x = eagerjit.arange(50)
    x.roll(2)
    programs = OPS["roll"].programs.values()
    before = sum(map(len, programs))
    for shift in range(3, 30):
        assert x.roll(shift).tolist() == np.roll(np.arange(50), shift).tolist()
        assert x.roll(-shift).tolist() == np.roll(np.arange(50), -shift).tolist()
    assert sum(map(len, programs)) == before


def test_strides_that_reach_every_element_once() -> None:
    from eagerjit.runtime.layout import has_each_element_once

    memory = np.zeros(64, np.float32)
    threes = itertools.product((1, 2, 3), repeat=3), itertools.product(range(5), repeat=3)
    for shape, strides in itertools.product(*threes):
        view = np.lib.stride_tricks.as_strided(memory, shape, [4 * s for s in strides])
        places = sum(np.arange(n).reshape(-1, *[1] * (2 - d)) * strides[d] for d, n in enumerate(shape))
        if has_each_element_once(view):
            assert np.unique(places).size == view.size
    assert has_each_element_once(memory.reshape(8, 8)[1::2, 6:2:-2].T)
    assert has_each_element_once(memory.reshape(8, 8).diagonal())


@pytest.mark.parametrize("view", [lambda x: x[:, 1], lambda x: x[:, ::2], lambda x: x.t(), lambda x: x.diagonal()])
def test_writes_to_views_read_operands_as_they_were(view: Any) -> None:
    x, y = (eagerjit.arange(16.0).reshape(4, 4) for _ in range(2))
    for _ in range(2):
        view(x).mul_(x[0, 1])
        view(y).mul_(y[0, 1].clone())
        view(x).add_(x[1, : view(x).shape[-1]])
        view(y).add_(y[1, : view(y).shape[-1]].clone())
        assert x.tolist() == y.tolist()


def test_one_dimension_flattened_is_the_tensor_itself():
    def same(library):
        x, row = library.ones(2, 3).T, library.ones(3)
        flattened = (x.flatten(0, 0), x.flatten(1), x.flatten(), library.nn.Flatten()(x), library.flatten(row, -1, -1))
        return [y is x or y is row for y in flattened]

    assert same(eagerjit) == same(torch) == [True, True, False, True, True]
    row = eagerjit.ones(3)
    assert eagerjit.jit(lambda x: x.flatten())(row) is row


@pytest.mark.parametrize("name", ["index_copy", "index_add", "index_fill"])
def test_rows_of_inner_dimensions_lie_as_in_pytorch(name):
    def strides(library):
        value = 2.0 if name == "index_fill" else library.ones(3, 2, 5)
        return getattr(library, name)(library.zeros(3, 4, 5), 1, library.tensor([2, 0]), value).stride()

    assert strides(eagerjit) == strides(torch)

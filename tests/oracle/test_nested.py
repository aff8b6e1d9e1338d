"""Nested tensors: what PyTorch computes of them, its sizes and errors, gradients, files."""

from __future__ import annotations

import copy
import io
import pickle
import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit

LIBRARIES = (torch, eagerjit)
ROWS = (2, 4, 1)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """PyTorch warns of a prototype."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def components(t: Any, rows: Any = ROWS, rest: Any = (6,), dtype: str = "float32", seed: int = 0) -> list[Any]:
    """Tensors (rows, *rest)."""
    rng = np.random.default_rng(seed)
    return [t.tensor(np.round(rng.normal(size=(n, *rest)) * 3, 2)).to(getattr(t, dtype)) for n in rows]


def nested(t: Any, layout: str = "jagged", grad: bool = False, **options: Any) -> Any:
    """A nested tensor of them."""
    return t.nested.nested_tensor(components(t, **options), layout=getattr(t, layout), requires_grad=grad)


def gapped(t: Any, grad: bool = False) -> Any:
    """One with rows between its components: (3, j, 4)."""
    values = components(t, (10,), (4,))[0].requires_grad_(grad)
    return t.nested.nested_tensor_from_jagged(values, t.tensor([0, 3, 4, 10]), t.tensor([2, 1, 4]))


def outcome(value: Any) -> Any:
    """What is compared of a result."""
    if isinstance(value, (torch.Tensor, eagerjit.Tensor)):
        about = str(value.dtype), value.requires_grad, value.is_nested
        if not value.is_nested:
            return *about, tuple(value.shape), np.asarray(value.detach().double().tolist())
        sizes = re.sub(r"j\d+", "j", str(tuple(value.shape))) if str(value.layout) == "torch.jagged" else value.dim()
        return *about, str(value.layout), sizes, [outcome(part.detach()) for part in value.unbind()]
    if isinstance(value, (tuple, list)):
        return [outcome(part) for part in value]
    return re.sub(r"j\d+", "j", str(value))


def both(compute: Any) -> tuple[Any, Any]:
    """Results of both libraries, or the classes of errors."""
    found: list[Any] = []
    for t in LIBRARIES:
        try:
            found.append(outcome(compute(t)))
        except Exception as error:
            found.append(type(error).__name__)
    return found[0], found[1]


POINTWISE = {
    "sum with a number": lambda t, x: x + 1,
    "a number before": lambda t, x: 2 - x,
    "a power of a number": lambda t, x: 2**x,
    "itself": lambda t, x: x * x,
    "another with the same rows": lambda t, x: x / (x * x + 1),
    "a dense row": lambda t, x: x + t.arange(6.0),
    "a dense number": lambda t, x: x * t.tensor(3.0),
    "dense, as many dimensions": lambda t, x: x * t.arange(6.0).view(1, 1, 6),
    "dense for each component": lambda t, x: x + t.arange(3.0).view(3, 1, 1),
    "dense for each component and feature": lambda t, x: x - t.arange(18.0).view(3, 1, 6),
    "dense and padded": lambda t, x: x + t.arange(72.0).view(3, 4, 6),
    "dense of other sizes": lambda t, x: x + t.ones(3, 6),
    "dense of more dimensions": lambda t, x: x + t.ones(1, 3, 1, 6),
    "other rows": lambda t, x: x + nested(t),
    "relu": lambda t, x: t.nn.functional.relu(x),
    "gelu": lambda t, x: t.nn.functional.gelu(x, approximate="tanh"),
    "silu": lambda t, x: t.nn.functional.silu(x),
    "tanh": lambda t, x: t.tanh(x),
    "exp of a method": lambda t, x: x.exp(),
    "clamp": lambda t, x: x.clamp(min=-1, max=2),
    "comparison": lambda t, x: (x > 0).to(t.int64),
    "where": lambda t, x: t.where(x > 0, x, x * 0.1),
    "where with a number": lambda t, x: t.where(x > 0, x, 0.0),
    "masked_fill": lambda t, x: x.masked_fill(x < 0, 0.5),
    "lerp": lambda t, x: t.lerp(x, x * 2, 0.25),
    "dropout of nothing": lambda t, x: t.nn.functional.dropout(x, 0.0),
    "no training": lambda t, x: t.nn.functional.dropout(x, 0.5, training=False),
    "double": lambda t, x: x.double(),
    "to": lambda t, x: x.to(t.float64),
    "clone": lambda t, x: x.clone(),
    "detach": lambda t, x: x.detach() * 2,
    "is nan": lambda t, x: t.isnan(x),
    "frexp": lambda t, x: t.frexp(x),
    "logical": lambda t, x: t.logical_and(x > 0, x < 2),
    "full_like": lambda t, x: t.full_like(x, 2.5),
    "zeros_like": lambda t, x: t.zeros_like(x),
    "ones_like of another dtype": lambda t, x: t.ones_like(x, dtype=t.int32),
}
SHAPES = {
    "transpose": lambda t, x: x.transpose(1, 2),
    "transpose of the first": lambda t, x: x.transpose(0, 1),
    "mT": lambda t, x: x.mT,
    "T": lambda t, x: x.T,
    "permute": lambda t, x: x.permute(0, 2, 1),
    "unsqueeze": lambda t, x: x.unsqueeze(-1),
    "unsqueeze before": lambda t, x: x.unsqueeze(1),
    "unsqueeze the first": lambda t, x: x.unsqueeze(0),
    "squeeze": lambda t, x: x.unsqueeze(2).squeeze(2),
    "view": lambda t, x: x.view(3, -1, 2, 3),
    "view by its size": lambda t, x: x.view(3, x.size(1), 2, -1),
    "reshape": lambda t, x: x.reshape(3, -1, 1, 6),
    "view without rows": lambda t, x: x.view(-1, 6),
    "view of other sizes": lambda t, x: x.view(3, -1, 5),
    "unflatten": lambda t, x: x.unflatten(-1, (2, 3)),
    "unflatten and flatten": lambda t, x: x.unflatten(-1, (2, 3)).flatten(-2),
    "flatten": lambda t, x: x.flatten(),
    "flatten rows": lambda t, x: x.flatten(1, 2),
    "heads": lambda t, x: x.unflatten(-1, (2, 3)).transpose(1, 2).transpose(1, 2).flatten(-2),
    "chunk": lambda t, x: x.chunk(3, dim=-1),
    "chunk of components": lambda t, x: x.chunk(2),
    "chunk of rows": lambda t, x: x.chunk(2, 1),
    "split": lambda t, x: x.split(4, -1),
    "split in sizes": lambda t, x: x.split([1, 5], -1),
    "cat": lambda t, x: t.cat([x, x * 2], -1),
    "cat of rows": lambda t, x: t.cat([x, x], 1),
    "cat of components": lambda t, x: t.cat([x, x], 0),
    "stack": lambda t, x: t.stack([x, x], -1),
    "narrow": lambda t, x: x.narrow(2, 1, 3),
    "select": lambda t, x: x.select(2, 1),
    "select a row": lambda t, x: x.select(1, 0),
    "a component": lambda t, x: x[1],
    "the last component": lambda t, x: x[-1],
    "a row of a component": lambda t, x: x[1, 2],
    "a part of a component": lambda t, x: x[1, 1:, 2],
    "a feature": lambda t, x: x[..., 2],
    "components beyond": lambda t, x: x[7],
    "rows of all": lambda t, x: x[:, 1:],
    "a row of all": lambda t, x: x[:, 0],
    "by a mask": lambda t, x: x[x > 0],
    "expand": lambda t, x: x.unsqueeze(-1).expand(-1, -1, -1, 2),
    "expand_as": lambda t, x: x.narrow(2, 0, 1).expand_as(x),
    "contiguous": lambda t, x: x.transpose(1, 2).contiguous(),
    "padded": lambda t, x: x.to_padded_tensor(-1.0),
    "padded to a size": lambda t, x: t.nested.to_padded_tensor(x, 0.0, (3, 7, 6)),
    "padded to fewer": lambda t, x: x.to_padded_tensor(0.5, (3, 3, 6)),
    "components": lambda t, x: x.unbind(),
    "iterated": lambda t, x: list(x),
    "rows of components": lambda t, x: x.unbind(1),
}
SUMS = {
    **{f"{name} {dim}": lambda t, x, name=name, dim=dim: getattr(x, name)(dim)
       for name in ("sum", "mean", "amax", "amin", "argmax", "prod", "any", "all") for dim in (1, 2, -1, 0)},
    **{f"{name} of all": lambda t, x, name=name: getattr(x, name)()
       for name in ("sum", "mean", "max", "min", "prod", "any", "all")},
    "sum of rows kept": lambda t, x: x.sum(dim=1, keepdim=True),
    "sum of features kept": lambda t, x: x.sum(-1, keepdim=True),
    "sum of rows and features": lambda t, x: x.sum((1, 2)),
    "sum of components and rows": lambda t, x: x.sum((0, 1)),
    "mean of components and rows": lambda t, x: x.mean((0, 1)),
    "sum of components and rows kept": lambda t, x: x.sum((0, 1), keepdim=True),
    "sum of three dimensions": lambda t, x: x.sum((0, 1, 2)),
    "sum of components and features": lambda t, x: x.sum((0, 2)),
    "max along rows": lambda t, x: x.max(1),
    "min along features": lambda t, x: x.min(-1),
    "softmax of rows": lambda t, x: x.softmax(1),
    "softmax of features": lambda t, x: t.softmax(x, -1),
    "log_softmax of features": lambda t, x: t.nn.functional.log_softmax(x, -1),
    "softmax of components": lambda t, x: x.softmax(0),
    "a transposed sum": lambda t, x: x.transpose(1, 2).sum(2),
    "a transposed sum of features": lambda t, x: x.transpose(1, 2).sum(1),
}  # fmt: skip


def heads(x: Any) -> Any:
    return x.unflatten(-1, (2, 3)).transpose(1, 2)


PRODUCTS = {
    "linear": lambda t, x: t.nn.functional.linear(x, t.arange(24.0).view(4, 6) / 9, t.ones(4)),
    "linear of a transposed one": lambda t, x: t.nn.functional.linear(x.transpose(1, 2), t.ones(4, 6)),
    "matmul": lambda t, x: x @ (t.arange(24.0).view(6, 4) / 9),
    "matmul for each": lambda t, x: x.matmul(t.arange(72.0).view(3, 6, 4) / 9),
    "bmm": lambda t, x: t.bmm(x, t.arange(72.0).view(3, 6, 4) / 9),
    "rows times rows": lambda t, x: t.matmul(x.transpose(1, 2), x),
    "ragged twice": lambda t, x: t.matmul(x, x.transpose(1, 2)),
    "layer_norm": lambda t, x: t.nn.functional.layer_norm(x, (6,), t.arange(6.0), t.ones(6)),
    "layer_norm of rows": lambda t, x: t.nn.functional.layer_norm(x, (1, 6)),
    "rms_norm": lambda t, x: t.nn.functional.rms_norm(x, (6,)),
    "embedding": lambda t, x: t.nn.functional.embedding(x.abs().clamp(max=4).long(), t.arange(15.0).view(5, 3)),
    "attention": lambda t, x: t.nn.functional.scaled_dot_product_attention(heads(x), heads(x * 2), heads(x + 1)),
    "attention, scaled": lambda t, x: t.nn.functional.scaled_dot_product_attention(*[heads(x)] * 3, scale=0.3),
}
FACTS = {
    "shape": lambda t, x: x.shape,
    "size": lambda t, x: (x.size(), x.size(0), x.size(-1), x.size(1) == x.shape[1], x.size(1) == 4, x.size(1) * 2),
    "sizes compared": lambda t, x: (x.size(1) > 1, x.size(1) >= 2, x.size(1) != 3, x.size(1) < 1),
    "sizes of results": lambda t, x: ((x + 1).size(1) == x.size(1), nested(t).size(1) == x.size(1)),
    "strides": lambda t, x: (x.stride(), x.stride(1), x.is_contiguous(), x.transpose(1, 2).is_contiguous()),
    "dimensions": lambda t, x: (x.dim(), x.ndim, len(x), x.numel(), x.element_size(), x.storage_offset()),
    "kind": lambda t, x: (x.is_nested, x.layout, x.device, x.dtype, x.is_leaf, x.is_sparse, x.is_floating_point()),
    "parts": lambda t, x: (x.values(), x.offsets(), x.lengths()),
    "text": lambda t, x: (repr(x), str(x), f"{x}"),
    "truth": lambda t, x: bool(x),
    "item": lambda t, x: x.item(),
    "list": lambda t, x: x.tolist(),
    "array": lambda t, x: x.numpy(),
}
MADE = {
    "of lists": lambda t: t.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=t.jagged),
    "of a dtype": lambda t: t.nested.nested_tensor(components(t), layout=t.jagged, dtype=t.float64),
    "of integers": lambda t: nested(t, dtype="int64") * 2,
    "of booleans": lambda t: nested(t, dtype="bool").any(1),
    "another ragged dimension": lambda t: t.nested.nested_tensor([t.ones(2, 3), t.ones(2, 4)], layout=t.jagged),
    "two ragged dimensions": lambda t: t.nested.nested_tensor([t.ones(2, 3), t.ones(3, 4)], layout=t.jagged),
    "no ragged dimension": lambda t: t.nested.nested_tensor([t.ones(2, 3), t.zeros(2, 3)], layout=t.jagged),
    "of one dimension": lambda t: t.nested.nested_tensor([t.ones(2), t.ones(1), t.ones(0)], layout=t.jagged),
    "an empty component": lambda t: nested(t, rows=(2, 0, 3)).sum(1),
    "of nothing": lambda t: t.nested.nested_tensor([], layout=t.jagged),
    "of other dtypes": lambda t: t.nested.nested_tensor([t.ones(2), t.ones(1).long()], layout=t.jagged),
    "of other dimensions": lambda t: t.nested.nested_tensor([t.ones(2), t.ones(1, 1)], layout=t.jagged),
    "of 0-d tensors": lambda t: t.nested.nested_tensor([t.tensor(1.0)], layout=t.jagged),
    "of another layout": lambda t: t.nested.nested_tensor([t.ones(2)], layout=t.sparse_coo),
    "from tensors": lambda t: t.nested.as_nested_tensor(components(t), layout=t.jagged),
    "from a tensor": lambda t: t.nested.as_nested_tensor(t.arange(12.0).view(2, 3, 2), layout=t.jagged),
    "from a nested one": lambda t: t.nested.as_nested_tensor(nested(t), dtype=t.float64, layout=t.jagged),
    "from a nested one of another layout": lambda t: t.nested.as_nested_tensor(nested(t, "strided"), layout=t.jagged),
    "from a number": lambda t: t.nested.as_nested_tensor(t.tensor(2.0), layout=t.jagged),
    "from rows": lambda t: t.nested.nested_tensor_from_jagged(t.arange(12.0).view(6, 2), t.tensor([0, 2, 6])),
    "from lengths": lambda t: t.nested.nested_tensor_from_jagged(t.arange(6.0), lengths=t.tensor([2, 0, 4])),
    "from columns": lambda t: t.nested.nested_tensor_from_jagged(
        t.arange(12.0).view(2, 6), t.tensor([0, 2, 6]), jagged_dim=2
    ),
    "from rows alone": lambda t: t.nested.nested_tensor_from_jagged(t.ones(6, 2)),
    "the same rows twice": lambda t: _same_rows(t),
    "by a mask of columns": lambda t: t.nested.masked_select(t.arange(6.0).view(2, 3), t.tensor([True, False, True])),
    "narrowed": lambda t: t.nested.narrow(
        t.arange(30.0).view(2, 5, 3), 1, t.tensor([0, 1]), t.tensor([2, 3]), layout=t.jagged
    ),
    "narrowed by numbers": lambda t: t.nested.narrow(t.arange(30.0).view(2, 5, 3), 1, 1, 2, layout=t.jagged),
    "narrowed elsewhere": lambda t: t.nested.narrow(t.ones(2, 5, 3), 2, 0, 2, layout=t.jagged),
    "by a mask": lambda t: t.nested.masked_select(
        t.arange(6.0).view(2, 3), t.tensor([[True, False, True], [False, False, True]])
    ),
    "by a mask of more": lambda t: t.nested.masked_select(t.arange(12.0).view(2, 3, 2), t.arange(12).view(2, 3, 2) > 4),
    "with gaps": lambda t: gapped(t),
    "with gaps, unbound": lambda t: gapped(t).unbind(),
    "with gaps, contiguous": lambda t: gapped(t).contiguous(),
    "with gaps, doubled": lambda t: (gapped(t) * 2).unbind(),
}  # fmt: skip
STRIDED = {
    "components": lambda t, x: x.unbind(),
    "a component": lambda t, x: x[1],
    "sizes": lambda t, x: (x.size(0), x.size(2), x.dim(), x.layout, x.is_nested, x.numel(), x.is_contiguous()),
    "an irregular size": lambda t, x: x.size(1),
    "shape": lambda t, x: x.shape,
    "text": lambda t, x: repr(x),
    "sum": lambda t, x: x + x,
    "times a number": lambda t, x: x * 3,
    "relu": lambda t, x: t.relu(x),
    "gelu": lambda t, x: t.nn.functional.gelu(x),
    "softmax": lambda t, x: x.softmax(-1),
    "transpose": lambda t, x: x.transpose(1, 2),
    "linear": lambda t, x: t.nn.functional.linear(x, t.arange(24.0).view(4, 6) / 9, t.ones(4)),
    "matmul": lambda t, x: t.matmul(x, x.transpose(1, 2)),
    "layer_norm": lambda t, x: t.nn.functional.layer_norm(x, (6,), t.arange(6.0), t.ones(6)),
    "padded": lambda t, x: x.to_padded_tensor(-1.0),
    "padded to a size": lambda t, x: x.to_padded_tensor(0.0, (3, 5, 7)),
    "padded to fewer": lambda t, x: x.to_padded_tensor(0.0, (3, 3, 6)),
    "padded to more components": lambda t, x: x.to_padded_tensor(2.0, (5, 4, 6)),
    "padded to fewer components": lambda t, x: x.to_padded_tensor(0.0, (2, 4, 6)),
    "unsqueeze": lambda t, x: x.unsqueeze(-1),
    "unsqueeze before the last": lambda t, x: x.unsqueeze(-2),
    "unsqueeze before": lambda t, x: x.unsqueeze(1),
    "unsqueeze at the end": lambda t, x: x.unsqueeze(3),
    "unsqueeze the first": lambda t, x: x.unsqueeze(0),
    "sum of features": lambda t, x: x.sum(-1, keepdim=True),
    "select": lambda t, x: x.select(0, 1),
    "chunk": lambda t, x: x.chunk(2, -1),
    "view": lambda t, x: x.view(3, -1, 2, 3),
    "other components": lambda t, x: x + nested(t, "strided", rows=(2, 4, 2)),
}


def _same_rows(t: Any) -> Any:
    offsets = t.tensor([0, 2, 6])
    first = t.nested.nested_tensor_from_jagged(t.arange(6.0), offsets)
    return first + t.nested.nested_tensor_from_jagged(t.ones(6), offsets)


def same(ours: Any, theirs: Any) -> bool:
    """Whether outcomes are equal, their numbers but for rounding."""
    if isinstance(ours, (list, tuple)):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, np.ndarray):
        return ours.shape == theirs.shape and np.allclose(ours, theirs, 1e-5, 1e-6, equal_nan=True)
    return bool(ours == theirs)


def agree(compute: Any) -> None:
    theirs, ours = both(compute)
    assert same(ours, theirs), (ours, theirs)


@pytest.mark.parametrize("name", [*POINTWISE, *SHAPES, *SUMS, *PRODUCTS, *FACTS])
def test_jagged(name: str) -> None:
    compute = {**POINTWISE, **SHAPES, **SUMS, **PRODUCTS, **FACTS}[name]
    agree(lambda t: compute(t, nested(t)))


@pytest.mark.parametrize("name", MADE)
def test_made(name: str) -> None:
    agree(MADE[name])


@pytest.mark.parametrize("name", STRIDED)
def test_strided(name: str) -> None:
    agree(lambda t: STRIDED[name](t, nested(t, "strided")))


def _weighed(result: Any) -> Any:
    """A sum of all that a result consists of, each element with a weight of its own."""
    total: Any = 0.0
    for part in result if isinstance(result, (tuple, list)) else [result]:
        for one in part.unbind() if part.is_nested else [part]:
            if one.dtype.is_floating_point:
                weights = eagerjit.arange(1, one.numel() + 1).to(one.dtype).view(one.shape)
                total = total + (one * weights / 9).sum()
    return total


NOT_DIFFERENTIATED = {
    "comparison", "is nan", "logical", "full_like", "zeros_like", "ones_like of another dtype", "detach", "other rows",
    "frexp", "embedding", "dense of other sizes", "dense of more dimensions",
}  # fmt: skip
REFUSED = {
    "transpose of the first", "T", "unsqueeze the first", "view without rows", "view of other sizes", "flatten",
    "flatten rows", "chunk of rows", "cat of rows", "cat of components", "select a row", "components beyond",
    "rows of all", "a row of all", "by a mask", "rows of components", "sum 0", "mean 0", "amax 0", "amin 0", "prod 0",
    "sum of rows and features", "sum of components and features", "softmax of components",
    "linear of a transposed one", "ragged twice", "layer_norm of rows",
}  # fmt: skip
DIFFERENTIATED = [
    name for name in {**POINTWISE, **SHAPES, **SUMS, **PRODUCTS}
    if name not in NOT_DIFFERENTIATED | REFUSED and not name.startswith(("any", "all", "argmax"))
]  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_gradients(name: str) -> None:
    """Against differences along a direction: PyTorch lacks many of them on CPUs."""
    compute = {**POINTWISE, **SHAPES, **SUMS, **PRODUCTS}[name]
    eagerjit.set_default_dtype(eagerjit.float64)
    try:
        x = nested(eagerjit, dtype="float64", grad=True)
        direction = eagerjit.nested.nested_tensor(components(eagerjit, dtype="float64", seed=3), layout=eagerjit.jagged)
        (gradient,) = eagerjit.autograd.grad(_weighed(compute(eagerjit, x)), x)
        assert gradient.is_nested and gradient.size(1) == x.size(1)
        with eagerjit.no_grad():
            before, after = (
                _weighed(compute(eagerjit, x.with_values(x.values() + step * direction.values())))
                for step in (-1e-6, 1e-6)
            )
        expected = float(after - before) / 2e-6
    finally:
        eagerjit.set_default_dtype(eagerjit.float32)
    assert float((gradient.values() * direction.values()).sum()) == pytest.approx(expected, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("layout", ["jagged", "strided"])
def test_backward_into_components_and_leaves(layout: str) -> None:
    def compute(t: Any) -> Any:
        parts = [part.requires_grad_() for part in components(t)]
        x = t.nested.as_nested_tensor(parts, layout=getattr(t, layout))
        (x * x).to_padded_tensor(0.0).sum().backward()
        leaf, seen = nested(t, layout, True), []
        leaf.register_hook(lambda gradient: seen.append(gradient.is_nested))
        (leaf * leaf).to_padded_tensor(0.0).sum().backward()
        return [part.grad for part in parts], leaf.grad, seen

    agree(compute)


@pytest.mark.parametrize("layout", ["jagged", "strided"])
def test_gradients_add_up(layout: str) -> None:
    leaf = nested(eagerjit, layout, True)
    for times in (1, 2):
        (leaf * 3).to_padded_tensor(0.0).sum().backward()
        assert all(bool((part == 3 * times).all()) for part in leaf.grad)
    leaf.grad = None
    leaf.grad = leaf.detach() * 2
    assert same(outcome(leaf.grad), outcome(leaf.detach() * 2))
    with pytest.raises(RuntimeError, match="a gradient of"):
        leaf.grad = nested(eagerjit, layout, rows=(1, 1, 1))


def test_layers_and_training() -> None:
    def compute(t: Any) -> Any:
        model = t.nn.Sequential(t.nn.Linear(6, 8), t.nn.LayerNorm(8), t.nn.GELU(), t.nn.Dropout(0.0), t.nn.Linear(8, 2))
        rng = np.random.default_rng(1)
        with t.no_grad():
            for p in model.parameters():
                p.copy_(t.tensor(rng.normal(size=tuple(p.shape))))
        optimizer, losses = t.optim.SGD(model.parameters(), 0.05), []
        for _ in range(3):
            optimizer.zero_grad()
            loss = (model(nested(t)) ** 2).values().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return losses

    agree(compute)


def test_attention_in_between() -> None:
    """Queries of other rows than the keys' and causal attention, which PyTorch computes on GPUs alone."""
    functional = eagerjit.nn.functional
    queries, keys = components(eagerjit, (2, 3, 1)), components(eagerjit, (4, 1, 2), seed=1)
    q, k = (eagerjit.nested.nested_tensor(part, layout=eagerjit.jagged) for part in (queries, keys))
    for causal in (False, True):
        found = functional.scaled_dot_product_attention(heads(q), heads(k), heads(k), is_causal=causal)
        for one, a, b in zip(found.unbind(), queries, keys, strict=True):
            a, b = (x.unflatten(-1, (2, 3)).transpose(0, 1).unsqueeze(0) for x in (a, b))
            expected = functional.scaled_dot_product_attention(a, b, b, is_causal=causal)[0]
            assert eagerjit.allclose(one, expected, atol=1e-5)
    with pytest.raises(RuntimeError, match="of nested tensors all three are nested, of four dimensions"):
        functional.scaled_dot_product_attention(q, q, q)


def test_what_pytorch_has_not_got() -> None:
    """Results here are those of the components one by one."""
    x, parts = nested(eagerjit), components(eagerjit)
    added = x.transpose(1, 2) + eagerjit.arange(6.0).view(1, 6, 1)
    assert all(map(eagerjit.equal, added.unbind(), [(p + eagerjit.arange(6.0)).T for p in parts]))
    assert nested(eagerjit, rows=(1,), rest=(1,)).item() == components(eagerjit, (1,), (1,))[0].item()
    with_gaps = gapped(eagerjit)
    padded = with_gaps.to_padded_tensor(0.0)
    for part, row in zip(with_gaps.unbind(), padded, strict=True):
        assert eagerjit.equal(row[: len(part)], part) and not row[len(part) :].any()
    assert all(map(eagerjit.equal, with_gaps.sum(1), [part.sum(0) for part in with_gaps.unbind()]))
    dense = eagerjit.arange(12.0).view(3, 1, 4)
    expected = [part + row for part, row in zip(with_gaps, dense, strict=True)]
    assert all(map(eagerjit.equal, (with_gaps + dense).unbind(), expected))
    strided = nested(eagerjit, "strided") + eagerjit.arange(3.0).view(3, 1, 1)
    assert all(eagerjit.equal(p + i, q) for i, (p, q) in enumerate(zip(parts, strided, strict=True)))
    with pytest.raises(TypeError, match="ragged size"):
        range(x.size(1))


def encoder(t: Any, **options: Any) -> Any:
    """Two encoder layers with given parameters."""
    made = t.nn.TransformerEncoder(
        t.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **options), 2, t.nn.LayerNorm(8)
    )
    rng = np.random.default_rng(0)
    with t.no_grad():
        for p in made.parameters():
            p.copy_(t.tensor(rng.normal(size=tuple(p.shape)) * 0.3))
    return made.eval()


MASKS = {"at the end": [[0] * 5, [0, 0, 0, 1, 1], [0, 0, 0, 0, 1]], "before": [[0] * 5, [1, 0, 0, 0, 0], [0] * 5],
         "of all": [[0, 0, 0, 0, 1]] * 3}  # fmt: skip


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"activation": "gelu"}, {"bias": False}], ids=str)
def test_padding_of_encoders(mask: str, options: dict[str, Any]) -> None:
    """At inference results are zero where there is padding, and what the last norm makes of zeros."""
    def compute(t: Any) -> Any:
        x = t.tensor(np.random.default_rng(1).normal(size=(3, 5, 8))).float()
        padding, model, found = t.tensor(MASKS[mask]).bool(), encoder(t, **options), []
        with t.no_grad():
            found.append(model(x, src_key_padding_mask=padding))
            found.append(model(x, mask=t.zeros(5, 5), src_key_padding_mask=padding))
            model.norm = None
            found.append(model(x, src_key_padding_mask=padding))
            found.append(model.layers[0](x, src_key_padding_mask=padding))
        found.append(model(x, src_key_padding_mask=padding).detach())
        with t.no_grad():
            return *found, model.train()(x * 0, src_key_padding_mask=padding).shape

    agree(compute)


def test_compiled_encoders_tell_masks_apart() -> None:
    model, x = encoder(eagerjit), eagerjit.randn(3, 5, 8)
    compiled = eagerjit.jit(lambda x, mask: model(x, src_key_padding_mask=mask))
    with eagerjit.no_grad():
        for mask in (*MASKS.values(), *MASKS.values()):
            mask = eagerjit.tensor(mask).bool()
            assert eagerjit.equal(compiled(x, mask), model(x, src_key_padding_mask=mask))
    assert compiled.cache_info().compiles == 2 and not compiled.cache_info().eager_calls


def test_exported_encoders_compute_what_is_padding() -> None:
    model, x, mask = encoder(eagerjit), eagerjit.randn(3, 5, 8), eagerjit.tensor(MASKS["at the end"]).bool()
    with eagerjit.no_grad():
        exported = eagerjit.export.export(model, (x,), {"src_key_padding_mask": mask}).module()
        found, expected = exported(x, src_key_padding_mask=mask), model(x, src_key_padding_mask=mask)
    assert eagerjit.equal(found[~mask], expected[~mask]) and not eagerjit.equal(found[mask], expected[mask])


@pytest.mark.parametrize("layout", ["jagged", "strided"])
def test_attention_layers(layout: str) -> None:
    """Nested tensors go through attention and encoders component by component."""
    model, x = encoder(eagerjit), nested(eagerjit, layout, True, rest=(8,))
    found = model(x)
    expected = [model(part.unsqueeze(0))[0] for part in components(eagerjit, rest=(8,))]
    assert all(eagerjit.allclose(one, other, atol=1e-5) for one, other in zip(found, expected, strict=True))
    sum(part.sum() for part in found).backward()
    assert x.grad.is_nested
    with pytest.raises(AssertionError, match="MultiheadAttention of nested tensors"):
        model.layers[0].self_attn(x, x, x)
    if layout == "strided":

        def compute(t: Any) -> Any:
            with t.no_grad():
                return encoder(t).layers[0](nested(t, "strided", rest=(8,)))

        agree(compute)


def test_written_in_place() -> None:
    def compute(t: Any) -> Any:
        x = nested(t)
        known = x.values()
        x.mul_(2).add_(x)
        x += 1
        y = t.empty_like(x).copy_(x)
        y.zero_()
        return x, known, y, x.fill_(3)

    agree(compute)


def test_operations_that_there_are_not() -> None:
    for name in ("cumsum", "sort", "std", "roll", "flip", "topk"):
        with pytest.raises(NotImplementedError, match=rf"{name}.*jagged.*float32.*shape \(3, j\d+, 6\)"):
            getattr(nested(eagerjit), name)(1)
    with pytest.raises(NotImplementedError, match="conv1d"):
        eagerjit.nn.Conv1d(6, 2, 1)(nested(eagerjit).transpose(1, 2))


@pytest.mark.parametrize("layout", ["jagged", "strided"])
def test_copies_and_files(layout: str) -> None:
    x = nested(eagerjit, layout, True)
    x.note = "kept"
    for again in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert same(outcome(again), outcome(x)) and again.note == "kept"
    for write, read in ((eagerjit, eagerjit), (eagerjit, torch), (torch, eagerjit)):
        file = io.BytesIO()
        write.save({"x": nested(write, layout, True)}, file)
        file.seek(0)
        found = read.load(file)["x"]
        if read is eagerjit:
            assert same(outcome(found), outcome(x))
        else:
            assert [part.tolist() for part in found.unbind()] == [part.tolist() for part in x.unbind()]


def test_a_compiled_function_runs_eagerly_and_says_so() -> None:
    @eagerjit.jit
    def doubled(x: Any) -> Any:
        return (x * 2).sum(1)

    x = nested(eagerjit)
    with pytest.warns(eagerjit.jit.JitWarning, match="a nested tensor"):
        found = doubled(x)
    assert same(outcome(found), outcome((x * 2).sum(1)))


def test_other_devices() -> None:
    x = nested(eagerjit)
    moved = x.to("meta")
    assert moved.device.type == "meta" and moved.size(1) == x.size(1) and (moved * 2).sum(-1).device.type == "meta"

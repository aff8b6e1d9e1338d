"""Writing and reading at positions along one dimension, made of rows of flattened tensors."""

from __future__ import annotations

from typing import Any

from eagerjit import creation
from eagerjit.ops import index as rows
from eagerjit.ops import views
from eagerjit.ops.pointwise import POINTWISE, where
from eagerjit.tensor import Tensor


def _flat_positions(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """Where index points to, as positions in input flattened."""
    shape = tuple(input.shape)
    index = index.long()
    out = index.where(index >= 0, index + shape[dim])
    step: Any = 1
    total: Any = None
    for axis in reversed(range(len(shape))):
        place = out
        if axis != dim:
            size = index.shape[axis]
            place = creation.arange(size).view([size if a == axis else 1 for a in range(len(shape))])
        total = place * step if total is None else total + place * step
        step = step * shape[axis]
    return total.expand(tuple(index.shape))


def scatter(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Tensor:
    """input with src (a tensor or number) written at `index` along dim; where indices repeat, the last one wins."""
    source = src if value is None else value
    d = views.dimension(dim, input.ndim)
    rows.check_index("scatter", index)
    if input.ndim == 0 or index.ndim == 0:
        flat = scatter(
            input.reshape(1), 0, index.reshape(1), source.reshape(1) if isinstance(source, Tensor) else source
        )
        return flat.view(tuple(input.shape))
    if index.ndim != input.ndim:
        raise RuntimeError("Index tensor must have the same number of dimensions as self tensor")
    if isinstance(source, Tensor) and source.ndim:
        if source.dtype is not input.dtype:
            raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
        source = source[tuple(slice(0, n) for n in index.shape)]
    else:
        source = input.new_full((), source).expand(tuple(index.shape))
    if reduce == "add":
        return input.scatter_add(d, index, source)
    if reduce is not None:
        raise RuntimeError(f"reduce argument must be None or 'add', got {reduce}")
    size = input.shape[d]
    outside = (index < 0).logical_or(index >= size)
    positions = _flat_positions(input, d, index).where(outside.logical_not(), -1 - input.numel())
    flat = input.reshape(-1).put_rows(positions.reshape(-1), source.reshape(-1))
    return flat.view(tuple(input.shape))


def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """input with a number at `index` along dim."""
    d = views.dimension(dim, input.ndim)
    order = (d, *(i for i in range(input.ndim) if i != d))
    moved = input.permute(order)
    filled = moved.new_full((), value).expand((index.shape[0], *moved.shape[1:]))
    back = sorted(range(input.ndim), key=order.__getitem__)
    return moved.put_rows(index, filled).permute(back)


def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """input with rows of `source` at `index` along dim."""
    d = views.dimension(dim, input.ndim)
    order = (d, *(i for i in range(input.ndim) if i != d))
    back = sorted(range(input.ndim), key=order.__getitem__)
    return input.permute(order).put_rows(index, source.permute(order)).permute(back)


def take(input: Tensor, index: Tensor) -> Tensor:
    """Elements of input flattened, by number."""
    return input.reshape(-1).take_rows(index)


def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """`gather` with broadcasting; without dim from input flattened."""
    if dim is None:
        return take(input, indices.reshape(-1))
    d = views.dimension(dim, input.ndim)
    shape = [max(a, b) if i != d else None for i, (a, b) in enumerate(zip(input.shape, indices.shape, strict=True))]
    spread = input.expand([input.shape[d] if s is None else s for s in shape])
    return spread.gather(d, indices.expand([indices.shape[d] if s is None else s for s in shape]))


def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    """How many elements are not zero."""
    return (input != 0).sum(dim)


def logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """log(exp(input) + exp(other)) without overflow."""
    top = POINTWISE["maximum"].call(input, other)
    spread = (-(input - other).abs()).exp().log1p()
    return where.call(top.isinf(), top, top + spread)


def hypot(input: Tensor, other: Tensor) -> Tensor:
    """sqrt(input**2 + other**2)."""
    return (input * input + other * other).sqrt()


def argwhere(input: Tensor) -> Tensor:
    """Positions of the elements that are not zero."""
    from eagerjit.ops.counted import nonzero

    return nonzero(input)

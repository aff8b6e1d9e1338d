"""Reading and writing at positions: rows of a dimension, elements of flattened tensors, under masks."""

from __future__ import annotations

from typing import Any

from eagerjit.calling.casts import converting
from eagerjit.calling.dispatch import Op
from eagerjit.calling.public import public, written
from eagerjit.compiler.shapes import inverse
from eagerjit.effects.cautions import caution
from eagerjit.ops import assignment, pointwise, shaping, subscript, views
from eagerjit.ops import index as rows
from eagerjit.ops.counted import nonzero
from eagerjit.ops.scatter import scatter_reduce
from eagerjit.runtime import dtypes
from eagerjit.runtime.planned import Plan
from eagerjit.state import state
from eagerjit.tensors.creation import arange
from eagerjit.tensors.fitting import check_fit
from eagerjit.tensors.limits import contiguous_format
from eagerjit.tensors.mistakes import planned_public
from eagerjit.tensors.outputs import write_out
from eagerjit.tensors.placement import check_together
from eagerjit.tensors.promotion import TYPE_NAMES
from eagerjit.tensors.tensor import Tensor


@public
def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """input with rows of `source` combined at `index` along dim by "prod", "mean", "amax" or "amin"."""
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    d = views.dimension(dim, input.ndim)
    places = _vector("index_reduce_", index, source, d)
    places = arange(input.shape[d] if input.ndim else 1).take_rows(places, False)  # an IndexError, unlike a scatter's
    _check_rows(input, source, d)
    shape = tuple(source.shape)
    spread = places.reshape([-1 if i == d else 1 for i in range(max(len(shape), 1))]).expand(shape or (1,))
    return scatter_reduce(input, d, spread, source, reduce, include_self=include_self)


def _check_rows(input: Tensor, source: Tensor, d: int) -> None:
    """Refuse a source whose rows along a dimension are not of the input's shape."""
    shape, own = tuple(source.shape), tuple(input.shape)
    if (own and not shape) or (*shape[:d], *shape[d + 1 :]) != (*own[:d], *own[d + 1 :]):
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
            f"{list(own)} source.shape = {list(shape)}"
        )


def _vector(name: str, index: Tensor, source: Tensor, d: int, error: type = IndexError) -> Tensor:
    """A vector of as many indices as the source has rows."""
    rows.check_index(name, index)
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector, but got dim: {index.ndim}")
    count = source.shape[d] if source.ndim else 1
    if (index.shape[0] if index.ndim else 1) != count:
        raise error(
            f"{name}(): Number of indices ({index.numel()}) should be equal to source.size(dim) ({count}), for dim {d}"
        )
    return index.reshape(1) if index.ndim == 0 else index


def _front(input: Tensor, d: int) -> tuple[Tensor, tuple[int, ...]]:
    """The tensor with a dimension in front, and the order that puts it there."""
    order = (d, *(i for i in range(input.ndim) if i != d))
    return (input.permute(order) if d else input), order


def _rows_changed(op: Op, input: Tensor, d: int, index: Tensor, value: Tensor, wrap: bool) -> Tensor:
    """Rows of a dimension written or added to, in row-major order again."""
    if input.ndim == 0:
        return op.call(input.reshape(1), index, value.reshape(1), wrap).reshape(()).clone()
    moved, order = _front(input, d)
    out = op.call(moved, index, value, wrap)
    return out.permute(inverse(order)).contiguous() if d else out


def _addends(input: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Any) -> tuple[int, Tensor, Tensor]:
    """The dimension, the places along it, and what is added there."""
    d = views.dimension(dim, input.ndim)
    if source.ndim and d >= source.ndim:
        raise RuntimeError(
            f"index_add_(): Indexing dim {d} is out of bounds of the source tensor with dim {source.ndim}"
        )
    _check_rows(input, source, d)
    places = _vector("index_add_", index, source, d, RuntimeError)
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"index_add_(): self ({TYPE_NAMES[input.dtype]}) and source ({TYPE_NAMES[source.dtype]}) "
            "must have the same "
            "scalar type"
        )
    return d, places, source if type(alpha) is int and alpha == 1 else source * alpha


@planned_public
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Any = 1) -> Plan:
    """input with rows of alpha * source added at `index` along dim."""
    d, places, added = _addends(input, dim, index, source, alpha)
    if d == 0 and input.ndim and source.ndim and places is index and added is source:
        return rows.add_rows.call, (input, index, source, False)
    return _rows_added, (input, d, index, source, alpha)


def _rows_added(input: Tensor, d: int, index: Tensor, source: Tensor, alpha: Any) -> Tensor:
    """Rows added to rows of any dimension."""
    d, places, added = _addends(input, d, index, source, alpha)
    return _rows_changed(rows.add_rows, input, d, places, _front(added, d)[0] if added.ndim else added, False)


def _copies(input: Tensor, dim: int, index: Tensor, source: Tensor) -> tuple[int, Tensor, Tensor]:
    """The dimension, the places along it, and what is written there."""
    d = views.dimension(dim, input.ndim)
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"index_copy_(): self and source expected to have the same dtype, but got (self) {TYPE_NAMES[input.dtype]} "
            f"and (source) {TYPE_NAMES[source.dtype]}"
        )
    if input.ndim and source.ndim and input.ndim != source.ndim:
        raise IndexError(
            "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source "
            f"dimensionality ({source.ndim}), destination dimensionality ({input.ndim})"
        )
    places = _vector("index_copy_", index, source, d)
    return d, places, source


@converting
@public
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """input with rows of `source` at `index` along dim."""
    d, places, source = _copies(input, dim, index, source)
    return _rows_changed(rows.put_rows, input, d, places, _front(source, d)[0] if source.ndim else source, False)


def _fills(input: Tensor, dim: int, index: Tensor, value: Any) -> tuple[int, Tensor, Tensor, tuple[Any, ...]]:
    """The dimension, the places along it, the 0-d value, and the sizes of the other dimensions."""
    if index.dtype is not dtypes.int64:
        raise IndexError(f"index_fill_(): Expected dtype int64 for index, but got {index.dtype}")
    if index.ndim > 1:
        raise RuntimeError(f"index_fill_(): Index has to be a vector/scalar, but has {index.ndim} dimensions")
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    d = views.dimension(dim, input.ndim)
    if isinstance(value, complex) and not input.dtype.is_complex:
        raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")
    check_fit(value, input.dtype)
    places = index.reshape(1) if index.ndim == 0 else index
    return d, places, input.new_full((), value), tuple(size for i, size in enumerate(input.shape) if i != d)


def _named(input: Tensor, d: int, places: Tensor) -> Tensor:
    """Which places along a dimension are named, as bools that broadcast to input."""
    count = input.shape[d] if input.ndim else 1
    marks = input.new_zeros((count,), dtype=dtypes.bool_)
    marks = rows.put_rows.call(marks, places, input.new_ones((places.shape[0],), dtype=dtypes.bool_), True)
    return marks.reshape([-1 if i == d else 1 for i in range(input.ndim)])


@public
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """input with a number at `index` along dim."""
    d, places, number, rest = _fills(input, dim, index, value)
    if number.requires_grad:  # which is there once, however often a place is named
        return pointwise.where.call(_named(input, d, places), number, input)
    if input.is_contiguous():
        return _rows_changed(rows.put_rows, input, d, places, number.expand((places.shape[0], *rest)), True)
    return input.clone().index_fill_(d, places, number)


# -- in flattened tensors ---------------------------------------------------------------------------------------------


def _long(name: str, index: Tensor) -> None:
    if index.dtype is not dtypes.int64:
        raise RuntimeError(f"{name}(): Expected a long tensor for index, but got {TYPE_NAMES[index.dtype]}")


@public
def take(input: Tensor, index: Tensor) -> Tensor:
    """Elements of input flattened, by number."""
    _long("take", index)
    return input.reshape(-1).take_rows(index)


@public
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """input with elements, numbered as if flattened, replaced by those of source, or these added."""
    _long("put_", index)
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"put_(): self and source expected to have the same dtype, but got {input.dtype} and {source.dtype}"
        )
    if index.numel() != source.numel():
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{source.numel()}, index.numel() = {index.numel()}"
        )
    op = rows.add_rows if accumulate else rows.put_rows
    return op.call(input.reshape(-1), index.reshape(-1), source.reshape(-1)).reshape(input.shape)


@public
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """`gather` with broadcasting; without dim from input flattened."""
    if indices.dtype is not dtypes.int64:
        raise RuntimeError(
            f"torch.take_along_dim(): dtype of indices should be Long but got {TYPE_NAMES[indices.dtype]}"
        )
    if dim is None:
        return input.reshape(-1).gather(0, indices.reshape(-1))
    if input.ndim != indices.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    d = views.dimension(dim, input.ndim)
    shape = list(shaping.broadcast_shapes(
        tuple(1 if i == d else n for i, n in enumerate(input.shape)),
        tuple(1 if i == d else n for i, n in enumerate(indices.shape)),
    ))  # fmt: skip
    spread = [input.shape[d] if i == d else n for i, n in enumerate(shape)]
    places = [indices.shape[d] if i == d else n for i, n in enumerate(shape)]
    return input.expand(spread).gather(d, (indices % input.shape[d]).expand(places))


@public
def index_put(input: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """input with values at the positions that the index tensors name, or these added."""
    return input.clone().index_put_(indices, values, accumulate)


# -- under masks ------------------------------------------------------------------------------------------------------


@public
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """input with the elements of source, in order, where the mask holds."""
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(
            f"masked_scatter_ only supports boolean masks, but got mask with dtype {TYPE_NAMES[mask.dtype]}"
        )
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"masked_scatter_: expected self and source to have same dtypes but got {TYPE_NAMES[input.dtype]} and "
            f"{TYPE_NAMES[source.dtype]}"
        )
    shape = shaping.broadcast_shapes(input.shape, mask.shape)
    chosen = mask.expand(shape)
    if state.tracer is None and int(chosen.sum()) > source.numel():
        raise RuntimeError("masked_scatter: expected self and source to have enough elements: "
                           "Number of elements of source < number of ones in mask")  # fmt: skip
    if source.numel() == 0:
        return input.expand(shape).clone(memory_format=contiguous_format)
    order = (chosen.reshape(-1).long().cumsum(0) - 1).clamp(min=0).where(chosen.reshape(-1), 0)
    return source.reshape(-1).take_rows(order).reshape(shape).where(chosen, input).contiguous()


@public
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where the mask holds, as a vector; input and mask broadcast. RuntimeError for other masks than bool.
    """
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(f"masked_select: expected BoolTensor for mask, but got {mask.dtype}")
    check_together(input, mask)
    if input.ndim and tuple(input.shape) == tuple(mask.shape):
        return subscript.get_item(input, mask)
    shape = shaping.broadcast_shapes(input.shape, mask.shape)
    return subscript.get_item(input.expand(shape).reshape(-1), mask.expand(shape).reshape(-1))


def where(condition: Any, input: Any = None, other: Any = None, *, out: Tensor | None = None) -> Any:
    """input where the condition holds, else other; the condition alone gives the positions where it holds.

    All three broadcast; numbers do not change the dtype that tensors promote to. Of the condition alone it is what
    `nonzero(condition, as_tuple=True)` gives. Raises RuntimeError for a condition that is neither bool nor uint8, and
    warns of uint8.
    """
    if input is None and other is None:
        if not isinstance(condition, Tensor):
            kind = type(condition).__name__
            raise TypeError(f"where(): argument 'condition' (position 1) must be Tensor, not {kind}")
        return nonzero(condition, as_tuple=True)
    if isinstance(condition, Tensor) and condition.dtype is dtypes.uint8:
        caution(
            "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future "
            "version of PyTorch. Use a boolean condition instead."
        )
    result = pointwise.where.call(condition, input, other)
    return result if out is None else write_out("where", result, out)


@public
def argwhere(input: Tensor) -> Tensor:
    """Positions of the elements that are not zero, as rows."""
    return nonzero(input)


# -- in place ---------------------------------------------------------------------------------------------------------

def index_add_(self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """In-place version of `index_add`."""
    d, places, source = _addends(self, dim, index, source, alpha)
    if self.ndim == 0 or source.ndim != self.ndim:
        return self.copy_(index_add(self.clone(), dim, index, source))
    return assignment.write_added(self, d, places, source, False)


def index_copy_(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """In-place version of `index_copy`."""
    d, places, source = _copies(self, dim, index, source)
    if self.ndim == 0 or source.ndim != self.ndim:
        return self.copy_(index_copy(self.clone(), dim, index, source))
    return assignment.write_put(self, d, places, source, False)


def index_fill_(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """In-place version of `index_fill`."""
    d, places, number, rest = _fills(self, dim, index, value)
    if self.ndim == 0:
        return self.copy_(index_fill(self.clone(), dim, index, value))
    if number.requires_grad:
        return self.masked_fill_(_named(self, d, places), number)
    return assignment.write_put(self, d, places, number.expand((*rest[:d], places.shape[0], *rest[d:])), True)


index_reduce_ = written(index_reduce)
put_, masked_scatter_ = written(put), written(masked_scatter)

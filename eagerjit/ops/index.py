"""Reading and writing at positions: indexing, gather and scatter, concatenation."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.compiler.ops import elementwise, indexing
from eagerjit.dispatch import Op, emit
from eagerjit.numbers import SymbolicInt, expression
from eagerjit.ops import views
from eagerjit.ops.pointwise import as_dtype
from eagerjit.promotion import result_type
from eagerjit.runtime import dtypes
from eagerjit.state import state
from eagerjit.tensor import Tensor, new_tensor


def _wrapped(index: Tensor, size: Any) -> Tensor:
    """Negative indices counted from the end, as int64."""
    index = as_dtype(index, dtypes.int64)
    return (index + size).where(index < 0, index)


def _take_rows(input: Tensor, index: Tensor) -> Tensor:
    """input[index] along the first dimension."""
    return emit(indexing.take_rows, input, _wrapped(index, input.shape[0]))


take_rows = Op(
    "take_rows", _take_rows, (lambda g, out, input, index: g.new_zeros(input.shape).add_rows(index, g), None)
)


def _add_rows(input: Tensor, index: Tensor, value: Tensor) -> Tensor:
    """input with value[i] added to row index[i]."""
    return emit(indexing.add_rows, input, _wrapped(index, input.shape[0]), as_dtype(value, input.dtype))


add_rows = Op(
    "add_rows",
    _add_rows,
    (lambda g, out, input, index, value: g, None, lambda g, out, input, index, value: g.take_rows(index)),
)


def _check_index(name: str, index: Any) -> None:
    if not isinstance(index, Tensor) or index.dtype not in (dtypes.int64, dtypes.int32):
        found = index.dtype if isinstance(index, Tensor) else type(index).__name__
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index, but got {found}")


def _gather(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """Elements of input at `index` along dim."""
    _check_index("gather", index)
    d = views.dimension(dim, input.ndim)
    if input.ndim == 0 or index.ndim == 0:
        return _gather(input.reshape(1), 0, index.reshape(1)).view(index.shape)
    return emit(indexing.gather, input, as_dtype(index, dtypes.int64), dim=d)


gather = Op(
    "gather",
    _gather,
    (lambda g, out, input, dim, index: g.new_zeros(input.shape).scatter_add(dim, index, g), None, None),
)


def _scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """input with src added at `index` along dim."""
    _check_index("scatter_add", index)
    d = views.dimension(dim, input.ndim)
    if src.dtype is not input.dtype:
        raise RuntimeError("scatter_add(): Expected self.dtype to be equal to src.dtype")
    if src.shape != index.shape:
        src = src[tuple(slice(0, n) for n in index.shape)]
    return emit(indexing.scatter_add, input, as_dtype(index, dtypes.int64), src, dim=d)


scatter_add = Op(
    "scatter_add",
    _scatter_add,
    (
        lambda g, out, input, dim, index, src: g,
        None,
        None,
        lambda g, out, input, dim, index, src: g.gather(dim, index),
    ),
)


def _slice_scatter(input: Tensor, src: Tensor, dim: int, start: Any, stop: Any, step: int) -> Tensor:
    """input with one slice replaced; bounds are within the dimension."""
    bounds = {"start": expression(start), "stop": expression(stop), "step": step}
    return emit(indexing.slice_scatter, input, as_dtype(src, input.dtype), dim=dim, **bounds)


slice_scatter = Op(
    "slice_scatter",
    _slice_scatter,
    (
        lambda g, out, input, src, dim, start, stop, step: g.slice_scatter(
            g.new_zeros(src.shape), dim, start, stop, step
        ),
        lambda g, out, input, src, dim, start, stop, step: views.slice_dim(g, dim, start, stop, step),
        None,
        None,
        None,
        None,
    ),
    ("start", "stop"),
)


def _cat(tensors: Any, dim: int = 0) -> Tensor:
    """Tensors joined along a dimension."""
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    kept = [x for x in tensors if not (x.ndim == 1 and x.shape[0] == 0)] or list(tensors[:1])
    rank = kept[0].ndim
    if any(x.ndim != rank for x in kept):
        raise RuntimeError(f"Tensors must have same number of dimensions: got {[x.ndim for x in kept]}")
    if rank == 0:
        raise RuntimeError("zero-dimensional tensor (at position 0) cannot be concatenated")
    dtype = result_type(*tensors)
    return emit(indexing.cat, *(as_dtype(x, dtype) for x in kept), dim=views.dimension(dim, rank))


def _cat_rule(g: Any, out: Any, tensors: Any, dim: int) -> list[Any]:
    grads = []
    start: Any = 0
    for x in tensors:
        if x.ndim == 1 and x.shape[0] == 0:
            grads.append(g.new_zeros(x.shape))
            continue
        d = views.dimension(dim, x.ndim)
        length = x.shape[d]
        grads.append(views.slice_dim(g, d, start, start + length, 1).to(x.dtype))
        start = start + length
    return grads


cat = Op("cat", _cat, (_cat_rule, None), fused_rules=False)


def stack(tensors: Any, dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Tensors of one shape joined along a new dimension."""
    tensors = list(tensors)
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = tensors[0].shape
    for i, x in enumerate(tensors):
        if x.shape != first:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 and {list(x.shape)} at "
                f"entry {i}"
            )
    d = views.dimension(dim, len(first) + 1)
    return cat.call([x.unsqueeze(d) for x in tensors], d)


# -- x[...] -----------------------------------------------------------------------------------------------------------


def _expanded_key(key: Any, rank: int) -> list[Any]:
    """One entry per dimension: the ellipsis and what is missing filled with full slices."""
    entries = list(key) if isinstance(key, tuple) else [key]
    entries = [_as_index(e) for e in entries]
    used = sum(e.ndim if _is_mask(e) else 1 for e in entries if e is not None and e is not Ellipsis)
    if used > rank:
        raise IndexError(f"too many indices for tensor of dimension {rank}")
    position = next((i for i, e in enumerate(entries) if e is Ellipsis), len(entries))
    if sum(e is Ellipsis for e in entries) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    rest = entries[position + 1 :] if position < len(entries) else []
    return entries[:position] + [slice(None)] * (rank - used) + rest


def _as_index(entry: Any) -> Any:
    if entry is None or entry is Ellipsis or isinstance(entry, (slice, SymbolicInt)):
        return entry
    if isinstance(entry, Tensor):
        if entry.dtype.is_floating_point:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        return entry
    if isinstance(entry, str):
        raise TypeError("new(): invalid data type 'str'")
    if isinstance(entry, (bool, list, range, tuple, np.ndarray)):
        return new_tensor(np.asarray(list(entry) if isinstance(entry, range) else entry))
    if hasattr(entry, "__index__"):
        return entry.__index__()
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got "
        f"{type(entry).__name__})"
    )


def _is_mask(entry: Any) -> bool:
    return isinstance(entry, Tensor) and entry.dtype in (dtypes.bool_, dtypes.uint8)


def bounds(entry: slice, size: Any) -> tuple[Any, Any, int]:
    """A slice's start, stop and step within a dimension, as Python clamps them; symbolic where they can be."""
    step = 1 if entry.step is None else int(entry.step)
    if step <= 0:
        raise ValueError("step must be greater than zero")
    start = _clamped(entry.start, 0, size)
    stop = _clamped(entry.stop, size, size)
    if stop < start:
        stop = start
    return start, stop, step


def _clamped(value: Any, default: Any, size: Any) -> Any:
    if value is None:
        return default
    if isinstance(value, Tensor):
        value = value.item()
    if value < 0:
        value = value + size
        return 0 if value < 0 else value
    return size if value > size else value


def _basic(input: Tensor, entries: list[Any]) -> tuple[Tensor, list[Any]]:
    """Ints, slices and None applied as views; the index tensors that remain, one entry per dimension of the result."""
    out = input
    remaining: list[Any] = []
    dim = 0
    for entry in entries:
        if entry is None:
            out = out.unsqueeze(dim)
            remaining.append(None)
            dim += 1
        elif isinstance(entry, slice):
            if entry != slice(None):
                start, stop, step = bounds(entry, out.shape[dim])
                if not (isinstance(start, int) and start == 0 and step == 1 and stop is out.shape[dim]):
                    out = views.slice_dim(out, dim, start, stop, step)
            remaining.append(None)
            dim += 1
        elif isinstance(entry, Tensor):
            remaining.append(entry)
            if _is_mask(entry):
                remaining += [_MASKED] * (entry.ndim - 1)
                if entry.ndim == 0:
                    raise IndexError("0-d boolean masks are not supported as an index")
            dim += entry.ndim if _is_mask(entry) else 1
        else:
            out = views.select(out, dim, entry)
    return out, remaining


_MASKED = object()


def _integer_indices(tensors: list[Any], shape: Any) -> list[Any]:
    """Masks replaced by the positions where they hold; None elsewhere."""
    out: list[Any] = []
    for position, entry in enumerate(tensors):
        if entry is _MASKED:
            continue
        if _is_mask(entry):
            for axis, (want, have) in enumerate(zip(shape[position:], entry.shape, strict=False)):
                if want != have:
                    raise IndexError(
                        f"The shape of the mask {list(entry.shape)} at index {axis} does not match the shape of the indexed "
                        f"tensor {list(shape)} at index {position + axis}"
                    )
            out += nonzero(entry).unbind(1)
        else:
            out.append(entry)
    return out


def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """Positions of the elements that are not zero: int64 of shape (count, dimensions)."""
    array = concrete(input, "the number of non-zero elements depends on values")
    out = new_tensor(np.ascontiguousarray(np.argwhere(array) if array.ndim else np.argwhere(array.reshape(1))[:, :0]))
    return out.unbind(1) if as_tuple else out


def concrete(tensor: Tensor, reason: str) -> np.ndarray:
    """A tensor's array; inside a trace there is none, and the call runs eagerly instead."""
    if state.tracer is None:
        return tensor._data
    from eagerjit.trace import TraceBreak, user_line

    raise TraceBreak(reason, user_line())


def get_item(input: Tensor, key: Any) -> Tensor:
    """input[key]: a view for ints, slices, None and ...; a copy where tensors index."""
    base, tensors = _basic(input, _expanded_key(key, input.ndim))
    if all(e is None for e in tensors):
        return base if base is not input else views.alias(input)
    return _advanced(base, _integer_indices(tensors, base.shape))


def _advanced(base: Tensor, indices: list[Any]) -> Tensor:
    """Index with integer tensors: their dimensions in front, flattened to rows, then put in place."""
    used, front, shape = _gathered(base, indices)
    moved = base.permute(front)
    linear = _linear([indices[d] for d in used], [base.shape[d] for d in used], shape)
    rest = moved.shape[len(used) :]
    rows = moved.reshape(_product([base.shape[d] for d in used]), *rest)
    out = rows.take_rows(linear)
    return _placed(out, used, len(shape))


def _gathered(base: Tensor, indices: list[Any]) -> tuple[list[int], tuple[int, ...], tuple[Any, ...]]:
    used = [d for d, e in enumerate(indices) if e is not None]
    front = (*used, *(d for d in range(base.ndim) if d not in used))
    shape: tuple[Any, ...] = ()
    for d in used:
        shape = _broadcast(shape, tuple(indices[d].shape))
    return used, front, shape


def _broadcast(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    out = []
    for p, q in zip(a, b, strict=True):
        if p != q and p != 1 and q != 1:
            raise IndexError(
                f"shape mismatch: indexing tensors could not be broadcast together with shapes {list(a)}, {list(b)}"
            )
        out.append(q if p == 1 else p)
    return tuple(out)


def _product(shape: Any) -> Any:
    total: Any = 1
    for d in shape:
        total = total * d
    return total


def _linear(indices: list[Tensor], shape: list[Any], target: tuple[Any, ...]) -> Tensor:
    """One index into flattened dimensions from one per dimension. Out of range ones stay out of range."""
    if len(indices) == 1:
        return indices[0]
    return _linear_op.call(list(indices), tuple(shape)).expand(target)


def _linear_body(indices: Any, shape: Any) -> Tensor:
    """Row-major position of every index tuple; -1 - total where one is out of range."""
    total = _product(shape)
    out: Any = None
    valid: Any = None
    for index, size in zip(indices, shape, strict=True):
        i = _wrapped(index, size)
        ok = (i >= 0).logical_and(i < size)
        out = i if out is None else out * size + i
        valid = ok if valid is None else valid.logical_and(ok)
    return out.where(valid, -1 - total)


_linear_op = Op("linear_index", _linear_body, None, differentiable=False)


def _placed(out: Tensor, used: list[int], count: int) -> Tensor:
    """The indexed dimensions where the first of adjacent indices stood, else in front."""
    if used != list(range(used[0], used[-1] + 1)) or used[0] == 0:
        return out
    first = used[0]
    order = (*range(count, count + first), *range(count), *range(count + first, out.ndim))
    return out.permute(order)


def set_item(input: Tensor, key: Any, value: Any) -> None:
    """input[key] = value, in place."""
    if isinstance(key, Tensor) and _is_mask(key) and key.ndim == input.ndim and not _many(value):
        input.copy_(input.where(key.logical_not(), value))
        return
    base, tensors = _basic(input, _expanded_key(key, input.ndim))
    if all(e is None for e in tensors):
        base.copy_(_value_for(base, value))
        return
    indices = _integer_indices(tensors, base.shape)
    index_put(base, indices, value, accumulate=False)


def _many(value: Any) -> bool:
    return isinstance(value, Tensor) and value.ndim > 0


def _value_for(base: Tensor, value: Any) -> Any:
    """A value as a tensor; leading dimensions of size 1 beyond the target's are dropped, as PyTorch does."""
    if not isinstance(value, Tensor):
        return base.new_tensor(value) if not isinstance(value, (int, float, bool)) else base.new_full((), value)
    while value.ndim > base.ndim and value.shape[0] == 1:
        value = value.squeeze(0)
    return value


def index_put(base: Tensor, indices: list[Any], value: Any, accumulate: bool) -> None:
    """base[indices] = value, or += with `accumulate`, in place."""
    used, front, shape = _gathered(base, indices)
    moved = base.permute(front)
    rest = tuple(moved.shape[len(used) :])
    rows_shape = (_product([base.shape[d] for d in used]), *rest)
    linear = _linear([indices[d] for d in used], [base.shape[d] for d in used], shape)
    target = _placed_shape(shape, rest, used)
    value = _value_for(base, value).expand(target)
    if used[0] != 0 and used == list(range(used[0], used[-1] + 1)):
        first, count = used[0], len(shape)
        value = value.permute(*range(first, first + count), *range(first), *range(first + count, len(target)))
    rows = moved.reshape(rows_shape)
    put = add_rows.call if accumulate else put_rows.call
    updated = put(rows, linear, value)
    moved.copy_(updated.view(moved.shape))


def _placed_shape(shape: tuple[Any, ...], rest: tuple[Any, ...], used: list[int]) -> tuple[Any, ...]:
    if used != list(range(used[0], used[-1] + 1)):
        return shape + rest
    return rest[: used[0]] + shape + rest[used[0] :]


def _put_rows(input: Tensor, index: Tensor, value: Tensor) -> Tensor:
    """input with row index[i] replaced by value[i]; the last one wins."""
    position = _wrapped(index, input.shape[0])
    return emit(indexing.put_rows, input, position, as_dtype(value, input.dtype))


put_rows = Op(
    "put_rows",
    _put_rows,
    (
        lambda g, out, input, index, value: g.put_rows(index, g.new_zeros(value.shape)),
        None,
        lambda g, out, input, index, value: g.take_rows(index),
    ),
)


def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """Rows of a dimension, by number."""
    _check_index("index_select", index)
    d = views.dimension(dim, input.ndim)
    if d == 0:
        return take_rows.call(input, index)
    order = (d, *(i for i in range(input.ndim) if i != d))
    return take_rows.call(input.permute(order), index).permute(views.inverse(order))


def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """input with rows of `source` added at `index` along dim."""
    d = views.dimension(dim, input.ndim)
    order = (d, *(i for i in range(input.ndim) if i != d))
    source = source if alpha == 1 else source * alpha
    return add_rows.call(input.permute(order), index, source.permute(order)).permute(views.inverse(order))


def _triangle(name: str, lower: bool) -> Op:
    def body(input: Tensor, diagonal: int = 0) -> Tensor:
        if input.ndim < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
        rows, columns = input.shape[-2:]
        row = emit(elementwise.iota, size=expression(rows), dtype=dtypes.int64).unsqueeze(1)
        column = emit(elementwise.iota, size=expression(columns), dtype=dtypes.int64)
        kept = column - row <= diagonal if lower else column - row >= diagonal
        return input.where(kept, as_dtype(0, input.dtype))

    def rule(g: Any, out: Any, input: Any, diagonal: int) -> Any:
        return getattr(g, name)(diagonal)

    body.__doc__ = f"The {'lower' if lower else 'upper'} triangle; the rest 0."
    return Op(name, body, (rule, None))


tril = _triangle("tril", True)
triu = _triangle("triu", False)

"""Reading and writing at positions: indexing, gather and scatter, concatenation."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.calling.dispatch import Op, emit
from eagerjit.calling.elementwise import KeepingOp
from eagerjit.calling.spatial import JoiningOp
from eagerjit.compiler.ops import elementwise, indexing
from eagerjit.compiler.shapes import inverse
from eagerjit.ops import views
from eagerjit.ops.host import has_kernels
from eagerjit.ops.joining import Copies, concatenated, stacked
from eagerjit.ops.pointwise import as_dtype
from eagerjit.recording.numbers import expression
from eagerjit.runtime import dtypes
from eagerjit.runtime.planned import Plan
from eagerjit.state import state
from eagerjit.tensors.mistakes import only_tensors, planned_public
from eagerjit.tensors.outputs import write_out
from eagerjit.tensors.placement import host_array
from eagerjit.tensors.promotion import result_type
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import TraceBreak, user_line


def concrete(tensor: Tensor, reason: str) -> np.ndarray:
    """A tensor's values, its own array on the host; inside a trace there are none, and the call runs eagerly."""
    return host_array(own_array(tensor, reason))


def own_array(tensor: Tensor, reason: str) -> np.ndarray:
    """The array under a tensor wherever it lies; inside a trace there is none, and the call runs eagerly."""
    if state.tracer is None:
        return tensor._data
    raise TraceBreak(reason, user_line())


def wrapped(index: Tensor, size: Any) -> Tensor:
    """Negative indices counted from the end, as int64."""
    index = as_dtype(index, dtypes.int64)
    return (index + size).where(index < 0, index)


def _place(index: Tensor, size: Any, wrap: bool) -> Tensor:
    """Row numbers for a primitive, which refuses negative ones."""
    return wrapped(index, size) if wrap else as_dtype(index, dtypes.int64)


def _take_rows(input: Tensor, index: Tensor, wrap: bool = True) -> Tensor:
    """input[index] along the first dimension; with `wrap` negative indices count from the end."""
    return emit(indexing.take_rows, input, _place(index, input.shape[0], wrap))


take_rows = Op(
    "take_rows",
    _take_rows,
    (lambda g, out, input, index, wrap: g.new_zeros(input.shape).add_rows(index, g, wrap), None, None),
)


def _add_rows(input: Tensor, index: Tensor, value: Tensor, wrap: bool = True) -> Tensor:
    """input with value[i] added to row index[i]."""
    return emit(indexing.add_rows, input, _place(index, input.shape[0], wrap), as_dtype(value, input.dtype))


add_rows = Op(
    "add_rows",
    _add_rows,
    (
        lambda g, out, input, index, value, wrap: g,
        None,
        lambda g, out, input, index, value, wrap: g.take_rows(index, wrap),
        None,
    ),
)


def lines_at(input: Tensor, d: int, index: Tensor) -> Tensor:
    """Numbered lines of a dimension behind others, element by element where they stand; negative ones from the end."""
    before, after = tuple(input.shape[:d]), tuple(input.shape[d + 1 :])
    place = wrapped(index, input.shape[d]).reshape(*(1,) * d, -1, *(1,) * len(after))
    place = place.expand((*before, place.shape[d], *after))
    found = emit(indexing.gather, input, place, dim=d, error="IndexError")
    return found if index.ndim == 1 else found.reshape((*before, *index.shape, *after))


def check_index(name: str, index: Any, any_empty: bool = False) -> None:
    """Refuse indices of a wrong dtype; `any_empty`: only where there are some, as PyTorch's gather and scatter do."""
    known = isinstance(index, Tensor) and index.dtype in (dtypes.int64, dtypes.int32)
    if not known and not (any_empty and isinstance(index, Tensor) and index.numel() == 0):
        found = index.dtype if isinstance(index, Tensor) else type(index).__name__
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index, but got {found}")


def _pick(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """`gather` whose indices are classes: one out of range is an IndexError."""
    return emit(indexing.gather, input, as_dtype(index, dtypes.int64), dim=dim, error="IndexError")


pick = Op(
    "pick", _pick, (lambda g, out, input, dim, index: g.new_zeros(input.shape).scatter_add(dim, index, g), None, None)
)


def _scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """input with src added at `index` along dim: result[index[i][j]][j] += src[i][j] for dim 0.

    In the order of src, several to one place. index has input's number of dimensions and sizes at most src's. Raises
    RuntimeError for indices out of range and for dtypes of src and input that differ.
    """
    check_index("scatter_add", index, any_empty=True)
    d = views.dimension(dim, input.ndim)
    if src.dtype is not input.dtype:
        raise RuntimeError("scatter_add(): Expected self.dtype to be equal to src.dtype")
    if input.ndim == 0 or index.ndim == 0:
        return _scatter_add(input.reshape(1), 0, index.reshape(-1), src.reshape(-1)).view(input.shape)
    if index.ndim != input.ndim and index.numel() == 0:
        return emit(elementwise.cast, input, dtype=input.dtype)
    if src.shape != index.shape:
        src = src[tuple(slice(0, n) for n in index.shape)]
    shared = {"shared": True} if _are_shared(input, d, index) else {}
    return emit(indexing.scatter_add, input, as_dtype(index, dtypes.int64), src, dim=d, **shared)


def _are_shared(input: Tensor, d: int, index: Tensor) -> bool:
    """Whether programs share the entries of a place: sums of floats have another order then, which sizes decide.

    Along the first dimension they may be rows, which not every recording sees.
    """
    if d == 0 or not input.dtype.is_floating_point or not has_kernels(input):
        return False
    entries = index.shape[d]
    return bool(entries >= indexing.ENTRIES and index.numel() <= indexing.LINES * entries)


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


slice_scatter = KeepingOp(
    "slice_scatter",
    _slice_scatter,
    (
        lambda g, out, input, src, dim, start, stop, step: g.replace_slice(
            g.new_zeros(src.shape), dim, start, stop, step
        ),
        lambda g, out, input, src, dim, start, stop, step: views.slice_dim(g, dim, start, stop, step),
        *(None,) * 4,
    ),
    ("start", "stop"),
)


def _cat(tensors: Any, dim: int = 0) -> Tensor:
    """Tensors joined along a dimension, in the dtype that they promote to.

    Their other sizes are equal; tensors of shape (0,) count for nothing. Raises ValueError for no tensors, RuntimeError
    for shapes that differ elsewhere and for tensors without dimensions.
    """
    if not isinstance(tensors, (tuple, list)):
        raise TypeError(f"cat(): argument 'tensors' must be tuple of Tensors, not {type(tensors).__name__}")
    only_tensors(tensors)
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


cat = JoiningOp("cat", _cat, (_cat_rule, None), fused_rules=False)
cat.linear, cat.once = True, Copies(concatenated)


def _stack(tensors: Any, dim: int = 0) -> Tensor:
    """Tensors of one shape joined along a new dimension."""
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
    return _cat([x.unsqueeze(d) for x in tensors], d)


stack_op = Op(
    "stack",
    _stack,
    (lambda g, out, tensors, dim: [views.select(g, dim, i).to(x.dtype) for i, x in enumerate(tensors)], None),
    fused_rules=False,
)
stack_op.linear, stack_op.once = True, Copies(stacked)


def stack(tensors: Any, dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Tensors of one shape joined along a new dimension, which `dim` is in the result.

    Raises RuntimeError for no tensors and for shapes that differ.
    """
    if type(tensors) is not tuple and type(tensors) is not list:
        if isinstance(tensors, (str, Tensor)):
            kind = type(tensors).__name__
            raise TypeError(f"stack(): argument 'tensors' (position 1) must be tuple of Tensors, not {kind}")
        tensors = tuple(tensors)
    try:
        joined = stack_op.call(tensors, dim)
    except AttributeError:
        only_tensors(tensors)
        raise
    return joined if out is None else write_out("stack", joined, out)


def _put_rows(input: Tensor, index: Tensor, value: Tensor, wrap: bool = True) -> Tensor:
    """input with row index[i] replaced by value[i]; the last one wins."""
    return emit(indexing.put_rows, input, _place(index, input.shape[0], wrap), as_dtype(value, input.dtype))


put_rows = Op(
    "put_rows",
    _put_rows,
    (
        lambda g, out, input, index, value, wrap: g.put_rows(index, g.new_zeros(value.shape), wrap),
        None,
        lambda g, out, input, index, value, wrap: g.take_rows(index, wrap),
        None,
    ),
)


def _with_rows(input: Tensor, index: Tensor, value: Any) -> Tensor:
    """input with the rows at `index` replaced by a number or a tensor that broadcasts to them."""
    rows = (*index.shape, *input.shape[1:])
    return _put_rows(input, index, as_dtype(value, input.dtype).expand(rows))


with_rows = Op(
    "with_rows",
    _with_rows,
    (
        lambda g, out, input, index, value: with_rows.call(g, index, 0.0),
        None,
        lambda g, out, input, index, value: g.take_rows(index).sum_to_size(value.shape).to(value.dtype),
    ),
    ("value",),
)


def _spread(index: Tensor, dim: int, input: Tensor, value: Tensor, wrap: bool) -> Tensor:
    """Indices along a dimension as those of every element of `value`, which has all of the other dimensions."""
    place = _place(index, input.shape[dim], wrap)
    if tuple(value.shape) != (*input.shape[:dim], index.shape[0], *input.shape[dim + 1 :]):
        raise RuntimeError(
            f"values of shape {list(value.shape)} for {index.shape[0]} indices along dimension {dim} of a tensor of "
            f"shape {list(input.shape)}"
        )
    return place.reshape([-1 if d == dim else 1 for d in range(value.ndim)]).expand(value.shape)


def _read_along(g: Any, out: Any, input: Any, dim: int, index: Any, value: Any, wrap: bool) -> Any:
    """The gradient of what was put along a dimension."""
    return g.take_rows(index, wrap) if dim == 0 else g.gather(dim, _spread(index, dim, g, value, wrap))


def _put_along(input: Tensor, dim: int, index: Tensor, value: Tensor, wrap: bool = True) -> Tensor:
    """input with index[i] along a dimension replaced by what value has at i; the last one wins."""
    if dim == 0:
        return _put_rows(input, index, value, wrap)
    value = as_dtype(value, input.dtype)
    place = _spread(index, dim, input, value, wrap)
    return emit(indexing.scatter, input, place, value, dim=dim, combine="", error="IndexError")


put_along = Op(
    "put_along",
    _put_along,
    (
        lambda g, out, input, dim, index, value, wrap: put_along.call(g, dim, index, g.new_zeros(value.shape), wrap),
        None,
        None,
        _read_along,
        None,
    ),
)


def _add_along(input: Tensor, dim: int, index: Tensor, value: Tensor, wrap: bool = True) -> Tensor:
    """input with what value has at i added to index[i] along a dimension, in the order of i."""
    if dim == 0:
        return _add_rows(input, index, value, wrap)
    value = as_dtype(value, input.dtype)
    place = _spread(index, dim, input, value, wrap)
    return emit(indexing.scatter_add, input, place, value, dim=dim, error="IndexError")


add_along = Op(
    "add_along",
    _add_along,
    (
        lambda g, out, input, dim, index, value, wrap: g,
        None,
        None,
        _read_along,
        None,
    ),
)


@planned_public
def index_select(input: Tensor, dim: int, index: Tensor) -> Plan:
    """Rows of a dimension, by number: a copy, whose size along `dim` is the number of indices.

    Raises IndexError for indices out of range (negative ones are) and for an index that is no vector, RuntimeError for
    one that is not int32 or int64.
    """
    check_index("index_select", index)
    if index.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    d = views.dimension(dim, input.ndim)
    if d == 0 and input.ndim and index.ndim:
        return take_rows.call, (input, index, False)
    return _rows_along, (input, d, index)


def _rows_along(input: Tensor, d: int, index: Tensor) -> Tensor:
    """Rows of a dimension; of a tensor without dimensions, which has one row, that."""
    rows = index.reshape(-1)
    if input.ndim == 0:
        return take_rows.call(input.reshape(1), rows, False).reshape(())
    if d == 0:
        return take_rows.call(input, rows, False)
    if 0 in input.shape:  # nothing is picked, but all rows must be there
        order = (d, *(i for i in range(input.ndim) if i != d))
        return take_rows.call(input.permute(order), rows, False).permute(inverse(order)).contiguous()
    shape = (*input.shape[:d], rows.shape[0], *input.shape[d + 1 :])
    return pick.call(input, d, rows.view(-1, *(1,) * (input.ndim - d - 1)).expand(shape))


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

    body.__doc__ = (
        f"The {'lower' if lower else 'upper'} triangle of matrices (..., n, m), the rest 0.\n\n"
        "The diagonal it ends at counts from the main one up. Raises RuntimeError for fewer than two dimensions."
    )
    return Op(name, body, (rule, None), ("diagonal",))


tril, triu = _triangle("tril", True), _triangle("triu", False)
tril.steady = triu.steady = tril.numbers

"""Views: results that share their base's memory, under PyTorch's names."""

from __future__ import annotations

import math
import operator
from typing import Any

from eagerjit.calling.kinds import is_integer
from eagerjit.calling.public import sizes_by_name
from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.layout import is_contiguous, layout
from eagerjit.compiler.shapes import reshape_strides
from eagerjit.ops.aliasing import (
    VIEWS,
    Exprs,
    alias_view,
    expand_view,
    permute_view,
    reshape_view,
    select_view,
    slice_view,
)
from eagerjit.recording.memory_order import laid_out
from eagerjit.recording.numbers import SymbolicInt, expression
from eagerjit.runtime import mode
from eagerjit.runtime import views as calls
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.views import ViewCall
from eagerjit.state import state
from eagerjit.tensors.fitting import whole, wholes
from eagerjit.tensors.mistakes import explained
from eagerjit.tensors.moving import row_major
from eagerjit.tensors.tensor import Tensor


def dimension(dim: Any, rank: int) -> int:
    """A dimension counted from the front. Raises IndexError as PyTorch does, TypeError for what is no int."""
    if type(dim) is not int and not is_integer(dim):
        raise TypeError(f"argument 'dim' must be int, not {type(dim).__name__}")
    dim = operator.index(dim)
    limit = max(rank, 1)
    if not -limit <= dim < limit:
        whole(dim)
        raise IndexError(f"Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], but got {dim})")
    return dim % limit


def shape_argument(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sizes given one by one or as one sequence. Raises TypeError for none."""
    if not args:
        raise TypeError("a size is missing: give sizes one by one, or a sequence of them, which may be empty")
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        args = tuple(args[0])
    if all([type(d) is int and -(2**63) <= d < 2**63 for d in args]):
        return args
    for position, d in enumerate(args):
        if not hasattr(d, "__index__") or (position == 0 and isinstance(d, bool)):
            raise TypeError(f"sizes must be ints, not {type(d).__name__}")
    if not any([isinstance(d, SymbolicInt) for d in args]):
        return wholes(args)
    return tuple([_size(d) if isinstance(d, SymbolicInt) else operator.index(d) for d in args])


def _size(value: Any) -> Any:
    """One that is not known in a trace: it is not negative."""
    return value if value >= 0 else int(value)


def _target(input: Tensor, shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """The shape that an argument of `view` or `reshape` means."""
    tracer = state.tracer
    if tracer is None or tracer.values_only or is_contiguous(laid_out(tracer, input)):
        return resolve(shape_argument(shape), input.shape)
    return resolve(shape_argument(shape), input.shape, tie=True)


def resolve(shape: tuple[Any, ...], old: tuple[Any, ...], tie: bool = False) -> tuple[Any, ...]:
    """A shape with its -1 replaced by what the number of elements leaves.

    With `tie`, a trace is tied to the last sizes, as far as it takes for algebra to tell.
    """
    total = math.prod(old)
    free = [i for i, d in enumerate(shape) if type(d) is int and d == -1]
    if len(free) > 1:
        raise RuntimeError("only one dimension can be inferred")
    if any(type(d) is int and d < -1 for d in shape):
        raise RuntimeError(f"invalid shape dimension {min(shape)}")
    if not free:
        if math.prod(shape) != total:
            raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {total}")
        return shape
    rest = math.prod(shape[: free[0]] + shape[free[0] + 1 :])
    if rest == 0:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified dimension size -1 "
            "can be any value and is ambiguous"
        )
    for size in reversed(old) if tie else ():
        if sizes.exact_quotient(expression(total), expression(rest)) is not None:
            break
        sizes.pinned(expression(size))
    if total % rest != 0:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {total}")
    return (*shape[: free[0]], total // rest, *shape[free[0] + 1 :])


def view(input: Tensor, *shape: Any, dtype: DType | None = None) -> Tensor:
    """The same memory under another shape or dtype.

    One size may be -1, which is what the others leave. Raises RuntimeError where only a copy has the shape (see
    `reshape`) and for sizes whose product is not the number of elements. With a dtype the bits are read as numbers of
    it: where these are longer or shorter, the last size changes by that factor, else RuntimeError.
    """
    dtype = shape[0] if len(shape) == 1 and isinstance(shape[0], DType) else dtype
    if dtype is not None:
        from eagerjit.ops.reinterpreted import view_dtype

        return view_dtype(input, dtype)
    target = _target(input, shape)
    tracer = state.tracer
    if tracer is not None and tracer.values_only:
        return reshape(input, target)
    if tracer is not None and not _viewable(laid_out(tracer, input), tuple(map(expression, target))):
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead."
        )
    return reshape_view(input, target)


def _viewable(node: Node, shape: Exprs) -> bool:
    """Whether a view of this shape exists; where algebra cannot tell, the sizes of this call decide and are guarded."""
    tie = state.tracer is not None and not state.tracer.values_only
    return reshape_strides(node.type.shape, layout(node).strides, shape, tie) is not None


def reshape(input: Tensor, *shape: Any) -> Tensor:
    """The same elements under another shape, a view where possible and a copy otherwise.

    Elements keep their row-major order; one size may be -1. Raises RuntimeError for sizes whose product is not the
    number of elements.
    """
    target = _target(input, shape)
    tracer = state.tracer
    if tracer is not None:
        possible = _viewable(laid_out(tracer, input), tuple(map(expression, target)))
        return reshape_view(input if possible else row_major.call(input), target)
    if not input._data.flags.c_contiguous:
        try:
            return reshape_view(input, target)
        except RuntimeError:
            input = row_major.call(input)
    return reshape_view(input, target)


def reshaped(input: Tensor, *shape: Any) -> Tensor:
    """`reshape` for a result that nobody writes to: it may be a view or not, so sizes need not tell which."""
    tracer = state.tracer
    if tracer is None:
        return reshape(input, *shape)
    target = resolve(shape_argument(shape), input.shape)
    place = laid_out(tracer, input)
    viewed = reshape_strides(place.type.shape, layout(place).strides, tuple(map(expression, target))) is not None
    return reshape_view(input if viewed else row_major.call(input), target)


def alias(input: Tensor) -> Tensor:
    """A view of everything."""
    return alias_view(input)


def detach(input: Tensor) -> Tensor:
    """The same memory without history: gradients stop here, and in-place writes are seen in both tensors."""
    before = mode.set_grad_mode(False)
    try:
        return alias_view(input)
    finally:
        mode.set_grad_mode(before)


def check_other(name: str, other: Any) -> None:
    """Raise TypeError unless a tensor is given as a pattern."""
    if not isinstance(other, Tensor):
        raise TypeError(f"{name}(): argument 'other' (position 1) must be Tensor, not {type(other).__name__}")


def view_as(input: Tensor, other: Tensor) -> Tensor:
    """input viewed with other's shape."""
    check_other("view_as", other)
    return view(input, tuple(other.shape))


def permute(input: Tensor, *dims: Any) -> Tensor:
    """Dimensions in another order: dimension i of the view is dims[i] of input. RuntimeError unless dims name each
    once.
    """
    given = shape_argument(dims)
    if len(given) != input.ndim:
        raise RuntimeError(
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {input.ndim} is not equal to len(dims) = {len(given)}"
        )
    order = tuple(dimension(d, input.ndim) for d in given)
    if len(set(order)) != len(order):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return permute_view(input, order)


def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions swapped: a view. Raises IndexError for a dimension out of range."""
    a, b = dimension(dim0, input.ndim), dimension(dim1, input.ndim)
    order = list(range(input.ndim))
    if order:
        order[a], order[b] = b, a
    return permute_view(input, tuple(order))


def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; vectors and scalars as they are. RuntimeError for more than two dimensions."""
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return permute_view(input, tuple(reversed(range(input.ndim))))


def reversed_dims(input: Tensor) -> Tensor:
    """All dimensions in reverse order."""
    return permute_view(input, tuple(reversed(range(input.ndim))))


def expand(input: Tensor, *shape: Any) -> Tensor:
    """Dimensions of size 1 repeated without a copy; -1 keeps a size, and sizes may be added in front.

    Raises RuntimeError for other changes of a size. Elements of the view share memory: clone it before writing to it.
    """
    target = shape_argument(shape)
    old = input.shape
    added = len(target) - len(old)
    if added < 0:
        raise RuntimeError(
            f"expand({list(old)}, size={list(target)}): the number of sizes provided ({len(target)}) must be greater "
            f"or equal to the number of dimensions in the tensor ({len(old)})"
        )
    resolved = []
    for i, d in enumerate(target):
        keep = type(d) is int and d == -1
        if keep and i < added:
            raise RuntimeError(
                "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension 0"
            )
        if not keep and d < 0 and (i < added or old[i - added] == 1):
            raise RuntimeError(f"expand({list(old)}, size={list(target)}): sizes must not be negative")
        resolved.append(old[i - added] if keep else d)
    return expand_view(input, tuple(resolved))


def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """input expanded to other's shape."""
    check_other("expand_as", other)
    return expand(input, other.shape)


def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """Dimensions of size 1 dropped, all or those named: a view. Named ones of other sizes stay."""
    shape = input.shape
    if dim is None:
        kept = [d for d in shape if d != 1]
    else:
        named = [dimension(d, len(shape)) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]
        if len(set(named)) < len(named):
            raise RuntimeError(f"squeeze(): a dimension appears multiple times in the list of dims {list(dim)}")
        kept = [d for i, d in enumerate(shape) if i not in named or d != 1]
    return reshape_view(input, tuple(kept))


def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """A dimension of size 1 inserted at `dim`, which counts in the result: a view. IndexError where it is out of range.
    """
    shape = input.shape
    position = dimension(dim, len(shape) + 1)
    return reshape_view(input, (*shape[:position], 1, *shape[position:]))


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions from start_dim to end_dim as one, a view where possible; a number becomes a vector of one element.

    The tensor itself where that is one dimension already. Raises RuntimeError where start_dim comes after end_dim,
    IndexError for dimensions out of range.
    """
    shape = input.shape
    a, b = dimension(start_dim, len(shape)), dimension(end_dim, len(shape))
    if a > b:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if shape and a == b:
        return input
    return reshape(input, *shape[:a], math.prod(shape[a : b + 1]), *shape[b + 1 :])


def unflatten(input: Tensor, dim: int, sizes: Any) -> Tensor:
    """One dimension as several, one of whose sizes may be -1: a view. RuntimeError unless their product is its size."""
    shape = input.shape
    d = dimension(dim, len(shape))
    if not shape:
        raise RuntimeError("unflatten(): a tensor without dimensions has none to take apart")
    return reshape_view(input, (*shape[:d], *resolve(tuple(sizes), (shape[d],)), *shape[d + 1 :]))


def slice_dim(input: Tensor, dim: int, start: Any, stop: Any, step: int = 1) -> Tensor:
    """Indices start, start + step, ... before stop along a dimension; bounds lie within it."""
    return slice_view(input, dim, start, stop, step)


def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """`length` indices from start along a dimension: a view.

    Raises RuntimeError where they reach beyond the end, IndexError for a start out of range.
    """
    if input.ndim == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    d = dimension(dim, input.ndim)
    size = input.shape[d]
    start = start.item() if isinstance(start, Tensor) else start
    if isinstance(start, bool):
        raise TypeError("narrow(): argument 'start' must be int, not bool")
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if start < -size or start > size:
        raise IndexError(f"start out of range (expected to be in range of [-{size}, {size}], but got {start})")
    start = start + size if start < 0 else start
    if start + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return slice_view(input, d, start, start + length, 1)


def select(input: Tensor, dim: int, index: Any) -> Tensor:
    """One index along a dimension, which goes away: a view.

    Raises IndexError for an index out of range, TypeError for a bool.
    """
    if input.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    d = dimension(dim, input.ndim)
    size = input.shape[d]
    if isinstance(index, bool):
        raise TypeError("select(): argument 'index' must be int, not bool")
    if index < -size or index >= size:
        whole(index)
        raise IndexError(f"index {index} is out of bounds for dimension {dim} with size {size}")
    return select_view(input, d, index + size if index < 0 else index)


def view_call(kind: int, function: Any, ops: tuple[Any, ...] = VIEWS) -> ViewCall:
    """A function that makes views, as users call it."""
    return ViewCall(kind, explained(function), ops)


view, reshape, permute, expand = map(sizes_by_name, (view, reshape, permute, expand))
view, reshape = view_call(calls.RESHAPE, view), view_call(calls.RESHAPE, reshape, (*VIEWS, row_major.call))
permute = view_call(calls.PERMUTE, permute)
expand, transpose = view_call(calls.EXPAND, expand), view_call(calls.TRANSPOSE, transpose)
reversed_dims, t = view_call(calls.REVERSE, reversed_dims), view_call(calls.TURN, t)
unsqueeze = view_call(calls.UNSQUEEZE, unsqueeze)
squeeze, detach = view_call(calls.SQUEEZE, squeeze), view_call(calls.DETACH, detach)
flatten = view_call(calls.FLATTEN, flatten, (*VIEWS, row_major.call))
select, narrow = view_call(calls.SELECT, select), view_call(calls.NARROW, narrow)

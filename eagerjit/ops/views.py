"""Views: results that share their base's memory. Eager views are NumPy's; traced ones are nodes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from eagerjit.autograd.node import record
from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.layout import layout
from eagerjit.compiler.ops import indexing, views
from eagerjit.compiler.shapes import reshape_strides
from eagerjit.dispatch import OPS, Op
from eagerjit.numbers import SymbolicInt, expression, wrap
from eagerjit.runtime import mode
from eagerjit.state import state
from eagerjit.tensor import Tensor, View, new_tensor, share_storage

Exprs = tuple[sizes.Expr, ...]


class ViewOp(Op):
    """An op whose result aliases its input.

    eager       (array, *arguments) -> ndarray over the same memory
    traced      (tracer, node, *arguments) -> node
    overwrite   (tracer, base, value, *arguments) -> the base's value when the view has been set to `value`
    rule        (g, out, input, *arguments) -> gradient
    """

    def __init__(
        self,
        name: str,
        eager: Callable[..., np.ndarray],
        traced: Callable[..., Node],
        overwrite: Callable[..., Node],
        rule: Callable[..., Any],
    ):
        self.name, self.view_eager, self.record, self.overwrite = name, eager, traced, overwrite
        self.rules = (rule,) + (None,) * 8
        self.differentiable, self.fused_rules = True, False
        self.numbers = self.shapes = frozenset()
        self.gradients = {}
        OPS[name] = self

    def __call__(self, base: Tensor, *arguments: Any) -> Tensor:
        """The view; arguments are normalised already."""
        tracer = state.tracer
        if tracer is None:
            out = new_tensor(self.view_eager(base._data, *arguments))
        else:
            out = tracer.view(base, self.record(tracer, tracer.value(base), *arguments))
        share_storage(out, base)
        tracked = mode.grad_mode()
        out._view = View(base, self, arguments, tracked)
        if tracked:
            out._storage.register(out)
            if base._requires_grad:
                record(self, (base, *arguments), out)
        return out

    def gradient_body(self, needs: tuple[bool, ...], n_outputs: int) -> Callable[..., Any]:
        """The declared rule; views keep their dtype and the rules give back the input's shape."""
        rule = self.rules[0]
        assert rule is not None

        def gradient(g: Any, out: Any, base: Any, *arguments: Any) -> tuple[Any, ...]:
            return (rule(g, out, base, *arguments), *(None,) * len(arguments))

        return gradient


def _reshape_array(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """NumPy's reshape, refused where it would copy."""
    if array.flags.c_contiguous:
        return array.reshape(shape)
    out = array.view()
    try:
        out.shape = shape
    except AttributeError:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead."
        ) from None
    return out


def _reshape_node(tracer: Any, node: Node, shape: tuple[Any, ...]) -> Node:
    target = tuple(map(expression, shape))
    if node.type.shape == target:
        return node
    return tracer.record(views.reshape, (node,), shape=target)


def _permute_node(tracer: Any, node: Node, dims: tuple[int, ...]) -> Node:
    return tracer.record(views.permute, (node,), dims=dims)


def inverse(dims: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes `dims`."""
    return tuple(sorted(range(len(dims)), key=dims.__getitem__))


def _expand_node(tracer: Any, node: Node, shape: tuple[Any, ...]) -> Node:
    return tracer.record(views.expand, (node,), shape=tuple(map(expression, shape)))


def _expand_array(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise RuntimeError(
            f"The expanded size of the tensor ({list(shape)}) must match the existing size ({list(array.shape)}) at "
            "non-singleton dimensions"
        ) from None


def _no_overwrite(tracer: Any, base: Node, value: Node, *arguments: Any) -> Node:
    raise RuntimeError(
        "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
        "Please clone() the tensor before performing the operation."
    )


def _slice_node(tracer: Any, node: Node, dim: int, start: Any, stop: Any, step: int) -> Node:
    return tracer.record(views.slice_, (node,), dim=dim, start=expression(start), stop=expression(stop), step=step)


def _slice_overwrite(tracer: Any, base: Node, value: Node, dim: int, start: Any, stop: Any, step: int) -> Node:
    bounds = {"start": expression(start), "stop": expression(stop), "step": step}
    return tracer.record(indexing.slice_scatter, (base, value), dim=dim, **bounds)


_alias = ViewOp(
    "alias",
    lambda array: array.view(),
    lambda tracer, node: node,
    lambda tracer, base, value: value,
    lambda g, out, input: g,
)
_view = ViewOp(
    "view",
    _reshape_array,
    _reshape_node,
    lambda tracer, base, value, shape: _reshape_node(tracer, value, tuple(map(wrap, base.type.shape))),
    lambda g, out, input, shape: g.reshape(input.shape),
)
_permute = ViewOp(
    "permute",
    lambda array, dims: array.transpose(dims),
    _permute_node,
    lambda tracer, base, value, dims: _permute_node(tracer, value, inverse(dims)),
    lambda g, out, input, dims: g.permute(inverse(dims)),
)
_expand = ViewOp(
    "expand", _expand_array, _expand_node, _no_overwrite, lambda g, out, input, shape: g.sum_to_size(input.shape)
)
_slice = ViewOp(
    "slice",
    lambda array, dim, start, stop, step: array[(slice(None),) * dim + (slice(start, stop, step),)],
    _slice_node,
    _slice_overwrite,
    lambda g, out, input, dim, start, stop, step: g.new_zeros(input.shape).slice_scatter(g, dim, start, stop, step),
)


# -- the public functions ---------------------------------------------------------------------------------------------


def dimension(dim: Any, rank: int) -> int:
    """A dimension counted from the front. Raises IndexError as PyTorch does."""
    dim = operator.index(dim)
    limit = max(rank, 1)
    if not -limit <= dim < limit:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], but got {dim})")
    return dim % limit


def shape_argument(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sizes given one by one or as one sequence."""
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        args = tuple(args[0])
    for d in args:
        if not isinstance(d, (int, SymbolicInt)) and not hasattr(d, "__index__"):
            raise TypeError(f"sizes must be ints, not {type(d).__name__}")
    return tuple(d if isinstance(d, (int, SymbolicInt)) else operator.index(d) for d in args)


def _numel(shape: tuple[Any, ...]) -> Any:
    total: Any = 1
    for d in shape:
        total = total * d
    return total


def resolve(shape: tuple[Any, ...], old: tuple[Any, ...]) -> tuple[Any, ...]:
    """A shape with its -1 replaced by what the number of elements leaves."""
    total = _numel(old)
    free = [i for i, d in enumerate(shape) if isinstance(d, int) and d == -1]
    if len(free) > 1:
        raise RuntimeError("only one dimension can be inferred")
    if any(isinstance(d, int) and d < -1 for d in shape):
        raise RuntimeError(f"invalid shape dimension {min(shape)}")
    if not free:
        if _numel(shape) != total:
            raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {total}")
        return shape
    rest = _numel(shape[: free[0]] + shape[free[0] + 1 :])
    if rest == 0:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified dimension size -1 can "
            "be any value and is ambiguous"
        )
    if total % rest != 0:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {total}")
    return (*shape[: free[0]], total // rest, *shape[free[0] + 1 :])


def view(input: Tensor, *shape: Any) -> Tensor:
    """The same memory under another shape. Raises RuntimeError where only a copy can give it; see `reshape`."""
    if len(shape) == 1 and hasattr(shape[0], "numpy") and not isinstance(shape[0], Tensor):
        return _view_dtype(input, shape[0])
    target = resolve(shape_argument(shape), input.shape)
    tracer = state.tracer
    if tracer is not None and not _viewable(tracer.value(input), tuple(map(expression, target))):
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead."
        )
    return _view(input, target)


def _view_dtype(input: Tensor, dtype: Any) -> Tensor:
    if dtype is input.dtype:
        return alias(input)
    if state.tracer is not None or dtype.bits != input.dtype.bits:
        raise RuntimeError(f"view of {input.dtype} as {dtype} is not supported here")
    out = new_tensor(input._data.view(dtype.numpy))
    share_storage(out, input)
    return out


def _viewable(node: Node, shape: Exprs) -> bool:
    strides = layout(node).strides
    return reshape_strides(node.type.shape, strides, shape) is not None


def reshape(input: Tensor, *shape: Any) -> Tensor:
    """The same elements under another shape, a view where possible and a copy otherwise."""
    target = resolve(shape_argument(shape), input.shape)
    tracer = state.tracer
    if tracer is not None:
        possible = _viewable(tracer.value(input), tuple(map(expression, target)))
        return _view(input if possible else input.clone(), target)
    if not input._data.flags.c_contiguous:
        try:
            return _view(input, target)
        except RuntimeError:
            input = input.clone()
    return _view(input, target)


def alias(input: Tensor) -> Tensor:
    """A view of everything."""
    return _alias(input)


def detach(input: Tensor) -> Tensor:
    """The same memory without history: gradients stop here."""
    before = mode.set_grad_mode(False)
    try:
        return _alias(input)
    finally:
        mode.set_grad_mode(before)


def view_as(input: Tensor, other: Tensor) -> Tensor:
    """input viewed with other's shape."""
    return _view(input, tuple(other.shape))


def permute(input: Tensor, *dims: Any) -> Tensor:
    """Dimensions in another order."""
    order = tuple(dimension(d, input.ndim) for d in shape_argument(dims))
    if len(order) != input.ndim:
        raise RuntimeError(
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {input.ndim} is not equal to len(dims) = {len(order)}"
        )
    if len(set(order)) != len(order):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return _permute(input, order)


def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions swapped."""
    a, b = dimension(dim0, input.ndim), dimension(dim1, input.ndim)
    order = list(range(input.ndim))
    if order:
        order[a], order[b] = b, a
    return _permute(input, tuple(order))


def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; vectors and scalars as they are."""
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return _permute(input, tuple(reversed(range(input.ndim))))


def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Dimensions moved to other positions, the rest in order."""
    sources = [dimension(d, input.ndim) for d in ((source,) if isinstance(source, int) else source)]
    targets = [dimension(d, input.ndim) for d in ((destination,) if isinstance(destination, int) else destination)]
    rest = iter(d for d in range(input.ndim) if d not in sources)
    placed = dict(zip(targets, sources, strict=True))
    return _permute(input, tuple(placed[d] if d in placed else next(rest) for d in range(input.ndim)))


def expand(input: Tensor, *shape: Any) -> Tensor:
    """Dimensions of size 1 repeated without a copy; -1 keeps a size."""
    target = shape_argument(shape)
    old = input.shape
    added = len(target) - len(old)
    if added < 0:
        raise RuntimeError(
            f"expand({list(old)}, size={list(target)}): the number of sizes provided ({len(target)}) must be greater or "
            f"equal to the number of dimensions in the tensor ({len(old)})"
        )
    resolved = []
    for i, d in enumerate(target):
        keep = isinstance(d, int) and d == -1
        if keep and i < added:
            raise RuntimeError("The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension 0")
        resolved.append(old[i - added] if keep else d)
    return _expand(input, tuple(resolved))


def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """input expanded to other's shape."""
    return expand(input, *other.shape)


def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """Dimensions of size 1 dropped: all, or those named."""
    shape = input.shape
    if dim is None:
        kept = [d for d in shape if d != 1]
    else:
        named = {dimension(d, len(shape)) for d in ((dim,) if isinstance(dim, int) else dim)}
        kept = [d for i, d in enumerate(shape) if i not in named or d != 1]
    return _view(input, tuple(kept))


def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """A dimension of size 1 inserted."""
    shape = input.shape
    position = dimension(dim, len(shape) + 1)
    return _view(input, (*shape[:position], 1, *shape[position:]))


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions from start_dim to end_dim as one."""
    shape = input.shape
    a, b = dimension(start_dim, len(shape)), dimension(end_dim, len(shape))
    if a > b:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    return reshape(input, *shape[:a], _numel(shape[a : b + 1]), *shape[b + 1 :])


def unflatten(input: Tensor, dim: int, sizes: Any) -> Tensor:
    """One dimension as several."""
    shape = input.shape
    d = dimension(dim, len(shape))
    return _view(input, (*shape[:d], *resolve(tuple(sizes), (shape[d],)), *shape[d + 1 :]))


def slice_dim(input: Tensor, dim: int, start: Any, stop: Any, step: int = 1) -> Tensor:
    """Indices start, start + step, ... before stop along a dimension; bounds lie within it."""
    return _slice(input, dim, start, stop, step)


def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """`length` indices from start along a dimension."""
    d = dimension(dim, input.ndim)
    size = input.shape[d]
    start = start + size if start < 0 else start
    if start < 0 or start + length > size or length < 0:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return _slice(input, d, start, start + length, 1)


def select(input: Tensor, dim: int, index: Any) -> Tensor:
    """One index along a dimension, which goes away."""
    if input.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    d = dimension(dim, input.ndim)
    shape = input.shape
    size = shape[d]
    if index < -size or index >= size:
        raise IndexError(f"index {index} is out of bounds for dimension {dim} with size {size}")
    start = index + size if index < 0 else index
    return _view(_slice(input, d, start, start + 1, 1), (*shape[:d], *shape[d + 1 :]))


def split(input: Tensor, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive pieces: of one size, or of the sizes listed."""
    d = dimension(dim, input.ndim)
    size = input.shape[d]
    if isinstance(split_size, (tuple, list)):
        lengths = list(split_size)
        if sum(lengths) != size:
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at dimension {dim}), "
                f"but got split_sizes={lengths}"
            )
    else:
        if split_size <= 0:
            raise RuntimeError(f"split expects split_size be positive, but got split_size={split_size}")
        lengths = [min(split_size, size - i) for i in range(0, int(size), int(split_size))] or [0]
    out = []
    start: Any = 0
    for length in lengths:
        out.append(_slice(input, d, start, start + length, 1))
        start = start + length
    return tuple(out)


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` pieces of equal size, the last one smaller."""
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    size = input.shape[dimension(dim, input.ndim)]
    return split(input, max(-(-size // chunks), 1) if isinstance(size, int) else -(-size // chunks), dim)


def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of all indices along a dimension."""
    d = dimension(dim, input.ndim)
    return tuple(select(input, d, i) for i in range(input.shape[d]))

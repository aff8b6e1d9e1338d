"""Functions over tensors made of ops and views alone."""

from __future__ import annotations

from typing import Any

from eagerjit.calling.casts import converting
from eagerjit.calling.dispatch import Op, emit
from eagerjit.calling.elementwise import KeepingOp
from eagerjit.calling.public import sizes_by_name
from eagerjit.calling.spatial import SpatialOp
from eagerjit.compiler.ops import views as primitives
from eagerjit.ops import index, linear, views
from eagerjit.ops.counted import measured, repeated_positions
from eagerjit.ops.reduce import sum_
from eagerjit.runtime import dtypes
from eagerjit.runtime.planned import Plan
from eagerjit.tensors.fitting import whole_or_traced
from eagerjit.tensors.mistakes import only_tensors, planned_of_ranks, planned_public
from eagerjit.tensors.placement import beside, device_of
from eagerjit.tensors.tensor import Tensor


def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """Summed over the dimensions along which a tensor of this size broadcasts to input's shape."""
    shape = views.shape_argument(size)
    old = input.shape
    added = len(old) - len(shape)
    if added < 0:
        raise RuntimeError(f"size {{{list(shape)}}} is not expandable to size {{{list(old)}}}.")
    dims = list(range(added))
    for i, d in enumerate(shape):
        if d == 1 and old[added + i] != 1:
            dims.append(added + i)
        elif d != old[added + i]:
            raise RuntimeError(f"size {{{list(shape)}}} is not expandable to size {{{list(old)}}}.")
    if not shape:
        return input.sum()
    if not dims:
        return input
    total = sum_.call(input, tuple(dims), True)
    return views.view(total, shape) if added else total


@sizes_by_name
def repeat(input: Tensor, *sizes: Any) -> Tensor:
    """Copies side by side, so many along each dimension; sizes more than dimensions are added in front.

    Raises RuntimeError for fewer sizes than dimensions.
    """
    return _repeat_op.call(input, views.shape_argument(sizes))


def _repeat(input: Tensor, counts: Any) -> Tensor:
    """Copies side by side, so many along each dimension."""
    added = len(counts) - input.ndim
    if added < 0:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    shape = (1,) * added + tuple(input.shape)
    spread = [x for c, d in zip(counts, shape, strict=True) for x in (c, d)]
    paired = [x for d in shape for x in (1, d)]
    spread_ = views.expand(views.view(input.contiguous(), paired), spread)
    return _copied(views.reshape(spread_, [c * d for c, d in zip(counts, shape, strict=True)]), spread_)


def _copied(out: Tensor, input: Tensor) -> Tensor:
    """A result in memory of its own, also where the input's shape lets it be a view."""
    return out.clone() if out._storage is not None and out._storage is input._storage else out


def _repeat_rule(g: Any, out: Any, input: Any, counts: Any) -> Any:
    """Sums over the copies."""
    if not counts:
        return g
    shape = (1,) * (len(counts) - input.ndim) + tuple(input.shape)
    apart = views.reshaped(g, *(x for c, d in zip(counts, shape, strict=True) for x in (c, d)))
    return apart.sum(tuple(range(0, 2 * len(counts), 2))).reshape(input.shape)


_repeat_op = Op("repeat", _repeat, (_repeat_rule, None), shapes=("counts",))
_repeat_op.linear = True


@sizes_by_name
def tile(input: Tensor, *dims: Any) -> Tensor:
    """`repeat` with leading ones filled in."""
    counts = views.shape_argument(dims)
    return repeat(input, (1,) * max(input.ndim - len(counts), 0) + counts)


def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Every element `repeats` times in a row; a tensor of counts gives each its own, and alone the positions.

    `output_size` is the size of the result along `dim`, for who knows it. Raises RuntimeError if it is another.
    """
    out = repeated_positions(input) if repeats is None else _repeated(input, repeats, dim)
    if output_size is not None and out.shape[0 if dim is None else dim] != output_size:
        raise RuntimeError(f"allocated size does not match required size: output_size is {output_size}")
    return out


def _repeated(input: Tensor, repeats: Any, dim: int | None) -> Tensor:
    if dim is None:
        input, dim = input.reshape(-1), 0
    d = views.dimension(dim, input.ndim)
    if isinstance(repeats, Tensor):
        if repeats.ndim and (repeats.shape[0] != 1 or input.shape[d] == 1):
            if repeats.ndim == 1 and repeats.shape[0] != input.shape[d]:
                raise RuntimeError(
                    "repeats must have the same size as input along dim, but got repeats.size(0) = "
                    f"{repeats.shape[0]} and input.size({d}) = {input.shape[d]}"
                )
            return index.index_select(input, d, beside(repeated_positions(repeats), input))
        repeats = measured(repeats, "the size of the result depends on values")
    repeats = whole_or_traced(repeats)
    if repeats < 0:
        raise RuntimeError("Repeats must be non-negative")
    return _interleave_op.call(input, (repeats,), d)


def _interleave(input: Tensor, counts: Any, d: int) -> Tensor:
    """Every element of a dimension so many times in a row."""
    (repeats,) = counts
    shape = tuple(input.shape)
    spread = views.expand(input.unsqueeze(d + 1), *shape[: d + 1], repeats, *shape[d + 1 :])
    return _copied(views.reshape(spread, *shape[:d], shape[d] * repeats, *shape[d + 1 :]), input)


def _interleave_rule(g: Any, out: Any, input: Any, counts: Any, d: int) -> Any:
    """Sums over the copies."""
    shape = tuple(input.shape)
    return views.reshaped(g, *shape[: d + 1], counts[0], *shape[d + 1 :]).sum(d + 1)


_interleave_op = Op("repeat_interleave", _interleave, (_interleave_rule, None, None), shapes=("counts",))
_interleave_op.linear = True


@planned_of_ranks
def flip(input: Tensor, dims: Any, *more: int) -> Plan:
    """A copy reversed along dimensions. IndexError for one out of range, RuntimeError for one named twice."""
    axes = tuple([views.dimension(dim, input.ndim) for dim in views.shape_argument((dims, *more))])
    if len(set(axes)) != len(axes):
        raise RuntimeError(f"dim {axes[0]} appears multiple times in the list of dims")
    return _flip_op.call, (input, axes if input.ndim else ())


def _flip(input: Tensor, dims: Any) -> Tensor:
    """Reversed along dimensions."""
    return emit(primitives.flip, input, dims=tuple([views.dimension(d, input.ndim) for d in dims]))


_flip_op = KeepingOp("flip", _flip, (lambda g, out, input, dims: g.flip(dims), None))
_flip_op.linear = True


@planned_public
def roll(input: Tensor, shifts: Any, dims: Any = None) -> Plan:
    """A copy with elements moved along dimensions, those pushed out coming in at the other end.

    Without dimensions the flattened elements are moved. Raises RuntimeError unless there are as many shifts as
    dimensions.
    """
    if dims is None:
        return _roll_all, (input, shifts)
    shifts, dims = (tuple(x) if isinstance(x, (tuple, list)) else (x,) for x in (shifts, dims))
    if len(shifts) != len(dims):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    shape, places = input.shape, []
    axes = [views.dimension(dim, input.ndim) for dim in dims]
    for shift, d in zip(shifts, axes, strict=True):
        places.append(shift % shape[d] if shape[d] != 0 else 0)
    return _roll_op.call, (input, tuple(places), tuple(axes))


def _roll_all(input: Tensor, shifts: Any) -> Tensor:
    return roll(input.reshape(-1), shifts, 0).view(tuple(input.shape))


def _roll(input: Tensor, shifts: Any, dims: Any) -> Tensor:
    """Elements moved along dimensions, those pushed out coming in at the other end; shifts are less than sizes."""
    out = input
    for shift, d in zip(shifts, dims, strict=True):
        if type(shift) is int and shift == 0:
            continue
        size = out.shape[d]
        parts = [views.slice_dim(out, d, size - shift, size), views.slice_dim(out, d, 0, size - shift)]
        out = index.cat.call(parts, d)
    return out if out is not input else input.clone()


def _roll_back(g: Any, out: Any, input: Any, shifts: Any, dims: Any) -> Any:
    shape = g.shape
    back = [0 if type(s) is int and s == 0 else shape[d] - s for s, d in zip(shifts, dims, strict=True)]
    return _roll_op.call(g, tuple(back), dims)


_roll_op = SpatialOp("roll", _roll, (_roll_back, None, None), shapes=("shifts",))
_roll_op.linear = True


@converting
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """Matrix (n, m) times vector (m): (n). Raises RuntimeError for other tensors."""
    if input.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {input.ndim}, {vec.ndim}")
    return linear.matmul.call(input, vec)


def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A matrix with a vector on its diagonal, or the diagonal of a matrix; `diagonal` counts them from the main one up.

    Raises RuntimeError for tensors of other than one or two dimensions.
    """
    if not hasattr(diagonal, "__index__"):
        raise TypeError(f"diag(): argument 'diagonal' (position 2) must be int, not {type(diagonal).__name__}")
    if input.ndim == 2:
        return input.diagonal(diagonal).clone()
    if input.ndim != 1:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    from eagerjit.ops.diagonals import diag_embed

    return diag_embed(input, diagonal)


@converting
def trace(input: Tensor) -> Tensor:
    """The sum of a matrix's diagonal. Raises RuntimeError for bools and for other than two dimensions."""
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    if input.dtype is dtypes.bool_:
        raise NotImplementedError("\"trace\" not implemented for 'Bool'")
    return input.diagonal().sum()


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Coordinates of a grid: of n vectors n tensors with the sizes of all, each expanded along all the others.

    `indexing` "xy" swaps the first two dimensions. Raises RuntimeError for tensors of two dimensions or more, for
    dtypes that differ and for no tensors.
    """
    vectors = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
    if not vectors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    only_tensors(vectors)
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    for v in vectors:
        if v.ndim > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {v}")
    if len({v.dtype for v in vectors}) > 1:
        raise RuntimeError(f"meshgrid expects all tensors to have the same dtype, but got {[v.dtype for v in vectors]}")
    if len({device_of(v) for v in vectors}) > 1:
        raise RuntimeError("meshgrid expects all tensors to have the same device")
    swap = indexing == "xy" and len(vectors) >= 2
    if swap:
        vectors[0], vectors[1] = vectors[1], vectors[0]
    shape = [v.numel() for v in vectors]
    grids = [
        views.expand(v.reshape([-1 if i == k else 1 for k in range(len(vectors))]), shape)
        for i, v in enumerate(vectors)
    ]
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)

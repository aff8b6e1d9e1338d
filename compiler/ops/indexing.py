"""Reads and writes at computed positions, and concatenation. Indices are i64 and non-negative after the public op."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import TensorType
from eagerjit.compiler.ops.declare import Primitive, declare, same_dtype
from eagerjit.compiler.ops.views import slice_
from eagerjit.runtime import dtypes


def _index_dtype(name: str, index: TensorType) -> None:
    if index.dtype not in (dtypes.int64, dtypes.int32):
        raise ValueError(f"{name}: the index must be int64 or int32, not {index.dtype.name}")


def _take_type(x: TensorType, index: TensorType, error: str | None = None) -> TensorType:
    _index_dtype("take_rows", index)
    return TensorType(x.dtype, (*index.shape, *x.shape[1:]))


take_rows = declare(
    Primitive(
        "take_rows",
        "index",
        _take_type,
        lambda x, index, error=None: x[index],
        "x[index] along the first dimension; an index out of range is an IndexError, or what `error` says.",
        derivative=(
            lambda g, out, x, index, error=None: g.new_zeros(x.shape).add_rows(index, g),
            None,
        ),
        cost=2,
        traits=frozenset({"checks_index", "gathers", "rows"}),
    )
)


def _add_rows_type(base: TensorType, index: TensorType, value: TensorType) -> TensorType:
    _index_dtype("add_rows", index)
    same_dtype("add_rows", (base, value))
    expected = (*index.shape, *base.shape[1:])
    if len(value.shape) != len(expected) or not all(map(sizes.equal, value.shape, expected)):
        raise ValueError(f"add_rows: values of shape {value.shape} for rows of shape {expected}")
    return base


def _add_rows_reference(base: np.ndarray, index: np.ndarray, value: np.ndarray) -> np.ndarray:
    out = base.copy()
    np.add.at(out, index, value)
    return out


add_rows = declare(
    Primitive(
        "add_rows",
        "index",
        _add_rows_type,
        _add_rows_reference,
        "base with value[i] added to row index[i], in the order of i.",
        derivative=(
            lambda g, out, base, index, value: g,
            None,
            lambda g, out, base, index, value: g.take_rows(index),
        ),
        scalar="add_rows",
        traits=frozenset({"checks_index"}),
    )
)


def _gather_type(x: TensorType, index: TensorType, dim: int, error: str | None = None) -> TensorType:
    _index_dtype("gather", index)
    if len(x.shape) != len(index.shape):
        raise ValueError("gather: Index tensor must have the same number of dimensions as input tensor")
    for axis, (size, wanted) in enumerate(zip(x.shape, index.shape, strict=True)):
        # Asked first, since equal sizes are then known to be so: whole rows are moved as such.
        if axis != dim and not sizes.equal(size, wanted) and sizes.less(size, wanted):
            raise ValueError(
                f"gather: Size does not match at dimension {axis}: expected index "
                f"{[sizes.hint(d) for d in index.shape]} to be no larger than self "
                f"{[sizes.hint(d) for d in x.shape]} apart from dimension {dim}"
            )
    return TensorType(x.dtype, index.shape)


def _gather_reference(x: np.ndarray, index: np.ndarray, dim: int, error: str | None = None) -> np.ndarray:
    return x[_positions(index, dim)]


def _positions(index: np.ndarray, dim: int) -> tuple[np.ndarray, ...]:
    grid: list[np.ndarray] = list(np.indices(index.shape, sparse=True))
    grid[dim] = index
    return tuple(grid)


gather = declare(
    Primitive(
        "gather",
        "index",
        _gather_type,
        _gather_reference,
        "out[..., i, ...] = x[..., index[..., i, ...], ...] along dim; out of range is the exception `error`.",
        derivative=(
            lambda g, out, x, index, dim, error=None: g.new_zeros(x.shape).scatter_add(dim, index, g),
            None,
        ),
        cost=2,
        traits=frozenset({"checks_index", "gathers"}),
    )
)


ENTRIES = 256
"""Entries of a line from which on threads of a GPU share what is scattered along it."""
LINES = 1 << 11
"""Lines from which on to take all side by side costs less than to put their elements in order."""


def _scatter_add_type(
    base: TensorType, index: TensorType, value: TensorType, dim: int, error: str | None = None, shared: bool = False
) -> TensorType:
    same_dtype("scatter_add", (base, value))
    _gather_type(base, index, dim)
    if len(value.shape) != len(index.shape) or not all(map(sizes.equal, value.shape, index.shape)):
        raise ValueError("scatter_add: the values must have the shape of the index")
    return base


def _scatter_add_reference(
    base: np.ndarray, index: np.ndarray, value: np.ndarray, dim: int, error: str | None = None, shared: bool = False
) -> np.ndarray:
    out = base.copy()
    np.add.at(out, _positions(index, dim), value)
    return out


scatter_add = declare(
    Primitive(
        "scatter_add",
        "index",
        _scatter_add_type,
        _scatter_add_reference,
        "base with every value added at its index along dim, in row-major order; out of range is `error`. `shared`: "
        "programs of a GPU may share the entries of a place, in an order of their own.",
        derivative=(
            lambda g, out, base, index, value, dim, error=None, shared=False: g,
            None,
            lambda g, out, base, index, value, dim, error=None, shared=False: g.gather(dim, index),
        ),
        scalar="scatter_add",
        traits=frozenset({"checks_index"}),
    )
)


def _scatter_type(
    base: TensorType, index: TensorType, value: TensorType, dim: int, combine: str, error: str | None = None
) -> TensorType:
    if combine not in COMBINE:
        raise ValueError(f"scatter: values cannot be combined by {combine!r}")
    return _scatter_add_type(base, index, value, dim)


COMBINE = {"": None, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
"""How `scatter` combines a value with what is there; "" replaces it."""


def _scatter_reference(
    base: np.ndarray, index: np.ndarray, value: np.ndarray, dim: int, combine: str, error: str | None = None
) -> np.ndarray:
    out = base.copy()
    function = COMBINE[combine]
    if function is None:
        for place in np.ndindex(index.shape):
            out[(*place[:dim], index[place], *place[dim + 1 :])] = value[place]
    else:
        function.at(out, _positions(index, dim), value)
    return out


scatter = declare(
    Primitive(
        "scatter",
        "index",
        _scatter_type,
        _scatter_reference,
        "base with every value written at, or combined with what is at, its index along dim, in row-major order.",
        derivative=(None, None, None),
        scalar="scatter",
        traits=frozenset({"checks_index"}),
    )
)


def _slice_scatter_type(
    base: TensorType, value: TensorType, dim: int, start: sizes.Expr, stop: sizes.Expr, step: int
) -> TensorType:
    same_dtype("slice_scatter", (base, value))
    return base


def _slice_scatter_reference(
    base: np.ndarray, value: np.ndarray, dim: int, start: int, stop: int, step: int
) -> np.ndarray:
    out = base.copy()
    out[(slice(None),) * dim + (slice(start, stop, step),)] = value
    return out


slice_scatter = declare(
    Primitive(
        "slice_scatter",
        "index",
        _slice_scatter_type,
        _slice_scatter_reference,
        "base with one slice replaced.",
        overwrites=slice_,
        derivative=(
            lambda g, out, base, value, dim, start, stop, step: g.replace_slice(
                g.new_zeros(value.shape), dim, start, stop, step
            ),
            lambda g, out, base, value, dim, start, stop, step: g.slice(dim, start, stop, step),
        ),
        scalar="replace_slice",
    )
)


def _block(starts: tuple[int, ...], steps: tuple[int, ...], shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Where a block lies that has this shape."""
    return tuple(slice(a, a + max((n - 1) * s + 1, 0), s) for a, s, n in zip(starts, steps, shape, strict=True))


def _replace_block_type(
    base: TensorType, value: TensorType, starts: tuple[sizes.Expr, ...], steps: tuple[int, ...]
) -> TensorType:
    same_dtype("replace_block", (base, value))
    if not len(base.shape) == len(value.shape) == len(starts) == len(steps):
        raise ValueError(f"replace_block: a block of type {value} at {starts} in {base}")
    return base


def _replace_block_reference(
    base: np.ndarray, value: np.ndarray, starts: tuple[int, ...], steps: tuple[int, ...]
) -> np.ndarray:
    out = base.copy()
    out[_block(starts, steps, value.shape)] = value
    return out


def _shown_block(g: Any, shape: Any, starts: tuple[Any, ...], steps: tuple[int, ...]) -> Any:
    """The elements where a block lies."""
    for dim, (start, step, size) in enumerate(zip(starts, steps, shape, strict=True)):
        g = g.slice(dim, start, start + (size - 1) * step + 1, step)
    return g


replace_block = declare(
    Primitive(
        "replace_block",
        "index",
        _replace_block_type,
        _replace_block_reference,
        "base with the block of every step-th element from starts on, along all dimensions, replaced; none is empty.",
        derivative=(
            lambda g, out, base, value, starts, steps: g.replace_block(g.new_zeros(value.shape), starts, steps),
            lambda g, out, base, value, starts, steps: _shown_block(g, value.shape, starts, steps),
        ),
        scalar="replace_block",
    )
)


def _cat_type(*types: TensorType, dim: int) -> TensorType:
    dtype = same_dtype("cat", types)
    total: sizes.Expr = 0
    for t in types:
        total = sizes.add(total, t.shape[dim])
        for axis, (a, b) in enumerate(zip(types[0].shape, t.shape, strict=True)):
            if axis != dim and not sizes.equal(a, b):
                raise ValueError(
                    f"cat: Sizes of tensors must match except in dimension {dim}. Expected size {sizes.hint(a)} "
                    f"but got size {sizes.hint(b)} at dimension {axis}"
                )
    shape = list(types[0].shape)
    shape[dim] = total
    return TensorType(dtype, tuple(shape))


def _cat_derivative(g: Any, out: Any, *inputs: Any, dim: int) -> tuple[Any, ...]:
    """The parts of the gradient that belong to each input."""
    parts = []
    start: Any = 0
    for x in inputs:
        stop = start + x.shape[dim]
        parts.append(g.slice(dim, start, stop, 1))
        start = stop
    return tuple(parts)


cat = declare(
    Primitive(
        "cat",
        "index",
        _cat_type,
        lambda *arrays, dim: np.concatenate(arrays, axis=dim),
        "Tensors joined along dim.",
        derivative=(_cat_derivative,),
        traits=frozenset({"variadic"}),
        scalar="concatenate",
    )
)


def _put_rows_reference(base: np.ndarray, index: np.ndarray, value: np.ndarray) -> np.ndarray:
    out = base.copy()
    for position, row in zip(index.reshape(-1), value.reshape(-1, *base.shape[1:]), strict=True):
        out[position] = row
    return out


put_rows = declare(
    Primitive(
        "put_rows",
        "index",
        _add_rows_type,
        _put_rows_reference,
        "base with row index[i] replaced by value[i], in the order of i.",
        derivative=(
            lambda g, out, base, index, value: g.put_rows(index, g.new_zeros(value.shape)),
            None,
            lambda g, out, base, index, value: g.take_rows(index),
        ),
        scalar="put_rows",
        traits=frozenset({"checks_index"}),
    )
)

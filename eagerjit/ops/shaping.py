"""Cutting, joining and rearranging tensors by views and copies of them."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from eagerjit.calling.kinds import is_integer
from eagerjit.calling.public import named_once, public, sizes_by_name
from eagerjit.ops import index, pieces, strided, views
from eagerjit.ops.subscript import broadcast_shapes as broadcast_two
from eagerjit.recording.numbers import SymbolicInt
from eagerjit.runtime import dtypes
from eagerjit.tensors.fitting import whole, whole_or_traced
from eagerjit.tensors.mistakes import only_tensors
from eagerjit.tensors.moving import row_major
from eagerjit.tensors.tensor import Shape, Tensor

# -- cutting ----------------------------------------------------------------------------------------------------------


def _cut(input: Tensor, dim: int, bounds: list[Any]) -> tuple[Tensor, ...]:
    """The parts between consecutive bounds."""
    pairs = itertools.pairwise(bounds)
    return tuple(views.slice_dim(input, dim, a, b if b > a else a, 1) for a, b in pairs)


@public
def tensor_split(
    input: Tensor, indices_or_sections: Any = None, dim: int = 0, *, indices: Any = None, sections: Any = None,
    tensor_indices_or_sections: Any = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Views of parts: so many of nearly equal size, or cut before the indices given (an int64 tensor too).

    The first parts are one longer where the size is no multiple. Raises RuntimeError for no parts.
    """
    indices_or_sections = named_once(
        "tensor_split", indices_or_sections=indices_or_sections, indices=indices, sections=sections,
        tensor_indices_or_sections=tensor_indices_or_sections,
    )  # fmt: skip
    if input.ndim == 0:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    d = views.dimension(dim, input.ndim)
    size = input.shape[d]
    if isinstance(indices_or_sections, Tensor) and indices_or_sections.dtype is not dtypes.int64:
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
            f"{indices_or_sections.dtype}"
        )
    where = indices_or_sections.tolist() if isinstance(indices_or_sections, Tensor) else indices_or_sections
    if is_integer(where):
        where = whole_or_traced(where)
        if where <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {where}")
        base, more = size // where, size % where
        bounds = [i * base + (i if i < more else more) for i in range(whole(where) + 1)]
        return _cut(input, d, bounds)
    inside = [w + size if w < 0 else w for w in where]
    inside = [0 if w < 0 else size if w > size else w for w in inside]
    return _cut(input, d, [0, *inside, size])


def _splitter(name: str, least: int, axis: int, doc: str) -> Callable[..., Any]:
    def split(
        input: Tensor, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None
    ) -> tuple[Tensor, ...]:
        indices_or_sections = named_once(
            name, indices_or_sections=indices_or_sections, indices=indices, sections=sections
        )
        if input.ndim < least:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {least} dimension{'s' * (least > 1)}, but got a tensor "
                f"with {input.ndim} dimensions!"
            )
        d = 0 if input.ndim == 1 else axis
        if is_integer(indices_or_sections):
            size = input.shape[d]
            if indices_or_sections <= 0 or size % indices_or_sections:
                raise RuntimeError(
                    f"torch.{name} attempted to split along dimension {d}, but the size of the dimension {size} is not "
                    f"divisible by the split_size {indices_or_sections}!"
                )
        return tensor_split(input, indices_or_sections, d)

    split.__name__, split.__doc__ = name, doc
    return public(split)


hsplit = _splitter("hsplit", 1, 1, "Views of parts side by side: cut along the second dimension, vectors the first.")
vsplit = _splitter("vsplit", 2, 0, "Views of parts on top of each other: cut along the first dimension.")
dsplit = _splitter("dsplit", 3, 2, "Views of parts cut along the third dimension.")


@public
def split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive parts along `dim` of the sizes given. RuntimeError unless these add up to its size."""
    if input.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    return pieces.split(input, list(split_sizes), dim)


def _unsafe(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with parts that may be written in place, which is right as long as nobody reads the whole."""

    @functools.wraps(function)
    def split(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        parts = function(*args, **kwargs)
        for part in parts:
            part._view.among = None
        return parts

    split.__name__ = split.__qualname__ = f"unsafe_{function.__name__}"
    return split


unsafe_split, unsafe_chunk = _unsafe(pieces.split), _unsafe(pieces.chunk)
unsafe_split_with_sizes = _unsafe(split_with_sizes)


def _copied(function: Any) -> Callable[..., Any]:
    """A view's copying version."""

    def copy(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        found = function(input, *args, **kwargs)
        return tuple(map(row_major.call, found)) if isinstance(found, tuple) else row_major.call(found)

    copy.__name__ = f"{function.__name__}_copy"
    copy.__doc__ = f"`{function.__name__}` in new memory."
    return public(copy)


narrow_copy, expand_copy, permute_copy = map(_copied, (views.narrow, views.expand, views.permute))
transpose_copy, t_copy, select_copy = map(_copied, (views.transpose, views.t, views.select))
squeeze_copy, unsqueeze_copy, unbind_copy = map(_copied, (views.squeeze, views.unsqueeze, pieces.unbind))
split_copy, view_copy, detach_copy, alias_copy = map(_copied, (pieces.split, views.view, views.detach, views.alias))
split_with_sizes_copy, diagonal_copy = _copied(split_with_sizes), _copied(strided.diagonal)
as_strided_copy, unfold_copy = _copied(strided.as_strided), _copied(strided.unfold)


# -- joining ----------------------------------------------------------------------------------------------------------


def _all(tensors: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """A function of one tensor applied to one, or to each of several."""
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return function(tensors[0])
    several = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    only_tensors(several)
    return tuple(function(x) for x in several)


def atleast_1d(*tensors: Any) -> Any:
    """Tensors with at least one dimension."""
    return _all(tensors, lambda x: x if x.ndim else x.reshape(1))


def atleast_2d(*tensors: Any) -> Any:
    """Tensors with at least two dimensions: vectors become rows."""
    return _all(tensors, lambda x: x if x.ndim > 1 else x.reshape(1, -1))


def atleast_3d(*tensors: Any) -> Any:
    """Tensors with at least three dimensions: (n,) becomes (1, n, 1) and (m, n) becomes (m, n, 1)."""
    return _all(tensors, lambda x: x if x.ndim > 2 else x.unsqueeze(2) if x.ndim == 2 else x.reshape(1, -1, 1))


def _joined(name: str, prepare: Callable[[Any], Any], axis: Callable[[Any], int], doc: str) -> Callable[..., Any]:
    def join(tensors: Any) -> Tensor:
        if not tensors:
            raise RuntimeError(f"{name} expects a non-empty TensorList")
        parts = [prepare(x) for x in tensors]
        return index.cat.call(parts, axis(parts[0]))

    join.__name__, join.__doc__ = name, doc
    return public(join)


hstack = _joined(
    "hstack", atleast_1d, lambda x: 0 if x.ndim == 1 else 1,
    "Tensors side by side: joined along the second dimension, vectors along the first.",
)  # fmt: skip
vstack = row_stack = _joined(
    "vstack",
    atleast_2d,
    lambda x: 0,
    "Tensors on top of each other: joined along the first dimension, vectors as rows.",
)
dstack = _joined("dstack", atleast_3d, lambda x: 2, "Tensors behind each other: joined along the third dimension.")
column_stack = _joined(
    "column_stack", lambda x: x if x.ndim > 1 else x.reshape(-1, 1), lambda x: 1,
    "Tensors side by side, vectors as columns.",
)  # fmt: skip


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of one element of each vector, as rows."""
    from eagerjit.ops.composite import meshgrid

    only_tensors(tensors)
    for x in tensors:
        if x.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(x.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return index.stack([g.reshape(-1) for g in meshgrid(*tensors)], 1)


@public
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of r elements of a vector, as rows in order."""
    if input.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return input.new_empty((0,))
    return input.take_rows(_chosen(input.shape[0], r, with_replacement, input.device))


def _chosen(count: Any, r: int, with_replacement: bool, device: Any) -> Tensor:
    """Places of all combinations of r of so many elements, as rows in order."""
    from eagerjit.tensors.creation import arange, tensor

    if r == 1:
        return arange(count, device=device).unsqueeze(1)
    if not isinstance(count, SymbolicInt):
        choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
        rows = np.fromiter(itertools.chain.from_iterable(choose(range(count), r)), np.int64)
        return tensor(rows, device=device).reshape(-1, r)
    # Of a size that is known only in the call: all tuples of places, of which those in order are taken.
    places = arange(count, device=device)
    lines = [places.reshape(tuple(-1 if i == dim else 1 for i in range(r))) for dim in range(r)]
    in_order = [a <= b if with_replacement else a < b for a, b in itertools.pairwise(lines)]
    return functools.reduce(lambda a, b: a.logical_and(b), in_order).nonzero()


@public
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of a vector's elements as columns, falling unless `increasing`."""
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    count = x.shape[-1] if N is None else N
    if count < 0:
        raise RuntimeError("N must be non-negative.")
    base = x if x.dtype.is_floating_point or x.dtype.is_complex else x.long()
    if count == 0:
        return base.new_empty((*x.shape, 0))
    powers = index.cat.call([base.new_ones((*x.shape, 1)), _powers(base, count - 1)], 1)
    return powers if increasing else powers.flip(1)


def _powers(x: Tensor, count: Any) -> Tensor:
    """The powers 1 to `count` of a vector's elements, as columns."""
    if not x.dtype.is_complex:
        return x.unsqueeze(1).expand((*x.shape, count)).cumprod(1)
    powers = itertools.accumulate([x] * max(count, 1), operator.mul)  # of complex numbers NumPy computes `cumprod`
    return index.stack(list(powers), 1)[:, :count]


def broadcast_shapes(*shapes: Any) -> Any:
    """The shape that tensors of these shapes broadcast to."""
    out: tuple[Any, ...] = ()
    for shape in shapes:
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        if any(d < 0 for d in sizes):
            raise RuntimeError(f"Trying to create tensor with negative dimension ({min(sizes)}): ({min(sizes)})")
        try:
            out = broadcast_two(out, sizes)
        except IndexError:
            raise RuntimeError(
                "Shape mismatch: objects cannot be broadcast to a single shape: "
                + ", ".join(str(list((s,) if isinstance(s, int) else s)) for s in shapes)
            ) from None
    return Shape(out)


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """All expanded to their common shape; those that have it are themselves."""
    several = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    only_tensors(several)
    shape = broadcast_shapes(*(tuple(x.shape) for x in several))
    return tuple(x if tuple(x.shape) == tuple(shape) else views.expand(x, shape) for x in several)


# -- rearranging ------------------------------------------------------------------------------------------------------


@public
def rot90(input: Tensor, k: int = 1, dims: Any = (0, 1)) -> Tensor:
    """Turned k times by 90 degrees in the plane of two dimensions, from the first towards the second."""
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    a, b = (views.dimension(d, input.ndim) for d in dims)
    if a == b:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    turns = k % 4
    if turns == 1:
        return input.flip(b).transpose(a, b)
    if turns == 2:
        return input.flip(a, b)
    return input.flip(a).transpose(a, b) if turns == 3 else input.clone()


def _fill_long_diagonal(self: Tensor, fill_value: Any) -> None:
    """Set the elements whose indices are all equal."""
    from eagerjit.ops.strided import as_strided

    as_strided(self, (self.shape[0],), (sum(self.stride()),), None).fill_(fill_value)


@public
def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Set the main diagonal to a number, in place; `wrap` goes on at the top in tall matrices."""
    if self.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    sizes = list(self.shape)
    if self.ndim > 2 and any(d != sizes[0] for d in sizes):
        raise RuntimeError("all dimensions of input must be of equal length")
    if self.ndim == 2:
        self.diagonal().fill_(fill_value)
    else:
        _fill_long_diagonal(self, fill_value)
    rows, columns = sizes[0], sizes[1]
    if wrap and self.ndim == 2 and rows > columns + 1:
        for first in range(columns + 1, rows, columns + 1):
            count = min(columns, rows - first)
            self.narrow(0, first, count).narrow(1, 0, count).diagonal().fill_(fill_value)
    return self


@public
def adjoint(input: Tensor) -> Tensor:
    """The last two dimensions swapped and elements conjugated."""
    if input.ndim == 1:
        raise RuntimeError(
            f"tensor.adjoint() is only supported on matrices or batches of matrices. Got {input.ndim}-D tensor."
        )
    return (views.transpose(input, -2, -1) if input.ndim else input).conj()


@public
def positive(input: Tensor) -> Tensor:
    """The tensor itself. Raises RuntimeError for bool."""
    if input.dtype is dtypes.bool_:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


@sizes_by_name
@public
def broadcast_to(input: Tensor, size: Any, *more: Any) -> Tensor:
    """input expanded to a shape."""
    return views.expand(input, views.shape_argument((size, *more)))


@public
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The coordinates in a shape that indices into its flattened form belong to."""
    if indices.dtype.is_floating_point or indices.dtype is dtypes.bool_:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    sizes = [shape] if isinstance(shape, int) else [d if isinstance(d, int) else int(d) for d in shape]
    if any(d < 0 for d in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {tuple(sizes)}")
    out: list[Tensor] = []
    rest = indices.long()
    for size in reversed(sizes):
        out.append(rest % size)
        rest = rest // size
    return tuple(reversed(out))


@public
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Dimensions moved to other positions, the rest in order."""
    given = [dims if isinstance(dims, (tuple, list)) else (dims,) for dims in (source, destination)]
    sources, targets = ([views.dimension(d, input.ndim) for d in dims] for dims in given)
    for name, dims in (("source", sources), ("destination", targets)):
        if len(set(dims)) < len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({dims})")
    if len(sources) != len(targets):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({sources} dims) should contain the same number of "
            f"dims as destination ({targets} dims)"
        )
    rest = iter(d for d in range(input.ndim) if d not in sources)
    placed = dict(zip(targets, sources, strict=True))
    return views.permute_view(input, tuple(placed[d] if d in placed else next(rest) for d in range(input.ndim)))


moveaxis = movedim

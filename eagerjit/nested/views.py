"""Nested tensors of layout `jagged` in other shapes, and parts of them; the first dimension stays what it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagerjit.nested.components import contiguous, jagged_of, unbind
from eagerjit.nested.rows import RaggedSize
from eagerjit.nested.tensor import Jagged, NestedTensor, described, made
from eagerjit.ops import views
from eagerjit.tensors.tensor import Tensor


def _moved(tensor: NestedTensor, values: Tensor, dim: int) -> Any:
    """Values whose ragged dimension lies elsewhere, as a nested tensor."""
    return made(Jagged(tensor._places_.rows, dim), values)


def inner(name: str, tensor: NestedTensor, dim: int, of_result: bool = False) -> int:
    """A dimension of the whole that is neither the first nor ragged, as one of the values; else RuntimeError."""
    dim = views.dimension(dim, tensor.ndim + of_result)
    if dim == 0:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim=0")
    if dim == tensor._places_.dim and not of_result:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on ragged dim")
    return dim - 1


def transpose(func: Any, input: NestedTensor, dim0: int, dim1: int) -> Any:
    """Two dimensions exchanged, not the first."""
    one, other = (views.dimension(d, input.ndim) for d in (dim0, dim1))
    if one != other and 0 in (one, other):
        raise ValueError("Transpose is not supported on the batch dimension for jagged NT")
    dim = input._places_.dim
    moved = other if dim == one else one if dim == other else dim
    return input if one == other else _moved(input, input._entries.transpose(one - 1, other - 1), moved)


def permute(func: Any, input: NestedTensor, *dims: Any) -> Any:
    """Dimensions in another order, the first one in its place."""
    order = [views.dimension(d, input.ndim) for d in views_of(dims)]
    if sorted(order) != list(range(input.ndim)):
        raise RuntimeError(f"permute(): {order} is no order of the dimensions of a nested tensor of {described(input)}")
    if order[0] != 0:
        raise ValueError("Permute is not supported on the batch dimension for jagged NT")
    return _moved(input, input._entries.permute([d - 1 for d in order[1:]]), order.index(input._places_.dim))


def views_of(sizes: tuple[Any, ...]) -> list[Any]:
    """Sizes or dimensions, given one by one or in a sequence."""
    return list(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else list(sizes)


def last_two(func: Any, input: NestedTensor) -> Any:
    """The last two dimensions exchanged."""
    return transpose(func, input, -2, -1)


def reversed_order(func: Any, input: NestedTensor) -> Any:
    """Refused: the first dimension stays where it is."""
    raise ValueError("Permute is not supported on the batch dimension for jagged NT")


def unsqueeze(func: Any, input: NestedTensor, dim: int) -> Any:
    """A new dimension of size 1, not the first."""
    place = inner("unsqueeze", input, dim, of_result=True)
    ragged = input._places_.dim
    return _moved(input, input._entries.unsqueeze(place), ragged + (place < ragged))


def squeeze(func: Any, input: NestedTensor, dim: Any = None) -> Any:
    """Without dimensions of size 1, which have to be named."""
    if dim is None:
        raise RuntimeError("squeeze(): a nested tensor's dimension has to be named")
    dims = [inner("squeeze", input, d) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]
    gone = [d for d in dims if input._entries.shape[d] == 1]
    before = sum(d < input._places_.dim - 1 for d in gone)
    return _moved(input, input._entries.squeeze(dims), input._places_.dim - before)


def view(func: Any, input: NestedTensor, *size: Any, shape: Any = None) -> Any:
    """Other sizes: the first and the ragged one stay, the latter as -1 or as the size that it is."""
    if size and not isinstance(size[0], (int, tuple, list, RaggedSize)):
        return input.with_values(func(input._entries, *size))  # another dtype
    wanted, rows = views_of(size) if shape is None else list(shape), input._places_.rows
    ragged = next((i for i, one in enumerate(wanted) if one == rows.size), None)
    if ragged is None:
        ragged = next((i for i, one in enumerate(wanted) if type(one) is int and one == -1), None)
    fits = ragged and type(wanted[0]) is int and wanted[0] in (len(rows), -1)
    total = input._entries.shape[input._places_.dim - 1]
    sizes = [total if i == ragged else one for i, one in enumerate(wanted)][1:]
    try:
        if not fits or not ragged:
            raise RuntimeError("other sizes")
        found = input._entries.view(sizes) if func.__name__ == "view" else input._entries.reshape(sizes)
    except (RuntimeError, TypeError):
        text = f"{func.__name__}(): cannot view shape {tuple(input.shape)} as {wanted}"
        raise RuntimeError(text) from None
    return _moved(input, found, ragged)


def unflatten(func: Any, input: NestedTensor, dim: int, sizes: Any) -> Any:
    """A dimension divided into several."""
    place = inner("unflatten", input, dim)
    more = (len(sizes) - 1) * (place < input._places_.dim - 1)
    return _moved(input, input._entries.unflatten(place, sizes), input._places_.dim + more)


def flatten(func: Any, input: NestedTensor, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Several dimensions as one, neither the first nor the ragged one among them."""
    start, end = views.dimension(start_dim, input.ndim), views.dimension(end_dim, input.ndim)
    if start != end:
        for d in range(start, end + 1):
            inner("flatten", input, d)
    fewer = (end - start) * (end < input._places_.dim)
    if start == end:
        return input
    return _moved(input, input._entries.flatten(start - 1, end - 1), input._places_.dim - fewer)


def expand(func: Any, input: NestedTensor, *size: Any, **options: Any) -> Any:
    """Dimensions of size 1 made larger; the first and the ragged one stay."""
    wanted, now = views_of(size), tuple(input.shape)
    if len(wanted) != len(now) or any(w not in (-1, n) for w, n in zip(wanted, now, strict=True) if type(w) is not int):
        raise RuntimeError(f"expand(): sizes {wanted} for a nested tensor of {described(input)}")
    ragged = input._places_.dim
    if wanted[0] not in (-1, now[0]) or wanted[ragged] not in (-1, now[ragged]):
        raise RuntimeError(f"expand(): cannot expand shape {now} to {tuple(wanted)}")
    sizes = [-1 if i == ragged else w for i, w in enumerate(wanted)][1:]
    return input.with_values(input._entries.expand(sizes))


def expand_as(func: Any, input: Any, other: Any) -> Any:
    """As large as another one with the same rows."""
    if not isinstance(input, NestedTensor):
        raise NotImplementedError("expand_as(): a dense tensor as large as a nested one")
    return expand(func, input, *other.shape)


# -- parts ------------------------------------------------------------------------------------------------------------
def chunk(func: Any, input: NestedTensor, chunks: int, dim: int = 0) -> Any:
    """Parts of about the same size along a dimension; along the first, so many components each."""
    if views.dimension(dim, input.ndim) != 0:
        return tuple(map(input.with_values, input._entries.chunk(chunks, inner("chunk", input, dim))))
    parts, each = unbind(input), -(-len(input._places_.rows) // chunks)
    return tuple(jagged_of(parts[i : i + each], input._places_.dim) for i in range(0, len(parts), each))


def divided(func: Any, input: NestedTensor, size: Any, dim: int = 0) -> Any:
    """`split` and `split_with_sizes`."""
    found = func(input._entries, size, inner(func.__name__, input, dim))
    return tuple(map(input.with_values, found))


def narrow(func: Any, input: NestedTensor, dim: int, start: Any, length: Any) -> Any:
    """A part of a dimension."""
    return input.with_values(input._entries.narrow(inner("narrow", input, dim), start, length))


def select(func: Any, input: NestedTensor, dim: int, index: int) -> Any:
    """One entry of a dimension: of the first a component, dense."""
    if views.dimension(dim, input.ndim) == 0:
        return unbind(input)[index]
    place = inner("select", input, dim)
    return _moved(input, input._entries.select(place, index), input._places_.dim - (place < input._places_.dim - 1))


def cat(func: Any, tensors: Sequence[Any], dim: int = 0) -> Any:
    """Tensors with the same rows, one after the other along another dimension."""
    first = _first_alike(func, tensors)
    return first.with_values(func([one._entries for one in tensors], inner("cat", first, dim)))


def stack(func: Any, tensors: Sequence[Any], dim: int = 0) -> Any:
    """Tensors with the same rows along a new dimension."""
    first = _first_alike(func, tensors)
    place = inner("stack", first, dim, of_result=True)
    ragged = first._places_.dim
    return _moved(first, func([one._entries for one in tensors], place), ragged + (place < ragged))


def _first_alike(func: Any, tensors: Sequence[Any]) -> NestedTensor:
    first = next(one for one in tensors if isinstance(one, NestedTensor))
    for one in tensors:
        if not isinstance(one, NestedTensor) or one._places_.rows is not first._places_.rows:
            raise RuntimeError(f"{func.__name__}(): {described(one)} beside a nested tensor of {described(first)}")
    return first


def item(func: Any, input: NestedTensor, index: Any) -> Any:
    """Components by number, and parts of their dimensions: `x[i]`, `x[i, ...]`, `x[:, :, part]`, `x[..., part]`."""
    steps = list(index) if isinstance(index, tuple) else [index]
    if any(not isinstance(s, (int, slice)) and s is not None and s is not ... for s in steps):
        raise NotImplementedError("aten.index.Tensor: nested tensors take numbers, slices, None and ... as an index")
    taken = sum(s is not None and s is not ... for s in steps)
    at = next((i for i, s in enumerate(steps) if s is ...), len(steps))
    steps[at : at + 1] = [slice(None)] * (input.ndim - taken)
    if type(steps[0]) is int:
        component = unbind(input)[steps[0]]
        return component[tuple(steps[1:])] if steps[1:] else component
    found, dim = input, 0
    for step in steps:
        if step is None:
            found = unsqueeze(func, found, dim)
        elif type(step) is int:
            found, dim = select(func, found, dim, step), dim - 1
        elif step != slice(None):
            place = inner("slice", found, dim)
            found = found.with_values(found._entries[(slice(None),) * place + (step,)])
        dim += 1
    return found


def as_contiguous(func: Any, input: NestedTensor, **options: Any) -> Any:
    """`contiguous`."""
    return contiguous(input)


HANDLERS: dict[str, Any] = {
    **{f.__name__: f for f in (
        transpose, permute, unsqueeze, squeeze, view, unflatten, flatten, expand, expand_as, chunk, narrow, select, cat,
        stack,
    )},
    "reshape": view, "swapaxes": transpose, "swapdims": transpose, "mT": last_two, "T": reversed_order,
    "split": divided, "split_with_sizes": divided, "concat": cat, "concatenate": cat, "__getitem__": item,
    "contiguous": as_contiguous,
}  # fmt: skip

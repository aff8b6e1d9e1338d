"""What layout `strided` has besides: each component's own result."""

from __future__ import annotations

from typing import Any

from eagerjit.nested.components import blocks_of, unbind
from eagerjit.nested.tensor import NestedTensor, described
from eagerjit.nested.views import views_of
from eagerjit.ops import views
from eagerjit.tensors.tensor import Tensor


def _operands(func: Any, args: Any) -> list[tuple[Any, ...]]:
    """The arguments for each component: nested tensors component by component, dense ones with a slice for each."""
    first = next(a for a in args if isinstance(a, NestedTensor))
    count = len(first._places_.shapes)
    if any(isinstance(a, NestedTensor) and len(a._places_.shapes) != count for a in args):
        shapes = " and ".join(described(a) for a in args if isinstance(a, NestedTensor))
        raise RuntimeError(f"{func.__name__}(): as many components are needed in each, not {shapes}")
    return list(zip(*(unbind(a) if isinstance(a, NestedTensor) else [a] * count for a in args), strict=True))


def each(func: Any, *args: Any, **options: Any) -> Any:
    """A function of each component: its other arguments are those of all."""
    return blocks_of([func(*parts, **options) for parts in _operands(func, args)])


def along(func: Any, input: NestedTensor, dim: int, *rest: Any, **options: Any) -> Any:
    """A function along a dimension, not the first."""
    return each(func, input, _inner(func, input, dim), *rest, **options)


def unsqueeze(func: Any, input: NestedTensor, dim: int) -> Any:
    """A new dimension of size 1, not the first."""
    return each(func, input, _inner(func, input, dim, more=1))


def _inner(func: Any, input: NestedTensor, dim: int, more: int = 0) -> int:
    """A dimension of the whole, or of what has more, as one of each component."""
    place = views.dimension(dim, input.ndim + more)
    if place == 0:
        raise RuntimeError(f"{func.__name__}(): not supported for nested tensors on dim=0")
    return place - 1


def transpose(func: Any, input: NestedTensor, dim0: int, dim1: int) -> Any:
    """Two dimensions exchanged, not the first."""
    return each(func, input, _inner(func, input, dim0), _inner(func, input, dim1))


def last_two(func: Any, input: NestedTensor) -> Any:
    """The last two dimensions exchanged."""
    return blocks_of([part.mT for part in unbind(input)])


def summed(func: Any, input: NestedTensor, dim: Any = None, keepdim: bool = False, **options: Any) -> Any:
    """A sum or mean of all elements, or along dimensions, the first not among them."""
    if dim is None:
        return func(input._entries, **options)
    places = [_inner(func, input, d) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]
    return each(func, input, places, keepdim, **options)


def product(func: Any, input: Any, other: Any) -> Any:
    """Products of matrices, component by component; a dense tensor of three dimensions has one for each."""
    pairs = [_slices(one, nested) for one, nested in ((input, other), (other, input))]
    return blocks_of([a.matmul(b) for a, b in zip(*pairs, strict=True)])


def _slices(one: Any, other: Any) -> Any:
    if isinstance(one, NestedTensor):
        return unbind(one)
    count = len(other._places_.shapes)
    return one.unbind() if one.ndim > 2 and one.shape[0] == count else [one] * count


def sizes_of(func: Any, input: NestedTensor, *size: Any, shape: Any = None) -> Any:
    """`view` and `reshape`: the first size counts components, -1 is what each has along the dimension in its place."""
    wanted = views_of(size) if shape is None else list(shape)
    if not wanted or wanted[0] not in (-1, len(input._places_.shapes)):
        raise RuntimeError(f"{func.__name__}(): sizes {wanted} for a nested tensor of {described(input)}")
    found = []
    for part in unbind(input):
        own = list(wanted[1:])
        if own.count(-1) > 1:
            own = [part.shape[i] if size == -1 and i < part.ndim else size for i, size in enumerate(own)]
        found.append(part.reshape(own))
    return blocks_of(found)


def select(func: Any, input: NestedTensor, dim: int, index: int) -> Any:
    """One entry of a dimension: of the first a component, dense."""
    if views.dimension(dim, input.ndim) == 0:
        return unbind(input)[index]
    return along(func, input, dim, index)


def item(func: Any, input: NestedTensor, index: Any) -> Any:
    """A component by its number, or a part of it."""
    steps = index if isinstance(index, tuple) else (index,)
    if type(steps[0]) is int:
        component = unbind(input)[steps[0]]
        return component[steps[1:]] if steps[1:] else component
    if steps[0] is ... or steps[0] == slice(None):
        rest = steps if steps[0] is ... else steps[1:]
        return blocks_of([part[rest] for part in unbind(input)])
    raise NotImplementedError("aten.index.Tensor: a nested tensor takes a number or : for its first index")


def chunk(func: Any, input: NestedTensor, chunks: int, dim: int = 0) -> Any:
    """Parts of about the same size along a dimension, not the first."""
    place = _inner(func, input, dim)
    return tuple(blocks_of(list(parts)) for parts in zip(*(p.chunk(chunks, place) for p in unbind(input)), strict=True))


def attention(func: Any, query: Any, key: Any, value: Any, *rest: Any, **options: Any) -> Any:
    """Attention within each component: (heads, rows, features) each."""
    tensors: tuple[Any, ...] = (query, key, value)
    if not all(isinstance(t, Tensor) and isinstance(t, NestedTensor) for t in tensors):
        raise RuntimeError("scaled_dot_product_attention(): of nested tensors all three are nested")
    found = [
        func(*(part.unsqueeze(0) for part in parts), *rest, **options).squeeze(0) for parts in _operands(func, tensors)
    ]
    return blocks_of(found)


HANDLERS: dict[str, Any] = {
    **dict.fromkeys(("linear", "layer_norm", "rms_norm", "embedding"), each),
    **dict.fromkeys(("softmax", "log_softmax", "squeeze", "narrow", "unflatten", "amax", "amin"), along),
    **dict.fromkeys(("transpose", "swapaxes", "swapdims"), transpose), **dict.fromkeys(("sum", "mean"), summed),
    **dict.fromkeys(("matmul", "__matmul__", "bmm"), product), **dict.fromkeys(("view", "reshape"), sizes_of),
    "mT": last_two, "unsqueeze": unsqueeze, "select": select, "__getitem__": item, "chunk": chunk,
    "scaled_dot_product_attention": attention, "contiguous": lambda func, input, **options: input,
}  # fmt: skip

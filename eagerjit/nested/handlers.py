"""What functions of the library do with nested tensors, by their names; each is told which function was called."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from eagerjit.autograd import parted
from eagerjit.nested import blocks, products, reductions
from eagerjit.nested import views as jagged_views
from eagerjit.nested.components import is_contiguous, to_padded_tensor, unbind
from eagerjit.nested.pointwise import IN_PLACE, NAMES, pointwise
from eagerjit.nested.tensor import NestedTensor, described
from eagerjit.ops import views
from eagerjit.tensors.tensor import Tensor


def _size(func: Any, self: NestedTensor, dim: int | None = None) -> Any:
    """The sizes, or that of a dimension."""
    if self._is_jagged:
        return self.shape if dim is None else self.shape[views.dimension(dim, self.ndim)]
    if dim is None:
        return self.shape
    place = views.dimension(dim, self.ndim)
    sizes = {shape[place - 1] for shape in self._places_.shapes} if place else {len(self._places_.shapes)}
    if len(sizes) != 1:
        raise RuntimeError(f"Given dimension {place} is irregular and does not have a size.")
    return sizes.pop()


def _stride(func: Any, self: NestedTensor, dim: int | None = None) -> Any:
    """The values' strides after that of the first dimension, which is ragged."""
    strides = self._entries.stride()
    rest = math.prod(n for i, n in enumerate(self._entries.shape) if i != self._places_.dim - 1)
    found = (self._places_.rows.size * rest, *strides)
    return found if dim is None else found[views.dimension(dim, self.ndim)]


def _count(func: Any, self: NestedTensor) -> int:
    """The number of elements."""
    if not self._is_jagged or self._places_.rows.lengths is None:
        return int(self._entries.numel())
    return sum(part.numel() for part in unbind(self))


def _length(func: Any, self: NestedTensor) -> int:
    return len(self._places_.rows) if self._is_jagged else len(self._places_.shapes)


def _item(func: Any, self: NestedTensor) -> Any:
    if _count(func, self) != 1:
        raise RuntimeError(f"a Tensor with {_count(func, self)} elements cannot be converted to Scalar")
    return self._entries.sum().item()


def _truth(func: Any, self: NestedTensor) -> bool:
    if _count(func, self) != 1:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
    return bool(_item(func, self))


def _no_array(func: Any, self: NestedTensor, *arguments: Any, **options: Any) -> Any:
    raise RuntimeError(f".{func.__name__}() is not supported for nested tensors, got {described(self)}")


def _values(func: Any, self: NestedTensor) -> Tensor:
    """The values, a view with their gradients."""
    return views.alias(self._entries)


def _without_function(handler: Callable[..., Any]) -> Callable[..., Any]:
    return lambda func, *args, **options: handler(*args, **options)


def _of_values(func: Any, self: NestedTensor, *args: Any, **options: Any) -> Any:
    """What the values say."""
    return func(self._entries, *args, **options)


COMMON: dict[str, Any] = {
    **dict.fromkeys(NAMES | IN_PLACE, pointwise),
    **{name: _without_function(handler) for name, handler in parted.HANDLERS.items()},
    **dict.fromkeys((
        "is_floating_point", "is_complex", "is_signed", "element_size", "get_device", "is_pinned", "is_shared",
        "is_inference", "is_conj", "is_neg", "untyped_storage", "storage", "storage_offset", "data_ptr", "_version",
        "retains_grad", "output_nr", "name", "is_distributed", "is_meta", "is_quantized", "is_mkldnn", "is_mps",
        "is_xla", "is_xpu", "is_ipu", "is_mtia", "is_maia", "is_vulkan", "nbytes",
    ), _of_values),
    **dict.fromkeys(("numpy", "tolist", "__array__"), _no_array),
    **{name: lambda func, self, kind=kind: kind(_item(func, self)) for name, kind in (
        ("__float__", float), ("__int__", int), ("__complex__", complex),
    )},
    "size": _size, "numel": _count, "nelement": _count, "__len__": _length, "item": _item, "__bool__": _truth,
    "is_nonzero": _truth, "values": _values, "unbind": _without_function(unbind),
    "__iter__": lambda func, self: iter(unbind(self)), "dim": lambda func, self: self.ndim,
    "ndimension": lambda func, self: self.ndim, "is_contiguous": lambda func, self, **options: is_contiguous(self),
    "to_padded_tensor": _without_function(to_padded_tensor), "_base": lambda func, self: None,
    "is_same_size": lambda func, input, other: described(input) == described(other), "equal": reductions.equal,
    "allclose": reductions.allclose,
    "share_memory_": lambda func, self: self.with_values(self._entries.share_memory_()),
}  # fmt: skip
JAGGED: dict[str, Any] = {
    **COMMON, **jagged_views.HANDLERS, **reductions.HANDLERS, **products.HANDLERS, "stride": _stride,
}  # fmt: skip
STRIDED: dict[str, Any] = {**COMMON, **blocks.HANDLERS}


def handler_of(name: str, tensor: NestedTensor) -> Any:
    """What answers a function of this name; None if nothing does."""
    return (JAGGED if tensor._is_jagged else STRIDED).get(name)

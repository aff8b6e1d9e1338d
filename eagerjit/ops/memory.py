"""Memory seen otherwise: with its shape changed in place, or with a slice replaced."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from eagerjit.autograd.node import refresh
from eagerjit.calling.public import public
from eagerjit.compiler.ir import Node
from eagerjit.ops import index, views
from eagerjit.ops.histories import check_history
from eagerjit.ops.index import own_array
from eagerjit.ops.strided import as_strided, give_memory, memory_of, restrided
from eagerjit.recording.channels_last import FORMATS, last_order, lies_last
from eagerjit.runtime import mode
from eagerjit.runtime.layout import has_each_element_once
from eagerjit.runtime.meta_array import MetaArray
from eagerjit.runtime.source import here
from eagerjit.state import state
from eagerjit.tensors.limits import check_format, contiguous_format, format_named, preserve_format
from eagerjit.tensors.tensor import Tensor, check_writable, new_tensor, share_storage, storage_of
from eagerjit.watching.observation import TraceBreak, user_line

# -- shapes changed in place ------------------------------------------------------------------------------------------


def _former(tensor: Tensor) -> Tensor:
    """What a tensor is that gets another shape: views of the tensor are views of that from now on."""
    refresh(tensor)
    tracer = state.tracer
    old = new_tensor(tensor._data) if tracer is None else tracer.wrap(tracer.value(tensor))
    if tracer is not None and tracer.is_silent(tensor):
        tracer.silence(old)
    storage = storage_of(tensor)
    share_storage(old, tensor)
    for name in ("_node", "_index", "_requires_grad", "_view"):
        setattr(old, name, getattr(tensor, name))
    if tensor._view is not None:
        storage.views = [weakref.ref(old) if r() is tensor else r for r in storage.views]
    return old


def _let_view(tensor: Tensor, old: Tensor) -> bool:
    """Let the views of a tensor be views of another one; whether there are some."""
    tracer = state.tracer
    known = [r() for r in (storage_of(tensor).views if tracer is None else tracer.created)]
    views = [x._view for x in known if x is not None and x._view is not None and x._view.base is tensor]
    if views and tracer is not None:
        tracer._writes[id(old)] = tracer.writes_to(tensor)
    for view in views:
        view.base = old
    return bool(views)


def _count_as_written(tensor: Tensor) -> None:
    """Let versions notice a change of shape, which gradients that read the tensor refuse as they refuse writes."""
    tracer = state.tracer
    if tracer is None:
        storage = storage_of(tensor)
        storage.version, storage.source = storage.version + 1, here()
        return
    owner = tensor
    while owner._view is not None and not tracer.is_silent(owner) and type(owner._data) is Node:
        owner = owner._view.base
    if type(owner._data) is not Node:
        if not has_each_element_once(owner._data):
            raise TraceBreak("the shape of a view changes whose base shows elements several times", user_line())
        tracer.written[id(owner)] = owner
    tracer.count_write(tensor)


def _reshaped_in_place(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The in-place version of a view: the tensor itself takes the view's shape and history."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        tracer = state.tracer
        if tracer is None or type(self._data) is Node:
            check_history(self)
        by_memory = self._view is not None and function is as_strided
        if tracer is not None and (type(self._data) is not Node or by_memory):
            raise TraceBreak(f"{name}() changes the shape of a tensor that others may share", user_line())
        old = _former(self)
        # The history has the former shape: without this step, gradients would not reach it from the new one.
        before = mode.set_grad_mode(mode.grad_mode() or self._node is not None)
        try:
            out = function(old, *args, **kwargs)
        finally:
            mode.set_grad_mode(before)
        if out._node is not None and out._node is not old._node:
            # Gradients of what was computed before flow to the former shape, by rules that see it: `edge` sees to that,
            # which native walks ask where a sequence is no int.
            out._node.replaced, out._node.sequence = old, float(out._node.sequence)
        self._data, self._node, self._index = out._data, out._node, out._index
        # Compiled code has no strides of its own: there the tensor is a view of what it was.
        if _let_view(self, old) or old._view is not None or tracer is not None:
            self._view = out._view
            storage_of(self).register(self)
        if tracer is not None:
            tracer._values[id(self)] = (self, out._data, tracer.writes_to(self))
        _count_as_written(self)
        return self

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"In-place version of `{name[:-1]}`: the tensor itself gets the view's shape."
    return method


squeeze_ = _reshaped_in_place("squeeze_", views.squeeze)
unsqueeze_ = _reshaped_in_place("unsqueeze_", views.unsqueeze)
transpose_ = _reshaped_in_place("transpose_", views.transpose)
swapaxes_ = swapdims_ = transpose_
t_ = _reshaped_in_place("t_", views.t)
as_strided_ = _reshaped_in_place("as_strided_", as_strided)


def set_(self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
    """Make the tensor one over source's memory: with its shape, or with the size and strides given."""
    own_array(self, "a tensor was given other memory")
    if self._requires_grad and mode.grad_mode() and self._node is None:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    if source is None:
        give_memory(self, new_tensor(np.empty(0, self._data.dtype)))
        self._view = None
        _count_as_written(self)
        return self
    tensor = source if isinstance(source, Tensor) else source.tensor(self.dtype)
    if tensor.dtype is not self.dtype:
        raise RuntimeError(f"Expected a tensor of {self.dtype} for set_(), but got one of {tensor.dtype}")
    if size is not None:
        step = stride if stride is not None else contiguous_strides(size)
        tensor = as_strided(tensor.detach(), size, step, storage_offset)
    if isinstance(tensor._data, MetaArray) is not isinstance(self._data, MetaArray):
        raise RuntimeError(
            f'Attempted to set the storage of a tensor on device "{self.device}" to a storage on different device '
            f'"{tensor.device}".  This is no longer allowed; the devices must match.'
        )
    give_memory(self, tensor)
    self._view = None
    _count_as_written(self)
    return self


def contiguous_strides(size: Any) -> tuple[int, ...]:
    """Row-major strides in elements."""
    return tuple(math.prod(max(d, 1) for d in size[i + 1 :]) for i in range(len(size)))


def resize_(self: Tensor, *size: Any, memory_format: Any = None) -> Tensor:
    """Give the tensor another shape; elements keep their order in memory, new ones are undefined.

    Strides are those of `memory_format`. Raises RuntimeError for a rank that it does not have.
    """
    shape = tuple(map(int, views.shape_argument(size)))
    check_format("resize_", memory_format, len(shape))
    if memory_format is preserve_format:
        raise RuntimeError(f"Unsupported memory format {memory_format}")
    resized = _resized(self, shape)
    if memory_format is None or memory_format.name not in FORMATS:
        return resized
    order = last_order(len(shape))
    array, turned = resized._data, contiguous_strides([shape[d] for d in order])
    strides = tuple(turned[order.index(d)] * array.itemsize for d in range(len(shape)))
    resized._data = restrided(array, shape, strides)
    return resized


def _resized(self: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The tensor in another shape, in row-major order unless it has that shape already."""
    if self._requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    if any(d < 0 for d in shape):
        raise RuntimeError(f"Trying to resize a tensor to a negative size: {list(shape)}")
    array = own_array(self, "a tensor was resized")
    if shape == array.shape:
        return self
    _, place, total = memory_of(self)
    wanted = math.prod(shape)
    if place + wanted <= total:
        strides = tuple(s * array.itemsize for s in contiguous_strides(shape))
        self._data = restrided(array, shape, strides)
        _count_as_written(self)
        return self
    check_writable(array)
    fresh = self.new_empty(shape)
    fresh.view(-1)[: array.size] = self.detach().reshape(-1)
    give_memory(self, fresh)
    self._view = None
    _count_as_written(self)
    return self


def resize_as_(self: Tensor, the_template: Tensor, memory_format: Any = None) -> Tensor:
    """Give the tensor another one's shape, and its memory format where that is to be preserved; see `resize_`."""
    if memory_format is preserve_format:
        formats = {rank: name for name, rank in FORMATS.items()}
        last = lies_last(the_template)
        memory_format = format_named(formats[the_template.ndim]) if last else contiguous_format
    return resize_(self, the_template.shape, memory_format=memory_format)


def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """input with one index of a dimension replaced."""
    d = views.dimension(dim, input.ndim)
    wanted = tuple(size for i, size in enumerate(input.shape) if i != d)
    if tuple(src.shape) != wanted:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, slice size = "
            f"{list(wanted)}"
        )
    place = views.select(input.detach(), d, index)._view.arguments[1]
    return input.replace_slice(src.unsqueeze(d), d, place, place + 1, 1)


@public
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """input with a slice of a dimension replaced."""
    from eagerjit.ops.subscript import bounds

    d = views.dimension(dim, input.ndim)
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    first, stop, step = bounds(slice(start, end, step), input.shape[d])
    wanted = tuple(views.slice_dim(input.detach(), d, first, stop, step).shape)
    if tuple(src.shape) != wanted:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, slice size = "
            f"{list(wanted)}"
        )
    return index.slice_scatter.call(input, src, d, first, stop, step)

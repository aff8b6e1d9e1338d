"""Tensors that traced code gives other memory (`x.data = y`): the compiled call does so when it ends.

Until then the tensor shows the value that it was given, and what shows the memory that it had (`before = x.data`) views
a tensor that nobody else sees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from eagerjit.autograd.release import first_freed
from eagerjit.compiler.ir import Node
from eagerjit.tensors.placement import device_of
from eagerjit.tensors.tensor import Parameter, Tensor, View, new_tensor, share_storage, storage_of
from eagerjit.watching.observation import TraceBreak, user_line

if TYPE_CHECKING:
    from eagerjit.recording.trace import Tracer


def give(tracer: Tracer, tensor: Tensor, value: Tensor, detach: Callable[[Any], Any], assign: Any) -> None:
    """Let a tensor show another one's memory from here on. Raises TraceBreak where calls could not do the same.

    `assign` does it in calls that are not recorded.
    """
    source = user_line()
    if value._view is not None and value._view.base is tensor and value._view.op.detaches:
        return  # its own, as after `x.data += y`
    whole = tensor._view is None or tracer.is_silent(tensor)
    plain = type(tensor) in (Tensor, Parameter) and whole and tensor._node is None
    if tracer.journal is None or not plain or not _are_alike(tracer, tensor, value):
        raise TraceBreak("a tensor was given other memory", source)
    shown = tracer.silence(detach(value))
    known = tracer.replaced.get(id(tensor))
    hidden = _hidden(tracer, tensor) if known is None else known[1]
    for made in (r() for r in tracer.created):
        view = None if made is None else made._view
        if made is not None and view is not None and view.base is tensor:
            made._view = View(hidden, view.op, view.arguments, view.tracked)
    tracer.replaced[id(tensor)] = tensor, shown
    if type(tensor._data) is not Node:
        tracer.journal.call(assign, (tensor, shown), {}, source)


def _are_alike(tracer: Tracer, tensor: Tensor, value: Tensor) -> bool:
    """Whether values are of one dtype, on one device and of the same sizes."""
    if tensor.dtype is not value.dtype or device_of(tensor) != device_of(value) or tensor.ndim != value.ndim:
        return False
    return all(a == b for a, b in zip(tracer.shape_of(tensor), tracer.shape_of(value), strict=True))


def _hidden(tracer: Tracer, tensor: Tensor) -> Tensor:
    """A tensor that has the memory which another one had, with what was written there."""
    node = tracer.value(tensor)
    if any(related._view.base is tensor for related in tracer.related()):
        raise TraceBreak("a tensor that others view was given other memory", user_line())
    hidden = tracer.wrap(node) if type(tensor._data) is Node else new_tensor(tensor._data)
    if tensor._view is not None:
        tracer.silence(hidden)._view = tensor._view
    storage_of(tensor)
    share_storage(hidden, tensor)
    tracer.hide(tensor, hidden)
    return hidden


def note_writes(tracer: Tracer) -> None:
    """Let calls count what is written to the memory that a tensor was given; what it had counts its own writes."""
    counted = {id(storage_of(tensor)) for tensor in tracer.written.values()}
    for tensor, _ in tracer.replaced.values():
        writes = tracer.times_noticed(tensor)
        if writes and type(tensor._data) is not Node and id(storage_of(tensor)) not in counted:
            counted.add(id(storage_of(tensor)))
            tracer.journal.call(_count, (tensor, writes), {}, tracer.begins)


def _count(tensor: Tensor, writes: int) -> None:
    storage_of(tensor).version += writes


def leaves_given(tracer: Tracer) -> frozenset[int]:
    """The leaves that show other memory when the call has ended."""
    return frozenset(tracer.leaf_of[id(t)] for t, _ in tracer.replaced.values() if type(t._data) is not Node)


def check(tracer: Tracer, results: Sequence[Any]) -> None:
    """Refuse results that share memory by way of such a tensor, and gradients that would find it in another's."""
    if not tracer.replaced:
        return
    made = [r for r in results if isinstance(r, Tensor) and type(r._data) is Node]
    if any(r._node is not None and first_freed(r._node) is None for r in made):
        if any(type(tracer.memory_of(t)._data) is not Node for t, _ in tracer.replaced.values()):
            reason = "a tensor was given memory that the call found, and a result has a gradient"
            raise TraceBreak(reason, tracer.begins)
    roots: dict[int, int] = {}
    for result in made:
        if tracer.views_hidden(result):
            raise TraceBreak("a tensor was given other memory, and a result is a view of what it had", tracer.begins)
        root = tracer.memory_of(result)
        if id(result) in tracer.replaced and type(root._data) is not Node:
            raise TraceBreak("a tensor that the call makes was given memory that it found", tracer.begins)
        if type(root._data) is Node:
            roots[id(root)] = roots.get(id(root), 0) + 1
    if any(count > 1 for count in roots.values()):
        raise TraceBreak("tensors that the call gives share memory, which one of them was given", tracer.begins)

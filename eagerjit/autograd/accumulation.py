"""What becomes of the gradient of a leaf: hooks see it, and it is added to `.grad`."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from eagerjit.autograd import node_hooks
from eagerjit.autograd.leaf_nodes import accumulator
from eagerjit.recording.memory_order import dense_order, lies_in
from eagerjit.runtime import mode
from eagerjit.runtime.device_array import DeviceArray
from eagerjit.state import state
from eagerjit.tensors.moving import ordered, row_major
from eagerjit.tensors.parted import PartedTensor
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import call_back


def leaf_hooked(leaf: Tensor, grad: Tensor) -> Tensor:
    for hook in list((leaf._hooks or {}).get("grad", {}).values()):
        grad = hook_called(hook, grad)
    return grad


def hook_called(hook: Callable[..., Any], grad: Tensor) -> Tensor:
    """A gradient as a hook leaves it. Raises TypeError or RuntimeError for what cannot stand in its place."""
    result = call_back(hook, grad)
    if result is None:
        return grad
    if not isinstance(result, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
    if result.shape != grad.shape:
        name = getattr(hook, "__name__", type(hook).__name__)
        raise RuntimeError(
            f"hook '{name}' has changed the size of value (was {list(grad.shape)} got {list(result.shape)})"
        )
    return result


def add_to_grad(leaf: Tensor, grad: Tensor, shared: set[int], create_graph: bool) -> None:
    """Add to a leaf's `.grad`, once its hooks have seen the gradient."""
    if leaf._hooks is not None:
        grad = leaf_hooked(leaf, grad)
        shared.add(id(grad))  # hooks may have kept it
    _add_hooked(leaf, grad, shared, create_graph)


def _add_hooked(leaf: Tensor, grad: Tensor, shared: set[int], create_graph: bool) -> None:
    """Add to a leaf's `.grad`, between the hooks of its end; a first gradient gets memory of its own."""
    if leaf._hooks is None:
        return _add_safely(leaf, grad, shared, create_graph)
    end = accumulator(leaf)
    (left,) = node_hooks.before(end, (grad,))
    if left is not None:
        if node_hooks.BEFORE in leaf._hooks or node_hooks.AFTER in leaf._hooks:
            shared.add(id(left))  # these hooks see it, and may keep it
        _add_safely(leaf, left, shared, create_graph)
    for hook in list(leaf._hooks.get("post", {}).values()):
        if call_back(hook, leaf) is not None:
            raise RuntimeError("Tensor post accumulate grad hooks should return None.")
    node_hooks.after(end, (), (left,))
    return None


def _add_safely(leaf: Tensor, grad: Tensor, shared: set[int], create_graph: bool) -> None:
    """Add to a leaf's `.grad` as one of several threads, or in a recording."""
    tracer = state.tracer
    if tracer is not None:
        return _add(leaf, grad, tracer.get_grad(leaf), shared, create_graph)
    with _accumulating:
        return _add(leaf, grad, leaf._grad, shared, create_graph)


_accumulating = threading.RLock()
"""Gradients that several threads add to one tensor are added one by one."""
os.register_at_fork(
    before=_accumulating.acquire, after_in_parent=_accumulating.release, after_in_child=_accumulating.release
)


def _add(leaf: Tensor, grad: Tensor, known: Tensor | None, shared: set[int], create_graph: bool) -> None:
    """Add to the known gradient of a leaf."""
    if known is not None and not create_graph:
        total = known._increase(grad)
        if total is not known:  # a sparse gradient that a dense one was added to
            leaf._grad = total
    else:
        if known is not None:
            grad = known + grad
        elif create_graph:
            grad = _copied(grad, leaf)  # what has a history may be a view, and the gradient of another tensor too
        else:
            if id(grad) in shared or borrowed(grad, leaf):
                grad = _copied(grad, leaf)
            shared.add(id(grad))
            grad = grad if grad._node is None else grad.detach()
        if state.tracer is None:
            leaf._grad = grad
        else:
            state.tracer.set_grad(leaf, grad)


def _copied(grad: Tensor, leaf: Tensor) -> Tensor:
    """A gradient in memory of its own, in the order of its leaf."""
    if isinstance(grad, PartedTensor):
        return grad.clone()
    order = dense_order(leaf)
    if order is None:
        return row_major.call(grad)
    return ordered.call(grad, order)


def accumulate(leaf: Tensor, grad: Tensor, create_graph: bool) -> None:
    """Add a gradient that was computed on its own, and that hooks have seen, to a tensor's `.grad`."""
    before = mode.set_grad_mode(create_graph)
    try:
        _add_hooked(leaf, grad, {id(grad)}, create_graph)
    finally:
        mode.set_grad_mode(before)


def borrowed(grad: Tensor, leaf: Tensor | None = None) -> bool:
    """Whether a gradient's memory may be another tensor's, or is not in the order of its leaf, without gaps."""
    order = None if leaf is None else dense_order(leaf)
    if state.tracer is not None:
        return grad._view is not None or not lies_in(grad, order)
    data = grad._data
    if isinstance(data, DeviceArray):
        viewing = data.is_view
    else:
        # What is not row-major is a view of an array, which none but it holds where it is its own.
        viewing = data.base is not None and (order is None or sys.getrefcount(data.base) > 2)
    return viewing or not lies_in(grad, order)

"""Tensors copied by Python's `copy`."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from eagerjit.ops import views
from eagerjit.ops.index import own_array
from eagerjit.ops.strided import as_strided
from eagerjit.recording.tensor_attributes import note_read
from eagerjit.runtime import mode
from eagerjit.state import note_leaf, state
from eagerjit.tensors.moving import clone
from eagerjit.tensors.tensor import Parameter, Tensor, new_tensor, storage_of


def deepcopy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    """copy.deepcopy of a leaf: views of what was copied before are views of the copy, but Parameters lie alone."""
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment. "
            "If you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage"
        )
    _note_attributes(self)
    plain = type(self) in (Tensor, Parameter) and not self.__dict__
    alone = self._storage is None or id(self._storage) not in memo
    if state.tracer is not None and plain and alone:
        return _traced_copy(self, memo, state.tracer.get_grad(self))
    made = _copied(self, own_array(self, "a tensor was copied with copy.deepcopy"), memo)
    note_leaf(made)._requires_grad = self._requires_grad
    memo[id(self)] = made
    if self._grad is not None:
        made._grad = copy.deepcopy(self._grad, memo)
    made.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return made


def _note_attributes(self: Tensor) -> None:
    """Let compiled calls look whether a tensor to be copied has the attributes that it has now."""
    if state.tracer is not None and state.tracer.journal is not None:
        note_read(state.tracer.journal, self, "__dict__")


def _traced_copy(self: Tensor, memo: dict[int, Any], grad: Tensor | None) -> Tensor:
    """A copy of a leaf and its gradient that a trace computes."""
    made = views.detach(self.clone())
    if self._storage is not None and type(self) is Tensor:
        memo[id(self._storage)] = made
    if type(self) is Parameter:
        made = Parameter(made, self._requires_grad)
    note_leaf(made)._requires_grad = self._requires_grad
    memo[id(self)] = made
    if grad is not None:
        made._grad = copy.deepcopy(grad, memo)
    return made


def _copied(self: Tensor, array: Any, memo: dict[int, Any]) -> Tensor:
    """A tensor over a copy of an array, or over the part of a copy that another tensor over its memory has got."""
    shares = self._storage is not None and not isinstance(self, Parameter)
    whole = memo.get(id(self._storage)) if shares else None
    root = self
    while root._view is not None:
        root = root._view.base
    if whole is not None and whole._data.dtype == array.dtype:
        return _part(self, array, root, whole)
    made = new_tensor(clone.call(new_tensor(array))._data, type(self))
    if shares and _covers(array, root._data):
        memo[id(self._storage)] = made
    return made


def _covers(array: Any, memory: Any) -> bool:
    """Whether an array is all of the memory, in its order."""
    if type(array) is not np.ndarray or array.dtype != memory.dtype or array.size != memory.size:
        return False
    return array.flags.c_contiguous and memory.flags.c_contiguous


def _part(self: Tensor, array: np.ndarray, root: Tensor, whole: Tensor) -> Tensor:
    """The part of a copy of the root's memory that an array is of that memory."""
    place = (array.ctypes.data - root._data.ctypes.data) // array.itemsize
    before = mode.set_grad_mode(False)
    try:
        part = as_strided(whole, array.shape, [s // array.itemsize for s in array.strides], place)
    finally:
        mode.set_grad_mode(before)
    if type(self) is Tensor:
        return part
    made = new_tensor(part._data, type(self))
    made._storage = storage_of(whole)
    return made


def shallow_copy(self: Tensor) -> Tensor:
    """copy.copy: another tensor over the same memory."""
    _note_attributes(self)
    if type(self) is Tensor or state.tracer is not None:
        made = views.detach(self)
        made.__class__ = type(self)
    else:
        made = new_tensor(self._data, type(self))
    made._storage = storage_of(self)
    made._requires_grad = self._requires_grad
    made.__dict__.update(self.__dict__)
    return made

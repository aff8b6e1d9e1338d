"""What `save` writes: a pickle with PyTorch's names for tensors, and each memory once."""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from typing import Any

import numpy as np

from eagerjit.devices import Device
from eagerjit.nn.parameter import UninitializedTensorMixin
from eagerjit.ops.index import own_array
from eagerjit.ops.strided import memory_of
from eagerjit.runtime.device_array import DeviceArray, as_strided
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.meta_array import MetaArray
from eagerjit.serialization.storages import KIND_OF_DTYPE
from eagerjit.tensors.making import strided
from eagerjit.tensors.placement import device_of, host_array
from eagerjit.tensors.tensor import Parameter, Shape, Tensor, is_asked

_Base: Any = pickle._Pickler  # type: ignore[attr-defined]  # the pickler in Python, which can write names that are not here


class _Name:
    """A global of PyTorch's, written by name."""

    def __init__(self, module: str, name: str):
        self.module, self.name = module, name

    def __call__(self, *args: Any) -> Any:
        """Pickle wants to see that it can be called; nothing calls it."""


class _Memory:
    """A reference to memory that the pickle does not hold: numbers, or bytes where PyTorch has no name for them."""

    def __init__(self, key: str, dtype: DType, count: int, place: str):
        kind = KIND_OF_DTYPE.get(dtype.name)
        named = _name("torch", f"{kind}Storage") if kind else _name("torch.storage", "UntypedStorage")
        self.identity = ("storage", named, key, place, count if kind else count * dtype.itemsize)


_names: dict[tuple[str, str], _Name] = {}


def _name(module: str, name: str) -> _Name:
    """The one object for a name, so that a pickle writes it once."""
    return _names.setdefault((module, name), _Name(module, name))


def _owner(array: np.ndarray) -> np.ndarray:
    """The array whose memory this one is a view of; `as_strided` of NumPy puts an object with a base in between."""
    base: Any = array
    while base is not None:
        array = base if isinstance(base, np.ndarray) else array
        base = getattr(base, "base", None)
    return array


class Writer(_Base):  # type: ignore[misc]
    """Pickles an object. `memories` are then the bytes it refers to."""

    def __init__(self) -> None:
        self.out = io.BytesIO()
        super().__init__(self.out, 2)
        self.memories: dict[str, np.ndarray] = {}
        self._known: dict[Any, tuple[_Memory, np.ndarray, DType]] = {}
        self._copies: dict[int, np.ndarray] = {}  # by address what lies on a device

    def persistent_id(self, obj: Any) -> Any:
        """How memory is referred to."""
        return obj.identity if type(obj) is _Memory else None

    def reducer_override(self, obj: Any) -> Any:
        """How the library's own objects are written."""
        if isinstance(obj, UninitializedTensorMixin):
            return NotImplemented
        if isinstance(obj, Tensor):
            return self._tensor(obj)
        if isinstance(obj, Shape):
            return _name("torch", "Size"), (tuple(map(int, obj)),)
        if isinstance(obj, Device):
            return _name("torch", "device"), (obj.type,) if obj.index is None else (obj.type, obj.index)
        return NotImplemented

    def _tensor(self, tensor: Any) -> Any:
        if tensor.is_nested:
            return self._nested(tensor)
        if tensor.layout is not strided:
            return self._sparse(tensor)
        array = own_array(tensor, "a tensor was saved")
        parameter = isinstance(tensor, Parameter) and not is_asked(type(tensor))
        needs = tensor._requires_grad and not parameter
        made = self._made(array, tensor, needs)
        if is_asked(type(tensor)):
            return _name("torch._tensor", "_rebuild_from_type_v2"), (made[0], type(tensor), made[1], tensor.__dict__)
        if not parameter:
            return made
        return _name("torch._utils", "_rebuild_parameter"), (_Rebuilt(made), tensor._requires_grad, OrderedDict())

    def _made(self, array: np.ndarray, tensor: Tensor, needs: bool) -> Any:
        """What makes a plain tensor."""
        if isinstance(array, MetaArray):
            described: tuple[Any, ...] = (tensor.dtype, tuple(array.shape), tensor.stride(), needs)
            return _name("torch._utils", "_rebuild_meta_tensor_no_storage"), described
        if isinstance(array, DeviceArray):
            array = self._copy(array)
            owner = _owner(array)
        else:
            owner = memory_of(tensor)[0]
        memory, offset, steps = self._place(array, owner, tensor.dtype, str(device_of(tensor)))
        described = (memory, offset, tuple(array.shape), steps, needs, OrderedDict())
        if tensor.dtype.name not in KIND_OF_DTYPE:
            return _name("torch._utils", "_rebuild_tensor_v3"), (*described, tensor.dtype)
        return _name("torch._utils", "_rebuild_tensor_v2"), described

    def _sparse(self, tensor: Any) -> Any:
        """A sparse tensor by what it consists of."""
        coalesced = (tensor.is_coalesced(),) if tensor.is_sparse else ()
        described = (*tensor._pattern.parts, tensor._entries.detach(), tensor.shape, *coalesced)
        layout = _Rebuilt((_name("torch.serialization", "_get_layout"), (str(tensor.layout),)))
        made = (_name("torch._utils", "_rebuild_sparse_tensor"), (layout, described))
        if not getattr(tensor, "_is_param", False):
            return made
        return _name("torch._utils", "_rebuild_parameter"), (_Rebuilt(made), tensor.requires_grad, OrderedDict())

    def _nested(self, tensor: Any) -> Any:
        """A nested tensor by its values, and by where components begin or which sizes they have."""
        from eagerjit.nested.components import tables

        values = tensor._entries.detach()
        if tensor.layout is strided:
            values = values.requires_grad_(tensor._requires_grad)
            return _name("torch._utils", "_rebuild_nested_tensor"), (values, *tables(tensor))
        module = "torch.nested._internal.nested_tensor"
        described = {
            "values": values, "offsets": tensor.offsets(), "lengths": tensor.lengths(),
            "_ragged_idx": tensor._ragged_idx, "_metadata_cache": {}, "requires_grad": tensor._requires_grad,
        }  # fmt: skip
        names = _name(module, "_rebuild_njt"), _name(module, "NestedTensor")
        return _name("torch._tensor", "_rebuild_from_type_v2"), (*names, (described,), tensor.__dict__)

    def _copy(self, array: DeviceArray) -> np.ndarray:
        """A view of a copy of all the memory on a device that an array views, as it is of that memory."""
        owner = _owner(array)
        start = owner.ctypes.data
        if start not in self._copies:
            self._copies[start] = np.array(host_array(owner))
        copy = self._copies[start]
        if not array.size or not copy.flags.c_contiguous:
            return host_array(array)
        offset = array.ctypes.data - start
        return np.ndarray(array.shape, array.dtype, copy, offset, array.strides)

    def _place(
        self, array: np.ndarray, owner: np.ndarray, dtype: DType, where: str
    ) -> tuple[_Memory, int, tuple[int, ...]]:
        """Where an array lies: a memory, and the first element and steps in it.

        The memory is all of that which the owner reaches; if that can't be described, a copy of the array.
        Raises RuntimeError for memory that was already written as elements of another dtype.
        """
        item = array.itemsize
        low, high = np.lib.array_utils.byte_bounds(owner)
        count = (high - low) // owner.itemsize if owner.size else 0
        plain = owner.view(np.uint8) if owner.itemsize == 1 else owner  # NumPy lays out no numbers that others define
        flat = as_strided(plain, (count,), (owner.itemsize,))
        places = (array.ctypes.data - flat.ctypes.data if array.size else 0, flat.nbytes, *array.strides)
        if any(p < 0 or p % item for p in places):
            array = np.ascontiguousarray(array).reshape(array.shape)
            flat = array.reshape(-1)
        key = (flat.ctypes.data, flat.nbytes)
        if key not in self._known or not flat.nbytes:
            number = str(len(self.memories))
            self._known[key] = _Memory(number, dtype, flat.nbytes // item, where), flat, dtype
            self.memories[number] = flat.view(np.uint8)
        memory, _, known = self._known[key]
        if known is not dtype:
            raise RuntimeError("Cannot save multiple tensors or storages that view the same data as different types")
        offset = (array.ctypes.data - flat.ctypes.data) // item if array.size else 0
        return memory, offset, tuple(s // item for s in array.strides)


class _Rebuilt:
    """A tensor inside of a Parameter, written by what makes it."""

    def __init__(self, made: Any):
        self.made = made

    def __reduce__(self) -> Any:
        return self.made


def _save_name(writer: Any, name: _Name) -> None:
    writer.write(pickle.GLOBAL + f"{name.module}\n{name.name}\n".encode())
    writer.memoize(name)


def _save_dtype(writer: Any, dtype: DType) -> None:
    writer.save(_name("torch", dtype.name))


def _save_number(writer: Any, number: np.generic) -> None:
    """A NumPy number as Python's: files that hold NumPy's are refused where only weights are wanted."""
    writer.save(number.item())


Writer.dispatch = {
    **_Base.dispatch,
    _Name: _save_name,
    DType: _save_dtype,
    **{kind: _save_number for kind in set(np.sctypeDict.values()) if np.dtype(kind).kind in "biuf"},
}

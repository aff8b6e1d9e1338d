"""Memory of tensors in files: what kinds there are, and tensors over it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eagerjit.ops.made import empty_strided
from eagerjit.ops.storages import StorageBase as _StorageBase  # noqa: F401
from eagerjit.ops.storages import TypedStorage as TypedStorage
from eagerjit.ops.storages import UntypedStorage as UntypedStorage
from eagerjit.runtime import dtypes
from eagerjit.runtime.device_array import DeviceArray
from eagerjit.runtime.dtypes import DType
from eagerjit.serialization.unpickle import LoadError
from eagerjit.tensors.making import sparse_coo, strided
from eagerjit.tensors.tensor import Parameter, Storage, Tensor, is_asked, new_tensor

_NAMES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64", "Int": "int32",
    "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
}  # fmt: skip
KIND_OF_DTYPE = {dtype: kind for kind, dtype in _NAMES.items()}
"""PyTorch's names of storages by dtype: `FloatStorage` holds float32."""


class StorageType:
    """What a file calls a kind of memory; `dtype` is None for bytes without a type."""

    def __init__(self, dtype: DType | None):
        self.dtype = dtype
        self.itemsize = 1 if dtype is None else dtype.itemsize


def storage_type(name: str) -> StorageType | None:
    """The kind of memory that a file calls `FloatStorage` and the like; None for other names."""
    if name == "UntypedStorage":
        return StorageType(None)
    dtype = _NAMES.get(name.removesuffix("Storage")) if name.endswith("Storage") else None
    if dtype is None:
        return None
    if dtype not in dtypes.BY_NAME:
        raise LoadError(f"it holds tensors of dtype {dtype}, which eagerjit does not have")
    return StorageType(dtypes.BY_NAME[dtype])


class FileStorage:
    """Memory that a file describes: bytes, their dtype, and what tensors over them share.

    `memory` is what tensors lie in: the bytes themselves, or a copy on a device.
    """

    def __init__(
        self, data: np.ndarray, dtype: DType | None, shared: Storage | None = None, memory: np.ndarray | None = None
    ):
        self.data, self.dtype, self.memory = data, dtype, data if memory is None else memory
        if shared is None:
            shared = Storage()
            shared.whole = self.memory
        self.shared = shared

    def part(self, first: int, count: int) -> FileStorage:
        """Some of the elements."""
        size = 1 if self.dtype is None else self.dtype.itemsize
        if not 0 <= first <= first + count <= len(self.data) // size:
            raise LoadError("it describes a part of memory that is not there")
        inside = slice(first * size, (first + count) * size)
        return FileStorage(self.data[inside], self.dtype, self.shared, self.memory[inside])


def rebuild_tensor(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any = False,
    hooks: Any = None,
    metadata: Any = None,
    dtype: DType | None = None,
) -> Tensor:
    """A tensor over a storage, after a check that it lies inside."""
    if not isinstance(storage, FileStorage):
        raise LoadError(f"it describes a tensor over a {type(storage).__name__}")
    kind = dtype or storage.dtype
    if kind is None:
        raise LoadError("it describes a tensor without a dtype")
    sizes, strides = tuple(size), tuple(stride)
    if len(sizes) != len(strides) or not all(type(n) is int and n >= 0 for n in (offset, *sizes, *strides)):
        raise LoadError(f"it describes a tensor of size {sizes} and strides {strides}")
    data = storage.memory[: len(storage.data) // kind.itemsize * kind.itemsize].view(kind.numpy)
    last = offset + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    if math.prod(sizes) and last >= len(data):
        raise LoadError(f"it describes a tensor that ends at element {last + 1} of memory for {len(data)}")
    steps = tuple(s * kind.itemsize for s in strides)
    memory, first = storage.memory, offset * kind.itemsize
    if not math.prod(sizes):
        array = data[:0].reshape(sizes)
    elif isinstance(memory, DeviceArray):
        array = memory.laid_out(memory.address + first, sizes, kind.numpy, steps)
    else:
        array = np.ndarray(sizes, kind.numpy, memory, first, steps)
    made = new_tensor(array)
    made._storage = storage.shared
    return made.requires_grad_() if requires_grad else made


def rebuild_typed_tensor(
    storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, dtype: Any, metadata: Any = None
) -> Tensor:
    """A tensor over bytes, with its dtype beside them."""
    if not isinstance(dtype, DType):
        raise LoadError("it describes a tensor without a dtype")
    return rebuild_tensor(storage, offset, size, stride, requires_grad, hooks, metadata, dtype)


def rebuild_without_memory(dtype: Any, size: Any, stride: Any, requires_grad: Any = False) -> Tensor:
    """A tensor of the meta device."""
    sizes, strides = tuple(size), tuple(stride)
    if not isinstance(dtype, DType) or not all(type(n) is int and n >= 0 for n in (*sizes, *strides)):
        raise LoadError(f"it describes a tensor on meta of {dtype}, size {sizes} and strides {strides}")
    return empty_strided(sizes, strides, dtype=dtype, device="meta", requires_grad=bool(requires_grad))


def rebuild_sparse(layout: Any, data: Any) -> Any:
    """A sparse tensor from what it consists of; its indices are checked."""
    from eagerjit.sparse import construction

    if not isinstance(data, tuple) or len(data) not in (3, 4):
        raise LoadError("it describes a sparse tensor by something else than tensors and sizes")
    if layout is sparse_coo:
        coalesced = data[3] if len(data) == 4 else None
        return construction.sparse_coo_tensor(*data[:3], is_coalesced=coalesced, check_invariants=True)
    return construction.sparse_compressed_tensor(*data, layout=layout, check_invariants=True)


def rebuild_parameter(data: Any, requires_grad: Any = True, hooks: Any = None, state: Any = None) -> Parameter:
    """A Parameter over a tensor's memory."""
    if not isinstance(data, Tensor):
        raise LoadError(f"it describes a Parameter over a {type(data).__name__}")
    if data.layout is not strided:
        return Parameter(data, bool(requires_grad))
    made = Parameter(data, bool(requires_grad))
    made._storage = data._storage
    return with_attributes(made, state)


def rebuild_jagged(described: Any) -> Any:
    """A nested tensor of layout `jagged` from what it consists of."""
    from eagerjit.nested.construction import nested_tensor_from_jagged

    try:
        values, offsets, lengths = (described[name] for name in ("values", "offsets", "lengths"))
        made = nested_tensor_from_jagged(values, offsets, lengths, described["_ragged_idx"])
    except (TypeError, LookupError, AttributeError) as problem:
        raise LoadError("it describes a nested tensor by something else than tensors") from problem
    return made.requires_grad_(bool(described.get("requires_grad")))


def rebuild_blocks(*parts: Any) -> Any:
    """A nested tensor of layout `strided` from its values and the tables of its components."""
    from eagerjit.nested.components import from_tables

    if len(parts) != 4 or not all(isinstance(part, Tensor) for part in parts):
        raise LoadError("it describes a nested tensor by something else than tensors")
    values, *places = parts
    return from_tables(values.detach(), *places).requires_grad_(values.requires_grad)


def rebuild_with_attributes(function: Any, kind: Any, arguments: Any, state: Any) -> Any:
    """A tensor or Parameter that had attributes."""
    if function is rebuild_jagged:
        return with_attributes(function(*arguments), state)
    if function not in (rebuild_tensor, rebuild_typed_tensor, rebuild_parameter, rebuild_without_memory):
        raise LoadError("it describes a tensor of an unknown kind")
    made = function(*arguments)
    if isinstance(kind, type) and issubclass(kind, Tensor) and is_asked(kind):
        made = made._make_subclass(kind, made, made._requires_grad)
    return with_attributes(made, state)


class DynamicRange(int):
    """What PyTorch's compiler notes of a size; nothing reads it here."""

    def __setstate__(self, state: Any) -> None:
        return None


_OF_COMPILER = ("_dynamo_", "_has_dynamo_")


def with_attributes(tensor: Any, state: Any) -> Any:
    """Give a tensor its attributes, but for those that PyTorch's compiler gave it."""
    for attributes in state if isinstance(state, tuple) else (state,):
        if attributes:
            named = {str(k): v for k, v in attributes.items()}
            tensor.__dict__.update({k: v for k, v in named.items() if not k.startswith(_OF_COMPILER)})
    return tensor

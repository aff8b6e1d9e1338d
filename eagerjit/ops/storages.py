"""Storages: the memory that a tensor and its views share, as bytes and as elements."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from eagerjit.ops.strided import memory_of
from eagerjit.runtime import device_array, dtypes
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.meta_array import MetaArray
from eagerjit.tensors.promotion import TYPE_NAMES
from eagerjit.tensors.tensor import Tensor, new_tensor


class _Elements:
    """What storages of bytes and of elements have in common; `_flat` is a vector over the memory."""

    is_sparse = is_hpu = False
    filename: str | bytes | None = None

    @property
    def _flat(self) -> Tensor:
        raise NotImplementedError

    def untyped(self) -> UntypedStorage:
        """The bytes."""
        raise NotImplementedError

    @property
    def device(self) -> Any:
        """Where the memory lies."""
        return self._flat.device

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is a CUDA device's."""
        return bool(self._flat.is_cuda)

    def size(self) -> int:
        """The number of elements."""
        return int(self._flat.numel())

    def __len__(self) -> int:
        return self.size()

    def element_size(self) -> int:
        """Bytes per element."""
        return self._flat.dtype.itemsize  # type: ignore[no-any-return]

    def tolist(self) -> list[Any]:
        """The elements."""
        if isinstance(self._flat._data, MetaArray):
            raise NotImplementedError("Not available for 'meta' device type")
        return self._flat.tolist()  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def _checked(self, index: Any) -> Any:
        size = self.size()
        if not isinstance(index, slice) and not -size <= index < size:
            raise IndexError(f"index {index} out of range for storage of size {size}")
        return index

    def __getitem__(self, index: Any) -> Any:
        return self._flat[self._checked(index)].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._flat[self._checked(index)] = value

    def fill_(self, value: Any) -> Any:
        """Set all elements."""
        self._flat.fill_(value)
        return self

    def copy_(self, source: Any, non_blocking: bool = False) -> Any:
        """Take over the elements of a storage of the same size."""
        self._flat.copy_(source._flat)
        return self

    def is_shared(self) -> bool:
        """Whether forked processes see what is written."""
        return bool(new_tensor(self.untyped()._array).is_shared())

    def is_pinned(self, device: Any = "cuda") -> bool:
        """Whether the memory is pinned."""
        return bool(new_tensor(self.untyped()._array).is_pinned())

    def get_device(self) -> int:
        """The number of the device; -1 for the CPU."""
        return int(self._flat.get_device())

    def _named(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        values = ["..."] if isinstance(self._flat._data, MetaArray) else [f" {x}" for x in self.tolist()]
        return "\n".join([*values, f"[{self._named()} of size {self.size()}]"])


class StorageBase(_Elements):
    """What storages of bytes are instances of, and those of elements are not."""


class UntypedStorage(StorageBase):
    """Bytes: so many undefined ones, those of a sequence, or those that a tensor and its views share."""

    def __init__(self, data: Any = 0, *, device: Any = None):
        if not isinstance(data, np.ndarray):
            data = _new_bytes(data, device)
        low, high = np.lib.array_utils.byte_bounds(data)
        self._array, self._low, self._size = data, low, (high - low) if data.size else 0

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The first bytes of a file, read when they are used.

        With `shared`, what is written to them goes to the file, which is made if it is not there or too short. Raises
        RuntimeError for one that cannot be opened, and without `shared` for one that is too short.
        """
        from eagerjit.ops.mapped_files import mapped

        made = cls(mapped(filename, shared, nbytes))
        made.filename = os.fspath(filename)
        return made

    @property
    def _flat(self) -> Tensor:
        return self.tensor(dtypes.uint8)

    def _named(self) -> str:
        return f"torch.storage.UntypedStorage(device={self.device})"

    def untyped(self) -> UntypedStorage:
        """Itself."""
        return self

    def data_ptr(self) -> int:
        """The address of the first byte; 0 on meta."""
        return 0 if isinstance(self._array, MetaArray) else self._low

    @property
    def _cdata(self) -> int:
        """A number that storages of the same memory have in common."""
        return self._low

    def nbytes(self) -> int:
        """The number of bytes."""
        return self._size

    def tensor(self, dtype: DType) -> Tensor:
        """A vector of a dtype over the bytes."""
        count = self._size // dtype.numpy.itemsize
        flat = device_array.as_strided(
            self._array, (self._size // self._array.itemsize,), (self._array.itemsize,)
        )
        return new_tensor(flat.view(dtype.numpy)[:count])  # type: ignore[no-any-return]

    def type(self) -> str:
        """The name of its class in PyTorch."""
        return "torch.storage.UntypedStorage"

    def new(self) -> UntypedStorage:
        """One without bytes, in the same place."""
        return UntypedStorage(0, device=self.device)

    def clone(self) -> UntypedStorage:
        """A copy."""
        return UntypedStorage(self._flat.clone()._data)

    def __deepcopy__(self, memo: Any) -> UntypedStorage:
        return self.clone()

    def to(self, *, device: Any, non_blocking: bool = False) -> UntypedStorage:
        """The bytes in another place: itself if they lie there."""
        moved = self._flat.to(device)
        return self if moved.device == self.device else UntypedStorage(moved._data)

    def cpu(self) -> UntypedStorage:
        """The bytes on the host."""
        return self.to(device="cpu")

    def cuda(self, device: Any = None, non_blocking: bool = False) -> UntypedStorage:
        """The bytes on a CUDA device."""
        return self.to(device="cuda" if device is None else device)

    def share_memory_(self) -> UntypedStorage:
        """Move the bytes to memory that processes forked from now on share; tensors over them stay where they are."""
        shared = UntypedStorage(self._flat.share_memory_()._data)
        self._array, self._low = shared._array, shared._low
        return self

    def __getitem__(self, index: Any) -> Any:
        """One byte, or the memory of several in a row."""
        if not isinstance(index, slice):
            return super().__getitem__(index)
        start, stop, step = index.indices(self._size)
        if step != 1:
            raise RuntimeError(f"Trying to slice with a step of {step}, but only a step of 1 is supported")
        return UntypedStorage(self._flat._data[start : max(start, stop)])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and (self._low, self._size) == (other._low, other._size)

    def __hash__(self) -> int:
        return hash((self._low, self._size))


def _new_bytes(data: Any, device: Any) -> np.ndarray:
    """So many undefined bytes, or those of a sequence."""
    from eagerjit.tensors.creation import empty, tensor

    if isinstance(data, int):
        return empty(data, dtype=dtypes.uint8, device=device)._data  # type: ignore[no-any-return]
    wrong = [x for x in data if not isinstance(x, int)]
    if wrong:
        raise RuntimeError(
            f"torch.UntypedStorage(): tried to construct a storage from a sequence ({type(data).__name__}), but one of "
            f"the items was of type {type(wrong[0]).__name__} instead of int"
        )
    return tensor(list(data), dtype=dtypes.uint8, device=device)._data  # type: ignore[no-any-return]


class TypedStorage(_Elements):
    """Elements of a dtype: so many undefined ones, those of a sequence, or those over bytes."""

    def __init__(self, data: Any = 0, dtype: Any = None, *, wrap_storage: UntypedStorage | None = None):
        data = wrap_storage if wrap_storage is not None else data
        self.dtype = dtypes.float32 if dtype is None else dtype
        if isinstance(data, int):
            data = UntypedStorage(data * self.dtype.itemsize)
        elif not isinstance(data, UntypedStorage):
            from eagerjit.tensors.creation import tensor

            data = UntypedStorage(tensor(list(data), dtype=self.dtype)._data)
        self._untyped = data

    @property
    def _flat(self) -> Tensor:
        return self._untyped.tensor(self.dtype)

    def _named(self) -> str:
        return f"torch.storage.TypedStorage(dtype={self.dtype}, device={self.device})"

    def untyped(self) -> UntypedStorage:
        """The bytes."""
        return self._untyped

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._untyped.data_ptr()

    def nbytes(self) -> int:
        """The number of bytes."""
        return self._untyped.nbytes()

    def tensor(self, dtype: Any) -> Tensor:
        """A vector of a dtype over the memory."""
        return self._untyped.tensor(dtype)

    def pickle_storage_type(self) -> str:
        """The old name of storages of this dtype."""
        return f"{TYPE_NAMES[self.dtype]}Storage"

    def type(self) -> str:
        """The same behind `torch.`."""
        return f"torch.{self.pickle_storage_type()}"

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return super().__getitem__(index)

    def clone(self) -> TypedStorage:
        """A copy."""
        return TypedStorage(self._untyped.clone(), self.dtype)

    def __deepcopy__(self, memo: Any) -> TypedStorage:
        return self.clone()

    def cpu(self) -> TypedStorage:
        """The elements on the host."""
        return TypedStorage(self._untyped.cpu(), self.dtype)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        """The elements on a CUDA device."""
        return TypedStorage(self._untyped.cuda(device), self.dtype)

    def share_memory_(self) -> TypedStorage:
        """Move the elements to memory that processes forked from now on share."""
        self._untyped.share_memory_()
        return self


def _converter(name: str, dtype: DType) -> Any:
    def convert(self: TypedStorage) -> TypedStorage:
        return TypedStorage(UntypedStorage(self._flat.to(dtype, copy=True)._data), dtype)

    convert.__name__, convert.__doc__ = name, f"The elements as {dtype.name}."
    return convert


_OLD_NAMES = {
    "double": "Double", "float": "Float", "half": "Half", "long": "Long", "int": "Int", "short": "Short",
    "char": "Char", "byte": "Byte", "bool": "Bool", "bfloat16": "BFloat16",
}  # fmt: skip


class _OldType(type):
    """The class of `FloatStorage` and the like: calling one makes a TypedStorage, which is an instance of it."""

    dtype: DType

    def __call__(cls, data: Any = 0) -> TypedStorage:
        return TypedStorage(data, cls.dtype)

    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> TypedStorage:
        """The first elements of a file, as `UntypedStorage.from_file` gives bytes."""
        return TypedStorage(UntypedStorage.from_file(filename, shared, size * cls.dtype.itemsize), cls.dtype)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype is cls.dtype


for _dtype, _kind in TYPE_NAMES.items():
    if _kind in _OLD_NAMES.values():
        _method = next(m for m, k in _OLD_NAMES.items() if k == _kind)
        setattr(TypedStorage, _method, _converter(_method, _dtype))
        _doc = f"Elements of {_dtype} that tensors share, made of numbers or of a count."
        _members = {"dtype": _dtype, "__module__": "torch", "__doc__": _doc}
        globals()[f"{_kind}Storage"] = _OldType(f"{_kind}Storage", (), _members)


def untyped_storage(self: Tensor) -> UntypedStorage:
    """The bytes that the tensor and its views share."""
    root, _, _ = memory_of(self)
    return UntypedStorage(root)


def storage(self: Tensor) -> TypedStorage:
    """The elements that the tensor and its views share."""
    return TypedStorage(untyped_storage(self), self.dtype)


def storage_type(self: Tensor) -> Any:
    """`FloatStorage` and the like, of the tensor's dtype."""
    return globals()[f"{TYPE_NAMES[self.dtype]}Storage"]

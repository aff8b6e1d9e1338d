"""Memory shared with other libraries: DLPack, a C struct in a capsule (https://dmlc.github.io/dlpack), and the
interface of arrays on CUDA devices, a dictionary (version 3 of Numba's CUDA Array Interface).

For the host NumPy makes and reads capsules, for the dtypes that it has: bfloat16 travels as int16 whose dtype in the
struct is changed.
"""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p, py_object
from typing import Any

import numpy as np

from eagerjit.ops.index import concrete, own_array
from eagerjit.runtime import dtypes
from eagerjit.runtime.cpython import function
from eagerjit.tensors.placement import device_of, gpu, moved, wanted
from eagerjit.tensors.tensor import Tensor, new_tensor

_CPU = (1, 0)
_CUDA = 2
_NAME, _USED = b"dltensor", b"used_dltensor"
_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "complex": 5, "bool": 6}


class _Type(ctypes.Structure):
    _fields_ = (("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16))


class _Described(ctypes.Structure):
    """A `DLManagedTensor`: `strides` count elements; `deleter`, called with the struct's address, gives it back."""

    _fields_ = (
        ("data", c_void_p), ("kind", c_int32), ("number", c_int32), ("ndim", c_int32), ("type", _Type),
        ("shape", ctypes.POINTER(c_int64)), ("strides", ctypes.POINTER(c_int64)), ("offset", c_uint64),
        ("context", c_void_p), ("deleter", c_void_p),
    )  # fmt: skip


_Deleter = ctypes.CFUNCTYPE(None, c_void_p)
_Destructor = ctypes.PYFUNCTYPE(None, c_void_p)
_pointer = function("PyCapsule_GetPointer", c_void_p, py_object, c_char_p)
_rename = function("PyCapsule_SetName", c_int, py_object, c_char_p)
_new_capsule = function("PyCapsule_New", py_object, c_void_p, c_char_p, c_void_p)
_is_named = function("PyCapsule_IsValid", c_int, c_void_p, c_char_p)
_pointer_of_dying = function("PyCapsule_GetPointer", c_void_p, c_void_p, c_char_p)


def dlpack_device(self: Tensor) -> tuple[int, int]:
    """The kind and number of the device: (1, 0) for the CPU, (2, number) for a CUDA device.

    Raises ValueError for a tensor without memory.
    """
    here = device_of(self)
    if here.type not in ("cpu", "cuda"):
        raise ValueError(f"Unknown device type {here.type} for Dlpack")
    return _CPU if here.index is None else (_CUDA, here.index)


def to_capsule(
    self: Tensor, *, stream: Any = -1, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
) -> Any:
    """The tensor's memory as a DLPack capsule.

    The device's work in `stream`, by the driver's handle, starts after what this thread's stream has been given: None
    and 1 are the default stream, -1 asks for no order. Raises BufferError for a tensor that requires grad, or has no
    memory.
    """
    if device_of(self).type not in ("cpu", "cuda"):
        raise BufferError(f"Cannot pack tensors on {device_of(self)}")
    here = dlpack_device(self)
    if self._requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if dl_device is not None and tuple(map(int, dl_device)) != here:
        raise BufferError(f"cannot export a tensor of the device {here} to the device {tuple(dl_device)}")
    if stream is not None and type(stream) is not int:
        raise TypeError("stream must be ``int`` or ``none``")
    if here == _CPU:
        if stream not in (None, -1):
            raise BufferError("a tensor on the CPU has no stream")
        return _capsule_of_host(self, bool(copy))
    if stream != -1:
        _in_order(self, 1 if stream is None else stream)
    return _capsule_of_device(self.clone() if copy else self)


def _capsule_of_host(tensor: Tensor, copy: bool) -> Any:
    array = concrete(tensor, "a tensor was exported with DLPack")
    array = array.copy() if copy else array
    if tensor.dtype is dtypes.bfloat16:
        array = array.view(np.int16)
    capsule = writable(array).__dlpack__()
    if tensor.dtype is dtypes.bfloat16:
        _Described.from_address(_pointer(capsule, _NAME)).type.code = _CODES["bfloat"]
    return capsule


def _in_order(tensor: Tensor, handle: int) -> None:
    """Let work in a stream wait for what this thread's has been given."""
    from eagerjit.runtime.gpu.stream import Stream, current_stream

    if handle == 2:
        raise BufferError("per-thread default stream is not supported.")
    if handle == 0:
        raise AssertionError(f"unsupported stream on CUDA: {handle}.")
    device = gpu(device_of(tensor))
    Stream(device, 0 if handle == 1 else handle).wait_stream(current_stream(device))


_exported: dict[int, Any] = {}
"""What capsules describe, by the address of the struct, until it is given back."""


@_Deleter
def _given_back(address: int) -> None:
    _exported.pop(address, None)


@_Destructor
def _dropped(capsule: int) -> None:
    if _is_named(capsule, _NAME):  # nobody has taken it
        _exported.pop(_pointer_of_dying(capsule, _NAME), None)


def _capsule_of_device(tensor: Tensor) -> Any:
    array: Any = own_array(tensor, "a tensor was exported with DLPack")
    dtype, size = tensor.dtype, array.dtype.itemsize
    numbers = c_int64 * array.ndim
    kind = {dtypes.bfloat16: "bfloat", dtypes.bool_: "bool"}.get(dtype, dtype.kind)
    if kind == "int" and not dtype.is_signed:
        kind = "uint"
    if kind not in _CODES or (kind == "float" and size == 1):
        raise BufferError(f"{dtype} types are not supported by dlpack")
    shape, strides = numbers(*array.shape), numbers(*(s // size for s in array.strides))
    described = _Described(
        array.ctypes.data, *dlpack_device(tensor), array.ndim, _Type(_CODES[kind], 8 * size, 1),
        ctypes.cast(shape, ctypes.POINTER(c_int64)), ctypes.cast(strides, ctypes.POINTER(c_int64)), 0, None,
        ctypes.cast(_given_back, c_void_p),
    )  # fmt: skip
    address = ctypes.addressof(described)
    _exported[address] = described, shape, strides, array
    return _new_capsule(address, _NAME, ctypes.cast(_dropped, c_void_p))


class _Capsule:
    """What NumPy asks for a capsule: one that is there already."""

    def __init__(self, capsule: Any):
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of another library's array, or of a capsule; copied if it is to lie elsewhere.

    Raises BufferError for memory of devices that are not CUDA's, ValueError with copy=False where it must be copied.
    """
    place, capsule = wanted(device), ext_tensor
    if hasattr(ext_tensor, "__dlpack__"):
        kind = tuple(map(int, ext_tensor.__dlpack_device__()))
        options = {}
        if kind[0] == _CUDA:
            options["stream"] = _current(kind[1])
        elif kind[0] != _CPU[0]:
            raise BufferError(f"cannot import an array of the device {kind}: neither the CPU nor a CUDA device")
        capsule = ext_tensor.__dlpack__(**options)
    made = _imported(capsule)
    there = made if device is None else moved(made, place)
    if there is not made and copy is False:
        raise ValueError(
            f"cannot move DLPack tensor from device {made.device} to {there.device} without copying. Set copy=None or "
            "copy=True."
        )
    return there.clone() if copy and there is made else there


def _current(index: int) -> int:
    """This thread's stream on a device, as DLPack names it. Raises BufferError where there is no such device."""
    from eagerjit.runtime.gpu.stream import current_stream

    try:
        return current_stream(_named(f"cuda:{index}")).handle or 1
    except (AssertionError, RuntimeError) as error:
        raise BufferError(f"cannot import an array of the device cuda:{index}: {error}") from None


def _named(name: str) -> Any:
    """A GPU by name. Raises AssertionError where there is none, RuntimeError where Triton is missing."""
    place = wanted(name)
    assert place is not None
    return gpu(place)


def _imported(capsule: Any) -> Tensor:
    try:
        address = _pointer(capsule, _NAME)
    except ValueError:
        raise RuntimeError(
            f"from_dlpack received a {type(capsule).__name__} that is no DLPack capsule, or one that was used already"
        ) from None
    described = _Described.from_address(address)
    if described.kind == _CUDA:
        return _of_device(capsule, described)
    brain = described.type.code == _CODES["bfloat"]
    if brain:
        described.type.code = _CODES["int"]
    array: Any = np.from_dlpack(_Capsule(capsule))  # type: ignore[arg-type]
    if any(s < 0 for s in array.strides):
        raise ValueError("tensors with negative strides are not supported; copy the array first")
    if not brain and array.dtype not in dtypes.BY_NUMPY:
        raise BufferError(f"tensors have no dtype {array.dtype}")
    return new_tensor(writable(array).view(dtypes.bfloat16.numpy if brain else dtypes.BY_NUMPY[array.dtype].numpy))


class _Taken:
    """A struct that was taken out of its capsule; it is given back when nobody holds this."""

    def __init__(self, described: _Described):
        self._described = described

    def __del__(self) -> None:
        if self._described.deleter:
            _Deleter(self._described.deleter)(ctypes.addressof(self._described))


def _of_device(capsule: Any, described: _Described) -> Tensor:
    from eagerjit.runtime.gpu.arrays import borrowed

    code, bits = described.type.code, described.type.bits
    kind = next((name for name, known in _CODES.items() if known == code), "")
    name = {"bool": "bool", "bfloat": f"bfloat{bits}"}.get(kind, f"{kind}{bits}")
    dtype = getattr(dtypes, "bool_" if name == "bool" else name, None)
    if dtype is None or described.type.lanes != 1:
        raise BufferError(f"tensors have no dtype {name} of {described.type.lanes} lanes")
    device = _named(f"cuda:{described.number}")
    shape = tuple(described.shape[: described.ndim])
    size = dtype.numpy.itemsize
    strides = tuple(size * s for s in described.strides[: described.ndim]) if described.strides else None
    _rename(capsule, _USED)
    owner, address = _Taken(described), (described.data or 0) + described.offset
    return new_tensor(borrowed(address, shape, dtype.numpy, strides, device, owner))


class _Memory:
    """Memory of another array, as NumPy's array interface describes it; it keeps that array alive."""

    def __init__(self, array: np.ndarray):
        self.array = array
        self.__array_interface__ = {
            "data": (array.ctypes.data, False),
            "shape": array.shape,
            "strides": array.strides,
            "typestr": array.dtype.str,
            "version": 3,
        }


def writable(array: np.ndarray) -> np.ndarray:
    """The same memory as an array that may be written: DLPack's older capsules cannot say that they may not."""
    return array if array.flags.writeable else np.asarray(_Memory(array))


def to_dlpack(tensor: Tensor) -> Any:
    """The tensor's memory as a DLPack capsule."""
    return to_capsule(tensor)


# -- the CUDA array interface -----------------------------------------------------------------------------------------


def cuda_array_interface(self: Tensor) -> dict[str, Any]:
    """What other libraries read of a tensor on a device (version 2 of the CUDA array interface).

    Raises AttributeError for a tensor elsewhere, RuntimeError for one that requires grad.
    """
    if device_of(self).type != "cuda":
        raise AttributeError(
            f"Can't get __cuda_array_interface__ on non-CUDA tensor type: {self.type()} "
            "If CUDA data is required use tensor.cuda() to copy tensor to device memory."
        )
    if self._requires_grad:
        raise RuntimeError(
            "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients aren't required, use "
            "var.detach() to get Variable that doesn't require grad."
        )
    array: Any = own_array(self, "a tensor was shown to another library")
    return {
        "typestr": "<f2" if self.dtype is dtypes.bfloat16 else array.dtype.str,
        "shape": array.shape,
        "strides": None if self.is_contiguous() else array.strides,
        "data": (array.ctypes.data if array.size else 0, False),
        "version": 2,
    }


def of_cuda_array(data: Any) -> Tensor:
    """A tensor over what an object shows of a device's memory; later work waits for the stream that it names."""
    from eagerjit.runtime.gpu.arrays import borrowed, place_of
    from eagerjit.runtime.gpu.stream import Stream, current_stream

    described = data.__cuda_array_interface__
    address, read_only = described["data"]
    if read_only:
        raise TypeError("the read only flag is not supported, should always be False")
    dtype = np.dtype(described["typestr"])
    if dtype not in dtypes.BY_NUMPY or not dtype.isnative:
        raise TypeError(f"can't convert an array of type {described['typestr']}")
    strides = described.get("strides")
    if strides is not None and any(s % dtype.itemsize or s < 0 for s in strides):
        raise ValueError("given array strides not a multiple of the element byte size. Copy the array first")
    first = _named("cuda")
    device = place_of(address, first) if address else first
    if (handle := described.get("stream")) is not None:
        current_stream(device).wait_stream(Stream(device, 0 if handle == 1 else handle))
    known = dtypes.BY_NUMPY[dtype].numpy
    return new_tensor(borrowed(address, tuple(described["shape"]), known, strides, device, data))


__dlpack__, __dlpack_device__ = to_capsule, dlpack_device

"""Tensors among other libraries' arrays: DLPack, and NumPy's functions on tensors.

DLPack is a C struct in a capsule (https://dmlc.github.io/dlpack); NumPy makes and reads it, for the dtypes that it has.
bfloat16, which NumPy lacks, travels as int16 whose dtype in the struct is changed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eagerjit.devices import CPU
from eagerjit.ops.index import concrete
from eagerjit.recording.arrays import TracedArray
from eagerjit.runtime import dtypes
from eagerjit.state import state
from eagerjit.tensors import creation
from eagerjit.tensors.placement import device_of
from eagerjit.tensors.tensor import Tensor, new_tensor


def array_namespace(self: Tensor, *, api_version: str | None = None) -> Any:
    """The functions of the Python array API standard. Raises ValueError for another version than theirs."""
    from eagerjit import array_api

    known = array_api.__array_api_version__
    if api_version not in (None, known):
        raise ValueError(f"tensors follow version {known} of the array API standard, not {api_version}")
    return array_api


def to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """The tensor on a device: itself if it lies there. Raises ValueError for a stream."""
    if stream is not None:
        raise ValueError("work goes to the current stream; choose it with cuda.stream()")
    return self.to(device)


# -- DLPack -----------------------------------------------------------------------------------------------------------

_CPU = (1, 0)
_CUDA = 2
_BFLOAT = 4
_DTYPE_OFFSET = 20
"""Bytes from the begin of DLTensor to its dtype: a pointer, a device of two 32-bit numbers, a 32-bit rank."""

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


def dlpack_device(self: Tensor) -> tuple[int, int]:
    """The kind and number of the device: (1, 0) for the CPU, (2, number) for a CUDA device."""
    index = device_of(self).index
    return _CPU if index is None else (_CUDA, index)


def to_capsule(
    self: Tensor, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
) -> Any:
    """The tensor's memory as a DLPack capsule. Raises BufferError for one that requires grad, or lies on a device."""
    if device_of(self) is not CPU:
        raise BufferError(f"tensors on {device_of(self)} are not exported: export what Tensor.cpu() gives")
    if self._requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if stream not in (None, -1):
        raise BufferError("a tensor on the CPU has no stream")
    if dl_device is not None and tuple(map(int, dl_device)) != _CPU:
        raise BufferError(f"cannot export a tensor of the CPU to the device {tuple(dl_device)}")
    array = concrete(self, "a tensor was exported with DLPack")
    array = array.copy() if copy else array
    if self.dtype is dtypes.bfloat16:
        array = array.view(np.int16)
    capsule = writable(array).__dlpack__()
    if self.dtype is dtypes.bfloat16:
        ctypes.c_uint8.from_address(_pointer(capsule, b"dltensor") + _DTYPE_OFFSET).value = _BFLOAT
    return capsule


class _Capsule:
    """What NumPy asks for a capsule: one that is there already."""

    def __init__(self, capsule: Any):
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of another library's array, or of a capsule. Raises BufferError for other devices."""
    from eagerjit.devices import check_device

    check_device(device)
    capsule = ext_tensor
    if hasattr(ext_tensor, "__dlpack__"):
        kind = tuple(map(int, ext_tensor.__dlpack_device__()))
        if kind[0] != _CPU[0]:
            raise BufferError(f"cannot import an array of the device {kind}: tensors live on the CPU")
        capsule = ext_tensor.__dlpack__()
    array = _imported(capsule)
    return new_tensor(array.copy() if copy else array)


def _imported(capsule: Any) -> np.ndarray:
    try:
        address = _pointer(capsule, b"dltensor")
    except ValueError:
        raise RuntimeError(
            f"from_dlpack received a {type(capsule).__name__} that is no DLPack capsule, or one that was used already"
        ) from None
    code = ctypes.c_uint8.from_address(address + _DTYPE_OFFSET)
    brain = code.value == _BFLOAT
    if brain:
        code.value = 0
    array: Any = np.from_dlpack(_Capsule(capsule))  # type: ignore[arg-type]
    if any(s < 0 for s in array.strides):
        raise ValueError("tensors with negative strides are not supported; copy the array first")
    if not brain and array.dtype not in dtypes.BY_NUMPY:
        raise BufferError(f"tensors have no dtype {array.dtype}")
    return writable(array).view(dtypes.bfloat16.numpy if brain else dtypes.BY_NUMPY[array.dtype].numpy)


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


# -- NumPy's functions ------------------------------------------------------------------------------------------------

_NAMES = {
    "true_divide": "div", "divide": "div", "floor_divide": "floor_divide", "subtract": "sub", "multiply": "mul",
    "negative": "neg", "power": "pow", "float_power": "float_power", "absolute": "abs", "fabs": "abs",
    "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le", "equal": "eq", "not_equal": "ne",
    "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor", "invert": "bitwise_not",
    "arctan2": "atan2", "rint": "round", "conjugate": "conj", "concatenate": "cat", "amax": "amax", "amin": "amin",
    "remainder": "remainder", "mod": "remainder", "clip": "clamp",
}  # fmt: skip
"""NumPy's names that differ from ours; others are looked up as they are."""

_REDUCTIONS = {"max": "amax", "min": "amin"}
_SAFE = frozenset(
    "add logaddexp logaddexp2 fmod hypot copysign maximum minimum fmax fmin exp exp2 expm1 log log2 log10 log1p sqrt "
    "square reciprocal sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh sign floor ceil trunc "
    "isnan isinf isfinite logical_and logical_or logical_xor logical_not deg2rad rad2deg heaviside gcd lcm matmul "
    "sum mean prod any all argmax argmin cumsum cumprod stack where dot outer einsum flip roll tile transpose reshape "
    "squeeze argsort diag trace tril triu kron atleast_1d atleast_2d atleast_3d vstack hstack dstack meshgrid "
    "broadcast_to nan_to_num".split()
)
"""Functions of NumPy that mean the same here, argument for argument."""


def _own(name: str) -> Any:
    import eagerjit

    known = _NAMES.get(name, name if name in _SAFE else None)
    return None if known is None else getattr(eagerjit, known, None)


def array_ufunc(self: Tensor, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """NumPy's elementwise functions on tensors: our own function where there is one, otherwise NumPy's on the values.

    The first is recorded for gradients; the second refuses tensors that require them.
    """
    out = kwargs.pop("out", None)
    if method == "__call__" and not kwargs and len(inputs) == ufunc.nin and not _any_array(out):
        function = _own(ufunc.__name__)
        if function is not None:
            tensors = [_tensor(x, inputs) for x in inputs]
            result = function(*tensors)
            return result if out is None else out[0].copy_(result)
    arrays = [_array(x, ufunc.__name__) for x in inputs]
    if out is not None:
        kwargs["out"] = tuple(_array(x, ufunc.__name__) for x in out)
    result = getattr(ufunc, method)(*arrays, **kwargs)
    if out is not None:
        return out[0] if len(out) == 1 else out
    return _wrapped(result)


def array_function(self: Tensor, func: Callable[..., Any], types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """NumPy's other functions on tensors, in the same way."""
    name = _REDUCTIONS.get(func.__name__, func.__name__)
    own = _own(name) if func.__module__ == "numpy" else None
    own = own or (_own_reduction(name) if name in _REDUCTIONS.values() else None)
    if own is not None and "out" not in kwargs:
        try:
            return own(*args, **kwargs)
        except TypeError:
            pass  # arguments that only NumPy's has
    return _wrapped(func(*_arrays(args, func.__name__), **_arrays(kwargs, func.__name__)))


def _own_reduction(name: str) -> Any:
    import eagerjit

    return getattr(eagerjit, name)


def _any_array(out: Any) -> bool:
    return out is not None and any(not isinstance(o, Tensor) for o in out)


def _tensor(value: Any, inputs: Sequence[Any]) -> Any:
    """An array among tensors as a tensor, numbers as they are."""
    if type(value) is TracedArray:
        return value.shared()
    if isinstance(value, np.ndarray):
        return creation.from_numpy(value if all(n >= 0 for n in value.strides) else value.copy())
    return value.item() if isinstance(value, np.generic) else value


def _array(value: Any, name: str) -> Any:
    if not isinstance(value, Tensor):
        return value
    if state.tracer is None and value._requires_grad:
        raise RuntimeError(
            f"Can't call numpy.{name} on Tensor that requires grad: it is NumPy's and records no gradient. "
            "Use tensor.detach() instead."
        )
    return concrete(value, f"numpy.{name} was called on a tensor")


def _arrays(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {key: _arrays(v, name) for key, v in value.items()}
    if type(value) in (tuple, list):
        return type(value)(_arrays(v, name) for v in value)
    return _array(value, name)


def _wrapped(result: Any) -> Any:
    """Arrays as tensors, inside of tuples and lists too; other results as they are."""
    if isinstance(result, (np.ndarray, np.generic)) and np.asarray(result).dtype in dtypes.BY_NUMPY:
        array = np.asarray(result)
        if any(s < 0 for s in array.strides):
            array = array.copy()
        return new_tensor(array.view(dtypes.BY_NUMPY[array.dtype].numpy))
    if type(result) in (tuple, list):
        return type(result)(map(_wrapped, result))
    return result


__dlpack__, __dlpack_device__, __array_namespace__ = to_capsule, dlpack_device, array_namespace
__array_ufunc__, __array_function__ = array_ufunc, array_function

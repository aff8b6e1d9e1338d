"""Where tensors lie: on the host, on a device, or nowhere, which is the meta device. What computes asks here where."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from eagerjit.compiler.ir import Node
from eagerjit.devices import CPU, Device
from eagerjit.runtime.device_array import DeviceArray
from eagerjit.runtime.meta_array import META, NO_DATA, MetaArray, meta_array
from eagerjit.state import state
from eagerjit.tensors.fitting import check_fit, fitted
from eagerjit.tensors.limits import contiguous_format
from eagerjit.tensors.tensor import Tensor, new_tensor
from eagerjit.watching.observation import TraceBreak, pause_observation, resume_observation, user_line

if TYPE_CHECKING:
    from eagerjit.runtime.dtypes import DType
    from eagerjit.runtime.gpu.devices import Device as Gpu

HOST = -1
"""The host's place among those of devices."""

Array = np.ndarray[Any, Any]


def _unobserved(function: Callable[..., Any]) -> Callable[..., Any]:
    """What the function does is no part of a call that is being recorded."""

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        observation = pause_observation()
        try:
            return function(*args)
        finally:
            resume_observation(observation)

    return call


@functools.cache
def named(index: int) -> Device:
    """The device of a number, one object for each."""
    return Device("meta") if index == META else Device("cuda", index)


NOWHERE = named(META)
"""The meta device: its tensors have shapes and dtypes, and no memory."""


def device_of(tensor: Tensor) -> Device:
    """Where a tensor lies."""
    data = tensor._data
    if type(data) is np.ndarray:
        return CPU
    if isinstance(data, DeviceArray):
        return named(data.memory.device.index)
    if type(data) is Node and state.tracer is not None:
        place = state.tracer.place_of(state.tracer.value(tensor))
        return CPU if place is None or place == HOST else named(place)
    return CPU


def place_number(tensor: Tensor | None) -> int | None:
    """The number of the device that a tensor from outside of a trace lies on, HOST, or None where that is not known."""
    data = None if tensor is None else tensor._data
    if isinstance(data, DeviceArray):
        return int(data.memory.device.index)
    return HOST if isinstance(data, np.ndarray) else None


def wanted(device: Any) -> Device | None:
    """A device that an argument asks for, with its number; None for the host. Without one, the thread's default.

    Raises AssertionError where there is no such kind of device, RuntimeError where Triton is missing.
    """
    if device is None:
        if state.device is None or (state.tracer is not None and state.tracer.values_only):
            return None
        place = state.device
    elif device is CPU or device == "cpu":
        return None
    elif isinstance(device, (str, Device)) and Device(device).type == "meta":
        place = NOWHERE
    else:
        from eagerjit.cuda.present import usable

        return usable(device)
    if place is NOWHERE:
        refuse_recording()
    return place


def refuse_recording() -> None:
    """End the recording of a function that has to do with the meta device: it runs eagerly."""
    if state.tracer is not None and not state.tracer.values_only and not state.tracer.on_meta:
        raise TraceBreak("tensors of the meta device are not compiled", user_line())


def gpu(device: Device) -> Gpu:
    """The GPU that a name of one stands for."""
    from eagerjit.runtime.gpu.devices import platform

    return platform().device(device.index)


def common(arguments: Any) -> Gpu | None:
    """The device that a call on these arguments runs on; None for the host.

    Tensors of the host without dimensions go with those of a device. Raises PyTorch's RuntimeError for others.
    """
    found: Gpu | None = None
    if not DeviceArray.exist:
        return found
    host = False
    for tensor in tensors_among(arguments):
        data = tensor._data
        if isinstance(data, DeviceArray):
            if found is not None and found is not data.memory.device:
                refuse_mixed(named(found.index), named(data.memory.device.index))
            found = data.memory.device
        else:
            host = host or data.ndim > 0
    if found is not None and host:
        refuse_mixed(named(found.index), CPU)
    return found


def is_nowhere(device: Gpu | None) -> bool:
    """Whether what `common` gives is the meta device."""
    return device is not None and device.index == META


def tensors_among(arguments: Any) -> Iterator[Tensor]:
    """The tensors among arguments, and in tuples and lists of these."""
    for argument in arguments:
        if isinstance(argument, Tensor):
            yield argument
        elif type(argument) in (tuple, list):
            yield from tensors_among(argument)


def put(result: Any, device: Gpu) -> Any:
    """A result of the host, a tensor or a tuple of them, on a device."""
    if isinstance(result, tuple):
        parts = [put(part, device) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
    result._data = array_at(result._data, named(device.index))
    return result


def refuse_mixed(one: Device, other: Device) -> None:
    """Raise what PyTorch raises for tensors that lie in different places."""
    if NOWHERE in (one, other):
        raise RuntimeError(f"Tensor on device {other} is not on the expected device {one}!")
    raise RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, {one} and {other}!"
    )


def check_together(one: Tensor, other: Tensor) -> None:
    """Refuse tensors that lie in different places, as PyTorch does."""
    if DeviceArray.exist and device_of(one) is not device_of(other):
        refuse_mixed(device_of(one), device_of(other))


@_unobserved
def array_at(array: Array, device: Device | None, wait: bool = True) -> Array:
    """A copy of an array on a device, or on the host for None; the array itself if it lies there.

    Raises NotImplementedError for one without memory that is to lie elsewhere.
    """
    if device is NOWHERE:
        return array if isinstance(array, MetaArray) else meta_array(array.shape, array.dtype)
    if isinstance(array, MetaArray):
        raise NotImplementedError(NO_DATA)
    from eagerjit.runtime.gpu import arrays
    from eagerjit.runtime.gpu.stream import current_stream

    if device is None:
        if wait or not isinstance(array, DeviceArray) or not array.size:
            return host_array(array)
        return arrays.download_later(array, current_stream(array.memory.device))
    target = gpu(device)
    if not isinstance(array, DeviceArray):
        return arrays.upload(array, current_stream(target))
    return array if array.memory.device is target else arrays.moved(array, target)


@_unobserved
def device_filled(shape: Any, value: Any, dtype: DType) -> Tensor:
    """A tensor of one value on the default device, which must be one; None leaves the memory as it is."""
    from eagerjit.runtime.gpu import arrays
    from eagerjit.runtime.gpu.stream import current_stream
    if state.device is NOWHERE:
        if value is not None:
            check_fit(value, dtype)
        return new_tensor(meta_array(tuple(map(int, shape)), dtype.numpy))  # type: ignore[no-any-return]
    stream = current_stream(gpu(state.device))
    made = arrays.empty(tuple(map(int, shape)), dtype.numpy, stream)
    if value is not None:
        check_fit(value, dtype)
        with np.errstate(over="ignore"):
            arrays.fill(made, np.array(fitted(value, dtype), dtype.numpy), stream)
    return new_tensor(made)  # type: ignore[no-any-return]


def store(target: Array, values: Array) -> None:
    """Write values of the host's into an array, wherever it lies."""
    if isinstance(target, MetaArray):
        return
    if isinstance(target, DeviceArray):
        _uploaded(target, values)
    else:
        target[...] = values


@_unobserved
def _uploaded(target: DeviceArray, values: Array) -> None:
    from eagerjit.runtime.gpu import arrays
    from eagerjit.runtime.gpu.stream import current_stream

    arrays.store(target, values, current_stream(target.memory.device))


def moved(tensor: Tensor, device: Device | None, wait: bool = True) -> Tensor:
    """The tensor itself if it lies there, else a copy on a device, on the host for None; `wait`: until it is done."""
    if device_of(tensor) is (CPU if device is None else device):
        return tensor
    from eagerjit.tensors.moving import move

    return move.run((tensor, device, wait))  # type: ignore[no-any-return]


def beside(tensor: Tensor, other: Tensor) -> Tensor:
    """A tensor, or a copy of it, that lies where another one does."""
    if not DeviceArray.exist:
        return tensor
    place = device_of(other)
    return moved(tensor, None if place is CPU else place)


def index_beside(index: Tensor, indexed: Tensor) -> Tensor:
    """An index where the tensor lies that it is for. RuntimeError for one of a device that the tensor does not lie on.

    One number is read wherever it lies.
    """
    if not DeviceArray.exist:
        return index
    place = device_of(indexed)
    if index.ndim and device_of(index) not in (CPU, place):
        raise RuntimeError(f"indices should be either on cpu or on the same device as the indexed tensor ({place})")
    return moved(index, None if place is CPU else place)


def copied_array(array: Array) -> Array:
    """A contiguous copy of an array in the same place."""
    if isinstance(array, MetaArray):
        return meta_array(array.shape, array.dtype)
    if not isinstance(array, DeviceArray):
        return array.copy()
    return new_tensor(array).clone(memory_format=contiguous_format)._data  # type: ignore[no-any-return]


def host_array(array: Array) -> Array:
    """The array itself, or a copy of one that lies on a device, after the work that this thread gave it.

    Raises NotImplementedError for one without memory.
    """
    if isinstance(array, MetaArray):
        raise NotImplementedError(NO_DATA)
    return _downloaded(array) if isinstance(array, DeviceArray) else array


@_unobserved
def _downloaded(array: DeviceArray) -> Array:
    from eagerjit.runtime.gpu import arrays

    return arrays.on_host(array)

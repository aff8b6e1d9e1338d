"""Tensors in other dtypes and in other places: copies, `to`, `cpu`, `cuda`."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.calling.dispatch import Op, emit
from eagerjit.calling.elementwise import ElementwiseOp
from eagerjit.compiler.ops import elementwise
from eagerjit.devices import CPU, Device
from eagerjit.ops.pointwise import cast
from eagerjit.runtime import dtypes
from eagerjit.runtime.device_array import DeviceArray
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.planned import Plan
from eagerjit.runtime.views import CLONE, CONTIGUOUS, ViewCall
from eagerjit.state import state
from eagerjit.tensors import placement
from eagerjit.tensors.making import dtype_argument
from eagerjit.tensors.mistakes import planned
from eagerjit.tensors.promotion import TYPE_NAMES
from eagerjit.tensors.tensor import Tensor, new_tensor


def _check_format(name: str, memory_format: Any, input: Tensor) -> None:
    """Refuse what is no memory format, or not one of tensors of this rank."""
    if memory_format is None:
        return
    if not hasattr(memory_format, "name"):
        kind = type(memory_format).__name__
        raise TypeError(f"{name}(): argument 'memory_format' must be torch.memory_format, not {kind}")
    rank = {"channels_last": 4, "channels_last_3d": 5}.get(memory_format.name, input.ndim)
    if input.ndim != rank:
        raise RuntimeError(f"required rank {rank} tensor to use {memory_format.name} format")


def _clone(input: Tensor, memory_format: Any = None) -> Tensor:
    """A copy in memory of its own, in the order of its memory or in row-major order; gradients flow through it."""
    _check_format("clone", memory_format, input)
    return emit(elementwise.cast, input, dtype=input.dtype)


class _Clone(ElementwiseOp):
    """A copy, whose order in memory may be given."""

    def computed(self, arguments: tuple[Any, ...]) -> Any:
        """The copy in the order of its memory, in row-major order for all formats but the one that keeps it."""
        keeps = getattr(arguments[1], "name", "preserve_format") == "preserve_format"
        return super().computed(arguments) if keeps else Op.computed(self, arguments)


clone = _Clone("clone", _clone, (lambda g, out, input, memory_format: g, None), fused_rules=False)


def _row_major(input: Tensor) -> Tensor:
    """A copy in row-major order; gradients flow through it."""
    return emit(elementwise.cast, input, dtype=input.dtype)


class _RowMajor(Op):
    """What the tape tells of as of any other copy."""

    on_tape = "clone"


row_major = _RowMajor("row_major", _row_major, (lambda g, out, input: g,), fused_rules=False)


def _move(input: Tensor, device: Device | None, wait: bool) -> Tensor:
    """A copy on a device; of the host for None."""
    tracer = state.tracer
    assert tracer is not None
    made = emit(elementwise.cast, input, dtype=input.dtype)
    if not tracer.values_only:
        tracer.laid(tracer.value(made), placement.HOST if device is None else device.index)  # type: ignore[arg-type]
    return made


class _Move(Op):
    """A copy in another place. Gradients go back by themselves to where what they are of lies."""

    def eager(self, arguments: tuple[Any, ...]) -> Any:
        """Copy the elements, put in order where they lie, as a view's memory may be more or less than they are."""
        input, device, wait = arguments
        array = input._data
        if device is not placement.NOWHERE and isinstance(array, DeviceArray) and not array.flags.c_contiguous:
            array = placement.copied_array(array)
        return new_tensor(placement.array_at(array, device, wait))


move = _Move("move", _move, (lambda g, out, input, device, wait: g, None, None), fused_rules=False)


@planned
def to(
    input: Tensor, first: Any = None, second: Any = None, third: Any = None, fourth: Any = None, dtype: Any = None,
    device: Any = None, non_blocking: Any = False, copy: Any = False, memory_format: Any = None,
) -> Plan:  # fmt: skip
    """The tensor in another dtype, another place: to(dtype), to(device, dtype), to(other tensor).

    It is the tensor itself if nothing changes and `copy` is not asked for. A copy to the host is there when this
    returns, unless it is `non_blocking`: then the stream has to be waited for.
    """
    _check_format("to", memory_format, input)
    dtype, switches = dtype_argument("to", dtype), []
    for argument in (first, second, third, fourth):
        if isinstance(argument, DType):
            dtype = argument
        elif isinstance(argument, Tensor):
            dtype, device = argument.dtype, placement.device_of(argument)
        elif isinstance(argument, type):
            dtype = dtype_argument("to", argument)
        elif isinstance(argument, bool):
            switches.append(argument)
        elif argument is not None:
            device = argument
    non_blocking, copied = (*switches, *(non_blocking, copy)[len(switches) :])  # type: ignore[misc]
    if type(input._data) is np.ndarray and (device is None or device == "cpu" or device == CPU):
        if dtype is not None and dtype is not input.dtype:
            return cast.call, (input, dtype)
        return (clone.call if copied else None), (input,)
    return _moved_to, (input, dtype, device, not non_blocking, copied)


def _moved_to(input: Tensor, dtype: DType | None, device: Any, wait: bool, copied: bool) -> Tensor:
    """The tensor in another dtype and another place: where that is may depend on the thread's current device."""
    made = input if device is None else placement.moved(input, placement.wanted(device), wait)
    if dtype is not None and dtype is not input.dtype:
        return cast.call(made, dtype)
    return clone.call(made) if copied and made is input else made


def cuda(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
    """The tensor on a CUDA device, this thread's unless it is given. Raises AssertionError where there is none."""
    return placement.moved(self, placement.wanted("cuda" if device is None else device), not non_blocking)


@planned
def cpu(self: Tensor, memory_format: Any = None) -> Plan:
    """The tensor on the host: itself if it lies there."""
    _check_format("cpu", memory_format, self)
    return (None, (self,)) if type(self._data) is np.ndarray else (placement.moved, (self, None))


def _converter(dtype: DType) -> Any:
    def convert(self: Tensor, memory_format: Any = None) -> Plan:
        _check_format(dtype.name, memory_format, self)
        return (None, (self,)) if dtype is self.dtype else (cast.call, (self, dtype))

    convert.__doc__ = f"The tensor as {dtype.name}."
    return planned(convert)


CONVERTERS = {
    "float": _converter(dtypes.float32),
    "double": _converter(dtypes.float64),
    "half": _converter(dtypes.float16),
    "bfloat16": _converter(dtypes.bfloat16),
    "long": _converter(dtypes.int64),
    "int": _converter(dtypes.int32),
    "short": _converter(dtypes.int16),
    "char": _converter(dtypes.int8),
    "byte": _converter(dtypes.uint8),
    "bool": _converter(dtypes.bool_),
}


def contiguous(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """The tensor itself if its elements lie in order, else a copy."""
    _check_format("contiguous", memory_format, input)
    return input if input.is_contiguous() else row_major.call(input)


contiguous = ViewCall(CONTIGUOUS, contiguous, (*(None,) * CLONE, row_major.call))


def type_(input: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of the tensor's type, or the tensor in another dtype; it may be given as a type or its name."""
    if dtype is None:
        place = placement.device_of(input)
        kind = "" if place is CPU else f"{place.type}."
        return f"torch.{kind}{TYPE_NAMES[input.dtype]}Tensor"
    if isinstance(dtype, DType):
        return to(input, dtype)
    from eagerjit.tensors.legacy import device_of_type, type_of

    return to(input, device_of_type(dtype), type_of(dtype))

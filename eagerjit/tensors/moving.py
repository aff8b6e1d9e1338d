"""Tensors in other dtypes and in other places: copies, `to`, `cpu`, `cuda`."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.calling.dispatch import Op, emit
from eagerjit.calling.elementwise import ElementwiseOp
from eagerjit.compiler.ops import elementwise
from eagerjit.devices import CPU, Device
from eagerjit.ops.pointwise import cast
from eagerjit.recording.channels_last import FORMATS, lies_last, put_last
from eagerjit.recording.memory_order import copied
from eagerjit.runtime import dtypes
from eagerjit.runtime.device_array import DeviceArray
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.planned import Plan
from eagerjit.runtime.views import CLONE, CONTIGUOUS, ViewCall
from eagerjit.state import state
from eagerjit.tensors import placement
from eagerjit.tensors.limits import check_format, contiguous_format, keeps_order, preserve_format
from eagerjit.tensors.making import dtype_argument
from eagerjit.tensors.mistakes import planned
from eagerjit.tensors.promotion import TYPE_NAMES
from eagerjit.tensors.tensor import Tensor, new_tensor


def _clone(input: Tensor, memory_format: Any = None) -> Tensor:
    """A copy in memory of its own, in the order of its memory or in a memory format; gradients flow through it."""
    check_format("clone", memory_format, input.ndim)
    return emit(elementwise.cast, input, dtype=input.dtype)


class _Clone(ElementwiseOp):
    """A copy, whose order in memory may be given."""

    def computed(self, arguments: tuple[Any, ...]) -> Any:
        """The copy in the order of its memory, or in the format that is asked for."""
        input, memory_format = arguments
        check_format("clone", memory_format, input.ndim)
        if keeps_order(memory_format):
            return super().computed(arguments)
        tracer = state.tracer
        if tracer is None or tracer.row_major or memory_format.name not in FORMATS:
            return Op.computed(self, arguments)
        return put_last(tracer, input)


clone = _Clone("clone", _clone, (lambda g, out, input, memory_format: g, None), fused_rules=False)


def _row_major(input: Tensor) -> Tensor:
    """A copy in row-major order; gradients flow through it."""
    return emit(elementwise.cast, input, dtype=input.dtype)


class _RowMajor(Op):
    """What the tape tells of as of any other copy."""

    on_tape = "clone"


row_major = _RowMajor("row_major", _row_major, (lambda g, out, input: g,), fused_rules=False)


def _ordered(input: Tensor, order: tuple[int, ...]) -> Tensor:
    """A copy with its dimensions in an order of memory; gradients flow through it."""
    return emit(elementwise.cast, input, dtype=input.dtype)


class _Ordered(_RowMajor):
    """A copy in an order that is given."""

    def computed(self, arguments: tuple[Any, ...]) -> Any:
        """The copy in the order that is given."""
        input, order = arguments
        tracer = state.tracer
        assert tracer is not None
        return tracer.wrap(copied(tracer, tracer.value(input), order))


ordered = _Ordered("ordered", _ordered, (lambda g, out, input, order: g, None), fused_rules=False)


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

    It is the tensor itself if nothing changes and `copy` is not asked for: `memory_format` changes what lies otherwise.
    A copy to the host is there when this returns, unless it is `non_blocking`: then the stream has to be waited for.
    """
    check_format("to", memory_format, input.ndim)
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
        elif isinstance(argument, (float, complex)):  # as a tensor of it
            dtype = dtypes.float64 if isinstance(argument, float) else dtypes.complex128
        elif argument is not None:
            device = argument
    non_blocking, copied = (*switches, *(non_blocking, copy)[len(switches) :])  # type: ignore[misc]
    if not keeps_order(memory_format):
        return _in_format, (input, dtype, device, not non_blocking, copied, memory_format)
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


def _in_format(
    input: Tensor, dtype: DType | None, device: Any, wait: bool, copied: bool, memory_format: Any
) -> Tensor:
    """The same in a memory format: a copy, unless only that is asked for and the tensor is taken to have it."""
    made = _moved_to(input, dtype, device, wait, False)
    if made is not input:
        return made if made.is_contiguous(memory_format=memory_format) else clone.call(made, memory_format)
    known = lies_last(input) is (memory_format.name in FORMATS)
    return input if known and not copied else clone.call(input, memory_format)


def _format_of(self: Tensor, memory_format: Any) -> Tensor:
    """The tensor in a memory format."""
    return self if keeps_order(memory_format) else _in_format(self, None, None, True, False, memory_format)


def cuda(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
    """The tensor on a CUDA device, this thread's unless it is given. Raises AssertionError where there is none."""
    check_format("cuda", memory_format, self.ndim)
    made = placement.moved(self, placement.wanted("cuda" if device is None else device), not non_blocking)
    return _format_of(made, memory_format)


@planned
def cpu(self: Tensor, memory_format: Any = None) -> Plan:
    """The tensor on the host: itself if it lies there, in the memory format that is asked for."""
    check_format("cpu", memory_format, self.ndim)
    if not keeps_order(memory_format):
        return _in_format, (self, None, CPU, True, False, memory_format)
    return (None, (self,)) if type(self._data) is np.ndarray else (placement.moved, (self, None))


def _converter(name: str, dtype: DType) -> Any:
    def convert(self: Tensor, memory_format: Any = None) -> Plan:
        check_format(dtype.name, memory_format, self.ndim)
        if not keeps_order(memory_format):
            return _in_format, (self, dtype, None, True, False, memory_format)
        return (None, (self,)) if dtype is self.dtype else (cast.call, (self, dtype))

    convert.__name__ = name
    convert.__doc__ = f"The tensor as {dtype.name}."
    return planned(convert)


CONVERTERS = {
    name: _converter(name, dtype)
    for name, dtype in {
        "float": dtypes.float32,
        "double": dtypes.float64,
        "half": dtypes.float16,
        "bfloat16": dtypes.bfloat16,
        "long": dtypes.int64,
        "int": dtypes.int32,
        "short": dtypes.int16,
        "char": dtypes.int8,
        "byte": dtypes.uint8,
        "bool": dtypes.bool_,
    }.items()
}


def contiguous(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """The tensor itself if its elements lie in order, that of a memory format or row-major order, else a copy."""
    check_format("contiguous", memory_format, input.ndim)
    if memory_format is preserve_format:
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    if input.is_contiguous(memory_format=memory_format):
        return input
    return row_major.call(input) if memory_format in (None, contiguous_format) else clone.call(input, memory_format)


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

"""Runs a Program on a device: its kernels there, in this thread's stream, and what only the host computes on the host.

Leaves whose arrays lie on the device are used where they are; those of the host are copied to the device for the run,
and back if the run writes them. Results stay on the device if any leaf lies there, else they come back to the host. The
run waits for the device only where the host needs a value: a size or a condition that the Program measures, memory
that a function of the host reads, results that come back, and whether a matrix had what linear algebra asks of it. What
kernels' other checks find is raised there, or later.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from eagerjit.runtime import blas, memory
from eagerjit.runtime.binding import is_tensor, new_tensor
from eagerjit.runtime.device_array import DeviceArray
from eagerjit.runtime.gpu import arrays
from eagerjit.runtime.gpu.devices import Device
from eagerjit.runtime.gpu.host_work import (
    call_operands,
    convolution_operands,
    matmul_operands,
    run_on_host,
)
from eagerjit.runtime.gpu.memory import DeviceMemory, copy_on_device, copy_to_device, copy_to_host
from eagerjit.runtime.gpu.stream import current_stream
from eagerjit.runtime.interpret import HANDLERS, Abandon, Frame, PythonExecutable
from eagerjit.runtime.program import TYPES, Op, Program

STATUS_BYTES = 4


class Function(Protocol):
    """A kernel that a Program launches."""

    def launch(self, frame: DeviceFrame, tasks: int, words: Sequence[int], status: int) -> None:
        """Queues it: the words are its arguments; a check that fails stores its number, an i32, at `status`."""
        ...


class DeviceFrame(Frame):
    """The tables of one run on a device.

    copies      by leaf of the host's memory: the address of its copy on the device, bytes, the host's address
    returning   what comes back when the work is done: to the host's address, from the device's, bytes
    resident    whether a leaf lies on the device, and so the results do
    status      where the kernels' checks report, a word for each (`checks.py`)
    """

    array_types = (np.ndarray, DeviceArray)
    __slots__ = ("copies", "device", "resident", "returning", "status", "stream")

    executable: DeviceExecutable

    def __init__(self, executable: DeviceExecutable, leaves: Sequence[Any]):
        super().__init__(executable, leaves)
        self.device = executable.device
        self.stream = current_stream(self.device)
        self.copies: dict[int, tuple[int, int, int]] = {}
        self.returning: list[tuple[int, int, int]] = []
        self.resident, self.status = False, 0

    def allocate(self, size: int) -> int:
        """The address of device memory that lives as long as the frame."""
        made = DeviceMemory(size, self.stream)
        self.alive.append(made)
        return made.address

    def on_device(self, leaf: int) -> int:
        """Where a leaf's first element is on the device, which gets a copy of it if it has none."""
        array = self.leaves[leaf]._data
        places = self.executable.places
        if places is not None and places[0].get(leaf, isinstance(array, DeviceArray)) != isinstance(array, DeviceArray):
            raise Abandon
        if isinstance(array, DeviceArray):
            if array.memory.device is not self.device:
                raise Abandon
            self.resident = True
            return array.address
        low, high = arrays.extent(array)
        address = self.allocate(high - low)
        copy_to_device(address, low, high - low, self.stream)
        self.copies[leaf] = address, high - low, low
        return int(address + array.ctypes.data - low)

    def peek(self, address: int, size: int) -> bytes:
        """Bytes of the device, after all work that was queued."""
        found = ctypes.create_string_buffer(size)
        copy_to_host(ctypes.addressof(found), address, size, self.stream)
        self.stream.synchronize()
        return found.raw[:size]


class DeviceExecutable(PythonExecutable):
    """A Program loaded for a device. `kernels` are its functions in order.

    With `places` (whether leaves lie on the device; of the results those that come back to the host) it serves such
    calls alone; without, leaves may lie anywhere, and results lie where they do.
    """

    def __init__(
        self,
        program: Program,
        kernels: Sequence[Function],
        objects: Sequence[object],
        device: Device,
        places: tuple[Mapping[int, bool], frozenset[int]] | None = None,
    ):
        super().__init__(program, [], objects)
        self.kernels, self.device, self.places = list(kernels), device, places
        codes = [step[0] for step in program.instructions]
        self.launches = [i for i, code in enumerate(codes) if code == Op.KERNEL]
        self._steps = [(_ON_DEVICE.get(Op(c), HANDLERS[Op(c)]), tuple(o)) for c, *o in program.instructions]
        for number, i in enumerate(self.launches):
            self._steps[i] = (_kernel, (number, *self._steps[i][1]))
        if Op.FINISH in codes:
            last = len(codes) - 1 - codes[::-1].index(Op.FINISH)
            self._steps[last] = (_finish_last, ())

    def frame(self, leaves: Sequence[Any]) -> DeviceFrame:
        """The tables of a run."""
        self.device.activate()
        return DeviceFrame(self, leaves)


# -- leaves, and what the host asks of the device ---------------------------------------------------------------------


def _tensor(
    frame: DeviceFrame, leaf: int, code: int, ndim: int, contiguous: int, grad: int, pointer: int, dims: int,
    strides: int,
) -> None:  # fmt: skip
    tensor = frame.leaves[leaf]
    array = tensor._data if is_tensor(tensor) else None
    if type(array) is not DeviceArray:
        HANDLERS[Op.TENSOR](frame, leaf, code, ndim, contiguous, grad, pointer, dims, strides)
        frame.slots[pointer] = frame.on_device(leaf)
        return
    executable = frame.executable
    shape = array.shape
    if (
        array.dtype is not TYPES[code]
        or len(shape) != ndim
        or array.memory.device is not frame.device
        or (grad != 2 and (tensor._requires_grad is True) != bool(grad))
        or (contiguous and not array.flags.c_contiguous)
        or (executable.places is not None and not executable.places[0].get(leaf, True))
    ):
        raise Abandon
    address = array.address
    if address % array.itemsize:
        raise Abandon
    frame.resident = True
    frame.alive.append(array)
    slots = frame.slots
    slots[pointer] = address
    slots[dims : dims + ndim] = shape
    if not contiguous:
        item = array.itemsize
        if any(stride % item for stride in array.strides):
            raise Abandon
        slots[strides : strides + ndim] = [stride // item for stride in array.strides]


def _captured(frame: DeviceFrame, leaf: int, *operands: int) -> None:
    HANDLERS[Op.CAPTURED](frame, leaf, *operands)
    frame.slots[operands[3]] = frame.on_device(leaf)


def _distinct(frame: DeviceFrame, n_written: int, *operands: int) -> None:
    HANDLERS[Op.DISTINCT](frame, n_written, *operands)
    for leaf in operands[:n_written]:
        if leaf in frame.copies:
            address, size, host = frame.copies[leaf]
            frame.returning.append((host, address, size))


def _check_value(frame: DeviceFrame, slot: int, width: int, bits: int) -> None:
    if int.from_bytes(frame.peek(frame.slots[slot], width), "little") != bits & (1 << 8 * width) - 1:
        raise Abandon


def _read_size(frame: DeviceFrame, slot: int, pointer: int) -> None:
    frame.slots[slot] = int.from_bytes(frame.peek(frame.slots[pointer], 8), "little", signed=True)


# -- memory -----------------------------------------------------------------------------------------------------------


def _arena(frame: DeviceFrame, pointer: int, size: int) -> None:
    frame.slots[pointer] = frame.allocate(frame.slots[size])


def _output(frame: DeviceFrame, output: int, code: int, ndim: int, pointer: int, *dims: int) -> None:
    shape, dtype = tuple(frame.slots[d] for d in dims), TYPES[code]
    places = frame.executable.places
    array: Any
    if frame.resident if places is None else output not in places[1]:
        array = arrays.empty(shape, dtype, frame.stream)
        frame.slots[pointer] = array.address
    else:
        array = memory.empty(shape, dtype)
        frame.slots[pointer] = frame.allocate(array.nbytes)
        frame.copies[-1 - output] = frame.slots[pointer], array.nbytes, array.ctypes.data
        frame.returning.append((array.ctypes.data, frame.slots[pointer], array.nbytes))
    frame.outputs[output] = new_tensor(array)


def _output_view(
    frame: DeviceFrame, output: int, is_output: int, base: int, code: int, ndim: int, pointer: int, *sizes: int
) -> None:
    copy = frame.copies.get(-1 - base if is_output else base)
    if copy is not None:  # the result is a view of the host's memory, of which the device had a copy
        address, _, host = copy
        frame.slots[pointer] += host - address
    HANDLERS[Op.OUTPUT_VIEW](frame, output, is_output, base, code, ndim, pointer, *sizes)


# -- work -------------------------------------------------------------------------------------------------------------


def _kernel(
    frame: DeviceFrame, number: int, function: int, tasks: int, amount: int, scratch: int, n: int, *slots: int
) -> None:
    count, words = frame.slots[tasks], [frame.slots[slot] for slot in slots]
    if count <= 0:
        return
    program = frame.executable.program
    if program.errors and not frame.status:
        launches = len(frame.executable.launches)
        frame.status = frame.device.checks.words(launches, program, frame.slots, frame.stream)
    frame.executable.kernels[function].launch(frame, count, words, frame.status + STATUS_BYTES * number)


def _copy(frame: DeviceFrame, destination: int, source: int, size: int) -> None:
    copy_on_device(frame.slots[destination], frame.slots[source], frame.slots[size], frame.stream)


def _matmul(frame: DeviceFrame, code: int, n_batch: int, *slots: int) -> None:
    def work(own: list[int]) -> None:
        a, b, c, m, n, k, a_row, a_column, b_row, b_column, c_row, *rest = own
        batch = [(rest[i], rest[i + 1], rest[i + 2], rest[i + 3]) for i in range(0, 4 * n_batch, 4)]
        blas.matmul_into(code, a, b, c, (m, n, k), (a_row, a_column, b_row, b_column, c_row), batch)

    words = [frame.slots[slot] for slot in slots]
    run_on_host(words, matmul_operands(code, n_batch, words), frame.stream, work)


def _convolution(frame: DeviceFrame, kind: int, code: int, *slots: int) -> None:
    words = [frame.slots[slot] for slot in slots]
    operands = convolution_operands(kind, code, words)
    run_on_host(words, operands, frame.stream, lambda own: blas.convolution_into(kind, code, own))


def _call(frame: DeviceFrame, index: int, n: int, *slots: int) -> None:
    def work(own: list[int]) -> None:
        table = (ctypes.c_int64 * max(n, 1))(*own)
        frame.executable.calls[index](ctypes.addressof(table))

    words = [frame.slots[slot] for slot in slots]
    run_on_host(words, call_operands(frame.executable.program.calls[index], words), frame.stream, work)


def _finish_last(frame: DeviceFrame) -> None:
    """All work is queued: what the host wants of it comes back, and all of it has before anything is written."""
    found = [frame.peek(address, size) for _, address, size in frame.returning]
    for (host, _, size), data in zip(frame.returning, found, strict=True):
        ctypes.memmove(host, data, size)
    if frame.executable.program.raises_at_once and not frame.stream.is_capturing:
        frame.stream.synchronize()
        frame.device.checks.raise_found()


_ON_DEVICE: dict[Op, Callable[..., None]] = {
    Op.TENSOR: _tensor,
    Op.CAPTURED: _captured,
    Op.DISTINCT: _distinct,
    Op.CHECK_VALUE: _check_value,
    Op.READ_SIZE: _read_size,
    Op.ARENA: _arena,
    Op.OUTPUT: _output,
    Op.OUTPUT_VIEW: _output_view,
    Op.MATMUL: _matmul,
    Op.CONVOLUTION: _convolution,
    Op.COPY: _copy,
    Op.CALL: _call,
}

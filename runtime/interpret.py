"""The reference executor: runs a Program in Python, one small function per instruction.

The native executor (`native/execute.py`) decodes the same words with the same meaning.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from types import CellType
from typing import Any, ClassVar

import numpy as np

from eagerjit.runtime import blas, memory, mode
from eagerjit.runtime.binding import bump_version, is_tensor, new_tensor, same_value, shared_storage
from eagerjit.runtime.device_array import DeviceArray
from eagerjit.runtime.host import bound, memory_at
from eagerjit.runtime.program import MISS, TYPES, Op, Program

KernelType = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
ALIGNMENT = 64
_ABSENT = object()


class Abandon(Exception):
    """Ends a run with MISS."""


class Frame:
    """The tables of one run. `array_types` are the classes of the arrays that its leaves may have."""

    array_types: ClassVar[tuple[type, ...]] = (np.ndarray,)
    __slots__ = ("alive", "executable", "leaves", "outputs", "slots")

    def __init__(self, executable: PythonExecutable, leaves: Sequence[Any]):
        program = executable.program
        self.executable = executable
        self.leaves: list[Any] = [*leaves, *[None] * (program.n_leaves - len(leaves))]
        self.slots = [0] * program.n_slots
        self.outputs: list[Any] = [None] * program.n_outputs
        self.alive: list[Any] = []


class PythonExecutable:
    """A loaded Program. `epochs` holds the words that EPOCH guards compare with the global epoch."""

    def __init__(self, program: Program, functions: Sequence[int], objects: Sequence[object]):
        self.program = program
        self.functions = [KernelType(address) for address in functions]
        self.objects: list[Any] = list(objects)
        self.calls = [bound(c) for c in program.calls]
        self.epochs = (ctypes.c_int64 * max(program.n_words, 1))()
        self.n_arguments = program.n_arguments
        self.n_outputs = program.n_outputs
        self._steps = [(HANDLERS[Op(code)], tuple(operands)) for code, *operands in program.instructions]

    def frame(self, leaves: Sequence[Any]) -> Frame:
        """The tables of a run on these arguments."""
        return Frame(self, leaves)

    def run(self, leaves: Sequence[Any]) -> Any:
        """The single output, or a tuple where `n_outputs` is not 1; MISS where a guard fails."""
        if len(leaves) != self.n_arguments:
            raise TypeError(f"this executable takes {self.n_arguments} arguments, not {len(leaves)}")
        frame = self.frame(leaves)
        try:
            for handler, operands in self._steps:
                handler(frame, *operands)
        except Abandon:
            return MISS
        return frame.outputs[0] if len(frame.outputs) == 1 else tuple(frame.outputs)


def _require(condition: bool) -> None:
    if not condition:
        raise Abandon


# -- leaves -----------------------------------------------------------------------------------------------------------


def _load_object(frame: Frame, leaf: int, index: int) -> None:
    frame.leaves[leaf] = frame.executable.objects[index]


def _load_item(frame: Frame, leaf: int, container: int, index: int) -> None:
    mapping, key = frame.leaves[container], frame.executable.objects[index]
    if isinstance(mapping, (list, tuple)):
        _require(type(key) is int and -len(mapping) <= key < len(mapping))
        frame.leaves[leaf] = mapping[key]
        return
    _require(isinstance(mapping, dict))
    value = dict.get(mapping, key, _ABSENT)
    _require(value is not _ABSENT)
    frame.leaves[leaf] = value


def _load_cell(frame: Frame, leaf: int, index: int) -> None:
    cell: CellType = frame.executable.objects[index]
    try:
        frame.leaves[leaf] = cell.cell_contents
    except ValueError:
        raise Abandon from None


def _load_attribute(frame: Frame, leaf: int, container: int, index: int) -> None:
    value = getattr(frame.leaves[container], frame.executable.objects[index], _ABSENT)
    _require(value is not _ABSENT)
    frame.leaves[leaf] = value


def _load_grad(frame: Frame, leaf: int, tensor: int) -> None:
    _require(is_tensor(frame.leaves[tensor]))
    frame.leaves[leaf] = frame.leaves[tensor]._grad


# -- guards -----------------------------------------------------------------------------------------------------------


def _is(frame: Frame, leaf: int, index: int) -> None:
    _require(frame.leaves[leaf] is frame.executable.objects[index])


def _equal(frame: Frame, leaf: int, index: int) -> None:
    _require(same_value(frame.leaves[leaf], frame.executable.objects[index]))


def _type_is(frame: Frame, leaf: int, index: int) -> None:
    _require(type(frame.leaves[leaf]) is frame.executable.objects[index])


def _lacks(frame: Frame, leaf: int, index: int) -> None:
    mapping = frame.leaves[leaf]
    _require(isinstance(mapping, dict) and not dict.__contains__(mapping, frame.executable.objects[index]))


def _grad_mode(frame: Frame, expected: int) -> None:
    _require(mode.gradients() == expected)


def _epoch(frame: Frame, word: int) -> None:
    _require(frame.executable.epochs[word] == mode.epoch())


def _array_of(frame: Frame, leaf: Any) -> np.ndarray:
    """The ndarray under a Tensor leaf; anything else is a miss."""
    _require(is_tensor(leaf))
    array: np.ndarray = leaf._data
    _require(type(array) in frame.array_types)
    return array


def _tensor(
    frame: Frame, leaf: int, code: int, ndim: int, contiguous: int, grad: int, pointer: int, dims: int, strides: int
) -> None:
    tensor = frame.leaves[leaf]
    array = _array_of(frame, tensor)
    _require(array.dtype is TYPES[code] and array.ndim == ndim and array.flags.aligned)
    _require(grad == 2 or (tensor._requires_grad is True) == bool(grad))
    _require(not contiguous or array.flags.c_contiguous)
    frame.alive.append(array)
    frame.slots[pointer] = array.ctypes.data
    frame.slots[dims : dims + ndim] = array.shape
    if not contiguous:
        _require(all(stride % array.itemsize == 0 for stride in array.strides))
        frame.slots[strides : strides + ndim] = [stride // array.itemsize for stride in array.strides]


def _captured(frame: Frame, leaf: int, index: int, code: int, grad: int, pointer: int, *dims: int) -> None:
    _load_object(frame, leaf, index)
    tensor = frame.leaves[leaf]
    array = _array_of(frame, tensor)
    _require(array.dtype is TYPES[code] and array.shape == dims and array.flags.c_contiguous and array.flags.aligned)
    _require(grad == 2 or (tensor._requires_grad is True) == bool(grad))
    frame.alive.append(array)
    frame.slots[pointer] = array.ctypes.data


def _read_float(frame: Frame, leaf: int, slot: int) -> None:
    _require(type(frame.leaves[leaf]) is float)
    frame.slots[slot] = struct.unpack("q", struct.pack("d", frame.leaves[leaf]))[0]


def _read_int(frame: Frame, leaf: int, slot: int) -> None:
    value = frame.leaves[leaf]
    _require(type(value) is int and -(2**63) <= value < 2**63)
    frame.slots[slot] = value


def _check_value(frame: Frame, slot: int, width: int, bits: int) -> None:
    found = ctypes.string_at(frame.slots[slot], width)
    _require(int.from_bytes(found, "little") == bits & (1 << 8 * width) - 1)


def _read_size(frame: Frame, slot: int, pointer: int) -> None:
    frame.slots[slot] = ctypes.c_int64.from_address(frame.slots[pointer]).value


def _extent(array: np.ndarray) -> tuple[int, int]:
    """First and one-past-last address of the array's elements; equal where it has none."""
    if array.size == 0:
        return 0, 0
    return np.lib.array_utils.byte_bounds(array)


def _distinct(frame: Frame, n_written: int, *operands: int) -> None:
    written, read = operands[:n_written], operands[n_written + 1 :]
    tensors = [frame.leaves[leaf] for leaf in (*written, *read)]
    arrays = [_array_of(frame, tensor) for tensor in tensors]
    extents = [_extent(array) for array in arrays]
    for i, array in enumerate(arrays[:n_written]):
        _require(array.flags.writeable)
        _require(not array.size or not any(d > 1 and s == 0 for d, s in zip(array.shape, array.strides, strict=True)))
        for j in range(i + 1, len(arrays)):
            _require(tensors[i] is not tensors[j])
            (a, a_end), (b, b_end) = extents[i], extents[j]
            _require(a == a_end or b == b_end or a_end <= b or b_end <= a)


def _different(frame: Frame, n: int, *operands: int) -> None:
    _require(len({id(frame.leaves[leaf]) for leaf in operands}) == n)


def _writable(frame: Frame, leaf: int) -> None:
    tensor = frame.leaves[leaf]
    while tensor._view is not None and not tensor._view.op.detaches:
        tensor = tensor._view.base
        _require(tensor._requires_grad is not True)


# -- sizes ------------------------------------------------------------------------------------------------------------


def _const(frame: Frame, slot: int, constant: int) -> None:
    frame.slots[slot] = constant


def _wrap(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def _arithmetic(function: Callable[[int, int], int]) -> Callable[..., None]:
    def handler(frame: Frame, slot: int, a: int, b: int) -> None:
        try:
            frame.slots[slot] = _wrap(function(frame.slots[a], frame.slots[b]))
        except ZeroDivisionError:
            raise Abandon from None

    return handler


# -- memory -----------------------------------------------------------------------------------------------------------


def _scratch(frame: Frame, size: int) -> int:
    """The address of `size` aligned bytes that live as long as the frame."""
    block = memory.fresh((size + ALIGNMENT,), np.dtype(np.uint8))
    frame.alive.append(block)
    return -(-block.ctypes.data // ALIGNMENT) * ALIGNMENT


def _arena(frame: Frame, pointer: int, size: int) -> None:
    frame.slots[pointer] = _scratch(frame, frame.slots[size])


def _output(frame: Frame, output: int, code: int, ndim: int, pointer: int, *dims: int) -> None:
    array = memory.empty(tuple(frame.slots[d] for d in dims), TYPES[code])
    frame.slots[pointer] = array.ctypes.data
    frame.outputs[output] = new_tensor(array)


def _output_leaf(frame: Frame, output: int, leaf: int) -> None:
    frame.outputs[output] = frame.leaves[leaf]


def _output_view(
    frame: Frame, output: int, is_output: int, base: int, code: int, ndim: int, pointer: int, *sizes: int
) -> None:
    owner = frame.outputs[base] if is_output else frame.leaves[base]
    dtype = TYPES[code]
    shape = tuple(frame.slots[d] for d in sizes[:ndim])
    strides = tuple(frame.slots[s] * dtype.itemsize for s in sizes[ndim:])
    view = new_tensor(_view_at(owner._data, frame.slots[pointer], shape, dtype, strides))
    view._data.flags.writeable = owner._data.flags.writeable
    view._storage = shared_storage(owner)
    frame.outputs[output] = view


def _view_at(
    owner: np.ndarray, address: int, shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...]
) -> np.ndarray:
    if isinstance(owner, DeviceArray):
        return owner.laid_out(address, shape, dtype, strides)
    return memory_at(address, shape, dtype, strides=strides, owner=owner)


def _output_object(frame: Frame, output: int, index: int) -> None:
    frame.outputs[output] = frame.executable.objects[index]


# -- work and effects -------------------------------------------------------------------------------------------------


def _nothing(frame: Frame, *operands: int) -> None:
    """END, BEGIN and FINISH: ctypes releases the GIL around every kernel by itself."""


def _kernel(frame: Frame, function: int, tasks: int, work: int, scratch: int, n: int, *slots: int) -> None:
    arguments = (ctypes.c_int64 * max(n, 1))(*(frame.slots[slot] for slot in slots))
    memory = _scratch(frame, frame.slots[scratch]) if scratch >= 0 else None
    status = frame.executable.functions[function](ctypes.addressof(arguments), 0, frame.slots[tasks], memory)
    if status:
        raise frame.executable.program.errors[status - 1].error(frame.slots)


def _matmul(frame: Frame, code: int, n_batch: int, *operands: int) -> None:
    a, b, c, m, n, k, a_row, a_column, b_row, b_column, c_row, *rest = (frame.slots[slot] for slot in operands)
    batch = [(rest[i], rest[i + 1], rest[i + 2], rest[i + 3]) for i in range(0, 4 * n_batch, 4)]
    blas.matmul_into(code, a, b, c, (m, n, k), (a_row, a_column, b_row, b_column, c_row), batch)


def _convolution(frame: Frame, kind: int, code: int, *slots: int) -> None:
    blas.convolution_into(kind, code, [frame.slots[slot] for slot in slots])


def _copy(frame: Frame, destination: int, source: int, size: int) -> None:
    ctypes.memmove(frame.slots[destination], frame.slots[source], frame.slots[size])


def _call(frame: Frame, index: int, n: int, *slots: int) -> None:
    words = (ctypes.c_int64 * max(n, 1))(*(frame.slots[slot] for slot in slots))
    frame.executable.calls[index](ctypes.addressof(words))


def _set_grad(frame: Frame, leaf: int, output: int) -> None:
    frame.leaves[leaf]._grad = None if output == -1 else frame.outputs[output]


def _bump_version(frame: Frame, leaf: int, line: int, times: int) -> None:
    bump_version(frame.leaves[leaf], None if line == -1 else frame.executable.objects[line], times)


HANDLERS: dict[Op, Callable[..., None]] = {
    Op.END: _nothing,
    Op.LOAD_OBJECT: _load_object,
    Op.LOAD_ITEM: _load_item,
    Op.LOAD_CELL: _load_cell,
    Op.LOAD_ATTRIBUTE: _load_attribute,
    Op.LOAD_GRAD: _load_grad,
    Op.IS: _is,
    Op.SAME: lambda frame, a, b, expected: _require((frame.leaves[a] is frame.leaves[b]) == bool(expected)),
    Op.EQUAL: _equal,
    Op.TYPE_IS: _type_is,
    Op.LACKS: _lacks,
    Op.GRAD_MODE: _grad_mode,
    Op.EPOCH: _epoch,
    Op.TENSOR: _tensor,
    Op.CAPTURED: _captured,
    Op.READ_FLOAT: _read_float,
    Op.READ_INT: _read_int,
    Op.CHECK_EQ: lambda frame, a, b: _require(frame.slots[a] == frame.slots[b]),
    Op.CHECK_CONST: lambda frame, slot, constant: _require(frame.slots[slot] == constant),
    Op.CHECK_GE: lambda frame, slot, constant: _require(frame.slots[slot] >= constant),
    Op.CHECK_TRUE: lambda frame, slot, expected: _require((frame.slots[slot] != 0) == bool(expected)),
    Op.CHECK_VALUE: _check_value,
    Op.READ_SIZE: _read_size,
    Op.DISTINCT: _distinct,
    Op.DIFFERENT: _different,
    Op.WRITABLE: _writable,
    Op.CONST: _const,
    Op.ADD: _arithmetic(int.__add__),
    Op.SUB: _arithmetic(int.__sub__),
    Op.MUL: _arithmetic(int.__mul__),
    Op.FLOORDIV: _arithmetic(int.__floordiv__),
    Op.MOD: _arithmetic(int.__mod__),
    Op.MIN: _arithmetic(min),
    Op.MAX: _arithmetic(max),
    Op.LT: _arithmetic(int.__lt__),
    Op.LE: _arithmetic(int.__le__),
    Op.EQ: _arithmetic(int.__eq__),
    Op.ARENA: _arena,
    Op.OUTPUT: _output,
    Op.OUTPUT_LEAF: _output_leaf,
    Op.OUTPUT_VIEW: _output_view,
    Op.OUTPUT_OBJECT: _output_object,
    Op.BEGIN: _nothing,
    Op.KERNEL: _kernel,
    Op.MATMUL: _matmul,
    Op.CONVOLUTION: _convolution,
    Op.COPY: _copy,
    Op.FINISH: _nothing,
    Op.CALL: _call,
    Op.SET_GRAD: _set_grad,
    Op.BUMP_VERSION: _bump_version,
}

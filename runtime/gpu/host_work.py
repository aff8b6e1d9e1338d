"""What a Program's host instructions read and write, so that a device's run can lend them its memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eagerjit.runtime.gpu.memory import copy_to_device, copy_to_host
from eagerjit.runtime.gpu.stream import Stream
from eagerjit.runtime.interpret import TYPES
from eagerjit.runtime.program import HostCall
from eagerjit.runtime.records import record


@record(frozen=True)
class Operand:
    """Memory that the word at a position points into: all of it lies between two addresses."""

    position: int
    low: int
    high: int
    written: bool = False


def run_on_host(
    words: Sequence[int], operands: Sequence[Operand], stream: Stream, work: Callable[[list[int]], None]
) -> None:
    """Do work that is given words, on copies in memory of the host of what they point to on the device."""
    lent, own = [], list(words)
    for operand in operands:
        size = operand.high - operand.low
        buffer = np.empty(max(size, 1), np.uint8)
        copy_to_host(buffer.ctypes.data, operand.low, size, stream)
        own[operand.position] = words[operand.position] - operand.low + buffer.ctypes.data
        lent.append(buffer)
    stream.synchronize()
    work(own)
    for operand, buffer in zip(operands, lent, strict=True):
        if operand.written:
            copy_to_device(operand.low, buffer.ctypes.data, operand.high - operand.low, stream)


def _span(words: Sequence[int], position: int, code: int, steps: Sequence[tuple[int, int]], written: bool) -> Operand:
    """Elements of a dtype at every combination of so many steps of so many elements."""
    pointer, itemsize = words[position], TYPES[code].itemsize
    if any(extent == 0 for extent, _ in steps):
        return Operand(position, pointer, pointer)
    ends = [(extent - 1) * stride * itemsize for extent, stride in steps]
    low, high = (pointer + sum(pick(end, 0) for end in ends) for pick in (min, max))
    return Operand(position, low, high + itemsize, written)


def matmul_operands(code: int, n_batch: int, words: Sequence[int]) -> list[Operand]:
    """Of the instruction MATMUL, whose slots hold these words."""
    m, n, k, a_row, a_column, b_row, b_column, c_row = words[3:11]
    batch = [words[11 + 4 * i : 15 + 4 * i] for i in range(n_batch)]
    matrices = (((m, a_row), (k, a_column)), ((k, b_row), (n, b_column)), ((m, c_row), (n, 1)))
    return [
        _span(words, i, code, [*steps, *((b[0], b[1 + i]) for b in batch)], i == 2) for i, steps in enumerate(matrices)
    ]


def convolution_operands(kind: int, code: int, words: Sequence[int]) -> list[Operand]:
    """Of the instruction CONVOLUTION, whose slots hold these words."""
    images, channels, rows, groups = words[3:7]
    inputs, kernel, outputs = (math.prod(words[7 + i :: 6]) for i in range(3))
    counts = (images * groups * channels * inputs, groups * rows * channels * kernel, images * groups * rows * outputs)
    result = (2, 0, 1)[kind]
    return [_span(words, i, code, [(count, 1)], i == result) for i, count in enumerate(counts)]


def call_operands(call: HostCall, words: Sequence[int]) -> list[Operand]:
    """Of a call of a Python function that is given these words."""
    found: list[Operand] = []
    position = 0

    def array(code: int, ndim: int, written: bool) -> None:
        nonlocal position
        steps = [(math.prod(words[position + 1 : position + 1 + ndim]), 1)]
        found.append(_span(words, position, code, steps, written))
        position += 1 + ndim

    def visit(entry: Any) -> None:
        nonlocal position
        if isinstance(entry, str):
            position += entry == "$size"
        elif isinstance(entry, Sequence):
            if entry and entry[0] == "$tensor":
                array(entry[1], entry[2], False)
            else:
                for part in entry:
                    visit(part)

    for argument in call.arguments:
        visit(argument)
    for _, code, ndim in call.results:
        array(code, ndim, True)
    return found

"""Products of small matrices that warps hold, and how these are loaded: mma, wgmma, ldmatrix, blocks of tensors.

Where the elements of a matrix lie among the lanes is as NVIDIA's manual "Parallel Thread Execution ISA" has it.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from fake_maps import ITEMSIZES
from ptx_arithmetic import DTYPES, Unknown
from ptx_threads import Threads

WARP, GROUP = 32, 128
LANE = np.arange(WARP)
QUAD, WITHIN = LANE // 4, LANE % 4
SWIZZLED = {0: 0, 1: 128, 2: 64, 3: 32}
"""Bytes of a line whose order a matrix descriptor says to be mixed."""
LINES = {0: 0, 1: 32, 2: 64, 3: 128}
"""The same as a tensor's map says it."""
SIZES = {"tf32": 4, "s8": 1, "u8": 1}
Array = np.ndarray


def _names(operand: str) -> list[str]:
    return [part.strip() for part in operand.strip("{} ").split(",")]


def _numbers(words: Array, kind: str) -> Array:
    """The numbers of words of 32 or 64 bits, along a new last dimension, as float64."""
    if kind == "tf32":
        return (words & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)[..., None]
    each = np.ascontiguousarray(words[..., None]).view(DTYPES[kind])
    return each.astype(np.float64)


def _registers(threads: Threads, operand: str, bits: int) -> Array:
    """Registers of warps: [warp, lane, register]."""
    rows = threads.lanes()
    return np.stack([threads.value(name, f"b{bits}")[rows] for name in _names(operand)], -1)


def _matrix(threads: Threads, operand: str, kind: str, rows: int, columns: int) -> Array:
    """A factor's [warp, row, column] from the registers of its lanes; a row is what a quad of lanes has."""
    bits = 64 if kind == "f64" else 32
    numbers = _numbers(_registers(threads, operand, bits), kind)
    each, count = numbers.shape[-1], numbers.shape[-2]
    made = np.zeros((len(numbers), rows, columns))
    for register in range(count):
        lower = register % (rows // 8)
        block = register // (rows // 8)
        for e in range(each):
            made[:, QUAD + 8 * lower, each * WITHIN + e + 4 * each * block] = numbers[:, :, register, e]
    return made


def _accumulated(threads: Threads, target: str, source: str, product: Array, kind: str) -> None:
    """Adds a product [warp, row, column] to the registers of its lanes."""
    names = _names(target)
    packed = kind in ("f16", "bf16")
    before = _registers(threads, source, 64 if kind == "f64" else 32)
    for register, name in enumerate(names):
        if packed:
            own = np.stack([product[:, QUAD + 8 * register, 2 * WITHIN + e] for e in range(2)], -1)
            old = _numbers(before[..., register], kind)
            words = np.ascontiguousarray((own + old).astype(DTYPES[kind])).view(np.uint32)[..., 0]
            threads.set(name, words.reshape(-1), "b32")
            continue
        own = product[:, QUAD + 8 * (register // 2), 2 * WITHIN + register % 2]
        old = np.ascontiguousarray(before[..., register]).view(DTYPES[kind])
        threads.set(name, _sum(own, old, kind).reshape(-1), kind)


def _sum(own: Array, old: Array, kind: str) -> Array:
    if kind == "s32":
        return (own.astype(np.int64) + old).astype(np.int32)
    return (own + old.astype(np.float64)).astype(DTYPES[kind])


def multiply(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
    """mma.sync: each warp adds a product to what it has."""
    shape = next(re.fullmatch(r"m(\d+)n(\d+)k(\d+)", p) for p in parts if re.fullmatch(r"m\d+n\d+k\d+", p))
    assert shape is not None
    m, n, k = map(int, shape.groups())
    if "row" not in parts or "col" not in parts:
        raise Unknown("factors in another order")
    result, a, b, _ = [p for p in parts if p in (*DTYPES, "tf32")]
    left = _matrix(threads, operands[1], a, m, k)
    right = _matrix(threads, operands[2], b, n, k)
    _accumulated(threads, operands[0], operands[3], left @ right.transpose(0, 2, 1), result)


def _lines(threads: Threads, operand: str, count: int) -> Array:
    """The addresses of the 8 lines of each matrix: [warp, matrix, line]."""
    rows = threads.lanes()
    addresses = threads.address(operand, "u32")[rows]
    return addresses[:, : 8 * count].reshape(len(rows), count, 8)


def _blocks(threads: Threads, shape: tuple[int, ...]) -> Array:
    """The block of each warp."""
    own = threads.blocks[threads.at][threads.lanes()[:, 0]]
    return np.broadcast_to(own.reshape(-1, *[1] * (len(shape) - 1)), shape)


def load(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
    """ldmatrix: matrices of 8 x 8 numbers of 16 bits, two of a line in a lane."""
    names = _names(operands[0])
    if "m8n8" not in parts or parts[-1] != "b16":
        raise Unknown("matrices of other numbers")
    lines = _lines(threads, operands[1], len(names))
    at = lines[..., None] + np.arange(8, dtype=np.uint32) * 2
    words = threads.shared.load(at, _blocks(threads, at.shape), 2)
    if "trans" in parts:
        words = words.swapaxes(2, 3)
    for number, name in enumerate(names):
        pair = np.stack([words[:, number, QUAD, 2 * WITHIN + e] for e in range(2)], -1)
        threads.set(name, np.ascontiguousarray(pair).view(np.uint32).reshape(-1), "b32")


def store(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
    """stmatrix: the other way round."""
    names = _names(operands[1])
    if "m8n8" not in parts or parts[-1] != "b16":
        raise Unknown("matrices of other numbers")
    lines = _lines(threads, operands[0], len(names))
    words = np.zeros((*lines.shape, 8), np.uint16)
    rows = threads.lanes()
    for number, name in enumerate(names):
        pair = np.ascontiguousarray(threads.value(name, "b32")[rows]).view(np.uint16).reshape(len(rows), WARP, 2)
        for e in range(2):
            words[:, number, QUAD, 2 * WITHIN + e] = pair[..., e]
    if "trans" in parts:
        words = words.swapaxes(2, 3)
    at = lines[..., None] + np.arange(8, dtype=np.uint32) * 2
    threads.shared.store(at, _blocks(threads, at.shape), words, 2)


def _mixed(addresses: Array, line: int) -> Array:
    """Addresses whose parts of 16 bytes are mixed over lines of so many bytes."""
    if not line:
        return addresses
    ones = line // 16 - 1
    return addresses ^ (addresses >> 3 & ones << 4)


def _described(
    threads: Threads, words: Array, blocks: Array, extents: tuple[int, int], kind: str, across: bool
) -> Array:
    """A matrix [group, row, column] in shared memory, as a descriptor says; `across`: rows are neighbours there."""
    size = SIZES.get(kind) or np.dtype(DTYPES[kind]).itemsize
    start, leading, stride = (((words >> np.uint64(s)) & np.uint64(0x3FFF)).astype(np.int64) * 16 for s in (0, 16, 32))
    (line,) = {SWIZZLED[int(w >> np.uint64(62))] for w in words}
    row, column = np.arange(extents[0])[:, None], np.arange(extents[1])[None, :]
    start, leading, stride = (x[:, None, None] for x in (start, leading, stride))
    width = line or 16
    if across:
        along = row * size
        outer, inner = (leading, stride) if line else (stride, leading)
        at = along % width + along // width * outer + column % 8 * width + column // 8 * inner
    else:
        along = column * size
        at = along % width + row % 8 * width + row // 8 * stride + along // width * (width if line else leading)
    at = _mixed(start + at, line)
    group = np.broadcast_to(blocks[:, None, None], at.shape)
    unsigned = threads.shared.load(at, group, size)
    return _numbers(unsigned, kind)[..., 0]


def multiply_of_group(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
    """wgmma: four warps add a product to what they have; at once, whatever waits for it."""
    shape = next(re.fullmatch(r"m64n(\d+)k(\d+)", p) for p in parts if re.fullmatch(r"m64n\d+k\d+", p))
    assert shape is not None
    n, k = map(int, shape.groups())
    result, a, b = [p for p in parts if p in (*DTYPES, "tf32")]
    rows = threads.lanes()
    if len(rows) % 4 or (threads.at[::GROUP] % GROUP).any():
        raise Unknown("an instruction of four warps, of which some are elsewhere")
    first = rows[::4, 0]
    blocks = threads.blocks[threads.at][first]
    scale, *rest = operands[3:]
    signs, turned = rest[:2], [int(x) for x in rest[2:]]
    if [int(s) for s in signs] != [1, 1]:
        raise Unknown("negated factors")
    if operands[1].startswith("{"):
        left = _matrix(threads, operands[1], a, 16, k).reshape(len(first), 64, k)
        across = [False, *turned] if turned else [False, False]
    else:
        across = [bool(t) for t in turned] or [False, False]
        left = _described(threads, threads.value(operands[1], "u64")[first], blocks, (64, k), a, across[0])
    right = _described(threads, threads.value(operands[2], "u64")[first], blocks, (n, k), b, bool(across[1]))
    product = (left @ right.transpose(0, 2, 1)).reshape(len(rows), 16, n)
    names = _names(operands[0])
    adds = threads.value(scale, "pred")[rows]
    if result not in ("f32", "s32"):
        raise Unknown(f"sums of {result}")
    for register, name in enumerate(names):
        own = product[:, QUAD + 8 * (register // 2 % 2), 8 * (register // 4) + 2 * WITHIN + register % 2]
        old = threads.value(name, result)[rows]
        made = np.where(adds, _sum(own, old, result), own.astype(DTYPES[result]))
        threads.set(name, made.reshape(-1), result)


class Barrier:
    """A barrier in shared memory: a phase is over when so many have arrived and so many bytes have come."""

    def __init__(self, count: int):
        self.count = self.pending = count
        self.bytes = self.phase = 0

    def settle(self) -> None:
        if not self.pending and not self.bytes:
            self.pending, self.phase = self.count, self.phase + 1


def barrier(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
    """mbarrier's operations."""
    known, blocks = threads.barriers, threads.blocks[threads.at]
    name = parts[1]
    place = operands[0] if name in ("init", "inval") else operands[1]
    keys = [(int(b), int(a)) for b, a in zip(blocks, threads.address(place, "u32"), strict=True)]
    match name:
        case "init":
            for key, count in zip(keys, threads.value(operands[1], "u32"), strict=True):
                known[key] = Barrier(int(count))
        case "inval":
            for key in keys:
                known.pop(key, None)
        case "arrive":
            sizes = threads.value(operands[2], "u32") if "expect_tx" in parts else np.zeros(len(keys), np.uint32)
            for key, size in zip(keys, sizes, strict=True):
                known[key].bytes += int(size)
                known[key].pending -= 1
                known[key].settle()
        case "try_wait" | "test_wait":
            parity = threads.value(operands[2], "u32")
            over = [known[key].phase % 2 != int(p) for key, p in zip(keys, parity, strict=True)]
            threads.set(operands[0], np.array(over), "pred")
        case _:
            raise Unknown(name)


def copy_block(threads: Threads, parts: list[str], operands: tuple[str, ...]) -> None:
    """A block of a tensor into shared memory, as the tensor's map says; elements beyond its ends are 0."""
    if parts[2] != "bulk" or "tensor" not in parts or not parts[5].startswith("shared"):
        if parts[3] in ("commit_group", "wait_group"):
            return
        raise Unknown("copies of other kinds")
    to, source, arrived = operands[:3]
    described, _, places = source.strip("[] ").partition(",")
    corners = [threads.value(name, "s32") for name in _names(places.strip())]
    targets, barriers_ = threads.address(to, "u32"), threads.address(arrived, "u32")
    maps, blocks = threads.value(described.strip(), "u64"), threads.blocks[threads.at]
    for i, (block, target) in enumerate(zip(blocks, targets, strict=True)):
        tensor = threads.maps[int(maps[i])]
        size = ITEMSIZES[tensor.format]
        where = [np.arange(extent) + int(corner[i]) for corner, extent in zip(corners, tensor.box, strict=True)]
        inside: Any = np.ones(tensor.box[::-1], bool)
        at: Any = np.zeros(tensor.box[::-1], np.int64)
        steps = (size, *tensor.strides)
        for axis, (position, dim, step) in enumerate(zip(where, tensor.dims, steps, strict=True)):
            shape = [1] * len(where)
            shape[len(where) - 1 - axis] = -1
            inside = inside & ((position >= 0) & (position < dim)).reshape(shape)
            at = at + (position * step).reshape(shape)
        words = np.zeros(at.shape, f"u{size}")
        words[inside] = threads.memory.load((at[inside] + tensor.address).astype(np.uint64), size)
        linear = _mixed(int(target) + np.arange(words.size) * size, LINES[tensor.swizzle])
        threads.shared.store(linear, np.full(words.size, block), words.reshape(-1), size)
        found = threads.barriers[int(block), int(barriers_[i])]
        found.bytes -= words.size * size
        found.settle()

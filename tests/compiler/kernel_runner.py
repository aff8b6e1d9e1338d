"""Compiles and runs kernel IR on NumPy arrays."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence

import numpy as np

from eagerjit.compiler.codegen.llvm import emit_module
from eagerjit.compiler.loops import Accumulate, Finish, Init, Kernel, Let, Load, Loop, Param, Stmt, Store
from eagerjit.runtime import cpu, dtypes

NUMPY = {d.short: d.numpy for d in dtypes.ALL} | {"u32": np.dtype(np.uint32), "u64": np.dtype(np.uint64)}
WIDTHS = [width for width in (128, 256, 512) if width <= cpu.vector_width_bits()]
Call = Callable[..., int]


def load(kernels: Sequence[Kernel], width_bits: int = WIDTHS[-1]) -> dict[str, Call]:
    """Functions by kernel name: call(*parameters, begin=0, end=1) -> status."""
    loaded = cpu.load_object(cpu.compile_text(emit_module(kernels, width_bits)))
    return {kernel.name: _function(loaded, kernel.name) for kernel in kernels}


def _function(loaded: cpu.LoadedObject, name: str) -> Call:
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    entry = cpu.callable_at(loaded.address(name), integer, pointer, integer, integer, pointer)

    def call(*parameters: np.ndarray | int | float, begin: int = 0, end: int = 1) -> int:
        words = np.array([_word(p) for p in parameters], np.int64)
        return entry(words.ctypes.data, begin, end, call.scratch.ctypes.data)

    call.scratch = np.zeros(1 << 12)
    call.loaded = loaded
    return call


def _word(parameter: np.ndarray | int | float) -> int:
    if isinstance(parameter, np.ndarray):
        return parameter.ctypes.data
    if isinstance(parameter, float):
        return struct.unpack("<q", struct.pack("<d", parameter))[0]
    return parameter


def run(kernel: Kernel, *parameters: np.ndarray | int | float, end: int = 1, width_bits: int = WIDTHS[-1]) -> int:
    """One call of one kernel; its status."""
    return load([kernel], width_bits)[kernel.name](*parameters, end=end)


def memory(name: str, dtype: str) -> Param:
    return Param(name, "memory", dtype)


def size(name: str) -> Param:
    return Param(name, "size", "i64")


def one_task(name: str, params: Sequence[Param], *body: Stmt) -> Kernel:
    """A kernel of a single task."""
    return Kernel(name, tuple(params), (Loop("tasks", "task", 0, 1, body),))


def elementwise(name: str, op: str, inputs: Sequence[str], output: str, lanes: int = 32) -> Kernel:
    """out[i] = op(in0[i], in1[i], ...) over n elements; one scalar at a time if `lanes` is 0."""
    params = [memory(f"in{i}", d) for i, d in enumerate(inputs)] + [memory("out", output), size("n")]
    loads = [Load(f"x{i}", f"in{i}", (("i", 1),), d) for i, d in enumerate(inputs)]
    compute = Let("y", op, tuple(f"x{i}" for i in range(len(inputs))), output)
    kind = "vector" if lanes else "serial"
    return one_task(name, params, Loop(kind, "i", 0, "n", (*loads, compute, Store("out", (("i", 1),), "y")), lanes))


def reduction(name: str, op: str, dtype: str, result: str, kind: str = "vector", lanes: int = 32) -> Kernel:
    """out[0] = the accumulation of n elements."""
    loop = Loop(kind, "i", 0, "n", (Load("x", "data", (("i", 1),), dtype), Accumulate("acc", "x")), lanes)
    params = (memory("data", dtype), memory("out", result), size("n"))
    return one_task(name, params, Init("acc", op, dtype), loop, Finish("y", "acc", result), Store("out", (), "y"))

"""Runs a kernel of the IR as Triton, by its interpreter, on NumPy arrays."""

from __future__ import annotations

import numpy as np

from eagerjit.compiler.codegen.triton.source import Launch, TritonKernel
from eagerjit.compiler.codegen.triton.values import table_words
from eagerjit.compiler.loops import Kernel
from eagerjit.runtime.gpu import interpreter

TABLES = np.array(table_words(), np.uint32)


def run(kernel: Kernel, *parameters: np.ndarray | int | float, tasks: int = 1, single: bool = False) -> int:
    """The status after all tasks."""
    made = TritonKernel(kernel, single)
    words = {p.name: _word(value) for p, value in zip(kernel.params, parameters, strict=True)}
    return start(made.launch(tasks, {p.name: words[p.name] for p in kernel.params if p.kind == "size"}), words, tasks)


def start(launch: Launch, words: dict[str, int | float], tasks: int) -> int:
    """Run one launch, whose kernel has these arguments."""
    status = np.zeros(1, np.int32)
    words = words | {"tasks": tasks, "status": status.ctypes.data, "tables": TABLES.ctypes.data}
    source = launch.source
    arguments = [words[p.name] for p in source.params]
    interpreter.interpret(source.text, source.name, launch.signature, launch.constants, launch.grid, arguments)
    return int(status[0])


def _word(value: np.ndarray | int | float) -> int | float:
    return value.ctypes.data if isinstance(value, np.ndarray) else value

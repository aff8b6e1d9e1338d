"""A recorded call lowered for the GPU: its kernels as Triton files; and run on this machine by Triton's interpreter."""

from __future__ import annotations

import contextlib
import linecache
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from eagerjit import compilation
from eagerjit.compiler import loops
from eagerjit.compiler.codegen.triton.source import Launch, TritonKernel
from eagerjit.compiler.codegen.triton.values import table_words
from eagerjit.compiler.lower.assemble import Compiled, compile_trace
from eagerjit.compiler.lower.build import GPU, Built
from eagerjit.compiler.signature import Trace
from eagerjit.runtime.gpu import compiler
from eagerjit.runtime.interpret import PythonExecutable, exception_class
from eagerjit.runtime.program import Op


class GpuCall:
    """The GPU's Program of a trace. `kernels` are in the order of its functions."""

    def __init__(self, trace: Trace):
        self.compiled: Compiled = compile_trace(trace, GPU)
        built = [b for b in self.compiled.built if isinstance(b, Built)]
        self.launches: list[TritonKernel] = []
        made: dict[str, TritonKernel] = {}
        several = {loops.body_text(b.kernel) for b in built if b.tasks != 1}
        for b in built:
            text = loops.body_text(b.kernel)
            if text not in made:
                made[text] = TritonKernel(b.kernel, text not in several, GPU.flat, source_lines(b.sources))
            self.launches.append(made[text])
        self.kernels = list(made.values())


def source_lines(places: Sequence[str]) -> list[str]:
    """The user's lines, each with its place."""
    lines = []
    for place in places:
        file, _, number = place.rpartition(":")
        code = linecache.getline(file, int(number)).strip() if number.isdigit() else ""
        lines.append(f"{file.rpartition('/')[2]}:{number}: {code}" if code else place)
    return lines


class InterpretedExecutable(PythonExecutable):
    """Runs a GPU's Program on this machine's memory: kernels by Triton's interpreter, the rest as the CPU does."""

    def __init__(self, call: GpuCall, objects: Sequence[object]):
        super().__init__(call.compiled.program, [], objects)
        self.kernels = call.kernels
        self.launched: list[Launch] = []
        self.tables = np.array(table_words(), np.uint32)
        kernel = [i for i, (code, *_) in enumerate(self.program.instructions) if code == Op.KERNEL]
        for i in kernel:
            self._steps[i] = (self._kernel, self._steps[i][1])

    def _kernel(self, frame: Any, function: int, tasks: int, work: int, scratch: int, n: int, *slots: int) -> None:
        kernel = self.kernels[function]
        params = kernel.kernel.params
        words = {p.name: frame.slots[slot] for p, slot in zip(params, slots, strict=True)}
        count = frame.slots[tasks]
        if count <= 0:
            return
        launch = kernel.launch(count, {p.name: words[p.name] for p in params if p.kind == "size"})
        self.launched.append(launch)
        status = np.zeros(1, np.int32)
        words |= {"tasks": count, "status": status.ctypes.data, "tables": self.tables.ctypes.data}
        arguments = [_number(words[p.name]) if p.kind == "number" else words[p.name] for p in launch.source.params]
        source = launch.source
        compiler.interpret(
            source.text, source.name, source.signature(launch.wide), launch.constants, launch.grid, arguments
        )
        if status[0]:
            failure = self.program.errors[int(status[0]) - 1]
            message = failure.message if failure.slot < 0 else failure.message % frame.slots[failure.slot]
            raise exception_class(failure.exception)(message)


@contextlib.contextmanager
def interpreted() -> Iterator[list[InterpretedExecutable]]:
    """What is compiled within the block runs as on a GPU, by Triton's interpreter; the executables that were made."""
    made: list[InterpretedExecutable] = []

    def backend(report: compilation.Report) -> InterpretedExecutable:
        assert report.compiled is not None  # its passes have run
        made.append(InterpretedExecutable(GpuCall(report.trace), report.objects))
        return made[-1]

    before, compilation.backend = compilation.backend, backend
    try:
        yield made
    finally:
        compilation.backend = before


def _number(word: int) -> float:
    """The float whose bits a slot holds."""
    return struct.unpack("d", struct.pack("q", word))[0]


def binary(launch: Launch, architecture: int) -> compiler.Binary:
    """The machine code of a launch's kernel."""
    source = launch.source
    return compiler.compile(
        source.text,
        source.name,
        source.signature(launch.wide),
        launch.constants,
        architecture,
        launch.warps,
        contract=source.contract,
    )

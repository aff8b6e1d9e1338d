"""A recorded call lowered for the GPU: its kernels as Triton files; and run on this machine by Triton's interpreter."""

from __future__ import annotations

import contextlib
import linecache
import os
import re
import struct
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from eagerjit.compiled import compilation
from eagerjit.compiler import loops, sizes
from eagerjit.compiler.codegen.triton.along import AlongKernel
from eagerjit.compiler.codegen.triton.attention import AttentionKernel
from eagerjit.compiler.codegen.triton.convolution import ConvolutionKernel
from eagerjit.compiler.codegen.triton.joined import JoinedKernel
from eagerjit.compiler.codegen.triton.matrices import MatricesKernel
from eagerjit.compiler.codegen.triton.ordered import OrderedKernel
from eagerjit.compiler.codegen.triton.product import ProductKernel, is_product
from eagerjit.compiler.codegen.triton.search import SearchKernel
from eagerjit.compiler.codegen.triton.several import SeveralKernel
from eagerjit.compiler.codegen.triton.sorting import SortKernel
from eagerjit.compiler.codegen.triton.source import Launch, StatementKernel, TritonKernel
from eagerjit.compiler.codegen.triton.tiles import DEFAULT
from eagerjit.compiler.codegen.triton.values import table_words
from eagerjit.compiler.codegen.triton.weighted import WeightedKernel
from eagerjit.compiler.lower.assemble import Compiled, compile_trace
from eagerjit.compiler.lower.build import GPU, Built
from eagerjit.compiler.lower.emit import Amount, Pointer, Temporary
from eagerjit.compiler.signature import Trace
from eagerjit.runtime import allowance
from eagerjit.runtime.gpu import compiler, interpreter
from eagerjit.runtime.interpret import PythonExecutable
from eagerjit.runtime.program import Op
from eagerjit.runtime.records import record

GpuKernel = TritonKernel | ProductKernel | StatementKernel[Any]
STATEMENT_KERNELS: dict[type, type[StatementKernel[Any]]] = {
    loops.Along: AlongKernel, loops.Attention: AttentionKernel, loops.Convolution: ConvolutionKernel,
    loops.Joined: JoinedKernel, loops.Matrices: MatricesKernel, loops.Ordered: OrderedKernel,
    loops.Search: SearchKernel, loops.Sort: SortKernel, loops.Weighted: WeightedKernel,
}  # fmt: skip


class GpuCall:
    """The GPU's Program of a trace. `kernels` are in the order of its functions."""

    def __init__(self, trace: Trace):
        self.trace = trace
        self.compiled: Compiled = compile_trace(trace, GPU)
        self.built = built = [b for b in self.compiled.built if isinstance(b, Built)]
        self.launches: list[GpuKernel] = []
        made: dict[str, GpuKernel] = {}
        several = {loops.body_text(b.kernel) for b in built if b.tasks != 1}
        for b in built:
            text = loops.body_text(b.kernel)
            if text not in made:
                made[text] = _kernel_of(b.kernel, text not in several, source_lines(b.sources))
            self.launches.append(made[text])
        self.kernels = list(made.values())

    def launch(self, position: int, architecture: int = DEFAULT) -> Launch:
        """The file, constants and grid of a launch for the sizes of the call that was recorded."""
        built = self.built[position]
        words: dict[str, int] = {}
        for p, a in zip(built.kernel.params, built.arguments, strict=True):
            if isinstance(a, Amount):
                words[p.name] = self._known(a.size)
            elif isinstance(a, Temporary) or (isinstance(a, Pointer) and a.offset == 0):
                words[p.name] = 0  # memory from its beginning on, which is aligned
        return self.launches[position].launch(self._known(built.tasks), words, architecture)

    def tasks(self, position: int) -> int:
        """How many tasks a launch has in the recorded call; one without any is left out."""
        return max(self._known(self.built[position].tasks), 0)

    def _known(self, size: sizes.Expr) -> int:
        """A size in the recorded call; one that is measured in its course counts as 64."""
        hints = self.trace.hints
        return sizes.evaluate(size, {name: hints.get(name, 64) for name in sizes.symbols(size)})


def _kernel_of(kernel: loops.Kernel, single: bool, lines: Sequence[str]) -> GpuKernel:
    if is_product(kernel):
        return ProductKernel(kernel, lines)
    if isinstance(kernel.body[0], loops.Several):
        return SeveralKernel(kernel, GPU.flat, lines)
    of_statement = STATEMENT_KERNELS.get(type(kernel.body[0]))
    return TritonKernel(kernel, single, GPU.flat, lines) if of_statement is None else of_statement(kernel, lines)


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
        launch = kernel.launch(count, {p.name: words[p.name] for p in params if p.kind != "number"})
        self.launched.append(launch)
        status = np.zeros(1, np.int32)
        words |= {"tasks": count, "status": status.ctypes.data, "tables": self.tables.ctypes.data}
        partials, counters = np.empty(launch.partials, np.uint8), np.zeros(launch.counters, np.int32)
        words |= {"partials": partials.ctypes.data, "counters": counters.ctypes.data}
        described: dict[str, Any] = {d.param: (d, words[d.param]) for d in launch.descriptors}
        numbers = {p.name: _number(words[p.name]) for p in params if p.kind == "number"}
        arguments = [(words | numbers | described)[p.name] for p in launch.source.params]
        source = launch.source
        interpreter.interpret(source.text, source.name, launch.signature, launch.constants, launch.grid, arguments)
        if status[0]:
            raise self.program.errors[int(status[0]) - 1].error(frame.slots)


@contextlib.contextmanager
def interpreted() -> Iterator[list[InterpretedExecutable]]:
    """What is compiled within the block runs as on a GPU, by Triton's interpreter; the executables that were made."""
    made: list[InterpretedExecutable] = []

    def backend(report: compilation.Report) -> InterpretedExecutable:
        made.append(InterpretedExecutable(GpuCall(report.trace), report.objects))
        return made[-1]

    with compilation.made_by(backend):
        yield made


def _number(word: int) -> float:
    """The float whose bits a slot holds."""
    return struct.unpack("d", struct.pack("q", word))[0]


def target() -> int | None:
    """The compute capability that EAGERJIT_TARGET names (90 for cuda:90), None where it names no GPU."""
    text = os.environ.get("EAGERJIT_TARGET", "")
    if not text:
        return None
    kind, _, number = text.partition(":")
    if kind != "cuda" or not number.isdigit():
        raise ValueError(f"EAGERJIT_TARGET is {text!r}: it names a GPU as cuda:80 or cuda:90")
    return int(number)


@record(frozen=True)
class GpuKernelReport:
    """One launch on a GPU of compute capability `architecture`, for the sizes of the recorded call."""

    name: str
    lines: tuple[str, ...]
    architecture: int
    launch: Launch

    @property
    def triton(self) -> str:
        """The Triton file."""
        return self.launch.source.text

    @property
    def path(self) -> Path:
        """Where the file lies."""
        return compiler.written(self.triton)

    @property
    def binary(self) -> compiler.Binary:
        """What Triton makes of it; ImportError where it is not installed."""
        return binary(self.launch, self.architecture)

    @property
    def ttir(self) -> str:
        """Triton's own representation."""
        return self.binary.ttir

    @property
    def ptx(self) -> str:
        """The assembly for NVIDIA GPUs."""
        return self.binary.ptx

    def __str__(self) -> str:
        constants = ", ".join(f"{k} {v}" for k, v in self.launch.constants.items() if k != "WIDE")
        programs = f"{self.launch.programs} programs of {self.launch.warps} warps"
        head = f"{self.name}: {programs}{', ' * bool(constants)}{constants}; {self.path}"
        _, _, kernel = self.triton.rpartition("@triton.jit\n")
        return head + "\n" + "\n".join(f"  {line}" for line in kernel.rstrip().split("\n"))


def reports(trace: Trace, architecture: int) -> list[GpuKernelReport]:
    """The launches of a trace on a GPU."""
    call = GpuCall(trace)
    return [
        GpuKernelReport(b.kernel.name, b.sources, architecture, call.launch(position, architecture))
        for position, b in enumerate(call.built)
        if call.tasks(position)
    ]


def compile_ahead(call: GpuCall, architecture: int) -> None:
    """Compile what the recorded call launches by as many threads as there are cores; a kernel takes up to a second.

    What fails does so again where it is launched.
    """
    launches = [call.launch(position, architecture) for position in range(len(call.built)) if call.tasks(position)]
    distinct = {(x.source, tuple(x.signature.items()), tuple(x.constants.items()), x.aligned): x for x in launches}
    if len(distinct) < 2:
        return

    def compiled(launch: Launch) -> None:
        with contextlib.suppress(Exception):
            binary(launch, architecture)

    with ThreadPoolExecutor(min(len(distinct), allowance.processors())) as pool:
        list(pool.map(compiled, distinct.values()))


_NUMBER, _COMMENT = re.compile(r"^k\d+_"), re.compile(r"^ +# .*\n", re.MULTILINE)


def binary(launch: Launch, architecture: int) -> compiler.Binary:
    """The machine code of a launch's kernel, the same for kernels that differ in number and the user's lines alone."""
    source = launch.source
    compiler.written(source.text)  # for its reader
    name = _NUMBER.sub("k_", source.name)
    _, text = _COMMENT.sub("", source.text).split("\n", 1)
    text = f'"""{name}"""\n' + re.sub(rf"\b{source.name}\b", name, text)
    types, constants = tuple(launch.signature.items()), tuple(launch.constants.items())
    how = launch.warps, launch.aligned, source.contract, launch.stages
    return _binary(text, name, types, constants, architecture, *how)


@lru_cache(maxsize=1024)
def _binary(
    text: str, name: str, types: tuple[tuple[str, str], ...], constants: tuple[tuple[str, int], ...], *how: Any
) -> compiler.Binary:
    architecture, warps, aligned, contract, stages = how
    return compiler.compile(
        text, name, dict(types), dict(constants), architecture, warps, aligned, contract=contract, stages=stages
    )

"""Triton files: a kernel's text in each of its shapes, its arguments, and the shape and grid for given sizes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Generic, TypeVar, cast

from eagerjit.compiler.codegen.triton.kernel import KernelText
from eagerjit.compiler.codegen.triton.mapping import (
    PART,
    STEP,
    TILE,
    WHOLE,
    Shape,
    Structure,
    crowded,
    known,
    largest,
    structure,
    tasks_of,
)  # fmt: skip
from eagerjit.compiler.codegen.triton.one_pass import one_pass
from eagerjit.compiler.codegen.triton.reductions import partials_of
from eagerjit.compiler.codegen.triton.tiles import DEFAULT, power_of_two
from eagerjit.compiler.loops import Kernel, Load, Loop, Param, Store, Whole, walk
from eagerjit.runtime.gpu.descriptors import Descriptor
from eagerjit.runtime.records import record, replace

POINTERS = {
    "bool": "*u8", "i8": "*i8", "i16": "*i16", "i32": "*i32", "i64": "*i64", "u8": "*u8", "u16": "*u16", "u32": "*u32",
    "u64": "*u64", "f16": "*fp16", "bf16": "*bf16", "f32": "*fp32", "f64": "*fp64",
}  # fmt: skip
TASKS = Param("tasks", "size", "i64")
STATUS = Param("status", "memory", "i32")
TABLES = Param("tables", "memory", "u32")
PARTIALS = Param("partials", "memory", "f32")
COUNTERS = Param("counters", "memory", "i32")
INT32 = 2**31
FULL = 264
"""Programs that a GPU has room for, roughly: two on each multiprocessor."""
ACROSS = 32
"""Rows of a block that is read across, at most: neighbours in memory."""


@record(frozen=True)
class TritonSource:
    """One Triton file. `params` are the arguments in order: the kernel's, then what is used of

    tasks     the number of tasks
    status    an i32 in memory that a failed check sets to its number
    tables    the words of `values.table_words`
    partials  memory for as many numbers as the launch says
    counters  memory for as many i32 as the launch says, which are 0
    """

    name: str
    text: str
    params: tuple[Param, ...]
    constants: tuple[str, ...]
    shape: Shape
    contract: bool


def _type(param: Param, wide: bool) -> str:
    if param.kind == "memory":
        return POINTERS[param.dtype]
    return "fp64" if param.kind == "number" else "i64" if wide else "i32"


@record(frozen=True)
class Launch:
    """How a file is compiled and launched: its compile-time numbers, warps per program, and the grid.

    `aligned` are the arguments that are multiples of 16, so that memory is read in wide pieces; `stages` says how many
    steps of a loop are under way. `partials` (in bytes) and `counters` are memory of the launch's own. `descriptors`
    are of the tensors whose blocks the GPU loads by itself. Where `resident` says how many programs a multiprocessor
    has room for, no more are launched: they share the work of all.
    """

    source: TritonSource
    constants: dict[str, int]
    warps: int
    programs: int
    aligned: tuple[str, ...] = ()
    stages: int = 3
    partials: int = 0
    counters: int = 0
    descriptors: tuple[Descriptor, ...] = ()
    resident: int = 0

    @property
    def grid(self) -> tuple[int, int]:
        """The programs as a grid of one dimension, the only one without a limit."""
        return self.programs, 1

    def grid_on(self, processors: int) -> tuple[int, int]:
        """The grid on a GPU of so many multiprocessors."""
        return (min(self.programs, self.resident * processors), 1) if self.resident else self.grid

    @property
    def signature(self) -> dict[str, str]:
        """Triton's type of every argument."""
        types = {p.name: _type(p, self.wide) for p in self.source.params}
        types |= {d.param: d.type for d in self.descriptors}
        return types | dict.fromkeys(self.source.constants, "constexpr")

    @property
    def wide(self) -> bool:
        """Whether indices need 64 bits."""
        return bool(self.constants["WIDE"])


Statement = TypeVar("Statement", bound=Whole)


class StatementKernel(ABC, Generic[Statement]):
    """A kernel of the IR whose one statement is all of it, for the GPU; used like a `TritonKernel`."""

    def __init__(self, kernel: Kernel, lines: Sequence[str] = ()):
        (statement,) = kernel.body
        self.kernel, self.statement, self.lines = kernel, cast(Statement, statement), tuple(lines)

    def file(self, writer: KernelText, constants: tuple[str, ...], more: tuple[Param, ...] = ()) -> TritonSource:
        """The file of what a writer writes, with parameters more than the kernel's."""
        writer.body()
        return file_text(self.kernel, writer, (*self.kernel.params, *more), constants, self.lines)

    def file_as_named(self, writer: KernelText, constants: tuple[str, ...]) -> TritonSource:
        """The file of what a writer writes, with those of these constants, and the tasks, that it names."""
        text = "\n".join(writer.body())
        params = self.kernel.params + (TASKS,) * ("tasks" in text)
        return file_text(self.kernel, writer, params, tuple(c for c in constants if c in text), self.lines)

    @abstractmethod
    def launch(self, tasks: int, sizes: Mapping[str, int], architecture: int = DEFAULT) -> Launch:
        """The file, constants and grid for a number of tasks and these sizes."""


class TritonKernel:
    """A kernel of the IR for the GPU. `lines` are the user's, as comments."""

    def __init__(self, kernel: Kernel, single: bool = False, flat: int = TILE, lines: Sequence[str] = ()):
        self.kernel, self.flat, self.lines = kernel, flat, tuple(lines)
        self.structure: Structure = structure(kernel, single)
        self._written: dict[Shape, TritonSource] = {}

    def source(self, shape: Shape) -> TritonSource:
        """The file for a shape."""
        found = self._written.get(shape)
        if found is None:
            found = self._written[shape] = _source(self.kernel, shape, self.lines)
        return found

    def launch(self, tasks: int, sizes: Mapping[str, int], architecture: int = DEFAULT) -> Launch:
        """The file and the grid for a number of tasks and the kernel's arguments: sizes, and addresses if known."""
        extent = self.structure.extent
        length = None if extent is None else known(extent, sizes)
        shape = self._shape(tasks, length)
        source = self.source(shape)
        constants = {"WIDE": int(largest(self.kernel, tasks, sizes) >= INT32)}
        lanes = self.lanes(shape, length)
        rows = self.rows(shape, lanes, tasks) if shape.tiled else 1
        if "LANES" in source.constants:
            constants["LANES"] = lanes
        if "TASKS" in source.constants:
            constants["TASKS"] = rows
        if "PART" in source.constants:
            constants["PART"] = PART
        columns = -(-(length or 1) // lanes) if shape.vectors == "grid" else 1
        grid = max(-(-tasks // rows), 1) * max(columns, 1)
        aligned = multiples(source, tasks, sizes)
        warps = self._warps(shape, rows * lanes)
        if not shape.split or length is None:
            return Launch(source, constants, warps, grid, aligned)
        programs = tasks * -(-length // PART)
        dtype, count = partials_of(self.kernel)
        partials = (4 if dtype == "f32" else 8) * programs * count * lanes
        return Launch(source, constants, warps, programs, aligned, 3, partials, tasks)

    def _shape(self, tasks: int, length: int | None) -> Shape:
        """The shape for these sizes; programs share a row where rows are too few to fill a GPU."""
        first, *others = self.structure.shapes
        if not others or length is None:
            return first
        if first.vectors == "grid":
            return others[0] if length >= TILE and self._looks_up else first
        if length <= WHOLE:
            return first
        return others[-1] if length > PART and tasks < FULL else others[0]

    @cached_property
    def _looks_up(self) -> bool:
        """Whether elements are looked up in tables, which in blocks of rows goes through shared memory (Triton 3.6)."""
        return TABLES in self.source(self.structure.shapes[0]).params and not self._transposes

    def _warps(self, shape: Shape, elements: int) -> int:
        """Warps of a program: few where rows follow each other, so that they seldom wait for each other's sums.

        A thread has as many elements of a row on its own as in `flat` kernels. Of long rows that are read several
        times there are few at a time, so that the cache still has them.
        """
        if shape.vectors == "grid" and shape in self.structure.shapes[1:]:
            return elements // 512
        if shape.kept and shape.vectors == "whole" and not crowded(self.kernel):
            return max(elements // 1024, 1)
        if shape.vectors == "loop" and shape.tiled:
            return 16 if self._readings > 1 or crowded(self.kernel) else 8
        return warps_for(elements)

    @cached_property
    def _readings(self) -> int:
        """How often a task goes through a long row."""
        body = tasks_of(self.kernel).body
        found = one_pass(body)
        return sum(isinstance(s, Loop) for s in (body if found is None else found.body))

    def lanes(self, shape: Shape, length: int | None) -> int:
        """Elements of a block along the vector loops, whose end is known to be `length` or not."""
        if length is None:
            return power_of_two(self.flat) if self.structure.flat else STEP
        if shape.vectors == "loop":
            return STEP
        most = WHOLE if shape.vectors == "whole" else 256 if shape.kept else 32 if self._transposes else TILE
        return min(power_of_two(length), most)

    def rows(self, shape: Shape, lanes: int, tasks: int) -> int:
        """Tasks of a block."""
        if shape.vectors == "loop":
            return 1
        elements = 2 * TILE if shape.vectors == "grid" and not shape.kept and not self._transposes else TILE
        most = 128 if self.structure.extent == 1 else max(elements // lanes, 1)
        if shape.vectors == "whole" and self._transposes:
            most = max(min(ACROSS, 8 * TILE // lanes), most)
        return min(most, power_of_two(tasks))

    @property
    def _transposes(self) -> bool:
        """Whether something is read or written along the tasks: a square block serves both directions."""
        statements = list(walk(self.kernel.body))
        elements = {s.var for s in statements if isinstance(s, Loop) and s.kind == "vector"}
        indices = [dict(s.index) for s in statements if isinstance(s, Load | Store)]
        return any(elements & index.keys() and all(index.get(i) != 1 for i in elements) for index in indices)


def multiples(
    source: TritonSource, tasks: int, words: Mapping[str, int], described: Sequence[Descriptor] = ()
) -> tuple[str, ...]:
    """The arguments known to be multiples of 16, of those that are numbers or addresses."""
    known = {**words, "tasks": tasks}
    others = {d.param for d in described}
    params = (p for p in source.params if p.kind in ("memory", "size") and p.name not in others)
    return tuple(p.name for p in params if p.name in known and known[p.name] % 16 == 0)


def warps_for(elements: int) -> int:
    """Warps of a program whose blocks have so many elements."""
    return min(max(power_of_two(elements) // 256, 1), 16 if elements >= 8192 else 8 if elements > 2048 else 4)


def _source(kernel: Kernel, shape: Shape, lines: Sequence[str]) -> TritonSource:
    writer = KernelText(kernel, shape)
    text = "\n".join(writer.body())
    shared = (replace(PARTIALS, dtype=partials_of(kernel)[0]), COUNTERS) * shape.split
    params = kernel.params + (TASKS,) * shape.tiled + shared
    constants = tuple(c for c in ("TASKS", "LANES", "PART", "WIDE") if c in text)
    return file_text(kernel, writer, params, constants, lines)


def file_text(
    kernel: Kernel, writer: KernelText, params: tuple[Param, ...], constants: tuple[str, ...], lines: Sequence[str]
) -> TritonSource:
    """The file around a kernel's lines."""
    params += (STATUS,) * writer.uses_status + (TABLES,) * writer.uses_tables
    name = "".join(c if c.isalnum() else "_" for c in kernel.name)
    name += "_kernel" if name in writer.functions else ""
    arguments = ", ".join([*(p.name for p in params), *(f"{c}: tl.constexpr" for c in constants)])
    functions = sorted(writer.functions.values(), key=lambda f: (f.name != "either", f.name))
    body = "\n".join([f"@triton.jit\ndef {name}({arguments}):", *(f"    # {line}" for line in lines), *writer.lines])
    head = "\n".join([f'"""{kernel.name}"""', "import triton", "import triton.language as tl"])
    text = "\n\n".join([head, *(f.text for f in functions), body]) + "\n"
    return TritonSource(name, text, params, constants, writer.shape, kernel.contract)

"""The same kernel on several tensors in one launch: a program finds its tensor by its number, then does as it would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from eagerjit.compiler.codegen.triton.kernel import KernelText
from eagerjit.compiler.codegen.triton.mapping import Shape, known, largest
from eagerjit.compiler.codegen.triton.source import (
    INT32,
    Launch,
    StatementKernel,
    TritonKernel,
    TritonSource,
    multiples,
    warps_for,
)
from eagerjit.compiler.codegen.triton.tiles import DEFAULT
from eagerjit.compiler.loops import Kernel, Several


class SeveralText(KernelText):
    """Writes one such kernel."""

    def __init__(self, statement: Several, shape: Shape):
        super().__init__(statement.kernel, shape)
        self.statement = statement
        self.position = "tl.program_id(0) - start"

    def body(self) -> list[str]:
        """The kernel's lines without its head."""
        self.emit("start_0 = tasks_0 * 0")
        for j in range(1, self.statement.count):
            tasks = f"tasks_{j - 1}"
            programs = f"({tasks} + TASKS - 1) // TASKS" if self.shape.tiled else tasks
            self.emit(f"start_{j} = start_{j - 1} + {programs}")
        self._choose(0, self.statement.count)
        return super().body()

    def _choose(self, low: int, high: int) -> None:
        """The arguments of one of these tensors, in halves."""
        if high - low == 1:
            names = (*self.statement.different, "start", *["tasks"] * self.shape.tiled)
            self.emit(f"{', '.join(names)} = {', '.join(f'{name}_{low}' for name in names)}")
            return
        middle = (low + high) // 2
        for head, part in ((f"if tl.program_id(0) < start_{middle}:", (low, middle)), ("else:", (middle, high))):
            self.emit(head)
            self.depth += 1
            self._choose(*part)
            self.depth -= 1


class SeveralKernel(StatementKernel[Several]):
    """Such a kernel of the IR for the GPU, used like a `TritonKernel`; `flat` elements are a block of one index."""

    def __init__(self, kernel: Kernel, flat: int, lines: Sequence[str] = ()):
        super().__init__(kernel, lines)
        self.single = TritonKernel(self.statement.kernel, False, flat)
        self.shape = self.single.structure.shapes[0]

    @cached_property
    def sources(self) -> tuple[TritonSource, ...]:
        """The file."""
        constants = (*["TASKS"] * self.shape.tiled, "LANES", "WIDE")
        return (self.file(SeveralText(self.statement, self.shape), constants),)

    def launch(self, tasks: int, sizes: Mapping[str, int], architecture: int = DEFAULT) -> Launch:
        """The file and grid for these sizes; `tasks` is the number of those of all tensors."""
        source, s = self.sources[0], self.statement
        counts = [sizes[f"tasks_{j}"] for j in range(s.count)]
        reach = 0
        for j, count in enumerate(counts):
            own = {name: sizes[f"{name}_{j}"] for name in s.different if f"{name}_{j}" in sizes}
            reach = max(reach, largest(s.kernel, count, {**sizes, **own}))
        extent = self.single.structure.extent
        lanes = self.single.lanes(self.shape, None if extent is None else known(extent, sizes))
        rows = self.single.rows(self.shape, lanes, counts[0]) if self.shape.tiled else 1
        constants = {"LANES": lanes, "WIDE": int(reach >= INT32)} | ({"TASKS": rows} if self.shape.tiled else {})
        programs = sum(-(-count // rows) for count in counts)
        return Launch(source, constants, warps_for(rows * lanes), max(programs, 1), multiples(source, tasks, sizes))

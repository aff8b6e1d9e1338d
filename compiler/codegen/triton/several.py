"""The same kernel on several tensors in one launch: a program finds its tensor by its number, then does as it would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from eagerjit.compiler.codegen.triton.kernel import KernelText
from eagerjit.compiler.codegen.triton.mapping import Shape, largest
from eagerjit.compiler.codegen.triton.source import INT32, Launch, StatementKernel, TritonSource, multiples, warps_for
from eagerjit.compiler.codegen.triton.tiles import DEFAULT
from eagerjit.compiler.loops import Kernel, Several


class SeveralText(KernelText):
    """Writes one such kernel."""

    def __init__(self, statement: Several):
        super().__init__(statement.kernel, Shape(False, "whole"))
        self.statement = statement
        self.position = "tl.program_id(0) - start"

    def body(self) -> list[str]:
        """The kernel's lines without its head."""
        self.emit("start_0 = tasks_0 * 0")
        for j in range(1, self.statement.count):
            self.emit(f"start_{j} = start_{j - 1} + tasks_{j - 1}")
        self._choose(0, self.statement.count)
        return super().body()

    def _choose(self, low: int, high: int) -> None:
        """The arguments of one of these tensors, in halves."""
        if high - low == 1:
            names = (*self.statement.different, "start")
            self.emit(f"{', '.join(names)} = {', '.join(f'{name}_{low}' for name in names)}")
            return
        middle = (low + high) // 2
        for head, part in ((f"if tl.program_id(0) < start_{middle}:", (low, middle)), ("else:", (middle, high))):
            self.emit(head)
            self.depth += 1
            self._choose(*part)
            self.depth -= 1


class SeveralKernel(StatementKernel[Several]):
    """Such a kernel of the IR for the GPU, used like a `TritonKernel`; `flat` elements are a block."""

    def __init__(self, kernel: Kernel, flat: int, lines: Sequence[str] = ()):
        super().__init__(kernel, lines)
        self.flat = flat

    @cached_property
    def sources(self) -> tuple[TritonSource, ...]:
        """The file."""
        return (self.file(SeveralText(self.statement), ("LANES", "WIDE")),)

    def launch(self, tasks: int, sizes: Mapping[str, int], architecture: int = DEFAULT) -> Launch:
        """The file and grid for these sizes; `tasks` is the number of blocks of all tensors."""
        source, s = self.sources[0], self.statement
        reach = 0
        for j in range(s.count):
            own = {name: sizes[f"{name}_{j}"] for name in s.different if f"{name}_{j}" in sizes}
            reach = max(reach, largest(s.kernel, sizes[f"tasks_{j}"], {**sizes, **own}))
        constants = {"LANES": self.flat, "WIDE": int(reach >= INT32)}
        return Launch(source, constants, warps_for(self.flat), max(tasks, 1), multiples(source, tasks, sizes))

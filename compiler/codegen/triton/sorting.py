"""Orders along a dimension in Triton: runs whose elements count those before them, then merges of several runs.

An element of a run of up to 1024 is compared with all others of it: the ones before it are its place. A merge finds the
place of an element among others' runs by bisection. Every step is stable, for every dtype, and parallel over elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from eagerjit.compiler.codegen.builder import FLOATS
from eagerjit.compiler.codegen.triton.kernel import KernelText
from eagerjit.compiler.codegen.triton.mapping import Shape, blocks_of, known
from eagerjit.compiler.codegen.triton.operations import HALVES, Function
from eagerjit.compiler.codegen.triton.source import INT32, Launch, StatementKernel, TritonSource, multiples
from eagerjit.compiler.codegen.triton.tiles import DEFAULT, power_of_two
from eagerjit.compiler.loops import Kernel, Sort

ELEMENTS = 128
"""Elements whose places one program finds."""
COMPARED = 32
"""Elements that these are compared with at a time."""


class SortText(KernelText):
    """Writes one such kernel."""

    def __init__(self, kernel: Kernel, statement: Sort):
        super().__init__(kernel, Shape(False, "loop"))
        self.statement = statement

    def body(self) -> list[str]:
        """The kernel's lines without its head."""
        s = self.statement
        self._functions()
        lines = [
            f"blocks = {blocks_of(str(s.extent), 'LANES')}",
            "block = tl.program_id(0) % blocks",
            "line = tl.program_id(0) // blocks",
            "if WIDE:",
            "    line = line.to(tl.int64)",
            f"rest = line % {s.inner}",
            f"outer = line // {s.inner}",
            "at = block * LANES + tl.arange(0, LANES)",
            f"inside = at < {s.extent}",
            *(self._merge() if s.source else self._runs()),
        ]
        if s.target:
            keys, order = s.target
            lines += [
                "if not LAST:",
                f"    tl.store({keys} + (line * {s.extent} + begin + place), own, mask=inside)",
                f"    tl.store({order} + (line * {s.extent} + begin + place), number, mask=inside)",
                "else:",
            ]
        lines += [
            ("    " * bool(s.target))
            + f"tl.store({s.out} + (outer * ({s.count} * {s.inner}) + place * {s.inner} + rest), number.to(tl.int64), "
            f"mask=inside & (place < {s.count}))",
        ]
        for line in lines:
            self.emit(line)
        return self.lines

    def _functions(self) -> None:
        s = self.statement
        first, second = ("a", "b") if s.op == "ascending" else ("b", "a")
        less, equal = f"{first} < {second}", "a == b"
        if s.dtype in FLOATS:  # NaN comes after all numbers
            less = f"({less}) | (({second} != {second}) & ({first} == {first}))"
            equal = f"({equal}) | ((a != a) & (b != b))"
        text = f"@triton.jit\ndef precedes(a, j, b, i):\n    return ({less}) | (({equal}) & (j < i))\n"
        self.functions["precedes"] = Function("precedes", text)
        if not s.source:
            self.functions["add_i32"] = Function("add_i32", "@triton.jit\ndef add_i32(x, y):\n    return x + y\n")

    @property
    def _wide(self) -> str:
        return ".to(tl.float32)" if self.statement.dtype in HALVES else ""

    def _runs(self) -> list[str]:
        """Places within a run: how many of it come before."""
        s = self.statement
        return [
            f"start = {s.x} + (outer * ({s.extent} * {s.inner}) + rest)",
            f"begin = block * LANES // {s.run} * {s.run}",
            f"own = tl.load(start + at * {s.inner}, mask=inside){self._wide}",
            "number = at",
            "place = tl.full((LANES,), 0, tl.int32)",
            f"for first in range(begin, tl.minimum(begin + {s.run}, {s.extent}), STEP):",
            "    j = first + tl.arange(0, STEP)[:, None]",
            f"    a = tl.load(start + j * {s.inner}, mask=j < {s.extent}){self._wide}",
            f"    before = precedes(a, j, own[None, :], at[None, :]) & (j < {s.extent}) & (j < begin + {s.run})",
            "    place += tl.reduce(before.to(tl.int32), 0, add_i32)",
        ]

    def _merge(self) -> list[str]:
        """Places within several runs: the own one, and how many of each other run come before."""
        s = self.statement
        keys, order = s.source
        together = s.run // s.part
        return [
            f"keys = {keys} + line * {s.extent}",
            f"own = tl.load(keys + at, mask=inside){self._wide}",
            f"number = tl.load({order} + (line * {s.extent} + at), mask=inside)",
            f"part = block * LANES // {s.part}",
            f"begin = part // {together} * {s.run}",
            f"place = at - part * {s.part}",
            f"for other in range(part // {together} * {together}, part // {together} * {together} + {together}):",
            f"    first = other * {s.part}",
            f"    length = tl.where(other == part, 0, tl.minimum({s.extent} - first, {s.part}))",
            "    low = tl.full((LANES,), 0, tl.int32)",
            f"    for bit in range(0, {s.part.bit_length()}):",
            f"        step = {s.part} >> bit",
            "        probe = low + step - 1",
            "        among = inside & (probe < length)",
            f"        a = tl.load(keys + first + probe, mask=among){self._wide}",
            "        low += tl.where(among & precedes(a, other, own, part), step, 0)",
            "    place += low",
        ]


class SortKernel(StatementKernel[Sort]):
    """A step of an order of the IR for the GPU, used like a `TritonKernel`."""

    @cached_property
    def sources(self) -> tuple[TritonSource, ...]:
        """The file."""
        constants = ("LANES", *(() if self.statement.source else ("STEP",)), "LAST", "WIDE")
        return (self.file(SortText(self.kernel, self.statement), constants),)

    def launch(self, tasks: int, sizes: Mapping[str, int], architecture: int = DEFAULT) -> Launch:
        """The file and grid for these sizes; `tasks` is the number of lines, for merges times that of runs but one."""
        s = self.statement
        extent, inner = known(s.extent, sizes), known(s.inner, sizes)
        lines = tasks // max((extent - 1) // s.part, 1) if s.source else tasks
        lanes = min(power_of_two(extent), ELEMENTS, s.part if s.source else s.run)
        constants = {
            "LANES": lanes, "LAST": int(extent <= s.run), "WIDE": int((lines + inner) * extent >= INT32),
        }  # fmt: skip
        if not s.source:
            constants["STEP"] = min(power_of_two(extent), COMPARED)
        source = self.sources[0]
        programs = max(lines, 1) * max(-(-extent // lanes), 1)
        return Launch(source, constants, 4, programs, multiples(source, tasks, sizes))

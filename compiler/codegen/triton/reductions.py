"""Accumulators in Triton: a block of running values, and all lanes combined at the end."""

from __future__ import annotations

import math

from eagerjit.compiler.codegen.accumulate import COMBINE, neutral
from eagerjit.compiler.codegen.builder import FLOATS
from eagerjit.compiler.codegen.triton import operations
from eagerjit.compiler.codegen.triton.names import NONE, Axes, KernelValues, Name
from eagerjit.compiler.codegen.triton.one_pass import OnePass
from eagerjit.compiler.codegen.triton.operations import HALVES, Function
from eagerjit.compiler.codegen.triton.values import TYPES

APART = 512
"""Lanes that are combined with neighbours first; of more with those half of them away."""
LOG2E = math.log2(math.e)


def _power(exponent: str) -> str:
    """The text of e to the power of a number."""
    return f"tl.exp2(({exponent}) * {LOG2E!r})"


class Accumulators(KernelValues):
    """The reductions of one kernel."""

    one_pass: OnePass | None = None
    """How the long rows of a task are read once, if they are."""
    combined = False
    """Whether the parts of a task that several programs share are one."""

    def init(self, name: str, op: str, dtype: str) -> None:
        self.accumulators[name] = (op, dtype, NONE)
        if self.shape.vectors != "loop":
            return
        self.emit(f"{name} = {self._filled(dtype, neutral(op, dtype))}")
        if op.startswith("arg"):
            self.emit(f"{name}_at = {self._filled('i64', -1)}")

    def _filled(self, dtype: str, number: int | float | bool) -> str:
        block = "(TASKS, LANES)" if self.shape.tiled else "(LANES,)"
        return f"tl.full({block}, {operations.plain(dtype, number)}, {TYPES[dtype]})"

    def accumulate(self, name: str, value: Name) -> None:
        op, dtype, _ = self.accumulators[name]
        if value.dtype != dtype:
            value = Name(self.operation("cast", [value], dtype), dtype, value.axes)
        mask = self.mask(frozenset("ti"))
        if op.startswith("arg"):
            self._extreme(name, op, value, mask)
            return
        kept = self.typed(value)
        if mask:
            kept = f"tl.where({mask}, {self.argument(value)}, {self.number(dtype, neutral(op, dtype))})"
        if self.one_pass is not None and name == self.one_pass.maximum:
            self.emit(f"{name}_new = {kept}")
            self._rescale(self.one_pass, f"{name}_new")
            return
        if self.shape.vectors == "loop":
            kept = self.operation(COMBINE[op], [Name(kept, dtype), Name(name, dtype)], dtype)
        self.emit(f"{name} = {kept}")

    def _extreme(self, name: str, op: str, value: Name, mask: str) -> None:
        """The value and the place of the most extreme element so far; a lane that took none has place -1."""
        at = f"tl.cast({self.vector.var if self.vector else 0}, tl.int64)"
        if self.shape.vectors != "loop":
            outside = self.number(value.dtype, neutral(op, value.dtype))
            self.emit(f"{name} = tl.where({mask}, {self.argument(value)}, {outside})")
            self.emit(f"{name}_at = tl.where({mask}, {at}, {operations.full('i64', -1)})")
            return
        better = f"{name}_better"
        function = self._more_extreme(op, value.dtype)
        among = f"{mask} & " if mask else ""
        self.emit(f"{better} = {among}({function}({self.typed(value)}, {name}) | ({name}_at < 0))")
        self.emit(f"{name} = tl.where({better}, {self.typed(value)}, {name})")
        self.emit(f"{name}_at = tl.where({better}, {at}, {name}_at)")

    def _more_extreme(self, op: str, dtype: str) -> str:
        """The function that says whether a new value beats an old one: a NaN beats every number."""
        name = f"more_{op}_{dtype}"
        sign = ">" if op == "argmax" else "<"
        text = f"(new {sign} old)" + (" | ((new != new) & (old == old))" if dtype in FLOATS else "")
        if dtype == "bool":
            text = "new & ~old" if op == "argmax" else "old & ~new"
        self.functions[name] = Function(name, f"@triton.jit\ndef {name}(new, old):\n    return {text}\n")
        return name

    def reduced(self, text: str, op: str, dtype: str) -> str:
        """All lanes of a task combined."""
        axis = "1" if self.shape.tiled else "0"
        combine, kind = COMBINE[op], dtype
        if dtype == "bool":  # there are no blocks of single bits to exchange
            combine, kind, text = {"add": "or", "mul": "and", "maximum": "or", "minimum": "and"}.get(op, op), "i32", (
                f"{text}.to(tl.int32)"
            )
        name = f"{combine}_{kind}"
        if name not in self.functions:
            both = self.operation(combine, [Name("x", kind), Name("y", kind)], kind) if kind not in HALVES else ""
            if kind in HALVES:
                both = self.operation(combine, [Name("x", "f32"), Name("y", "f32")], "f32")
            if not both.startswith(name):
                self.functions[name] = Function(name, f"@triton.jit\ndef {name}(x, y):\n    return {both}\n")
        if op in ("add", "mul") and dtype in FLOATS:
            text = f"{self._in_order(name)}({text})"
        else:
            text = f"tl.reduce({text}, {axis}, {name}{', keep_dims=True' if self.shape.tiled else ''})"
        if dtype in HALVES and op in ("add", "mul"):
            return operations.rounded(text, dtype)
        return f"{text} != 0" if dtype == "bool" else text

    def _in_order(self, combine: str) -> str:
        """The function that combines all lanes in the same order whatever threads have them.

        Triton combines first what a thread has, which depends on what else the kernel reads and writes. Here lanes far
        apart come first, mostly of one thread, then neighbours, of one thread or warp.
        """
        name = f"{combine}_in_order"
        lanes, rows, axis, end = "x.shape[1]", "x.shape[0], ", 1, "x"
        if not self.shape.tiled:
            lanes, rows, axis, end = "x.shape[0]", "", 0, f"tl.reduce(x, 0, {combine})"
        text = "\n".join([
            "@triton.jit",
            f"def {name}(x):",
            f"    if {lanes} == 1:",
            f"        return {end}",
            f"    elif {lanes} > {APART}:",
            f"        return {name}(tl.reduce(tl.reshape(x, ({rows}2, {lanes} // 2)), {axis}, {combine}))",
            "    else:",
            f"        return {name}(tl.reduce(tl.reshape(x, ({rows}{lanes} // 2, 2)), {axis + 1}, {combine}))",
            "",
        ])  # fmt: skip
        self.functions[name] = Function(name, text)
        return name

    def _rescale(self, found: OnePass, kept: str) -> None:
        """One more value of a row that is read once.

        Nothing is taken off where the maximum is infinite, of no value yet or of an infinite one.
        """
        best, total, top, least = found.maximum, found.total, f"{found.maximum}_top", f"{found.maximum}_least"
        self.emit(f"{top} = tl.maximum({best}, {kept}, propagate_nan=tl.PropagateNan.ALL)")
        self.emit(f"{least} = tl.where(tl.abs({top}) == float('inf'), 0.0, {top})")
        self.emit(f"{total} = {total} * {_power(f'{best} - {least}')} + {_power(f'{kept} - {least}')}")
        self.emit(f"{best} = {top}")

    def _combine_parts(self) -> None:
        """The results of a task's programs, in their order, as lanes of the one that comes last."""
        count = len(self.accumulators)
        for position, (name, (op, dtype, _)) in enumerate(self.accumulators.items()):
            self.emit(f"{name} = {self.reduced(name, op, dtype)}")
            place = f"(program * SPLIT + part) * {count} + {position} + tl.full((1, 1), 0, tl.int32)"
            self.emit(f"tl.store(partials + ({place}), {name})")
        self.emit("tl.debug_barrier()")
        self.emit("last = tl.atomic_add(counters + program, 1) == SPLIT - 1")
        self.emit("other = tl.arange(0, PARTS)[None, :]")
        for position, (name, (op, dtype, _)) in enumerate(self.accumulators.items()):
            place = f"(program * SPLIT + other) * {count} + {position}"
            mask = f"mask=(other < SPLIT) & last, other={self.number(dtype, neutral(op, dtype))}"
            self.emit(f'{name} = tl.load(partials + ({place}), {mask}, cache_modifier=".cg")')
        self.emit("row = row & last")

    def finish(self, name: str, accumulator: str, dtype: str) -> None:
        if self.shape.split and not self.combined:
            self._combine_parts()
            self.combined = True
        op, own, _ = self.accumulators[accumulator]
        if self.one_pass is not None and accumulator == self.one_pass.total:  # every lane's is over its own maximum
            less = self.typed(self.wide(self.one_pass.less))
            self.emit(f"{accumulator} = {accumulator} * {_power(f'{self.one_pass.maximum} - {less}')}")
        axes = frozenset("t") if self.shape.tiled else NONE
        if op.startswith("arg"):
            self._finish_extreme(name, accumulator, op, own, axes)
            return
        text = self.reduced(accumulator, op, own)
        if dtype != own:
            self.emit(f"{accumulator}_all = {text}")
            text = self.operation("cast", [Name(f"{accumulator}_all", own)], dtype)
        self.emit(f"{name} = {text}")
        self.values[name] = Name(name, dtype, axes)

    def _finish_extreme(self, name: str, accumulator: str, op: str, dtype: str, axes: Axes) -> None:
        """The first place of the lanes that hold the extreme."""
        at, best = f"{accumulator}_at", f"{accumulator}_best"
        self.emit(f"{best} = {self.reduced(accumulator, op.removeprefix('arg') + 'imum', dtype)}")
        holds = f"({accumulator} == {best})"
        if dtype in FLOATS:
            holds = f"({holds} | (({accumulator} != {accumulator}) & ({best} != {best})))"
        beyond = operations.full("i64", (1 << 63) - 1)
        self.emit(f"{at} = tl.where({holds} & ({at} >= 0), {at}, {beyond})")
        self.emit(f"{name} = {self.reduced(at, 'minimum', 'i64')}")
        self.values[name] = Name(name, "i64", axes)

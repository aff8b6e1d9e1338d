"""Accumulators in Triton: a block of running values, and all lanes combined at the end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from eagerjit.compiler.codegen.accumulate import COMBINE, neutral
from eagerjit.compiler.codegen.builder import BITS, FLOATS
from eagerjit.compiler.codegen.triton import operations
from eagerjit.compiler.codegen.triton.mapping import crowded
from eagerjit.compiler.codegen.triton.names import NONE, Axes, KernelValues, Name
from eagerjit.compiler.codegen.triton.one_pass import Exponentials, OnePass
from eagerjit.compiler.codegen.triton.operations import HALVES, Function
from eagerjit.compiler.codegen.triton.values import TYPES
from eagerjit.compiler.loops import Init, Kernel, walk
from eagerjit.runtime.records import replace

APART = 512
"""Lanes that are combined with neighbours first; of more with those half of them away."""
FOLDED = 2048
"""Lanes of each of many sums, of blocks that have more: halves that threads have wholly are added before."""
LOG2E = math.log2(math.e)


def partials_of(kernel: Kernel) -> tuple[str, int]:
    """The dtype of memory for any running value of a kernel, and how many of them a lane has."""
    found = [s for s in walk(kernel.body) if isinstance(s, Init)]
    extremes = sum(s.op.startswith("arg") for s in found)
    single = not extremes and all(TYPES[s.dtype] == TYPES["f32"] for s in found)
    return "f32" if single else "i64", len(found) + extremes


def _power(exponent: str) -> str:
    """The text of e to the power of a number."""
    return f"tl.exp2(({exponent}) * {LOG2E!r})"


class Accumulators(KernelValues):
    """The reductions of one kernel."""

    exponentials: Mapping[str, Exponentials] = MappingProxyType({})
    """The sums of exponentials of long rows."""
    maximum = total = ""
    """The maximum and the sum of exponentials that a task finds at once, if it does."""
    combined = False
    """Whether the parts of a task that several programs share are one."""

    def init(self, name: str, op: str, dtype: str) -> None:
        self.accumulators[name] = (op, dtype, NONE)
        if self.shape.vectors != "loop":
            return
        if name in self.exponentials and name != self.total:
            self.emit(f"{self.exponentials[name].largest} = {self._filled(dtype, neutral('maximum', dtype))}")
        self._start(self.total_of(name), op, dtype)

    def _start(self, name: str, op: str, dtype: str) -> None:
        """A block that took no value yet."""
        self.emit(f"{name} = {self._filled(dtype, neutral(op, dtype))}")
        if op.startswith("arg"):
            self.emit(f"{name}_at = {self._filled('i64', -1)}")

    def _filled(self, dtype: str, number: int | float | bool) -> str:
        block = "(TASKS, LANES)" if self.shape.tiled else "(LANES,)"
        return f"tl.full({block}, {operations.plain(dtype, number)}, {TYPES[dtype]})"

    def positions(self, count: str) -> str:
        """The numbers of a block's elements."""
        return f"tl.arange(0, {count})" + ("[None, :]" if self.shape.tiled else "")

    def follow_maximum(self, found: OnePass) -> None:
        """Let one loop find a maximum and the sum of exponentials that it is taken off."""
        self.maximum, self.total = found.maximum, found.total
        own = replace(self.exponentials[found.total], largest=found.maximum)
        self.exponentials = {**self.exponentials, found.total: own}

    def has_parts(self, name: str) -> bool:
        """Whether a long row's parts are summed each on their own."""
        op, dtype, _ = self.accumulators[name]
        return self._is_sum(op, dtype) and name not in self.exponentials

    def total_of(self, name: str) -> str:
        """The lanes that an accumulator ends in."""
        has_total = self.shape.vectors == "loop" and not self.shape.split and self.has_parts(name)
        return f"{name}_total" if has_total else name

    def begin_part(self, name: str) -> None:
        """Start with one part of a sum."""
        op, dtype, _ = self.accumulators[name]
        self.emit(f"{name} = {self._filled(dtype, neutral(op, dtype))}")

    def end_part(self, name: str) -> None:
        """Add a part to those before it, lane by lane."""
        op, dtype, _ = self.accumulators[name]
        total = self.total_of(name)
        self.emit(f"{total} = {self.operation(COMBINE[op], [Name(total, dtype), Name(name, dtype)], dtype)}")

    def accumulate(self, name: str, value: Name) -> None:
        op, dtype, _ = self.accumulators[name]
        if value.dtype != dtype:
            value = Name(self.operation("cast", [value], dtype), dtype, value.axes)
        mask = self.mask(frozenset("ti"))
        if op.startswith("arg"):
            self._extreme(name, op, value, mask)
            return
        total = self.total if name == self.maximum else name
        if total in self.exponentials:
            found = self.exponentials[total]
            self._rescale(total, found.largest, value if name == self.maximum else self.wide(found.value), mask)
            return
        kept = self.typed(value)
        if mask:
            kept = f"tl.where({mask}, {self.argument(value)}, {self.number(dtype, neutral(op, dtype))})"
        if self.shape.vectors == "loop":
            kept = self.operation(COMBINE[op], [Name(kept, dtype), Name(name, dtype)], dtype)
        elif self._is_sum(op, dtype) and crowded(self.kernel) and "i" in value.axes:
            kept = f"{self._folded(self._combination(op, dtype))}({kept})"
        self.emit(f"{name} = {kept}")

    def _extreme(self, name: str, op: str, value: Name, mask: str) -> None:
        """The value and the place of the most extreme element so far; a lane that took none has place -1."""
        at = f"tl.cast({self.vector.var if self.vector else 0}, tl.int64)"
        if self.shape.vectors != "loop":
            outside = self.number(value.dtype, neutral(op, value.dtype))
            self.emit(f"{name} = tl.where({mask}, {self.argument(value)}, {outside})")
            self.emit(f"{name}_at = tl.where({mask}, {at}, {operations.full('i64', -1)})")
            return
        self._keep_extreme(name, op, value, at, mask)

    def _keep_extreme(self, name: str, op: str, value: Name, at: str, mask: str) -> None:
        """The more extreme of what there is and what comes later, where the mask holds."""
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

    def _is_sum(self, op: str, dtype: str) -> bool:
        """Whether it matters in which order values are combined."""
        return op in ("add", "mul") and dtype in FLOATS

    def _combination(self, op: str, dtype: str) -> str:
        """The function that combines two values."""
        name = f"{COMBINE.get(op, op)}_{dtype}"
        if name not in self.functions:
            kind = "f32" if dtype in HALVES else dtype
            both = self.operation(COMBINE.get(op, op), [Name("x", kind), Name("y", kind)], kind)
            if not both.startswith(name):
                self.functions[name] = Function(name, f"@triton.jit\ndef {name}(x, y):\n    return {both}\n")
        return name

    def reduced(self, text: str, op: str, dtype: str) -> str:
        """All lanes of a task combined."""
        axis = "1" if self.shape.tiled else "0"
        combine, kind = COMBINE[op], dtype
        if dtype == "bool":  # there are no blocks of single bits to exchange
            combine, kind, text = {"add": "or", "mul": "and", "maximum": "or", "minimum": "and"}.get(op, op), "i32", (
                f"{text}.to(tl.int32)"
            )
        name = self._combination(combine, kind)
        if self._is_sum(op, dtype):
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
        lanes, rows, axis, halves = self._halves(combine)
        name, end = f"{combine}_in_order", "x" if rows else f"tl.reduce(x, 0, {combine})"
        text = "\n".join([
            "@triton.jit",
            f"def {name}(x):",
            f"    if {lanes} == 1:",
            f"        return {end}",
            f"    elif {lanes} > {APART}:",
            f"        return {name}({halves})",
            "    else:",
            f"        return {name}(tl.reduce(tl.reshape(x, ({rows}{lanes} // 2, 2)), {axis + 1}, {combine}))",
            "",
        ])  # fmt: skip
        self.functions[name] = Function(name, text)
        return name

    def _halves(self, combine: str) -> tuple[str, str, int, str]:
        """Texts about a block x: its lanes, its rows before a comma, the lanes' axis, and both its halves combined."""
        lanes, rows, axis = ("x.shape[1]", "x.shape[0], ", 1) if self.shape.tiled else ("x.shape[0]", "", 0)
        return lanes, rows, axis, f"tl.reduce(tl.reshape(x, ({rows}2, {lanes} // 2)), {axis}, {combine})"

    def _folded(self, combine: str) -> str:
        """The function that combines lanes far apart, as `_in_order` does, until there are few."""
        name = f"{combine}_folded"
        lanes, _, _, halves = self._halves(combine)
        text = f"@triton.jit\ndef {name}(x):\n    if {lanes} <= {FOLDED}:\n        return x\n    else:\n"
        self.functions[name] = Function(name, f"{text}        return {name}({halves})\n")
        return name

    def _rescale(self, total: str, best: str, value: Name, mask: str) -> None:
        """One more value of a row whose exponentials are summed.

        Nothing is taken off where the maximum is infinite, of no value yet or of an infinite one.
        """
        new, top, least = f"{total}_new", f"{total}_highest", f"{total}_least"
        lowest = self.number("f32", neutral("maximum", "f32"))
        self.emit(f"{new} = " + (f"tl.where({mask}, {self.argument(value)}, {lowest})" if mask else self.typed(value)))
        self.emit(f"{top} = tl.maximum({best}, {new}, propagate_nan=tl.PropagateNan.ALL)")
        self.emit(f"{least} = tl.where(tl.abs({top}) == float('inf'), 0.0, {top})")
        self.emit(f"{total} = {total} * {_power(f'{best} - {least}')} + {_power(f'{new} - {least}')}")
        self.emit(f"{best} = {top}")

    def _combine_parts(self) -> None:
        """The lanes of a task's programs combined in the order of their parts, in the program that comes last."""
        running = self._carried()
        for position, (name, dtype) in enumerate(running.items()):
            self.emit(f"tl.store({self._partial('part', position, dtype)}, {name})")
        self.emit("tl.debug_barrier()")
        self.emit("last = tl.atomic_add(counters + program, 1) == parts - 1")
        for name, (op, dtype, _) in self.accumulators.items():
            self._start(name, op, dtype)
        self.emit("for other in tl.range(0, tl.where(last, parts, 0), loop_unroll_factor=4):")
        self.depth += 1
        for position, (name, dtype) in enumerate(running.items()):
            found = f'tl.load({self._partial("other", position, dtype)}, cache_modifier=".cg")'
            self.emit(f"{name}_other = {found}{' != 0' if dtype == 'bool' else ''}")
        for name, (op, dtype, _) in self.accumulators.items():
            other = Name(f"{name}_other", dtype)
            if op.startswith("arg"):
                self._keep_extreme(name, op, other, f"{name}_at_other", f"({name}_at_other >= 0)")
                continue
            self.emit(f"{name} = {self.operation(COMBINE[op], [Name(name, dtype), other], dtype)}")
        self.depth -= 1
        self.emit("row = row & last")
        self.masks = {}

    def _carried(self) -> dict[str, str]:
        """The blocks that a loop carries along, with their dtypes."""
        dtypes = {name: "f32" if dtype in HALVES else dtype for name, (_, dtype, _) in self.accumulators.items()}
        extremes = [name for name, (op, _, _) in self.accumulators.items() if op.startswith("arg")]
        return dtypes | {f"{name}_at": "i64" for name in extremes}

    def _partial(self, part: str, position: int, dtype: str) -> str:
        """Where a part's block is: all blocks have as much memory."""
        (own, count), held = partials_of(self.kernel), "u8" if dtype == "bool" else dtype
        block = f"((program * parts + {part}) * {count} + {position})"
        if held == own:
            return f"partials + ({block} * LANES + {self.positions('LANES')})"
        block = f"({block} * {BITS[own] // BITS[held]} * LANES + {self.positions('LANES')})"
        return f"partials.to(tl.pointer_type({TYPES[held]})) + {block}"

    def finish(self, name: str, accumulator: str, dtype: str) -> None:
        if self.shape.split and not self.combined:
            self._combine_parts()
            self.combined = True
        op, own, _ = self.accumulators[accumulator]
        if accumulator in self.exponentials:  # every lane's are over its own maximum
            found = self.exponentials[accumulator]
            less = self.typed(self.wide(found.less))
            self.emit(f"{accumulator} = {accumulator} * {_power(f'{found.largest} - {less}')}")
        axes = frozenset("t") if self.shape.tiled else NONE
        if op.startswith("arg"):
            self._finish_extreme(name, accumulator, op, own, axes)
            return
        text = self.reduced(self.total_of(accumulator), op, own)
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

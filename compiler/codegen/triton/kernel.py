"""Kernel IR -> the text of a Triton kernel, in one of the shapes that `mapping.py` found.

Every value has axes: "t" if it differs between a block's tasks, "i" between its elements. A block's rows are tasks and
its columns elements; a program of a single task has blocks of one dimension. What a value doesn't differ in, Triton
broadcasts. An access is masked by the conditions that have no other axes than its address.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eagerjit.compiler.codegen.accumulate import COMBINE, neutral
from eagerjit.compiler.codegen.builder import FLOATS
from eagerjit.compiler.codegen.triton import operations
from eagerjit.compiler.codegen.triton.mapping import Shape, index_names, walk
from eagerjit.compiler.codegen.triton.operations import HALVES, Function
from eagerjit.compiler.codegen.triton.values import TYPES, is_plain
from eagerjit.compiler.loops import (
    Accumulate,
    Check,
    Finish,
    Index,
    Init,
    Kernel,
    Let,
    Load,
    Loop,
    Stmt,
    Store,
)  # fmt: skip

Axes = frozenset[str]
NONE: Axes = frozenset()


@dataclass(frozen=True, slots=True)
class Name:
    """A value: the expression that it is written as, and a constant's number."""

    text: str
    dtype: str
    axes: Axes = NONE
    number: int | float | bool | None = None


class KernelText:
    """Writes one kernel in one shape."""

    def __init__(self, kernel: Kernel, shape: Shape):
        self.kernel, self.shape = kernel, shape
        self.lines: list[str] = []
        self.depth = 1
        self.functions: dict[str, Function] = {}
        self.uses_tables = self.uses_status = False
        self.values = {p.name: Name(p.name, "index" if p.kind == "size" else p.dtype) for p in kernel.params}
        self.dtypes = {p.name: p.dtype for p in kernel.params}
        self.indices = index_names(kernel)
        self.known: dict[object, str] = {}
        self.conditions: list[tuple[str, Axes]] = []
        self.masks: dict[tuple[str, ...], str] = {}
        self.stored: set[str] = set()
        self.accumulators: dict[str, tuple[str, str, Axes]] = {}
        self.vector: Loop | None = None
        self.steps = 0

    # -- text ---------------------------------------------------------------------------------------------------------

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def call(self, op: str, dtypes: tuple[str, ...], dtype: str, arguments: Sequence[str]) -> str:
        """A call of an operation's device function."""
        function = operations.function(op, dtypes, dtype)
        self.functions[function.name] = function
        if "either(" in function.text:
            self.functions["either"] = Function("either", operations.EITHER)
        self.uses_tables |= function.uses_tables
        return f"{function.name}({', '.join((*arguments, 'tables') if function.uses_tables else arguments)})"

    def body(self) -> list[str]:
        """The kernel's lines without its head."""
        tasks = next(s for s in self.kernel.body if isinstance(s, Loop))
        self.statements([s for s in self.kernel.body if s is not tasks])
        self.emit("program = tl.program_id(0)")
        self.emit("if WIDE:")
        self.emit("    program = program.to(tl.int64)")
        if self.shape.tiled:
            self.emit(f"{tasks.var} = program * TASKS + tl.arange(0, TASKS)[:, None]")
            self.emit(f"row = {tasks.var} < tasks")
            self.values[tasks.var] = Name(tasks.var, "index", frozenset("t"))
            self.conditions.append(("row", frozenset("t")))
        else:
            self.emit(f"{tasks.var} = program")
            self.values[tasks.var] = Name(tasks.var, "index")
        self.statements(tasks.body)
        return self.lines

    # -- values -------------------------------------------------------------------------------------------------------

    def name(self, name: str) -> Name:
        return self.values[name]

    def wide(self, name: str) -> Name:
        """A value as operations take it: an index has 64 bits there."""
        found = self.values[name]
        return Name(f"tl.cast({found.text}, tl.int64)", "i64", found.axes) if found.dtype == "index" else found

    def typed(self, value: Name) -> str:
        """A value's text where a plain number would lack its type."""
        return value.text if value.number is None else operations.full(value.dtype, value.number)

    def number(self, dtype: str, number: int | float | bool) -> str:
        """A number as an argument of Triton's own functions."""
        text = operations.plain(dtype, number)
        return text if text is not None and is_plain(dtype, text) else operations.full(dtype, number)

    def argument(self, value: Name) -> str:
        """A value as an argument of Triton's own functions."""
        return value.text if value.number is None else self.number(value.dtype, value.number)

    def assign(self, name: str, text: str, dtype: str, axes: Axes, key: object = None) -> None:
        """A new value, or a known one of the same expression."""
        key = (text, dtype) if key is None else key
        found = self.known.get(key)
        if found is None:
            self.emit(f"{name} = {text}")
            found = self.known[key] = name
        self.values[name] = Name(found, dtype, axes)

    # -- statements ---------------------------------------------------------------------------------------------------

    def statements(self, body: Sequence[Stmt]) -> None:
        """A run of statements."""
        for s in body:
            match s:
                case Let():
                    self.let(s)
                case Load(name, param, index, dtype):
                    self.load(name, param, index, dtype)
                case Store(param, index, value):
                    self.store(param, index, self.wide(value))
                case Loop("serial"):
                    self.serial(s)
                case Loop():
                    self.vector_loop(s)
                case Init(name, op, dtype):
                    self.init(name, op, dtype)
                case Accumulate(name, value):
                    self.accumulate(name, self.wide(value))
                case Finish(name, accumulator, dtype):
                    self.finish(name, accumulator, dtype)
                case Check(condition, status):
                    self.check(self.values[condition], status)

    def let(self, s: Let) -> None:
        if s.op == "const":
            assert s.value is not None
            text = operations.plain(s.dtype, s.value)
            number = None if s.name in self.indices else s.value
            self.values[s.name] = Name(text or operations.full(s.dtype, s.value), s.dtype, NONE, number)
            if s.name in self.indices:
                self.values[s.name] = Name(str(int(s.value)), "index")
            return
        if s.name in self.indices:
            self._index_let(s)
            return
        arguments = [self.wide(a) for a in s.args]
        axes = NONE.union(*(a.axes for a in arguments))
        self.assign(s.name, self.operation(s.op, arguments, s.dtype), s.dtype, axes)

    def _index_let(self, s: Let) -> None:
        arguments = [self.values[a] for a in s.args]
        a, b = (x.text for x in arguments)
        axes = NONE.union(*(x.axes for x in arguments))
        operator = {"add": "+", "mul": "*", "rem": "%", "floordiv": "//"}.get(s.op)
        text = f"tl.minimum({a}, {b})" if operator is None else f"{a} {operator} {b}"
        self.assign(s.name, text, "index", axes)

    def operation(self, op: str, arguments: list[Name], dtype: str) -> str:
        """The expression of an operation."""
        dtypes = tuple(a.dtype for a in arguments)
        if op == "cast":
            text = operations.conversion(self.typed(arguments[0]), dtypes[0], dtype)
            if text is not None:
                return text
        texts = [self.typed(a) for a in arguments]
        if op in operations.INFIX or op in operations.BITWISE:
            free = [i for i, a in enumerate(arguments) if a.number is not None and operations.plain(a.dtype, a.number)]
            if len(free) == 1:
                texts[free[0]] = arguments[free[0]].text
        text = operations.infix(op, tuple(texts), dtypes)
        if text is None:
            return self.call(op, dtypes, dtype, texts)
        if op == "where":
            text = operations.infix(op, (texts[0], *map(self.argument, arguments[1:])), dtypes)
        if dtype in HALVES and op in (*operations.UNROUNDED, "sqrt"):
            return operations.rounded(f"({text})" if op in operations.INFIX else text, dtype)
        return text

    # -- memory -------------------------------------------------------------------------------------------------------

    def address(self, param: str, index: Index) -> tuple[str, Axes]:
        """A pointer's text and its axes."""
        terms: list[str] = []
        axes: Axes = NONE
        for name, stride in index:
            found = self.values[name]
            axes |= found.axes
            if found.text != "0":
                terms.append(found.text if stride == 1 else f"{found.text} * {stride}")
        if not terms:
            return param, axes
        return f"{param} + " + (terms[0] if len(terms) == 1 else f"({' + '.join(terms)})"), axes

    def mask(self, axes: Axes) -> str:
        """The conditions of an access with these axes, as an expression; empty if there are none."""
        wanted = tuple(c for c, own in self.conditions if own <= axes)
        if len(wanted) < 2:
            return wanted[0] if wanted else ""
        if wanted not in self.masks:
            self.masks[wanted] = name = "inside" if wanted == ("row", "column") else f"mask{len(self.masks)}"
            self.emit(f"{name} = {' & '.join(wanted)}")
        return self.masks[wanted]

    def load(self, name: str, param: str, index: Index, dtype: str) -> None:
        if param in self.shape.kept and self.vector is not None and f"{param}_sum" in self.values:
            self.values[name] = self.values[f"{param}_sum"]
            return
        pointer, axes = self.address(param, index)
        key = ("load", pointer)
        found = self.known.get(key)
        if found is not None:
            self.values[name] = Name(found, dtype, axes)
            return
        if param in self.stored:
            self.emit("tl.debug_barrier()")
            self.stored.clear()
        mask = self.mask(axes)
        text = f"tl.load({pointer}{f', mask={mask}' if mask else ''})"
        if dtype == "bool":
            text += " != 0"
        elif dtype in HALVES:
            text += ".to(tl.float32)"
        self.assign(name, text, dtype, axes, key)

    def store(self, param: str, index: Index, value: Name) -> None:
        if param in self.shape.kept and self.vector is not None:
            self._keep(param, index, value)
            return
        pointer, axes = self.address(param, index)
        dtype = self.dtypes[param]
        for key in [k for k in self.known if isinstance(k, tuple) and k[0] == "load" and _memory_of(k) == param]:
            del self.known[key]
        mask = self.mask(axes)
        # Storing converts to the memory's type by itself; a number is given one.
        self.emit(f"tl.store({pointer}, {self.argument(value)}{f', mask={mask}' if mask else ''})")
        if value.number is None and dtype not in HALVES and value.axes == axes:
            self.known["load", pointer] = value.text
        self.stored.add(param)

    def _keep(self, param: str, index: Index, value: Name) -> None:
        """A store to memory that is a value for the time being."""
        name, dtype = f"{param}_sum", self.dtypes[param]
        if value.number is not None:
            value = Name(f"tl.full((LANES,), {operations.plain(dtype, value.number) or 0.0}, {TYPES[dtype]})", dtype)
        self.emit(f"{name} = {value.text}")
        self.values[name] = Name(name, dtype, frozenset("i"))
        self.values[f"{param}_place"] = Name(self.address(param, index)[0], dtype)

    # -- loops --------------------------------------------------------------------------------------------------------

    def _bound(self, bound: int | str) -> str:
        return str(bound) if isinstance(bound, int) else self.values[bound].text

    def serial(self, loop: Loop) -> None:
        self.emit(f"for {loop.var} in range({self._bound(loop.start)}, {self._bound(loop.stop)}):")
        self.values[loop.var] = Name(loop.var, "index")
        written = {s.param for s in walk(loop.body) if isinstance(s, Store)}
        outside = self._enter(written)
        self.statements(loop.body)
        self._leave(outside)
        for param in sorted(self.shape.kept & written):
            place = self.values[f"{param}_place"].text
            mask = self.mask(frozenset("i"))
            self.emit(f"tl.store({place}, {param}_sum{f', mask={mask}' if mask else ''})")

    def _enter(self, written: set[str]) -> tuple[dict[object, str], list[tuple[str, Axes]], dict[tuple[str, ...], str]]:
        outside = (self.known, self.conditions, self.masks)
        self.known = {k: v for k, v in self.known.items() if not isinstance(k, tuple) or _memory_of(k) not in written}
        self.conditions, self.masks = list(self.conditions), dict(self.masks)
        self.stored |= written - self.shape.kept
        self.depth += 1
        return outside

    def _leave(self, outside: tuple[dict[object, str], list[tuple[str, Axes]], dict[tuple[str, ...], str]]) -> None:
        written = self.stored
        self.known, self.conditions, self.masks = outside
        self.known = {k: v for k, v in self.known.items() if not isinstance(k, tuple) or _memory_of(k) not in written}
        self.depth -= 1

    def vector_loop(self, loop: Loop) -> None:
        lanes = "tl.arange(0, LANES)" + ("[None, :]" if self.shape.tiled else "")
        self.vector = loop
        self.values[loop.var] = Name(loop.var, "index", frozenset("i"))
        if self.shape.vectors == "loop":
            first = f"first{self.steps}"
            self.steps += 1
            self.emit(f"for {first} in range({self._bound(loop.start)}, {self._bound(loop.stop)}, LANES):")
            outside = self._enter({s.param for s in walk(loop.body) if isinstance(s, Store)})
            self._lanes(loop, f"{first} + {lanes}")
            self.statements(loop.body)
            self._leave(outside)
        else:
            start = "tl.program_id(1) * LANES + " if self.shape.vectors == "grid" else ""
            if loop.start != 0:
                start = f"{self._bound(loop.start)} + "
            self._lanes(loop, start + lanes)
            self.statements(loop.body)
        self.vector = None

    def _lanes(self, loop: Loop, text: str) -> None:
        """The loop's variable and the condition that it is within the loop."""
        key = ("lanes", text, loop.stop)
        if key in self.known:
            return
        self.known[key] = loop.var
        self.emit(f"{loop.var} = {text}")
        self.emit(f"column = {loop.var} < {self._bound(loop.stop)}")
        if ("column", frozenset("i")) not in self.conditions:
            self.conditions.append(("column", frozenset("i")))

    # -- accumulators and checks ----------------------------------------------------------------------------------------

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
        kept = f"tl.where({mask}, {self.argument(value)}, {self.number(dtype, neutral(op, dtype))})"
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
        self.emit(f"{better} = {mask} & ({function}({self.typed(value)}, {name}) | ({name}_at < 0))")
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
        text = f"tl.reduce({text}, {axis}, {name}{', keep_dims=True' if self.shape.tiled else ''})"
        if dtype in HALVES and op in ("add", "mul"):
            return operations.rounded(text, dtype)
        return f"{text} != 0" if dtype == "bool" else text

    def finish(self, name: str, accumulator: str, dtype: str) -> None:
        op, own, _ = self.accumulators[accumulator]
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

    def check(self, condition: Name, status: int) -> None:
        """Lanes that fail say so and do no more."""
        self.uses_status = True
        mask = self.mask(condition.axes)
        failed = f"~{condition.text}" + (f" & {mask}" if mask else "")
        self.functions["fail"] = Function("fail", FAIL)
        self.emit(f"fail(status, {failed}, {status})")
        if (condition.text, condition.axes) not in self.conditions:
            self.conditions.append((condition.text, condition.axes))


FAIL = '''@triton.jit
def fail(status, failed, number):
    tl.store(status + failed.to(tl.int32) * 0, number, mask=failed)
'''


def _memory_of(key: object) -> str:
    """The memory that a known load reads."""
    return key[1].split(" ")[0] if isinstance(key, tuple) and key[0] == "load" else ""

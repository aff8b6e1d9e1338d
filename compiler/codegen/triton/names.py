"""The values and the memory of one Triton kernel under construction.

Every value has axes: "t" if it differs between a block's tasks, "i" between its elements. A block's rows are tasks and
its columns elements; a program of a single task has blocks of one dimension. What a value doesn't differ in, Triton
broadcasts. An access is masked by the conditions that have no other axes than its address.
"""

from __future__ import annotations

from collections.abc import Sequence

from eagerjit.compiler.codegen.triton import operations
from eagerjit.compiler.codegen.triton.mapping import Shape, index_names
from eagerjit.compiler.codegen.triton.operations import HALVES, Function
from eagerjit.compiler.codegen.triton.values import TYPES, is_plain
from eagerjit.compiler.loops import Index, Kernel, Let, Load, Loop, Stmt, walk
from eagerjit.runtime.records import record

Axes = frozenset[str]
NONE: Axes = frozenset()
READ_ALONG = """# Up to Triton 3.8 this only says along which dimension a warp reads; later versions would believe it.
ASKED = tl.constexpr(triton.__version__.startswith(("3.6.", "3.7.", "3.8.")))


@triton.jit
def read_along(places, down: tl.constexpr, across: tl.constexpr):
    if ASKED:
        places = tl.max_contiguous(tl.multiple_of(places, (1, 1)), (down, across))
    return places
"""


@record(frozen=True)
class Name:
    """A value: the expression that it is written as, and a constant's number."""

    text: str
    dtype: str
    axes: Axes = NONE
    number: int | float | bool | None = None


def readers(body: Sequence[Stmt]) -> dict[str, set[int]]:
    """The numbers of the vector loops that read each memory."""
    found: dict[str, set[int]] = {}
    vectors = (s for s in walk(body) if isinstance(s, Loop) and s.kind == "vector")
    for number, loop in enumerate(vectors):
        for s in loop.body:
            if isinstance(s, Load):
                found.setdefault(s.param, set()).add(number)
    return found


class KernelValues:
    """What has been written of one kernel in one shape, and what its names stand for."""

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
        self.readers = readers(kernel.body)

    # -- text ---------------------------------------------------------------------------------------------------------

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def call(self, op: str, dtypes: tuple[str, ...], dtype: str, arguments: Sequence[str]) -> str:
        """A call of an operation's device function."""
        function = operations.function(op, dtypes, dtype)
        self.functions[function.name] = function
        if "either" in function.text:
            self.functions["either"] = Function("either", operations.EITHER)
        self.uses_tables |= function.uses_tables
        return f"{function.name}({', '.join((*arguments, 'tables') if function.uses_tables else arguments)})"

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

    # -- operations ---------------------------------------------------------------------------------------------------

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
            return f"tl.where({texts[0]}, {', '.join(map(self.argument, arguments[1:]))})"
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
        if len(terms) > 1 and axes >= frozenset("ti") and self._are_apart(index):
            return f"{param} + {self.read_along(' + '.join(terms), 1)}", axes
        return f"{param} + " + (terms[0] if len(terms) == 1 else f"({' + '.join(terms)})"), axes

    def read_along(self, places: str, dimension: int) -> str:
        """The text of a block's places of which one thread reads one, and a warp those along a dimension."""
        self.functions["read_along"] = Function("read_along", READ_ALONG)
        return f"read_along({places}, {('2, 1', '1, 2')[dimension]})"

    def _are_apart(self, index: Index) -> bool:
        """Whether a row's elements are in steps, or where loaded numbers say, and no column's follow each other."""
        for name, stride in index:
            value = self.values[name]
            if value.text == "t" and stride == 1:
                return False
            in_steps = value.text == "i" and isinstance(stride, int) and stride != 1
            if "i" in value.axes and value.dtype == "index" and not in_steps:
                return False
        return True

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
        text = f"tl.load({', '.join([pointer, *([f'mask={mask}'] if mask else []), *self._eviction(param, axes)])})"
        if dtype == "bool":
            text += " != 0"
        elif dtype in HALVES:
            text += ".to(tl.float32)"
        self.assign(name, text, dtype, axes, key)

    def _eviction(self, param: str, axes: Axes) -> list[str]:
        """What the cache is told of a long row: to keep it until the last loop over it has read it."""
        readers = self.readers.get(param, set())
        if self.shape.vectors != "loop" or self.vector is None or "t" not in axes or len(readers) < 2:
            return []
        return [f'eviction_policy="evict_{"last" if self.steps <= max(readers) else "first"}"']

    def store(self, param: str, index: Index, value: Name, after: int = 0) -> None:
        if param in self.shape.kept and self.vector is not None:
            self._keep(param, index, value)
            return
        pointer, axes = self.address(param, index)
        pointer += f" + {after}" if after else ""
        dtype = self.dtypes[param]
        for key in [k for k in self.known if isinstance(k, tuple) and k[0] == "load" and memory_of(k) == param]:
            del self.known[key]
        if "t" in value.axes - axes:  # the one task's value, a block of one element
            pointer, axes = f"{pointer} + t * 0", axes | {"t"}
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


def memory_of(key: object) -> str:
    """The memory that a known load reads."""
    return key[1].split(" ")[0] if isinstance(key, tuple) and key[0] == "load" else ""

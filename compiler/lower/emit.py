"""Kernel emission: the values of a group, as kernel IR at the loop level where they vary.

Statements are collected per level: the kernel's head (no loop variable), the row, and the innermost vector body. Every
memory access keeps its affine address until all are known, so that loops which run through memory as one can be merged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from eagerjit.compiler import loops, sizes
from eagerjit.compiler.affine import Affine, Map, address, broadcast_map
from eagerjit.compiler.ir import Node
from eagerjit.compiler.layout import layout
from eagerjit.compiler.lower.accesses import PARTS, Access, Indexed, Position, parts
from eagerjit.compiler.lower.groups import Group, is_inline, reached
from eagerjit.compiler.lower.prepare import watched
from eagerjit.compiler.shapes import contiguous_strides
from eagerjit.runtime.records import record

HEAD, ROW, BODY = 0, 1, 2


@record(frozen=True)
class Pointer:
    """A parameter: the memory that holds a node, from an element offset on."""

    root: Node
    offset: sizes.Expr = 0


@record(frozen=True)
class Temporary:
    """A parameter: memory of the program that no node stands for, such as partial sums."""

    name: str
    dtype: str


@record(frozen=True)
class Scratch:
    """A parameter: one row of the thread's scratch memory."""

    position: int
    dtype: str
    offset: sizes.Expr


@record(frozen=True)
class Number:
    """A parameter: a Python float of the call."""

    node: Node


@record(frozen=True)
class Amount:
    """A parameter: a size."""

    size: sizes.Expr


Argument = Pointer | Temporary | Scratch | Number | Amount


@dataclass
class Failures:
    """Exceptions of the checks in a program's kernels, numbered from 1: class, message, the size that its %d shows."""

    checks: tuple[str, ...] = ()
    messages: list[tuple[str, str, sizes.Expr | None]] = field(default_factory=list)

    def status(self, exception: str, message: str, size: sizes.Expr | None = None) -> int:
        """The status of a failure, new or known."""
        entry = (exception, message, size)
        if entry not in self.messages:
            self.messages.append(entry)
        return self.messages.index(entry) + 1


class Emitter:
    """Emits the values of one group. `inner` is the first loop variable of the vectorised part."""

    def __init__(self, group: Group, inner: int, inline: dict[Node, bool], failures: Failures):
        self.group, self.inner, self.inline, self.failures = group, inner, inline, failures
        self.arguments: dict[Argument, str] = {}
        self.params: list[loops.Param] = []
        self.head: list[Any] = []
        self.row: list[Any] = []
        self.body: list[Any] = []
        self.done: list[list[Any]] = []
        self.values: dict[Any, tuple[str, int]] = {}
        self.lanes: dict[Any, tuple[str, int]] = {}
        self.pairs: dict[str, tuple[tuple[str, int], tuple[str, int]]] = {}
        self.names = 0
        self._reload: dict[Node, Argument] = {}

    # -- names --------------------------------------------------------------------------------------------------------

    def name(self) -> str:
        """A fresh value name."""
        self.names += 1
        return f"v{self.names}"

    def param(self, argument: Argument, dtype: str) -> str:
        """The parameter that carries an argument."""
        found = self.arguments.get(argument)
        if found is None:
            kind = {Number: "number", Amount: "size", Scratch: "scratch"}.get(type(argument), "memory")
            found = self.arguments[argument] = f"{kind[0]}{len(self.params)}"
            self.params.append(loops.Param(found, kind, dtype))
        return found

    def amount(self, size: sizes.Expr) -> int | str:
        """A size as an operand: itself if known, else a parameter."""
        return size if isinstance(size, int) else self.param(Amount(size), "i64")

    # -- statements ---------------------------------------------------------------------------------------------------

    def level_of(self, place: Affine) -> int:
        """The innermost loop level that an affine function varies in."""
        if not place.terms:
            return HEAD
        return BODY if max(v for v, _ in place.terms) >= self.inner else ROW

    def add(self, level: int, statement: Any) -> None:
        """Append a statement to the code of a level."""
        (self.head, self.row, self.body)[level].append(statement)

    def pair(self, re: tuple[str, int], im: tuple[str, int]) -> tuple[str, int]:
        """A complex value: a name for its parts, of which alone there are statements."""
        name = f"{re[0]},{im[0]}"
        self.pairs[name] = re, im
        return name, max(re[1], im[1])

    def let(self, op: str, args: tuple[tuple[str, int], ...], dtype: str, value: Any = None) -> tuple[str, int]:
        """A scalar operation, where its operands allow."""
        level = max((lv for _, lv in args), default=HEAD)
        names = tuple(n for n, _ in args)
        key = (op, names, dtype, repr(value))
        memo = self.lanes if level == BODY else self.values
        found = memo.get(key)
        if found is None:
            found = memo[key] = (self.name(), level)
            self.add(level, loops.Let(found[0], op, names, dtype, value))
        return found

    def constant(self, value: Any, dtype: str) -> tuple[str, int]:
        """A literal."""
        return self.let("const", (), dtype, value)

    def load(self, argument: Argument, place: Affine, dtype: str) -> tuple[str, int]:
        """An element of memory."""
        if dtype in PARTS:
            re, im = (self.load(argument, at, PARTS[dtype]) for at in parts(place))
            return self.pair(re, im)
        level = self.level_of(place)
        key = (argument, place)
        memo = self.lanes if level == BODY else self.values
        found = memo.get(key)
        if found is None:
            found = memo[key] = (self.name(), level)
            self.add(level, Access(self.param(argument, dtype), place, dtype, found[0]))
        return found

    def store(self, argument: Argument, place: Affine, dtype: str, value: tuple[str, int], level: int) -> None:
        """Write an element of memory."""
        if dtype in PARTS:
            (re, _), (im, _) = self.pairs[value[0]]
            param = self.param(argument, PARTS[dtype])
            self.add(level, Access(param, place.scaled(2), PARTS[dtype], None, re, im))
            return
        self.add(level, Access(self.param(argument, dtype), place, dtype, None, value[0]))

    def position(self, place: Affine) -> tuple[str, int]:
        """An index as an i64 value."""
        if not place.terms:
            if isinstance(place.offset, int):
                return self.constant(place.offset, "i64")
            return self.param(Amount(place.offset), "i64"), HEAD
        level = self.level_of(place)
        memo = self.lanes if level == BODY else self.values
        found = memo.get(place)
        if found is None:
            found = memo[place] = (self.name(), level)
            self.add(level, Position(found[0], place))
        return found

    def next_phase(self) -> None:
        """Start another innermost loop: lane values of the last one are gone."""
        self.done.append(self.body)
        self.body = []
        self.lanes = {}

    def reload(self, node: Node, argument: Argument) -> None:
        """From the next phase on read a full value back from memory."""
        self._reload[node] = argument

    # -- values -------------------------------------------------------------------------------------------------------

    def value(self, node: Node, map_: Map) -> tuple[str, int]:
        """The value of a node at a map. Operands come first, without recursion: chains of them may be long."""
        stack = [(node, map_)]
        while True:
            key = stack[-1]
            found = self.lanes.get(key) or self.values.get(key)
            if found is None:
                missing = [k for k in self._operands(*key) if k not in self.lanes and k not in self.values]
                if missing:
                    stack += reversed(missing)
                    continue
                found = self._value(*key)
                (self.lanes if found[1] == BODY else self.values)[key] = found
            stack.pop()
            if not stack:
                return found

    def _operands(self, node: Node, map_: Map) -> list[tuple[Node, Map]]:
        """The values from which a node's value is computed right here, in the order in which it asks for them."""
        family = node.op.family
        if family not in ("elementwise", "view") or node in self._reload or "gathers" in node.op.traits:
            return []
        mine = node in self.group.full or node in self.group.row
        if not mine and not is_inline(node, self.inline) and (family != "view" or not self._computed_here(node)):
            return []
        shape = node.type.shape
        if family == "view":
            return [(node.inputs[0], reached(node, map_, self.group))]
        return [(i, broadcast_map(map_, shape, i.type.shape)) for i in node.inputs]

    def _value(self, node: Node, map_: Map) -> tuple[str, int]:
        group, op = self.group, node.op
        if node in self._reload:
            argument = self._reload[node]
            if isinstance(argument, Scratch):
                name = self.name()
                param = self.param(argument, node.dtype.short)
                self.add(BODY, loops.Load(name, param, (("i", 1),), node.dtype.short))
                return name, BODY
            place = address(map_, contiguous_strides(node.type.shape), 0)
            return self.load(argument, place, node.dtype.short)
        mine = node in group.full or node in group.row
        if op.family == "argument" and node.attributes.get("number"):
            return self.param(Number(node), "f64"), HEAD
        if not mine and not is_inline(node, self.inline):
            if op.family != "view" or not self._computed_here(node):
                return self._from_memory(node, map_)
        if op.family == "view":
            return self.value(node.inputs[0], reached(node, map_, group))
        if op.family == "generator":
            return self._generated(node, map_)
        if "gathers" in op.traits:
            return self._gathered(node, map_)
        shape = node.type.shape
        operands = tuple(self.value(i, broadcast_map(map_, shape, i.type.shape)) for i in node.inputs)
        if "parts" in op.traits:
            return self.pair(*operands)
        if "part" in op.traits:
            return self.pairs[operands[0][0]][op.scalar == "imag"]
        if node.dtype.is_complex:  # a copy
            return operands[0]
        self._require(node, operands)
        return self._checked(node, self.let(op.scalar, operands, node.dtype.short))

    def _computed_here(self, node: Node) -> bool:
        root = node
        while root.op.family == "view" and root not in self.group.full:
            root = root.inputs[0]
        return root in self.group.full or root in self.group.row

    def _from_memory(self, node: Node, map_: Map) -> tuple[str, int]:
        where = layout(node)
        place = address(map_, where.strides, 0)
        offset = sizes.add(where.offset, place.offset)
        found = self.load(Pointer(where.root, offset), Affine(place.terms), node.dtype.short)
        return self._checked(where.root, found) if where.root.op.family in ("linear", "reduction") else found

    def _require(self, node: Node, operands: tuple[tuple[str, int], ...]) -> None:
        """What has to hold (integers are not divided by zero) or ends the kernel with an error."""
        good, message, exception = operands[0], "ZeroDivisionError in " + node.op.name, "RuntimeError"
        where = _where(node) if ":" in node.source else ""
        if "requires" in node.op.traits:
            message, exception, where = node.attributes["message"], node.attributes["error"], _where(node)
        elif node.dtype.kind == "float" or "integer_zero_divisor" not in node.op.traits:
            return
        else:
            good = self.let("ne", (operands[1], self.constant(0, node.dtype.short)), "bool")
        self.add(good[1], loops.Check(good[0], self.failures.status(exception, message + where)))

    def _checked(self, node: Node, value: tuple[str, int]) -> tuple[str, int]:
        """The value itself; where checks are on, NaN or an infinity ends the kernel with an error.

        Not in a step on the way to a result, which has no source: what is wrong there may not be chosen.
        """
        if node.dtype.kind != "float" or not node.source:
            return value
        dtype = node.dtype.short
        for check in self.failures.checks:
            if check == "nan":
                good = self.let("eq", (value, value), "bool")
            else:
                good = self.let("ne", (self.let("abs", (value,), dtype), self.constant(float("inf"), dtype)), "bool")
            what = {"nan": "NaN", "inf": "an infinity"}[check] + " in " + watched(node).op.name
            status = self.failures.status("FloatingPointError", what + _where(node))
            self.add(good[1], loops.Check(good[0], status))
        return value

    def _generated(self, node: Node, map_: Map) -> tuple[str, int]:
        attributes, dtype = node.attributes, node.dtype.short
        match node.op.scalar:
            case "const":
                return self.constant(attributes["value"], dtype)
            case "size":
                return self.position(Affine((), attributes["size"]))
            case "index":
                return self._cast(self.position(map_[0]), "i64", dtype)
            case "philox":
                return self._random(node, map_)
        raise AssertionError(node.op.scalar)

    def _cast(self, value: tuple[str, int], source: str, dtype: str) -> tuple[str, int]:
        return value if source == dtype else self.let("cast", (value,), dtype)

    def _random(self, node: Node, map_: Map) -> tuple[str, int]:
        """Philox4x32-10 on the element's row-major position; see `random_bits` for the reference."""
        state = node.inputs[0]
        seed = self.value(state, (Affine(),))
        start = self.value(state, (Affine((), 1),))
        place = address(map_, contiguous_strides(node.type.shape), 0)
        counter = self.let("add", (start, self.position(place)), "i64")
        mask, half = self.constant(0xFFFFFFFF, "u64"), self.constant(32, "u64")

        def wide(op: str, *operands: tuple[str, int]) -> tuple[str, int]:
            return self.let(op, operands, "u64")

        # Words are the low halves of u64 values, as wide multiplications take them; what is above is anything.
        counter, seed = wide("cast", counter), wide("cast", seed)
        zero = self.constant(0, "u64")
        c, k = [counter, wide("shr", counter, half), zero, zero], [seed, wide("shr", seed, half)]
        multipliers = self.constant(0xD2511F53, "u64"), self.constant(0xCD9E8D57, "u64")
        weyl = self.constant(0x9E3779B9, "u64"), self.constant(0xBB67AE85, "u64")
        for _ in range(10):
            a, b = (wide("mul", wide("and", c[2 * i], mask), multipliers[i]) for i in range(2))
            first, third = wide("xor", wide("shr", b, half), c[1]), wide("xor", wide("shr", a, half), c[3])
            c = [wide("xor", first, k[0]), b, wide("xor", third, k[1]), a]
            k = [wide("add", k[i], weyl[i]) for i in range(2)]
        return self.let("cast", (wide("and", c[node.attributes["word"]], mask),), "i64")

    def _gathered(self, node: Node, map_: Map) -> tuple[str, int]:
        """A load at an index that is itself a value; out of range ends the kernel with an exception."""
        table, index = node.inputs
        rank = len(index.type.shape)
        if "rows" in node.op.traits:
            dim, index_map, rest = 0, map_[:rank], map_[rank:]
            table_map = (Affine(), *rest)
        else:
            dim = node.attributes["dim"]
            index_map = map_
            table_map = (*map_[:dim], Affine(), *map_[dim + 1 :])
        where = layout(table)
        place = address(table_map, where.strides, where.offset)
        found = self.checked_index(index, index_map, table.type.shape[dim], node)
        memory, start, step = Pointer(where.root, place.offset), Affine(place.terms), where.strides[dim]
        return self.indexed_load(memory, start, found, step, table.dtype.short)

    def checked_index(self, index: Node, map_: Map, size: sizes.Expr, node: Node) -> tuple[str, int]:
        """An index as i64: one that is not in [0, size) ends the kernel."""
        name, level = self._cast(self.value(index, map_), index.dtype.short, "i64")
        if not sizes.least(index.type.numel):
            # All may have one value that is known before the loops over them, but there may be none of them.
            level = max([level, *map(self.level_of, map_)])
        self._check_index((name, level), size, node)
        return name, level

    def _check_index(self, index: tuple[str, int], size: sizes.Expr, node: Node) -> None:
        low = self.let("ge", (index, self.constant(0, "i64")), "bool")
        high = self.let("lt", (index, self.position(Affine((), size))), "bool")
        inside = self.let("and", (low, high), "bool")
        message = f"index out of range in {node.attributes.get('name', node.op.name)}{_where(node)}"
        exception = node.attributes.get("error") or ("RuntimeError" if "dim" in node.attributes else "IndexError")
        told = node.attributes.get("size", size)
        status = self.failures.status(exception, message.replace("%", "%%") + ": the dimension has size %d", told)
        self.add(index[1], loops.Check(inside[0], status))

    def indexed_load(
        self, argument: Argument, place: Affine, index: tuple[str, int], stride: sizes.Expr, dtype: str
    ) -> tuple[str, int]:
        """argument[place + index * stride]."""
        if dtype in PARTS:
            twice = sizes.mul(stride, 2)
            re, im = (self.indexed_load(argument, at, index, twice, PARTS[dtype]) for at in parts(place))
            return self.pair(re, im)
        name, level = self.name(), max(self.level_of(Affine(place.terms)), index[1])
        self.add(level, Indexed(self.param(argument, dtype), place, index[0], self.amount(stride), dtype, name))
        return name, level


def _where(node: Node) -> str:
    return f" ({node.source})" if node.source not in ("", node.op.name) else ""

"""Instructions of one LLVM function under construction, as text.

A `Builder` writes pure instructions once (equal ones share a register) and outside every loop they don't vary in, so
the text needs little optimisation afterwards. A `Value` is one result: a scalar (`lanes` 0) or one value per lane.
Scalars are broadcast where they meet lanes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

LLVM_TYPES = {
    "bool": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "i128": "i128",
    "u8": "i8", "u16": "i16", "u32": "i32", "u64": "i64", "u128": "i128",
    "f16": "float", "bf16": "float", "f32": "float", "f64": "double", "ptr": "ptr",
}  # fmt: skip
"""Register types: f16 and bf16 values live as f32 values that their format can represent."""

BITS = {
    "bool": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "i128": 128, "u8": 8, "u16": 16, "u32": 32, "u64": 64,
    "u128": 128, "f16": 16, "bf16": 16, "f32": 32, "f64": 64,
}  # fmt: skip
FLOATS = frozenset(("f16", "bf16", "f32", "f64"))
SIGNED = frozenset(("i8", "i16", "i32", "i64", "i128"))


class Value:
    """A register or a constant. `depth` is the number of loops it varies in; operators build instructions."""

    __slots__ = ("builder", "constant", "depth", "dtype", "lanes", "text")

    def __init__(self, builder: Builder, dtype: str, lanes: int, text: str, depth: int, constant: bool = False):
        self.builder, self.dtype, self.lanes = builder, dtype, lanes
        self.text, self.depth, self.constant = text, depth, constant

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    @property
    def bits(self) -> int:
        """Width of the dtype."""
        return BITS[self.dtype]

    def view(self, dtype: str) -> Value:
        """The same register under another dtype name of the same LLVM type."""
        return self.builder.viewed(self, dtype)

    def bitcast(self, dtype: str) -> Value:
        """The same bits as another dtype of the same width."""
        if LLVM_TYPES[dtype] == LLVM_TYPES[self.dtype]:
            return self.view(dtype)
        return self.builder.convert("bitcast", self, dtype)

    def __add__(self, other: Operand) -> Value:
        return self.builder.binary("fadd" if self.is_float else "add", self, other)

    def __radd__(self, other: Operand) -> Value:
        return self.builder.lift(other, self) + self

    def __sub__(self, other: Operand) -> Value:
        return self.builder.binary("fsub" if self.is_float else "sub", self, other)

    def __rsub__(self, other: Operand) -> Value:
        return self.builder.lift(other, self) - self

    def __mul__(self, other: Operand) -> Value:
        return self.builder.binary("fmul" if self.is_float else "mul", self, other)

    def __rmul__(self, other: Operand) -> Value:
        return self.builder.lift(other, self) * self

    def __truediv__(self, other: Operand) -> Value:
        return self.builder.binary("fdiv", self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return self.builder.lift(other, self) / self

    def __neg__(self) -> Value:
        return self.builder.negate(self) if self.is_float else self.builder.lift(0, self) - self

    def __and__(self, other: Operand) -> Value:
        return self.builder.binary("and", self, other)

    def __or__(self, other: Operand) -> Value:
        return self.builder.binary("or", self, other)

    def __xor__(self, other: Operand) -> Value:
        return self.builder.binary("xor", self, other)

    def __invert__(self) -> Value:
        return self ^ (True if self.dtype == "bool" else -1)

    def __lshift__(self, other: Operand) -> Value:
        return self.builder.binary("shl", self, other)

    def __rshift__(self, other: Operand) -> Value:
        return self.builder.binary("ashr" if self.dtype in SIGNED else "lshr", self, other)

    def eq(self, other: Operand) -> Value:
        return self.builder.compare("eq", self, other)

    def ne(self, other: Operand) -> Value:
        return self.builder.compare("ne", self, other)

    def __lt__(self, other: Operand) -> Value:
        return self.builder.compare("lt", self, other)

    def __le__(self, other: Operand) -> Value:
        return self.builder.compare("le", self, other)

    def __gt__(self, other: Operand) -> Value:
        return self.builder.compare("gt", self, other)

    def __ge__(self, other: Operand) -> Value:
        return self.builder.compare("ge", self, other)

    def is_nan(self) -> Value:
        return self.builder.compare("uno", self, self)


Operand = Value | int | float | bool


class _Frame:
    """One open loop: code that runs before it, and the registers known inside it."""

    __slots__ = ("known", "preheader", "start")

    def __init__(self, start: int):
        self.start = start
        self.preheader: list[str] = []
        self.known: dict[tuple[str, str], Value] = {}


class Builder:
    """The body of one function: lines of text, open loops, allocas, the current block's label.

    `helpers` are definitions of module-level functions and tables that the body refers to; `halves` the 16 bits that
    registers were widened from. A target that is not LLVM has a `lookup` in tables and a `huge_argument` reduction of
    its own, and says whether it underflows slowly: to round to a subnormal number, or to 0, takes Intel's processors a
    hundred times as long.
    """

    lookup: Callable[..., Value] | None = None
    huge_argument: Callable[..., Value] | None = None
    underflows_slowly = True

    def __init__(self, width_bits: int) -> None:
        self.width_bits = width_bits
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.helpers: set[str] = set()
        self.halves: dict[str, Value] = {}
        self.contract = False
        self.block = "entry"
        self.frames = [_Frame(0)]
        self._number = 0

    # -- text -----------------------------------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        """Number of open loops."""
        return len(self.frames) - 1

    def name(self, prefix: str) -> str:
        """A new register or label name."""
        self._number += 1
        return f"{prefix}{self._number}"

    def emit(self, line: str) -> None:
        self.lines.append("  " + line)

    def label(self, label: str) -> None:
        """Starts a block."""
        self.lines.append(label + ":")
        self.block = label

    def open_loop(self) -> None:
        """Opens a loop whose preheader ends here."""
        self.frames.append(_Frame(len(self.lines)))

    def close_loop(self) -> None:
        """Closes the innermost loop; what doesn't vary in it moves before it."""
        frame = self.frames.pop()
        self.lines[frame.start : frame.start] = frame.preheader

    def forget_body(self) -> None:
        """Forgets registers that vary in the innermost loop: control leaves the block that computed them."""
        self.forget_since(frozenset())

    def forget_since(self, kept: frozenset[tuple[str, str]] | set[tuple[str, str]]) -> None:
        """Forgets registers computed in a conditional block, except those known before and those that moved out."""
        frame = self.frames[-1]
        frame.known = {k: v for k, v in frame.known.items() if k in kept or v.depth < self.depth}

    def alloca(self, type_text: str) -> str:
        """A function-wide stack slot."""
        slot = self.name("%s")
        self.allocas.append(f"  {slot} = alloca {type_text}")
        return slot

    def pure(self, dtype: str, lanes: int, text: str, depth: int) -> Value:
        """The register holding instruction `text`, whose operands vary in `depth` loops."""
        key = (dtype, text)
        for frame in self.frames:
            if found := frame.known.get(key):
                return found
        result = Value(self, dtype, lanes, self.name("%v"), depth)
        line = f"  {result.text} = {text}"
        if depth < self.depth:
            frame = self.frames[depth + 1]
            frame.preheader.append(line)
        else:
            frame = self.frames[-1]
            self.lines.append(line)
        frame.known[key] = result
        return result

    # -- values ---------------------------------------------------------------------------------------------------

    def viewed(self, value: Value, dtype: str) -> Value:
        """A register under another dtype name of the same LLVM type."""
        return Value(self, dtype, value.lanes, value.text, value.depth, value.constant)

    def unfolded(self, value: Value) -> Value:
        """A NaN that LLVM knows nothing of: it would fold what is computed with it, and lose the other NaN's sign."""
        return self.intrinsic("arithmetic.fence", value) if value.dtype in FLOATS else value

    def nearest(self, value: Value) -> Value:
        """A number of moderate size rounded to an integer, halves to even; the sign of a zero is any."""
        return self.intrinsic("roundeven", value)

    def lowest_bits(self, whole: Value) -> Value:
        """An i32 whose lowest 20 bits are those of a whole float; of a NaN any number."""
        number = self.convert("fptosi", whole, "i32")
        return self.pure("i32", number.lanes, f"freeze {self.type('i32', number.lanes)} {number.text}", number.depth)

    def extreme(self, beyond: Value, a: Value, c: Value) -> Value:
        """c where it is beyond a or NaN: one instruction if c is known to be a number, as no NaN of a's is below it.

        A NaN's bits are put over the result's: whether a number that a loop does not change is one stays a vector.
        """
        bits = "i32" if c.dtype == "f32" else "i64"
        missing = self.select(c.is_nan(), c.bitcast(bits), 0)
        return (self.select(beyond, c, a).bitcast(bits) | missing).bitcast(c.dtype)

    def at_most(self, value: Value, number: float) -> Value:
        """The smaller of a value and a number; NaN stays NaN."""
        limit = self.constant(value.dtype, number)
        return self.select(limit < value, limit, value)

    def at_least(self, value: Value, number: float) -> Value:
        """The larger of a value and a number; NaN stays NaN."""
        limit = self.constant(value.dtype, number)
        return self.select(limit > value, limit, value)

    def constant(self, dtype: str, value: int | float | bool) -> Value:
        """A literal of a register dtype (f16 and bf16 literals are rounded by the caller)."""
        if dtype in FLOATS:
            text = float_text(float(value) if dtype == "f64" else round_to_single(float(value)))
        elif dtype == "bool":
            text = "true" if value else "false"
        else:
            bits = BITS[dtype]
            number = int(value) & ((1 << bits) - 1)
            text = str(number - (1 << bits) if dtype in SIGNED and number >> (bits - 1) else number)
        return Value(self, dtype, 0, text, 0, True)

    def lift(self, operand: Operand, like: Value) -> Value:
        """`operand` itself, or the literal it is, in the dtype of `like`."""
        return operand if isinstance(operand, Value) else self.constant(like.dtype, operand)

    def type(self, dtype: str, lanes: int) -> str:
        scalar = LLVM_TYPES[dtype]
        return f"<{lanes} x {scalar}>" if lanes else scalar

    def broadcast(self, value: Value, lanes: int) -> Value:
        """A scalar in every lane."""
        if value.lanes == lanes:
            return value
        scalar, vector = LLVM_TYPES[value.dtype], self.type(value.dtype, lanes)
        if value.constant:
            return Value(self, value.dtype, lanes, f"splat ({scalar} {value.text})", 0, True)
        text = f"insertelement {vector} poison, {scalar} {value.text}, i64 0"
        first = self.pure(value.dtype, lanes, text, value.depth)
        text = f"shufflevector {vector} {first.text}, {vector} poison, <{lanes} x i32> zeroinitializer"
        return self.pure(value.dtype, lanes, text, value.depth)

    def align(self, *values: Value) -> tuple[Value, ...]:
        """Operands with equal lanes."""
        lanes = max(v.lanes for v in values)
        return tuple(self.broadcast(v, lanes) for v in values)

    def binary(self, opcode: str, a: Value, b: Operand) -> Value:
        a, b = self.align(a, self.lift(b, a))
        flag = " contract" if self.contract and a.is_float else ""
        text = f"{opcode}{flag} {self.type(a.dtype, a.lanes)} {a.text}, {b.text}"
        return self.pure(a.dtype, a.lanes, text, max(a.depth, b.depth))

    def negate(self, a: Value) -> Value:
        return self.pure(a.dtype, a.lanes, f"fneg {self.type(a.dtype, a.lanes)} {a.text}", a.depth)

    def compare(self, predicate: str, a: Value, b: Operand) -> Value:
        """Ordered float comparisons, except `ne`; `uno` is true where either is NaN."""
        a, b = self.align(a, self.lift(b, a))
        if a.is_float:
            predicate = {"eq": "oeq", "ne": "une", "uno": "uno"}.get(predicate, "o" + predicate)
        elif predicate not in ("eq", "ne"):
            predicate = ("s" if a.dtype in SIGNED else "u") + predicate
        opcode = "fcmp" if a.is_float else "icmp"
        text = f"{opcode} {predicate} {self.type(a.dtype, a.lanes)} {a.text}, {b.text}"
        return self.pure("bool", a.lanes, text, max(a.depth, b.depth))

    def select(self, condition: Value, a: Operand, b: Operand) -> Value:
        """Lane-wise choice; `a` or `b` is a Value."""
        like = a if isinstance(a, Value) else b
        assert isinstance(like, Value)
        condition, a, b = self.align(condition, self.lift(a, like), self.lift(b, like))
        kind = self.type(a.dtype, a.lanes)
        text = f"select {self.type('bool', a.lanes)} {condition.text}, {kind} {a.text}, {kind} {b.text}"
        return self.pure(a.dtype, a.lanes, text, max(condition.depth, a.depth, b.depth))

    def convert(self, opcode: str, a: Value, dtype: str) -> Value:
        text = f"{opcode} {self.type(a.dtype, a.lanes)} {a.text} to {self.type(dtype, a.lanes)}"
        return self.pure(dtype, a.lanes, text, a.depth)

    def intrinsic(self, function: str, *operands: Operand, suffix: str = "") -> Value:
        """llvm.`function` of operands of one dtype."""
        like = next(v for v in operands if isinstance(v, Value))
        values = self.align(*(self.lift(v, like) for v in operands))
        dtype, lanes = like.dtype, values[0].lanes
        kind = self.type(dtype, lanes)
        arguments = ", ".join(f"{kind} {v.text}" for v in values) + suffix
        text = f"call {kind} @llvm.{function}.{self.mangle(dtype, lanes)}({arguments})"
        return self.pure(dtype, lanes, text, max(v.depth for v in values))

    def mangle(self, dtype: str, lanes: int) -> str:
        """The type's name in an intrinsic's name."""
        scalar = {"float": "f32", "double": "f64"}.get(LLVM_TYPES[dtype], LLVM_TYPES[dtype])
        return f"v{lanes}{scalar}" if lanes else scalar

    def fma(self, a: Operand, b: Operand, c: Operand) -> Value:
        """a * b + c, rounded once."""
        return self.intrinsic("fma", a, b, c)

    def iota(self, dtype: str, lanes: int) -> Value:
        """The lane numbers 0, 1, 2, ..."""
        scalar = LLVM_TYPES[dtype]
        elements = ", ".join(f"{scalar} {i}" for i in range(lanes))
        return Value(self, dtype, lanes, f"<{elements}>", 0, True)

    def any_lane(self, condition: Value) -> Value:
        """Whether a lane holds true, as a scalar."""
        if not condition.lanes:
            return condition
        text = f"call i1 @llvm.vector.reduce.or.v{condition.lanes}i1(<{condition.lanes} x i1> {condition.text})"
        return self.pure("bool", 0, text, condition.depth)

    def repeat(self, values: Sequence[Value], body: Callable[..., tuple[list[Value], Value]]) -> list[Value]:
        """`body` of the values gives their next ones, as long as a lane of its condition holds."""
        before, head, done = self.block, self.name("repeat"), self.name("repeated")
        self.emit(f"br label %{head}")
        self.label(head)
        after = [self.name("%p") for _ in values]
        current = [
            self.phi(v.dtype, v.lanes, [(v.text, before), (name, head)], self.depth)
            for v, name in zip(values, after, strict=True)
        ]
        following, again = body(*current)
        for name, value in zip(after, following, strict=True):
            kind = self.type(value.dtype, value.lanes)
            self.emit(f"{name} = bitcast {kind} {value.text} to {kind}")
        self.emit(f"br i1 {self.any_lane(again).text}, label %{head}, label %{done}")
        self.label(done)
        return following

    def phi(self, dtype: str, lanes: int, incoming: Sequence[tuple[str, str]], depth: int) -> Value:
        """The value that came with the block control came from: pairs of operand text and label."""
        result = Value(self, dtype, lanes, self.name("%v"), depth)
        pairs = ", ".join(f"[ {text}, %{label} ]" for text, label in incoming)
        self.emit(f"{result.text} = phi {self.type(dtype, lanes)} {pairs}")
        return result


def float_text(number: float) -> str:
    """A float literal: the bits of the f64, whatever the type it is for."""
    return "0x" + struct.pack(">d", number).hex().upper()


def round_to_single(number: float) -> float:
    """The nearest f32, infinite beyond its range."""
    if number != number or number in (float("inf"), float("-inf")):
        return number
    try:
        return struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")

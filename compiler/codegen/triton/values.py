"""Scalar operations as Triton text: the builder that the elementary functions are written on, printing Python.

The functions of `compiler/codegen` describe their arithmetic by operators on a `Value`. Here an instruction is one line
`v3 = v1 * v2`, the same for numbers and for blocks: Triton broadcasts. So the GPU computes what the CPU does, bit for
bit, provided that divisions and square roots are rounded correctly and nothing is contracted (`compile` says so).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eagerjit.compiler.codegen.builder import FLOATS, Builder, Operand, Value, round_to_single
from eagerjit.compiler.codegen.huge_argument import TWO_OVER_PI, Finish
from eagerjit.compiler.codegen.numeric import two_sum
from eagerjit.compiler.codegen.piecewise_tables import ERF, TANH
from eagerjit.compiler.codegen.power import INVERSE, LOG2_HIGH, LOG2_LOW

TYPES = {
    "bool": "tl.int1", "i8": "tl.int8", "i16": "tl.int16", "i32": "tl.int32", "i64": "tl.int64",
    "u8": "tl.uint8", "u16": "tl.uint16", "u32": "tl.uint32", "u64": "tl.uint64",
    "f16": "tl.float32", "bf16": "tl.float32", "f32": "tl.float32", "f64": "tl.float64",
}  # fmt: skip
"""Types of values: as on the CPU, f16 and bf16 values are f32 values that their format can represent."""

OPERATORS = {
    "fadd": "+", "add": "+", "fsub": "-", "sub": "-", "fmul": "*", "mul": "*", "fdiv": "/", "sdiv": "//", "udiv": "//",
    "and": "&", "or": "|", "xor": "^", "shl": "<<", "ashr": ">>", "lshr": ">>",
}  # fmt: skip
COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
TABLES: dict[str, tuple[float, ...]] = {
    **{f"tanh{power}": row for power, row in enumerate(TANH)},
    **{f"erf{power}": row * 4 for power, row in enumerate(ERF)},
    "inverse": INVERSE, "log2_high": LOG2_HIGH, "log2_low": LOG2_LOW,
}  # fmt: skip
"""Tables of 32 f32 numbers, one after the other at the start of the memory that kernels get as `tables`."""
SHIFTER = {"f32": 2.0**23, "f64": 2.0**52}


def table_words() -> list[int]:
    """The tables as u32 words: the f32 ones, then 2/pi, low words first."""
    import numpy as np

    singles = np.array([TABLES[name] for name in TABLES], np.float32).view(np.uint32)
    return [*map(int, singles.ravel()), *(w for word in TWO_OVER_PI for w in (word & 0xFFFFFFFF, word >> 32))]


def literal(dtype: str, number: float) -> str:
    """A number as Python text."""
    if dtype == "bool":
        return str(bool(number))
    if dtype not in FLOATS:
        return str(int(number))
    value = float(number) if dtype == "f64" else round_to_single(float(number))
    return f'float("{value}")' if value != value or value in (float("inf"), float("-inf")) else repr(value)


def is_plain(dtype: str, text: str) -> bool:
    """Whether Triton takes a number, written like that, for a value of this dtype."""
    if TYPES[dtype] == "tl.float32":
        return text != "-0.0" and not 0 < abs(eval_float(text)) < 2.0**-126
    return dtype == "i32" or dtype == "bool"


def eval_float(text: str) -> float:
    """The number that a float's text is."""
    return float(text.removeprefix('float("').removesuffix('")'))


class TritonBuilder(Builder):
    """The body of one Triton function."""

    underflows_slowly = False

    def __init__(self, prefix: str = "x") -> None:
        super().__init__(128)
        self.prefix = prefix
        self.uses_tables = False
        self.known: dict[tuple[str, str], Value] = {}
        self.shifted: dict[str, Value] = {}
        self.indent = "    "

    def emit(self, line: str) -> None:
        self.lines.append(self.indent + line)

    def named(self, dtype: str, text: str) -> Value:
        """The variable that holds an expression."""
        found = self.known.get((dtype, text))
        if found is None:
            found = self.known[dtype, text] = Value(self, dtype, 0, self.name(self.prefix), 0)
            self.emit(f"{found.text} = {text}")
        return found

    def operand(self, value: Value) -> str:
        """A value's text as an argument of Triton's own functions, which take plain numbers for f32 and i32."""
        return value.text if value.constant and is_plain(value.dtype, value.text) else self.typed(value)

    def typed(self, value: Value) -> str:
        """A value's text where a plain number would not have its type."""
        if not value.constant:
            return value.text
        if value.text == "-0.0":  # which Triton takes for 0
            return self.named(value.dtype, f"tl.full((), 0.0, {TYPES[value.dtype]}) * -1.0").text
        return self.named(value.dtype, f"tl.full((), {value.text}, {TYPES[value.dtype]})").text

    # -- the builder's instructions ---------------------------------------------------------------------------------

    def constant(self, dtype: str, value: int | float | bool) -> Value:
        if dtype not in FLOATS and dtype != "bool":
            value = int(super().constant(dtype, value).text)
        return Value(self, dtype, 0, literal(dtype, value), 0, True)

    def viewed(self, value: Value, dtype: str) -> Value:
        if TYPES[dtype] == TYPES[value.dtype]:
            return Value(self, dtype, 0, value.text, 0, value.constant)
        return self.convert("view", value, dtype)

    def unfolded(self, value: Value) -> Value:
        return value

    def broadcast(self, value: Value, lanes: int) -> Value:
        return value

    def align(self, *values: Value) -> tuple[Value, ...]:
        return values

    def binary(self, opcode: str, a: Value, b: Operand) -> Value:
        b = self.lift(b, a)
        left, right = (self.typed(a) if a.constant and b.constant else a.text), b.text
        if "-0.0" in (left, right):
            left, right = self.typed(a), self.typed(b)
        if opcode == "fdiv" and a.dtype != "f64":
            return self.named(a.dtype, f"tl.div_rn({self.operand(a)}, {self.operand(b)})")
        if opcode == "xor" and a.dtype == "bool" and right == "True":
            return self.named("bool", f"~{left}")
        return self.named(a.dtype, f"{left} {OPERATORS[opcode]} {right}")

    def negate(self, a: Value) -> Value:
        # Triton's -x is 0 - x.
        return self.named(a.dtype, f"{self.typed(a)} * -1.0")

    def compare(self, predicate: str, a: Value, b: Operand) -> Value:
        b = self.lift(b, a)
        if predicate == "uno":
            return self.named("bool", f"{self.typed(a)} != {self.typed(a)}")
        left = self.typed(a) if a.constant else a.text
        return self.named("bool", f"{left} {COMPARISONS[predicate]} {b.text}")

    def select(self, condition: Value, a: Operand, b: Operand) -> Value:
        like = a if isinstance(a, Value) else b
        assert isinstance(like, Value)
        a, b = self.lift(a, like), self.lift(b, like)
        return self.named(a.dtype, f"tl.where({self.typed(condition)}, {self.operand(a)}, {self.operand(b)})")

    def convert(self, opcode: str, a: Value, dtype: str) -> Value:
        bits = ", bitcast=True" if opcode in ("bitcast", "view") else ""
        return self.named(dtype, f"{self.typed(a)}.to({TYPES[dtype]}{bits})")

    def fma(self, a: Operand, b: Operand, c: Operand) -> Value:
        like = next(v for v in (a, b, c) if isinstance(v, Value))
        operands = ", ".join(self.operand(self.lift(v, like)) for v in (a, b, c))
        return self.named(like.dtype, f"tl.fma({operands})")

    def intrinsic(self, function: str, *operands: Operand, suffix: str = "") -> Value:
        like = next(v for v in operands if isinstance(v, Value))
        values = [self.lift(v, like) for v in operands]
        return getattr(self, f"_{function}")(*values)

    def nearest(self, value: Value) -> Value:
        shifter = 1.5 * SHIFTER[value.dtype]
        shifted = value + shifter
        rounded = shifted - shifter
        self.shifted[rounded.text] = shifted
        return rounded

    def lowest_bits(self, whole: Value) -> Value:
        shifted = self.shifted.get(whole.text)
        if shifted is None:
            return self.convert("fptosi", whole, "i32")
        return shifted.bitcast("i32") if whole.dtype == "f32" else self.convert("trunc", shifted.bitcast("i64"), "i32")

    def extreme(self, beyond: Value, a: Value, c: Value) -> Value:
        return self.select(beyond | c.is_nan(), c, a)

    def at_most(self, value: Value, number: float) -> Value:
        return self._limited("minimum", value, number) or super().at_most(value, number)

    def at_least(self, value: Value, number: float) -> Value:
        return self._limited("maximum", value, number) or super().at_least(value, number)

    def _limited(self, function: str, value: Value, number: float) -> Value | None:
        """One instruction, where there is one; of zeros it may take the other one."""
        if TYPES[value.dtype] != "tl.float32" or not number:
            return None
        limit = self.operand(self.constant(value.dtype, number))
        text = f"tl.{function}({self.typed(value)}, {limit}, propagate_nan=tl.PropagateNan.ALL)"
        return self.named(value.dtype, text)

    def _fabs(self, x: Value) -> Value:
        return self.named(x.dtype, f"tl.abs({self.typed(x)})")

    def _sqrt(self, x: Value) -> Value:
        return self.named(x.dtype, f"tl.sqrt{'' if x.dtype == 'f64' else '_rn'}({self.typed(x)})")

    def _floor(self, x: Value) -> Value:
        return self.named(x.dtype, f"tl.floor({self.typed(x)})")

    def _ceil(self, x: Value) -> Value:
        return self.named(x.dtype, f"tl.ceil({self.typed(x)})")

    def _trunc(self, x: Value) -> Value:
        return self.select(x < 0.0, self._ceil(x), self._floor(x))

    def _roundeven(self, x: Value) -> Value:
        """Adding a number without fraction bits rounds; a large x has none itself."""
        shifter = SHIFTER["f64" if x.dtype == "f64" else "f32"]
        size = self._fabs(x)
        return self.select(size < shifter, self._copysign((size + shifter) - shifter, x), x)

    def _copysign(self, x: Value, sign: Value) -> Value:
        integer, top = ("u64", 1 << 63) if x.dtype == "f64" else ("u32", 1 << 31)
        if x.constant:
            x = Value(self, x.dtype, 0, self.typed(x), 0)
        bits = (x.bitcast(integer) & (top - 1)) | (sign.bitcast(integer) & top)
        return bits.bitcast("f64" if x.dtype == "f64" else "f32").view(x.dtype)

    # -- what LLVM text does by hand ----------------------------------------------------------------------------------

    def any_lane(self, condition: Value) -> Value:
        """Whether a lane holds true, as a number; a number counts as one lane."""
        lanes = f"({self.typed(condition)} | (tl.arange(0, 1) < 0)).to(tl.int32)"
        return self.named("bool", f"tl.reduce({lanes}, None, either) != 0")

    def repeat(self, values: Sequence[Value], body: Callable[..., tuple[list[Value], Value]]) -> list[Value]:
        shape = next(v for v in values if not v.constant)
        names = [self.name("next") for _ in values]
        for name, v in zip(names, values, strict=True):
            start = v.text
            if v.constant:  # in a block of the others' shape
                start = f"tl.where({shape.text} == {shape.text}, {self.typed(v)}, {self.typed(v)})"
            self.emit(f"{name} = {start}")
        again = self.name("again")  # new, so that every loop carries it last: Triton 3.6 compiles no other order
        self.emit(f"{again} = True")
        self.emit(f"while {again}:")
        outside, before = self.indent, dict(self.known)
        self.indent += "    "
        current = [Value(self, v.dtype, 0, name, 0) for v, name in zip(values, names, strict=True)]
        following, more = body(*current)
        for name, v in zip(names, following, strict=True):
            self.emit(f"{name} = {v.text}")
        self.emit(f"{again} = {self.any_lane(more).text}")
        self.indent, self.known = outside, before
        return current

    def lookup(self, name: str, table: tuple[float, ...], index: Value) -> Value:  # type: ignore[override]
        """table[index modulo 32], f32."""
        self.uses_tables = True
        start = 32 * list(TABLES).index(name)
        place = (index & 31).text
        return self.named("f32", f"tl.load(tables + {start} + {place}.to(tl.int32)).to(tl.float32, bitcast=True)")

    def huge_argument(self, x: Value, large: Value, result: Value, finish: Finish) -> Value:  # type: ignore[override]
        """`result`, and `finish` of the exactly reduced argument where it is large: one branch for a whole block."""
        self.uses_tables = True
        mixed = self.name("mixed")
        self.emit(f"{mixed} = {result.text}")
        self.emit(f"if {self.any_lane(large).text}:")
        outside, before = self.indent, dict(self.known)
        self.indent += "    "
        wide = x if x.dtype == "f64" else self.convert("fpext", x, "f64")
        slow = finish(*self._reduce(wide))
        slow = self.select(self._fabs(wide) < float("inf"), slow, float("nan"))
        slow = slow if x.dtype == "f64" else self.convert("fptrunc", slow, "f32")
        self.emit(f"{mixed} = {self.select(large, slow, result).text}")
        self.indent, self.known = outside, before
        return Value(self, x.dtype, 0, mixed, 0)

    def _word(self, index: Value) -> Value:
        """A word of 2/pi."""
        start = 32 * len(TABLES)
        low, high = (f"tl.load(tables + {start + half} + {index.text} * 2).to(tl.uint64)" for half in (0, 1))
        return self.named("u64", f"{low} | ({high} << 32)")

    def _high(self, a: Value, b: Value) -> Value:
        return self.named("u64", f"tl.umulhi({a.text}, {b.text})")

    def _reduce(self, x: Value) -> tuple[Value, Value, Value]:
        """The quarter turns in x and what is left, as `huge_argument.py` finds them, without integers of 128 bits."""
        bits = x.bitcast("u64")
        field = (bits >> 52) & 0x7FF
        field = self.select(field < 1075 + 2 - 64, 1075 + 2 - 64, self.select(field > 0x7FE, 0x7FE, field))
        mantissa = (bits & 0xFFFFFFFFFFFFF) | 0x10000000000000
        position = field - (1075 + 2 - 64)
        first = self.convert("trunc", position >> 6, "i32")
        shift = position & 63
        words = [self._word(first + i) for i in range(4)]
        # A shift by 64 bits is none: the lower word comes in two steps.
        window = [(words[i] << shift) | ((words[i + 1] >> 1) >> (shift ^ 63)) for i in range(3)]
        low = mantissa * window[1]
        rest = self._high(mantissa, window[2])
        total = low + rest
        carry = self.convert("zext", total < low, "u64")
        high = mantissa * window[0] + self._high(mantissa, window[1]) + carry
        quarter = (high >> 62).view("i64")
        upper = ((high << 2) | (total >> 62)).view("i64")
        lower = total << 2
        quarter = self.select(upper < 0, quarter + 1, quarter)
        parts = (upper >> 32, upper & 0xFFFFFFFF, (lower >> 32).view("i64"), (lower & 0xFFFFFFFF).view("i64"))
        a0, a1, a2, a3 = (self.convert("sitofp", p, "f64") * 2.0 ** (-32 * (i + 1)) for i, p in enumerate(parts))
        s, e0 = two_sum(a0, a1)
        s, e1 = two_sum(s, a2 + a3)
        s, left = two_sum(s, e0 + e1)
        r = s * 1.5707963267948966
        r_low = self.fma(s, 1.5707963267948966, -r) + self.fma(s, 6.123233995736766e-17, left * 1.5707963267948966)
        negative = (bits >> 63).ne(0)
        r, r_low = (self.select(negative, -v, v) for v in (r, r_low))
        return self.select(negative, -quarter, quarter), r, r_low

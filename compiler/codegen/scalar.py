"""The scalar operations of kernel IR: one table, from which the rest of the compiler can see what exists."""

from __future__ import annotations

from collections.abc import Callable

from eagerjit.compiler.codegen import incomplete_gamma, integer, rejection
from eagerjit.compiler.codegen.builder import FLOATS, Builder, Value
from eagerjit.compiler.codegen.cast import (
    HALF_FORMATS,
    cast,
    from_memory,
    literal,
    memory_dtype,
    round_to,
    to_memory,
)  # fmt: skip
from eagerjit.compiler.codegen.math import BINARY, UNARY
from eagerjit.runtime.records import record

BOOL, INT, FLOAT = "bool", "int", "float"
Number = int | float | bool | None
ANY = frozenset((BOOL, INT, FLOAT))


@record(frozen=True)
class ScalarOp:
    """`result` is "same" (the arguments' dtype), "bool" or "declared" (by the Let); `kinds` are the dtypes it takes.

    `emit` builds the instructions; f16 and bf16 reach it as f32. `exact` marks results a 16-bit format always holds.
    """

    name: str
    arity: int
    result: str
    kinds: frozenset[str]
    emit: Callable[..., Value]
    exact: bool = False


SCALAR_OPS: dict[str, ScalarOp] = {}


def kind_of(dtype: str) -> str:
    """bool, int or float."""
    return BOOL if dtype == "bool" else FLOAT if dtype in FLOATS else INT


def _define(
    name: str, arity: int, kinds: frozenset[str], emit: Callable[..., Value], result: str = "same", exact: bool = False
) -> None:
    SCALAR_OPS[name] = ScalarOp(name, arity, result, kinds, emit, exact)


def apply(b: Builder, op: str, arguments: tuple[Value, ...], dtype: str, number: Number = None) -> Value:
    """The value of one Let."""
    if op == "const":
        assert number is not None
        value = literal(b, dtype, number)
        return value if number == number else b.unfolded(value)
    entry = SCALAR_OPS[op]
    _check(entry, arguments, dtype)
    if entry.result == "declared":
        return entry.emit(arguments[0], dtype)
    result = entry.emit(*(v.view("f32") if v.dtype in HALF_FORMATS else v for v in arguments))
    if dtype not in HALF_FORMATS:
        return result
    return result.view(dtype) if entry.exact else round_to(result, dtype)


def _check(entry: ScalarOp, arguments: tuple[Value, ...], dtype: str) -> None:
    operands = arguments[1:] if entry.name == "where" else arguments
    dtypes = {v.dtype for v in operands}
    if len(arguments) != entry.arity or len(dtypes) != 1 or kind_of(operands[0].dtype) not in entry.kinds:
        raise NotImplementedError(f"{entry.name} doesn't take ({', '.join(v.dtype for v in arguments)})")
    expected = {"same": operands[0].dtype, "bool": "bool", "declared": dtype}[entry.result]
    if dtype != expected:
        raise TypeError(f"{entry.name} of {operands[0].dtype} is {expected}, declared {dtype}")


# -- conversions ------------------------------------------------------------------------------------------------------


def _bitcast(value: Value, dtype: str) -> Value:
    """The bits as they lie in memory, read as another dtype of the same size."""
    return from_memory(to_memory(value).bitcast(memory_dtype(dtype)), dtype)


_define("cast", 1, ANY, cast, "declared", exact=True)
_define("bitcast", 1, ANY, _bitcast, "declared", exact=True)

# -- arithmetic -------------------------------------------------------------------------------------------------------


def _add(a: Value, c: Value) -> Value:
    return a | c if a.dtype == "bool" else a + c


def _multiply(a: Value, c: Value) -> Value:
    return a & c if a.dtype == "bool" else a * c


def _lost(a: Value, c: Value) -> Value:
    """What a + c loses to rounding, exactly (Knuth, The Art of Computer Programming, 4.2.2); NaN beyond all numbers."""
    total = a + c
    taken = total - a
    return (a - (total - taken)) + (c - taken)


def _restored(a: Value, c: Value) -> Value:
    """A sum with what its steps lost: nothing where they left the numbers, from which no sum comes back."""
    return a.builder.select(_is_finite(c), a + c, a)


def _divide(a: Value, c: Value) -> Value:
    return a / c if a.is_float else integer.divide(a, c)


def absolute(a: Value) -> Value:
    """|a|; the smallest integer wraps to itself."""
    if a.is_float:
        return a.builder.intrinsic("fabs", a)
    return a.builder.select(a < 0, -a, a) if a.dtype.startswith("i") else a


def minimum(a: Value, c: Value) -> Value:
    """The smaller; NaN where either is NaN; the first of equals."""
    if a.dtype == "bool":
        return a & c
    return _extreme(c < a, a, c)


def maximum(a: Value, c: Value) -> Value:
    """The larger; NaN where either is NaN; the first of equals."""
    if a.dtype == "bool":
        return a | c
    return _extreme(c > a, a, c)


def _extreme(beyond: Value, a: Value, c: Value) -> Value:
    """c where it is beyond a or NaN."""
    b = a.builder
    return b.extreme(beyond, a, c) if c.is_float else b.select(beyond, c, a)


def _sign(a: Value) -> Value:
    """-1, 0 or 1; NaN gives 0, as in PyTorch."""
    b = a.builder
    if a.dtype == "bool":
        return a
    positive = b.select(a > 0, b.constant(a.dtype, 1), 0)
    return b.select(a < 0, b.constant(a.dtype, -1), positive) if a.dtype[0] != "u" else positive


def _rounding(intrinsic: str) -> Callable[[Value], Value]:
    return lambda a: a.builder.intrinsic(intrinsic, a) if a.is_float else a


_define("neg", 1, frozenset((INT, FLOAT)), lambda a: -a, exact=True)
_define("abs", 1, ANY, absolute, exact=True)
_define("add", 2, ANY, _add)
_define("lost", 2, frozenset((FLOAT,)), _lost)
_define("restored", 2, frozenset((FLOAT,)), _restored)
_define("sub", 2, frozenset((INT, FLOAT)), lambda a, c: a - c)
_define("mul", 2, ANY, _multiply)
_define("div", 2, frozenset((INT, FLOAT)), _divide)
_define("minimum", 2, ANY, minimum, exact=True)
_define("maximum", 2, ANY, maximum, exact=True)
_define("sign", 1, ANY, _sign, exact=True)
_define("floor", 1, frozenset((INT, FLOAT)), _rounding("floor"), exact=True)
_define("ceil", 1, frozenset((INT, FLOAT)), _rounding("ceil"), exact=True)
_define("trunc", 1, frozenset((INT, FLOAT)), _rounding("trunc"), exact=True)
_define("round", 1, frozenset((INT, FLOAT)), _rounding("roundeven"), exact=True)
_define("sqrt", 1, frozenset((FLOAT,)), lambda a: a.builder.intrinsic("sqrt", a))
_define("rsqrt", 1, frozenset((FLOAT,)), lambda a: 1.0 / a.builder.intrinsic("sqrt", a))
_define("reciprocal", 1, frozenset((FLOAT,)), lambda a: 1.0 / a)

# -- integers ---------------------------------------------------------------------------------------------------------


def _not(a: Value) -> Value:
    return ~a


_define("and", 2, frozenset((BOOL, INT)), lambda a, c: a & c)
_define("or", 2, frozenset((BOOL, INT)), lambda a, c: a | c)
_define("xor", 2, frozenset((BOOL, INT)), lambda a, c: a ^ c)
_define("not", 1, frozenset((BOOL, INT)), _not)
_define("shl", 2, frozenset((INT,)), integer.shift_left)
_define("shr", 2, frozenset((INT,)), integer.shift_right)
_define("gcd", 2, frozenset((INT,)), integer.gcd)
_define("lcm", 2, frozenset((INT,)), integer.lcm)

# -- comparisons and choice -------------------------------------------------------------------------------------------


def _comparison(predicate: str) -> Callable[[Value, Value], Value]:
    return lambda a, c: a.builder.compare(predicate, a, c)


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _define(_name, 2, ANY, _comparison(_name), "bool")


def _is_nan(a: Value) -> Value:
    return a.is_nan() if a.is_float else a.builder.constant("bool", False)


def _is_inf(a: Value) -> Value:
    return absolute(a).eq(float("inf")) if a.is_float else a.builder.constant("bool", False)


def _is_finite(a: Value) -> Value:
    return absolute(a) < float("inf") if a.is_float else a.builder.constant("bool", True)


def _sign_bit(a: Value) -> Value:
    if a.is_float:
        return a.bitcast("i64" if a.dtype == "f64" else "i32") < 0
    return a < 0 if a.dtype.startswith("i") else a.builder.constant("bool", False)


_define("isnan", 1, ANY, _is_nan, "bool")
_define("signbit", 1, ANY, _sign_bit, "bool")
_define("isinf", 1, ANY, _is_inf, "bool")
_define("isfinite", 1, ANY, _is_finite, "bool")
_define("where", 3, ANY, lambda condition, a, c: condition.builder.select(condition, a, c), exact=True)

# -- elementary functions ---------------------------------------------------------------------------------------------

for _name, _function in UNARY.items():
    _define(_name, 1, frozenset((FLOAT,)), _function)
_define("exp_sub", 2, frozenset((FLOAT,)), lambda a, c: UNARY["exp"](a - c))
_define("atan2", 2, frozenset((FLOAT,)), BINARY["atan2"])
_define("gamma_series", 2, frozenset((FLOAT,)), incomplete_gamma.series)
_define("gamma_fraction", 2, frozenset((FLOAT,)), incomplete_gamma.fraction)
_define("gamma_series_slope", 2, frozenset((FLOAT,)), incomplete_gamma.series_slope)
_define("gamma_fraction_slope", 2, frozenset((FLOAT,)), incomplete_gamma.fraction_slope)
_define("gamma_draw", 2, frozenset((FLOAT,)), rejection.gamma)
_define("von_mises_draw", 2, frozenset((FLOAT,)), rejection.von_mises)
_define("poisson_draw", 2, frozenset((FLOAT,)), rejection.poisson)
_define("binomial_draw", 3, frozenset((FLOAT,)), rejection.binomial)


def _by_kind(name: str, of_integers: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    return lambda a, c: BINARY[name](a, c) if a.is_float else of_integers(a, c)


_define("pow", 2, frozenset((INT, FLOAT)), _by_kind("pow", integer.power))
_define("fmod", 2, frozenset((INT, FLOAT)), _by_kind("fmod", integer.remainder_truncated))
_define("rem", 2, frozenset((INT, FLOAT)), _by_kind("rem", integer.remainder))
_define("floordiv", 2, frozenset((INT, FLOAT)), _by_kind("floordiv", integer.floor_divide))

"""Elementwise primitives. One line each: scalar operation, NumPy reference, derivative rules, test domain."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import TensorType
from eagerjit.compiler.ops.declare import Derivative, Primitive, broadcast_shapes, declare, same_dtype
from eagerjit.compiler.ops.float8 import to_float8
from eagerjit.compiler.ops.philox import philox
from eagerjit.runtime import dtypes

REAL = (-3.0, 3.0)
POSITIVE = (0.1, 4.0)
UNIT = (-0.9, 0.9)
FLIPS = ("exact", "involution")


def declare_elementwise(
    name: str,
    arity: int,
    reference: Callable[..., Any],
    derivative: tuple[Derivative, ...],
    doc: str,
    *,
    promotion: str = "arithmetic",
    domain: tuple[float, float] = REAL,
    result: str = "same",
    cost: int = 1,
    names: tuple[str, ...] | None = None,
    scalar: str = "",
    traits: tuple[str, ...] = (),
    neutral: tuple[float | None, int | None] | None = None,
) -> Primitive:
    """Declare an elementwise op: its inputs share a dtype and broadcast."""

    def type_rule(*types: TensorType) -> TensorType:
        if len(types) != arity:
            raise ValueError(f"{name} takes {arity} inputs, not {len(types)}")
        dtype = same_dtype(name, types)
        shape = broadcast_shapes([t.shape for t in types], name)
        return TensorType(dtypes.bool_ if result == "bool" else dtype, shape)

    def compute(*arrays: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            out = reference(*arrays)
        return np.asarray(out, dtype=bool if result == "bool" else arrays[0].dtype)

    return declare(
        Primitive(
            name,
            "elementwise",
            type_rule,
            compute,
            doc,
            scalar=scalar or name,
            derivative=derivative or (None,) * arity,
            promotion=promotion,
            domain=(domain,) * arity,
            cost=cost,
            names=(name,) if names is None else names,
            traits=frozenset(traits),
            neutral=neutral,
        )
    )


def _unary(name: str, reference: Any, rule: Derivative, doc: str, **options: Any) -> Primitive:
    return declare_elementwise(name, 1, reference, (rule,), doc, **options)


def _float(name: str, reference: Any, rule: Derivative, doc: str, domain: Any = REAL, cost: int = 12) -> Primitive:
    """A unary function of real numbers: integers are promoted to the default dtype."""
    return _unary(name, reference, rule, doc, promotion="float", domain=domain, cost=cost)


def _sign(x: np.ndarray) -> np.ndarray:
    return (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype) if x.dtype.kind != "b" else x


def _sigmoid(x: np.ndarray) -> np.ndarray:
    wide = np.asarray(x, dtype=np.complex128 if x.dtype.kind == "c" else np.float64)
    return 1 / (1 + np.exp(-wide))


neg = _unary("neg", np.negative, lambda g, out, x: -g, "-x.", names=("neg", "negative"), traits=FLIPS)
abs_ = _unary("abs", np.abs, lambda g, out, x: g * x.sign(), "Absolute value.", names=("abs", "absolute"))
sign = _unary("sign", _sign, lambda g, out, x: g.new_zeros(g.shape), "-1, 0 or 1; 0 for NaN.", names=("sign", "sgn"))
floor = _unary("floor", np.floor, lambda g, out, x: g.new_zeros(g.shape), "Largest integer not above x.")
ceil = _unary("ceil", np.ceil, lambda g, out, x: g.new_zeros(g.shape), "Smallest integer not below x.")
trunc = _unary("trunc", np.trunc, lambda g, out, x: g.new_zeros(g.shape), "x without fraction.", names=("trunc", "fix"))
round_ = _unary("round", np.rint, lambda g, out, x: g.new_zeros(g.shape), "Nearest integer, halves to even.", names=())
sqrt = _float("sqrt", np.sqrt, lambda g, out, x: g / (2.0 * out), "Square root.", POSITIVE, cost=4)
rsqrt = _float(
    "rsqrt", lambda x: 1 / np.sqrt(x), lambda g, out, x: -0.5 * g * out * out * out, "1/sqrt(x).", POSITIVE, cost=8
)
reciprocal = _float("reciprocal", lambda x: 1 / x, lambda g, out, x: -g * out * out, "1/x.", POSITIVE, cost=4)
exp = _float("exp", np.exp, lambda g, out, x: g * out, "e**x.")
exp2 = _float("exp2", np.exp2, lambda g, out, x: g * out * math.log(2), "2**x.")
expm1 = _float("expm1", np.expm1, lambda g, out, x: g * (out + 1.0), "e**x - 1, exact near 0.")
log = _float("log", np.log, lambda g, out, x: g / x, "Natural logarithm.", POSITIVE)
log2 = _float("log2", np.log2, lambda g, out, x: g / (x * math.log(2)), "Logarithm to base 2.", POSITIVE)
log10 = _float("log10", np.log10, lambda g, out, x: g / (x * math.log(10)), "Logarithm to base 10.", POSITIVE)
log1p = _float("log1p", np.log1p, lambda g, out, x: g / (x + 1.0), "log(1 + x), exact near 0.", POSITIVE)
sin = _float("sin", np.sin, lambda g, out, x: g * x.cos(), "Sine of radians.")
cos = _float("cos", np.cos, lambda g, out, x: -g * x.sin(), "Cosine of radians.")
tan = _float("tan", np.tan, lambda g, out, x: g * (out * out + 1.0), "Tangent of radians.", UNIT)
asin = _float("asin", np.arcsin, lambda g, out, x: g * (1.0 - x * x).rsqrt(), "Inverse sine, in radians.", UNIT)
acos = _float("acos", np.arccos, lambda g, out, x: -g * (1.0 - x * x).rsqrt(), "Inverse cosine, in radians.", UNIT)
atan = _float("atan", np.arctan, lambda g, out, x: g / (x * x + 1.0), "Inverse tangent, in radians.")
sinh = _float("sinh", np.sinh, lambda g, out, x: g * x.cosh(), "Hyperbolic sine.")
cosh = _float("cosh", np.cosh, lambda g, out, x: g * x.sinh(), "Hyperbolic cosine.")
tanh = _float("tanh", np.tanh, lambda g, out, x: g * (1.0 - out * out), "Hyperbolic tangent.")
sigmoid = _float("sigmoid", _sigmoid, lambda g, out, x: g * (1.0 - out) * out, "1 / (1 + exp(-x)).")
logical_not = _unary(
    "logical_not", np.logical_not, None, "Not x.", promotion="logical", result="bool", scalar="not", traits=FLIPS
)
bitwise_not = _unary("bitwise_not", np.invert, None, "Bits flipped.", promotion="bitwise", scalar="not", traits=FLIPS)
isnan = _unary("isnan", np.isnan, None, "Whether x is NaN.", promotion="real", result="bool")
isinf = _unary("isinf", np.isinf, None, "Whether x is infinite.", promotion="real", result="bool")
isfinite = _unary("isfinite", np.isfinite, None, "Whether x is finite.", promotion="real", result="bool")
signbit = _unary("signbit", np.signbit, None, "Whether the sign bit is set.", promotion="real", result="bool")


def _binary(name: str, reference: Any, dx: Derivative, dy: Derivative, doc: str, **options: Any) -> Primitive:
    return declare_elementwise(name, 2, reference, (dx, dy), doc, **options)


def _compare(name: str, reference: Any, doc: str, names: tuple[str, ...]) -> Primitive:
    traits = ("exact", "commutes") if name in ("eq", "ne") else ("exact",)
    return declare_elementwise(name, 2, reference, (), doc, result="bool", names=names, traits=traits)


def _bits(name: str, reference: Any, doc: str, result: str = "same") -> Primitive:
    kind, _, scalar = name.partition("_")
    options = {"promotion": kind, "scalar": scalar, "result": result, "traits": ("exact", "commutes")}
    return _binary(name, reference, None, None, doc, neutral=None if scalar == "and" else (None, 0), **options)


add = _binary(
    "add",
    np.add,
    lambda g, out, x, y: g,
    lambda g, out, x, y: g,
    "x + y.",
    names=(),
    traits=("commutes", "exact"),
    neutral=(-0.0, 0),
)
sub = _binary(
    "sub",
    np.subtract,
    lambda g, out, x, y: g,
    lambda g, out, x, y: -g,
    "x - y.",
    names=(),
    traits=("exact",),
    neutral=(0.0, 0),
)
exp_sub = _binary(
    "exp_sub", lambda x, y: np.exp(x - y), lambda g, out, x, y: g * out, lambda g, out, x, y: -(g * out),
    "e**(x - y), for sums of it over rows of x.", promotion="", cost=13, names=(),
)  # fmt: skip
mul = _binary(
    "mul",
    np.multiply,
    lambda g, out, x, y: g * y,
    lambda g, out, x, y: g * x,
    "x * y.",
    names=("mul", "multiply"),
    traits=("commutes", "exact"),
    neutral=(1.0, 1),
)
div = _binary(
    "div",
    np.divide,
    lambda g, out, x, y: g / y,
    lambda g, out, x, y: -g * (x / y) / y,
    "x / y, a real number.",
    promotion="float",
    domain=POSITIVE,
    cost=4,
    names=("true_divide",),
    neutral=(1.0, None),
)
floordiv = _binary(
    "floordiv",
    np.floor_divide,
    lambda g, out, x, y: g.new_zeros(g.shape),
    lambda g, out, x, y: g.new_zeros(g.shape),
    "x // y, rounded down.",
    domain=POSITIVE,
    cost=6,
    names=("floor_divide",),
    traits=("integer_zero_divisor",),
)
remainder = _binary(
    "remainder",
    np.remainder,
    lambda g, out, x, y: g,
    lambda g, out, x, y: -g * x.floordiv(y),
    "x - y * (x // y): has y's sign.",
    domain=POSITIVE,
    cost=6,
    scalar="rem",
    traits=("integer_zero_divisor",),
)
fmod = _binary(
    "fmod",
    np.fmod,
    lambda g, out, x, y: g,
    lambda g, out, x, y: -g * (x / y).trunc(),
    "What the division rounded towards zero leaves: has x's sign.",
    domain=POSITIVE,
    cost=6,
    traits=("integer_zero_divisor",),
)
pow_ = _binary(
    "pow",
    np.power,
    lambda g, out, x, y: g * (y * x ** (y - 1.0)),
    lambda g, out, x, y: g * (out * x.log()).where(out != 0.0, 0.0),
    "x ** y.",
    domain=POSITIVE,
    cost=30,
    names=(),
)
atan2 = _binary(
    "atan2",
    np.arctan2,
    lambda g, out, y, x: (g * x / (x * x + y * y)).where(x * x + y * y != 0.0, 0.0),
    lambda g, out, y, x: (-g * y / (x * x + y * y)).where(x * x + y * y != 0.0, 0.0),
    "Angle of the point (y, x), in radians; at the origin its gradient is 0.",
    promotion="float",
    domain=POSITIVE,
    cost=20,
    names=("atan2", "arctan2"),
)
maximum = _binary(
    "maximum",
    lambda x, y: np.where((y > x) | (y != y), y, x),  # of zeros the first: NumPy's choice depends on the processor
    lambda g, out, x, y: (g * 0.5).where(x == y, g).where((x < y).logical_not(), 0.0),
    lambda g, out, x, y: (g * 0.5).where(x == y, g).where((y < x).logical_not(), 0.0),
    "The larger one; NaN if either is.",
)
minimum = _binary(
    "minimum",
    lambda x, y: np.where((y < x) | (y != y), y, x),
    lambda g, out, x, y: (g * 0.5).where(x == y, g).where((x > y).logical_not(), 0.0),
    lambda g, out, x, y: (g * 0.5).where(x == y, g).where((y > x).logical_not(), 0.0),
    "The smaller one; NaN if either is.",
)
eq = _compare("eq", np.equal, "Whether x equals y.", ("eq",))
ne = _compare("ne", np.not_equal, "Whether x differs from y.", ("ne", "not_equal"))
lt = _compare("lt", np.less, "Whether x < y.", ("lt", "less"))
le = _compare("le", np.less_equal, "Whether x <= y.", ("le", "less_equal"))
gt = _compare("gt", np.greater, "Whether x > y.", ("gt", "greater"))
ge = _compare("ge", np.greater_equal, "Whether x >= y.", ("ge", "greater_equal"))
logical_and = _bits("logical_and", np.logical_and, "x and y.", "bool")
logical_or = _bits("logical_or", np.logical_or, "x or y.", "bool")
logical_xor = _bits("logical_xor", np.logical_xor, "Either x or y.", "bool")
bitwise_and = _bits("bitwise_and", np.bitwise_and, "Bits of both.")
bitwise_or = _bits("bitwise_or", np.bitwise_or, "Bits of either.")
bitwise_xor = _bits("bitwise_xor", np.bitwise_xor, "Bits of one.")


def _where_type(condition: TensorType, x: TensorType, y: TensorType) -> TensorType:
    if condition.dtype is not dtypes.bool_:
        raise ValueError(f"where: the condition must be bool, not {condition.dtype.short}")
    dtype = same_dtype("where", (x, y))
    return TensorType(dtype, broadcast_shapes([condition.shape, x.shape, y.shape], "where"))


where = declare(
    Primitive(
        "where",
        "elementwise",
        _where_type,
        lambda condition, x, y: np.where(condition, x, y),
        "x where the condition holds, else y.",
        scalar="where",
        derivative=(
            None,
            lambda g, out, condition, x, y: g.where(condition, 0.0),
            lambda g, out, condition, x, y: g.where(condition.logical_not(), 0.0),
        ),
        domain=((0.0, 1.0), REAL, REAL),
        traits=frozenset({"exact", "selects"}),
    )
)


def _cast_reference(x: np.ndarray, dtype: dtypes.DType) -> np.ndarray:
    if x.dtype.kind == "c" and dtype.kind not in ("complex", "bool"):
        x = x.real
    with np.errstate(all="ignore"):
        return to_float8(x, dtype) if dtype in dtypes.FLOAT8 else x.astype(dtype.numpy)


def _cast_compose(
    x: TensorType, inner: dict[str, dtypes.DType], outer: dict[str, dtypes.DType]
) -> dict[str, dtypes.DType] | None:
    """One conversion for two where the first loses nothing and the second can't tell the difference."""
    source, middle, target = x.dtype, inner["dtype"], outer["dtype"]
    if not source.fits_in(middle):
        return None
    if target.kind in ("int", "uint"):
        # Out of range, floats and integers convert differently.
        same = middle.kind != "float" or source.fits_in(target)
    else:
        # 16-bit floats are rounded from f32: wider integers would be rounded twice on one way and once on the other.
        same = target.kind == "bool" or target.bits > 16 or source.kind == "float" or source.fits_in(dtypes.float32)
    return outer if same else None


cast = declare(
    Primitive(
        "cast",
        "elementwise",
        lambda x, dtype: TensorType(dtype, x.shape),
        _cast_reference,
        "x converted to another dtype.",
        scalar="cast",
        derivative=(lambda g, out, x, dtype: g.to(x.dtype),),
        domain=(REAL,),
        compose=_cast_compose,
        traits=frozenset({"exact", "keeps_value"}),
    )
)


def _philox_type(state: TensorType, shape: tuple[sizes.Expr, ...], word: int) -> TensorType:
    if state.dtype is not dtypes.int64 or len(state.shape) != 1:
        raise ValueError(f"random_bits: the state must be i64[2], not {state}")
    return TensorType(dtypes.int64, shape)


def _random_reference(state: np.ndarray, shape: tuple[int, ...], word: int) -> np.ndarray:
    count = math.prod(shape)
    counter = np.uint64(int(state[1]) & (2**64 - 1)) + np.arange(count, dtype=np.uint64)
    return philox(int(state[0]) & (2**64 - 1), counter, word).reshape(shape)


random_bits = declare(
    Primitive(
        "random_bits",
        "generator",
        _philox_type,
        _random_reference,
        "32 random bits per element: word `word` of Philox4x32-10 at counter state[1] + index, keyed by state[0].",
        scalar="philox",
        derivative=(None,),
        cost=60,
    )
)
iota = declare(
    Primitive(
        "iota",
        "generator",
        lambda size, dtype: TensorType(dtype, (size,)),
        lambda size, dtype: np.arange(size).astype(dtype.numpy),
        "0, 1, 2, ...",
        scalar="index",
    )
)
constant = declare(
    Primitive(
        "constant",
        "generator",
        lambda value, dtype: TensorType(dtype, ()),
        lambda value, dtype: np.asarray(value).astype(dtype.numpy),
        "A number known when tracing.",
        scalar="const",
        traits=frozenset({"literal"}),
    )
)
size_value = declare(
    Primitive(
        "size_value",
        "generator",
        lambda size: TensorType(dtypes.int64, ()),
        lambda size: np.asarray(size, dtype=np.int64),
        "A symbolic size as a number.",
        scalar="size",
    )
)
argument = declare(
    Primitive(
        "argument",
        "argument",
        lambda type: type,
        lambda: None,
        "An input of the graph.",
    )
)

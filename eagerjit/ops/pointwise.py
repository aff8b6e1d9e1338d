"""Elementwise operations: dtype promotion in front of the elementwise primitives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerjit.calling.dispatch import Op, emit
from eagerjit.calling.elementwise import ElementwiseOp
from eagerjit.compiler.ops import TABLE, elementwise
from eagerjit.compiler.ops.declare import Primitive
from eagerjit.ops.alpha import is_bool, is_one, only, plus
from eagerjit.ops.exponents import PowerOp, decided
from eagerjit.ops.wording import described
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.runtime import dtypes
from eagerjit.runtime.dtypes import DType
from eagerjit.state import Defaults, state
from eagerjit.tensors.fitting import where_fits
from eagerjit.tensors.mistakes import calls_op
from eagerjit.tensors.outputs import write_out
from eagerjit.tensors.promotion import result_type
from eagerjit.tensors.tensor import Tensor

Number = (bool, int, float, complex, SymbolicInt, TracedFloat)

_REAL_ONLY = frozenset(
    "lt le gt ge maximum minimum floor ceil trunc round remainder floordiv fmod atan2 erf erfc erfinv clamp "
    "fmax fmin signbit deg2rad rad2deg".split()
)
"""Operations that complex numbers have none of."""

_REFUSED_IN_WORDS = frozenset("maximum minimum fmax fmin deg2rad rad2deg".split())
"""Those of them for which PyTorch raises RuntimeError, not NotImplementedError."""

_NUMBERS_ONLY = frozenset("abs floor ceil trunc round floordiv remainder fmod pow".split())
"""Operations that bools have none of."""


NUMBERS_FOR = {
    **dict.fromkeys("add sub mul div floordiv remainder pow".split(), ("input", "other")),
    **dict.fromkeys((f"bitwise_{what}" for what in "and or xor left_shift right_shift".split()), ("input", "other")),
    **dict.fromkeys("fmod eq ne lt le gt ge".split(), ("other",)),
}
"""Operands that users may give as numbers, of operations of two."""


def is_operand(x: Any) -> bool:
    """Whether an arithmetic operation takes x."""
    return isinstance(x, (Tensor, *Number))


def as_dtype(x: Any, dtype: DType) -> Tensor:
    """A tensor or number converted to a dtype, inside an op's body."""
    if isinstance(x, Tensor):
        return x if x.dtype is dtype else emit(elementwise.cast, x, dtype=dtype)
    tracer = state.tracer
    assert tracer is not None
    return tracer.wrap(tracer.constant(x, dtype))


def wide(dtype: DType) -> DType:
    """The dtype that formulas of several operations compute in: halves are rounded once."""
    return dtypes.float32 if dtype in (dtypes.float16, dtypes.bfloat16) else dtype


def promoted(name: str, promotion: str, operands: tuple[Any, ...]) -> list[Tensor]:
    """The operands in the one dtype that the operation computes in."""
    for x in operands:
        if not is_operand(x):
            raise TypeError(f"{name}(): argument must be Tensor or Number, not {type(x).__name__}")
    if promotion == "logical":
        return [_truth(x) for x in operands]
    dtype = result_type(*operands)
    if promotion == "float" and not dtype.is_differentiable:
        dtype = Defaults.dtype
    if dtype.kind == "complex" and name in _REFUSED_IN_WORDS:
        raise RuntimeError(f"{name} not implemented for complex tensors.")
    if dtype.kind == "complex" and name in _REAL_ONLY:
        raise NotImplementedError(f'"{name}" not implemented for {dtype}')
    if (dtype is dtypes.bool_ and name in _NUMBERS_ONLY) or (promotion == "bitwise" and dtype.is_differentiable):
        raise NotImplementedError(f'"{name}" not implemented for {dtype}')
    return [as_dtype(x, dtype) for x in operands]


def _truth(x: Any) -> Tensor:
    if not isinstance(x, Tensor):
        return as_dtype(bool(x), dtypes.bool_)
    if x.dtype is dtypes.bool_:
        return x
    return emit(elementwise.ne, x, as_dtype(0, x.dtype))


def _pointwise(primitive: Primitive, name: str) -> Op:
    """The public op of a unary or binary primitive."""
    promotion = primitive.promotion
    bitwise = TABLE.get(primitive.name.replace("bitwise", "logical"))

    def apply(*operands: Any) -> Tensor:
        if primitive is elementwise.sub and any(map(is_bool, operands)):
            raise RuntimeError("sub: `-` with a bool operand is not supported, use `^`, or `~` to invert a mask")
        values = promoted(name, promotion, operands)
        if primitive in _SCALED and wide(values[0].dtype) is not values[0].dtype and _has_scale(primitive, *operands):
            return _with_scale(primitive, values, operands)
        if primitive is elementwise.floordiv and wide(values[0].dtype) is not values[0].dtype:
            return _floor_of_halves(*values)
        if promotion == "bitwise" and values[0].dtype is dtypes.bool_ and bitwise is not None:
            return emit(bitwise, *values)
        if values[0].dtype is dtypes.bool_:
            if primitive is elementwise.neg:
                raise RuntimeError("neg: `-` of a bool tensor is not supported, use `~`")
            if promotion == "arithmetic" and primitive in _BOOLEAN:
                return emit(_BOOLEAN[primitive], *values)
        elif not values[0].dtype.is_differentiable and primitive in _INTEGER_IDENTITY:
            return emit(elementwise.cast, values[0], dtype=values[0].dtype)
        return emit(primitive, *values)

    def unary(input: Tensor) -> Tensor:
        return apply(input)

    def binary(input: Tensor, other: Tensor) -> Tensor:
        return apply(input, other)

    body: Callable[..., Tensor] = unary if len(primitive.derivative) == 1 else binary
    body.__doc__ = described(primitive, _errors(name, promotion))
    body.__annotations__ |= dict.fromkeys(NUMBERS_FOR.get(name, ()), "Any")
    differentiable = any(primitive.derivative)
    numbers = ("input", "other") if len(primitive.derivative) == 2 else ("input",)
    op = ElementwiseOp(name, body, primitive.derivative if differentiable else None, numbers, differentiable)
    op.promotion = promotion
    return op


def _errors(name: str, promotion: str) -> list[str]:
    """What `_pointwise` raises for kinds of numbers."""
    kinds = {"complex numbers": name in _REAL_ONLY, "bools": name in _NUMBERS_ONLY or name in ("sub", "neg")}
    plain = name in ("sub", "neg", *_REFUSED_IN_WORDS)
    kinds["floating point and complex numbers"] = promotion == "bitwise"
    refused = [kind for kind, holds in kinds.items() if holds]
    return [f"{'RuntimeError' if plain else 'NotImplementedError'} for {' and '.join(refused)}"] if refused else []


def _with_scale(primitive: Primitive, values: list[Tensor], operands: tuple[Any, ...]) -> Tensor:
    """A product or quotient of halves and a number, which is taken as it is; over a tensor it is times 1 / tensor."""
    dtype = values[0].dtype
    first = values[0] if isinstance(operands[0], Tensor) else operands[0]
    if primitive is elementwise.div and not isinstance(first, Tensor):
        inverse = emit(elementwise.reciprocal, values[1])
        return as_dtype(emit(elementwise.mul, as_dtype(first, wide(dtype)), as_dtype(inverse, wide(dtype))), dtype)
    return as_dtype(emit(primitive, as_dtype(first, wide(dtype)), as_dtype(operands[1], wide(dtype))), dtype)


def _floor_of_halves(x: Tensor, y: Tensor) -> Tensor:
    """The quotient of halves rounded down, each step rounded to a half."""
    rest, quotient = x.fmod(y), x / y
    exact = (x - rest) / y
    exact = (exact - 1.0).where((rest != 0.0).logical_and((y < 0.0).logical_xor(rest < 0.0)), exact)
    below = exact.floor()
    below = (below + 1.0).where(exact - below > 0.5, below)
    return quotient.where(y == 0.0, (quotient * 0.0).where(exact == 0.0, below))


def _has_scale(primitive: Primitive, first: Any, second: Any) -> bool:
    """Whether one operand is taken as it is: PyTorch asks the second one, where numbers times tensors end up, too."""
    if not isinstance(second, Tensor) or second.ndim == 0:
        return True
    return not isinstance(first, Tensor) and primitive is not elementwise.floordiv


_SCALED = (elementwise.mul, elementwise.div, elementwise.floordiv)
"""Operations that take a number with halves as it is, not rounded to one."""

_BOOLEAN = {
    elementwise.add: elementwise.logical_or,
    elementwise.mul: elementwise.logical_and,
    elementwise.maximum: elementwise.logical_or,
    elementwise.minimum: elementwise.logical_and,
}
_INTEGER_IDENTITY = (elementwise.floor, elementwise.ceil, elementwise.trunc, elementwise.round_)

POINTWISE: dict[str, Op] = {}
"""Public op by primitive name."""

for _primitive in list(TABLE.values()):
    if _primitive.promotion:
        POINTWISE[_primitive.name] = _pointwise(_primitive, _primitive.name)


def _no_rule(*given: Any) -> Any:
    raise RuntimeError("derivative for aten::floor_divide is not implemented")


def _remainder_divisor(g: Any, out: Any, input: Any, other: Any) -> Any:
    return -g * POINTWISE["floordiv"].call(input, other)


POINTWISE["floor_divide"] = _floored = ElementwiseOp(
    "floor_divide", POINTWISE["floordiv"].body, (_no_rule, _no_rule), ("input", "other")
)
POINTWISE["remainder"].rules = (elementwise.remainder.derivative[0], _remainder_divisor)
for _name in ("mul", "div"):
    POINTWISE[_name].saved_by = None  # of numbers, too: PyTorch saves them


def _where(condition: Any, input: Any, other: Any) -> Tensor:
    """input where the condition holds, else other; operands broadcast."""
    if not isinstance(condition, Tensor):
        raise TypeError(f"where(): argument 'condition' must be Tensor, not {type(condition).__name__}")
    if condition.dtype not in (dtypes.bool_, dtypes.uint8):
        raise RuntimeError(f"where expected condition to be a boolean tensor, but got dtype {condition.dtype}")
    dtype = result_type(input, other)
    return emit(elementwise.where, _truth(condition), as_dtype(input, dtype), as_dtype(other, dtype))


where = ElementwiseOp("where", _where, elementwise.where.derivative, ("input", "other"))
where.fitting = where_fits


def _cast(input: Tensor, dtype: DType) -> Tensor:
    """input in another dtype, always in new memory."""
    return emit(elementwise.cast, input, dtype=dtype)


cast = ElementwiseOp("cast", _cast, (*elementwise.cast.derivative, None))


def _power(input: Any, exponent: Any) -> Tensor:
    """input ** exponent. The exponents 0.5, 1, 2, 3, -1, -0.5 and -2 are computed without a power function."""
    exponent = decided(exponent)
    if type(exponent) in (int, float) and isinstance(input, Tensor):
        value = float(exponent)
        dtype = result_type(input, exponent)
        if not dtype.is_differentiable and value < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        x = as_dtype(input, dtype)
        if value == 1.0:
            return emit(elementwise.cast, x, dtype=dtype)
        if value in (3.0, -2.0) and dtype is dtypes.float16:
            squared = (single := as_dtype(x, dtypes.float32)) * single
            return as_dtype(squared * single if value == 3.0 else emit(elementwise.reciprocal, squared), dtype)
        if value in (2.0, 3.0):
            return x * x if value == 2.0 else x * x * x
        if dtype.is_differentiable:
            if value == 0.5:
                return emit(elementwise.sqrt, x)
            if value == -0.5:
                return emit(elementwise.rsqrt, x)
            if value == -1.0:
                return emit(elementwise.reciprocal, x)
            if value == -2.0:
                return emit(elementwise.reciprocal, x * x)
    return emit(elementwise.pow_, *promoted("pow", "arithmetic", (input, exponent)))


def tensor_beside(value: Any, other: Any) -> Any:
    """A number as a tensor of another one's dtype, or a tensor as it is."""
    return value if isinstance(value, Tensor) else other.new_full((), value)


def _power_input(g: Any, out: Any, input: Any, exponent: Any) -> Any:
    if not isinstance(exponent := decided(exponent), Tensor):
        return g * (exponent * input ** (exponent - 1)) if exponent != 0 else g.new_zeros(input.shape)
    lower = (exponent - 1.0).where(exponent != 0.0, 0.0)
    return (g * (exponent * input**lower)).where(exponent != 0.0, 0.0)


def _power_exponent(g: Any, out: Any, input: Any, exponent: Any) -> Any:
    base = tensor_beside(input, exponent)
    zero = (base == 0.0).logical_and(exponent >= 0.0)
    return g * (out * base.where(zero.logical_not(), 1.0).to(out.dtype).log()).where(zero.logical_not(), 0.0)


power = PowerOp("pow", _power, (_power_input, _power_exponent))


@POINTWISE["add"].entry
@calls_op
def add(input: Any, other: Any, *scaled: Any, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """input + alpha * other; add(input, alpha, other) as well, as older programs write."""
    if scaled:
        other, alpha = only(scaled), other
    plain = POINTWISE["add"].call
    result = plain(input, other) if is_one(alpha) else plus(plain, weighted.call, input, other, alpha)
    return result if out is None else write_out("add", result, out)


@POINTWISE["sub"].entry
@calls_op
def sub(input: Any, other: Any, *scaled: Any, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """input - alpha * other; sub(input, alpha, other) as well, as older programs write."""
    if scaled:
        other, alpha = only(scaled), other
    plain = POINTWISE["sub"].call
    result = plain(input, other) if is_one(alpha) else plus(plain, weighted.call, input, other, alpha, -1)
    return result if out is None else write_out("sub", result, out)


def _weighted(input: Any, other: Any, alpha: complex) -> Tensor:
    """input + alpha * other of real or complex numbers; halves are rounded once."""
    x, y = promoted("add", "arithmetic", (input, other))
    dtype = x.dtype
    x, y, scale = (as_dtype(v, wide(dtype)) for v in (x, y, as_dtype(alpha, dtype)))
    return as_dtype(x + scale * y, dtype)


weighted = ElementwiseOp(
    "add_scaled",
    _weighted,
    (lambda g, out, input, other, alpha: g, lambda g, out, input, other, alpha: g * alpha, None),
    ("input", "other", "alpha"),
)


def quotient(rounding_mode: str | None) -> str:
    """The name of the operation that divides and rounds so."""
    name = {None: "div", "floor": "floordiv", "trunc": "div_trunc"}.get(rounding_mode)
    if name is None:
        refusal = RuntimeError if isinstance(rounding_mode, str) else TypeError
        raise refusal(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'"
        )
    return name


@POINTWISE["div"].entry
@calls_op
def div(input: Any, other: Any, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:
    """input / other; with rounding_mode "floor" or "trunc" the quotient rounded."""
    result = POINTWISE[quotient(rounding_mode)].call(input, other)
    return result if out is None else write_out("div", result, out)


@POINTWISE["bitwise_not"].entry
def invert(input: Tensor) -> Tensor:
    """Bits flipped, by the operator `~`."""
    if input.dtype.is_differentiable:
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return POINTWISE["bitwise_not"].slow(input)


def _div_trunc(input: Any, other: Any) -> Tensor:
    """The quotient rounded towards zero."""
    x, y = promoted("div", "arithmetic", (input, other))
    if x.dtype.kind == "float":
        if isinstance(other, Tensor) and other.ndim:
            return emit(elementwise.trunc, emit(elementwise.div, x, y))
        quotient = emit(elementwise.div, *(as_dtype(v, wide(x.dtype)) for v in (x, other)))  # the number as it is
        return as_dtype(emit(elementwise.trunc, quotient), x.dtype)
    if x.dtype.kind in ("bool", "complex"):
        raise NotImplementedError(f'"div_trunc_cpu" not implemented for {x.dtype}')
    below = emit(elementwise.floordiv, x, y)  # checks for zeros
    return below + as_dtype((below < 0).logical_and(below * y != x), below.dtype)


POINTWISE["div_trunc"] = _truncated = ElementwiseOp(
    "div_trunc", _div_trunc, (lambda g, out, input, other: g.new_zeros(g.shape),) * 2, ("input", "other")
)
_floored.promotion = _truncated.promotion = "arithmetic"
POINTWISE["where"], POINTWISE["cast"], POINTWISE["pow"] = where, cast, power

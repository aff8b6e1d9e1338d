"""Pointwise operations made of others: each is one fused kernel."""

from __future__ import annotations

from typing import Any

from eagerjit.calling.dispatch import Op, emit
from eagerjit.calling.elementwise import ElementwiseOp
from eagerjit.compiler.ops import elementwise
from eagerjit.ops.pointwise import as_dtype, is_operand, wide
from eagerjit.recording.numbers import to_float
from eagerjit.runtime import dtypes
from eagerjit.runtime.planned import Plan
from eagerjit.tensors.fitting import clamp_fits, filled_fits, promoting_limits
from eagerjit.tensors.mistakes import planned_of_ranks
from eagerjit.tensors.promotion import result_type
from eagerjit.tensors.tensor import Tensor


def _square(input: Tensor) -> Tensor:
    """input * input; bools count as integers."""
    return as_dtype(input, dtypes.int64) if input.dtype is dtypes.bool_ else input * input


square = ElementwiseOp("square", _square, (lambda g, out, input: g * (2.0 * input),))


def _clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """input limited to [min, max]; a limit is a number, a tensor that broadcasts, or None.

    Where min > max the result is max; NaN stays. Raises RuntimeError without any limit, NotImplementedError for complex
    numbers.
    """
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    for limit in (min, max):
        if limit is not None and not is_operand(limit):
            raise TypeError(f"clamp(): limits must be Tensor or Number, not {type(limit).__name__}")
    dtype = result_type(input, *promoting_limits(min, max))
    if dtype.is_complex:
        raise NotImplementedError("clamp is not supported for complex types")
    out = as_dtype(input, dtype)
    if min is not None:
        out = emit(elementwise.maximum, out, as_dtype(min, dtype))
    if max is not None:
        out = emit(elementwise.minimum, out, as_dtype(max, dtype))
    return out


def _inside(input: Any, min: Any, max: Any) -> Any:
    if min is None:
        return input <= max
    return input >= min if max is None else (input >= min).logical_and(input <= max)


def _clamp_min(g: Any, out: Any, input: Any, min: Any, max: Any) -> Any:
    below = input < min if max is None else (input < min).logical_and(min < max)
    return g.where(below, 0.0)


def _clamp_max(g: Any, out: Any, input: Any, min: Any, max: Any) -> Any:
    above = input > max if min is None else (input > max).logical_or(max < min)
    return g.where(above, 0.0)


clamp = ElementwiseOp(
    "clamp",
    _clamp,
    (lambda g, out, input, min, max: g.where(_inside(input, min, max), 0.0), _clamp_min, _clamp_max),
    ("min", "max"),
)
clamp.promotion = "arithmetic"
clamp.fitting = clamp_fits


def clamp_min(input: Tensor, min: Any) -> Tensor:
    """input, at least min."""
    return clamp.call(input, min)


def clamp_max(input: Tensor, max: Any) -> Tensor:
    """input, at most max."""
    return clamp.call(input, None, max)


def _masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """input with `value` where the mask holds, which is bool and broadcasts to input's shape.

    Raises RuntimeError for other masks and for a value that is a tensor with dimensions.
    """
    if not isinstance(mask, Tensor):
        raise TypeError(f"masked_fill(): argument 'mask' must be Tensor, not {type(mask).__name__}")
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(f"masked_fill only supports boolean masks, but got mask with dtype {mask.dtype}")
    if value is None or isinstance(value, (str, list, tuple)):
        raise TypeError(f"masked_fill(): argument 'value' must be Tensor or Number, not {type(value).__name__}")
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(
            f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    return emit(elementwise.where, mask, as_dtype(value, input.dtype), input)


masked_fill = Op(
    "masked_fill",
    _masked_fill,
    (
        lambda g, out, input, mask, value: g.where(mask.logical_not(), 0.0),
        None,
        lambda g, out, input, mask, value: g.where(mask, 0.0).sum(),
    ),
    ("value",),
)
masked_fill.fitting = filled_fits


def _value_last(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments in their order: older programs give the factor before the two tensors."""
    if len(args) == 4 and not isinstance(args[1], Tensor) and isinstance(args[3], Tensor):
        args = args[0], args[2], args[3], args[1]
    for name, given in zip(("tensor1", "tensor2"), args[1:3], strict=False):
        if not isinstance(given, Tensor):
            raise TypeError(f"argument '{name}' must be Tensor, not {type(given).__name__}")
    if len(args) == 4 and isinstance(args[3], Tensor) and args[3].ndim:
        raise TypeError("argument 'value' must be Number, not Tensor")
    return args


def _addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, value: complex = 1) -> Tensor:
    """input + value * tensor1 * tensor2; all three broadcast. RuntimeError for shapes that do not."""
    dtype = result_type(input, tensor1, tensor2)
    input, tensor1, tensor2 = (as_dtype(x, wide(dtype)) for x in (input, tensor1, tensor2))
    return as_dtype(input + (value if dtype.is_differentiable else as_dtype(value, dtype)) * tensor1 * tensor2, dtype)


addcmul = ElementwiseOp("addcmul", _addcmul, None, ("value",))
addcmul.promotion = "arithmetic"
addcmul.ordered = _value_last
addcmul.saved_by = (), (2,), (1,)


def _addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, value: complex = 1) -> Tensor:
    """input + value * tensor1 / tensor2; all three broadcast. RuntimeError for integers divided by integers."""
    if not result_type(tensor1, tensor2).is_differentiable:
        raise RuntimeError("addcdiv of integers is no longer supported: use true_divide, or trunc of it")
    dtype = result_type(input, tensor1, tensor2)
    input, tensor1, tensor2 = (as_dtype(x, wide(dtype)) for x in (input, tensor1, tensor2))
    return as_dtype(input + value * tensor1 / tensor2, dtype)


addcdiv = ElementwiseOp("addcdiv", _addcdiv, None, ("value",))
addcdiv.promotion = "arithmetic"
addcdiv.ordered = _value_last
addcdiv.saved_by = (), (2,), (1, 2)


def _lerp(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    """input + weight * (end - input), exact at both ends."""
    if not is_operand(weight):
        raise TypeError(f"lerp(): argument 'weight' must be Tensor or Number, not {type(weight).__name__}")
    if end.dtype is not input.dtype:
        raise RuntimeError(f"expected dtype {input.dtype} for `end` but got dtype {end.dtype}")
    if isinstance(weight, Tensor) and weight.ndim and weight.dtype is not input.dtype:
        raise RuntimeError(f"expected dtype {input.dtype} for `weight` but got dtype {weight.dtype}")
    if not input.dtype.is_differentiable:
        raise NotImplementedError(f'"lerp_kernel" not implemented for {input.dtype}')
    dtype = input.dtype
    input, end, w = (as_dtype(x, wide(dtype)) for x in (input, end, weight))
    near = input + w * (end - input)
    far = end - (end - input) * (1.0 - w)
    return as_dtype(near.where(w.abs() < 0.5, far), dtype)


lerp = ElementwiseOp(
    "lerp",
    _lerp,
    (
        lambda g, out, input, end, weight: g * (1.0 - weight),
        lambda g, out, input, end, weight: g * weight,
        lambda g, out, input, end, weight: g * (end - input),
    ),
    ("weight",),
)


def _isclose(input: Tensor, other: Tensor, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Tensor:
    """Where |input - other| <= atol + rtol * |other|."""
    if input.dtype is not other.dtype:
        raise RuntimeError(f"isclose(): {input.dtype} did not match {other.dtype}")
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if not tolerance >= 0:
            raise RuntimeError(f"isclose(): {name} must be greater than or equal to zero, but got {tolerance}")
    same = input == other
    if not input.dtype.is_floating_point:
        input, other = as_dtype(input, dtypes.float64), as_dtype(other, dtypes.float64)
    near = ((input - other).abs() <= atol + rtol * other.abs()).logical_and(other.isfinite())
    out = same.logical_or(near)
    return out.logical_or(input.isnan().logical_and(other.isnan())) if equal_nan else out


isclose = ElementwiseOp("isclose", _isclose, None, ("rtol", "atol"), differentiable=False)


def _allclose(input: Tensor, other: Tensor, rtol: Any, atol: Any, equal_nan: bool) -> Tensor:
    return isclose.call(input, other, rtol, atol, equal_nan).all()


_all_close = Op("allclose", _allclose, None, ("rtol", "atol"), differentiable=False)


def _equal(input: Tensor, other: Tensor) -> Tensor:
    """Whether all elements are."""
    return (input == other).all()


_all_equal = Op("equal", _equal, None, differentiable=False)


def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are close; see `isclose`."""
    return bool(_all_close.call(input, other, rtol, atol, equal_nan))


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether both have one shape and equal elements."""
    if not isinstance(other, Tensor):
        raise TypeError(f"equal(): argument 'other' (position 2) must be Tensor, not {type(other).__name__}")
    return tuple(input.shape) == tuple(other.shape) and bool(_all_equal.call(input, other))


@planned_of_ranks
def nan_to_num(
    input: Tensor, nan: float | None = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Plan:
    """NaN and infinities replaced; by default with 0 and the largest finite numbers."""
    if not input.dtype.is_floating_point:
        return _copied, (input,)
    return _nan_to_num.call, (input, 0.0 if nan is None else to_float(nan), *_limits(input, posinf, neginf))


def _copied(input: Tensor) -> Tensor:
    return input.clone()


def _limits(input: Tensor, posinf: float | None, neginf: float | None) -> tuple[float, float]:
    import ml_dtypes

    largest = float(ml_dtypes.finfo(input.dtype.numpy).max)
    return (largest if posinf is None else to_float(posinf)), (-largest if neginf is None else to_float(neginf))


def _nan_to_num_body(input: Tensor, nan: Any, posinf: Any, neginf: Any) -> Tensor:
    replaced = as_dtype(posinf, input.dtype).where(input > 0, as_dtype(neginf, input.dtype))
    return as_dtype(nan, input.dtype).where(input.isnan(), replaced.where(input.isinf(), input))


_nan_to_num = ElementwiseOp(
    "nan_to_num",
    _nan_to_num_body,
    (lambda g, out, input, nan, posinf, neginf: g.where(input.isfinite(), 0.0), None, None, None),
    ("nan", "posinf", "neginf"),
)

"""Activation functions, each one kernel; half precision is computed in float32."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from eagerjit.autograd.formal import RELU_LIKE
from eagerjit.calling.dispatch import Op, emit
from eagerjit.calling.elementwise import ElementwiseOp
from eagerjit.compiler.ops import elementwise
from eagerjit.ops.pointwise import as_dtype, wide
from eagerjit.ops.wording import OF_FLOATS, also
from eagerjit.runtime import dtypes
from eagerjit.runtime.parameters import parameters
from eagerjit.tensors.promotion import TYPE_NAMES
from eagerjit.tensors.tensor import Tensor


def widened(*tensors: Any) -> list[Any]:
    """Tensors in the dtype they are computed in."""
    return [as_dtype(x, wide(x.dtype)) if isinstance(x, Tensor) else x for x in tensors]


def only_fitting(input: Tensor, *parameters: Tensor | None) -> None:
    """Refuse weights and statistics of another dtype than the input's; of 16-bit floats all may be float32."""
    found = {p.dtype for p in parameters if p is not None}
    wider = {dtypes.float32} if input.dtype in (dtypes.float16, dtypes.bfloat16) else set()
    if len(found) > 1 or not found <= {input.dtype} | wider:
        names = ", ".join(sorted(TYPE_NAMES[x] for x in found))
        raise RuntimeError(f"mixed dtype: the input is {TYPE_NAMES[input.dtype]}, its parameters are {names}")


def only_floats(name: str, input: Tensor) -> None:
    """Refuse a tensor that is not floating point: integers would be rounded on the way."""
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f'"{name}" not implemented for {input.dtype}')


def _activation(
    name: str, function: Callable[..., Tensor], slope: Callable[..., Tensor] | None, numbers: tuple[str, ...] = (),
    kind: type[Op] = ElementwiseOp,
) -> Op:
    """An op of one tensor: the function, and its derivative (x, *parameters) where it is not derived."""
    taken = parameters(function)
    count = len(taken.names) - 1

    def body(input: Tensor, *parameters: Any) -> Tensor:
        only_floats(name, input)
        return as_dtype(function(widened(input)[0], *parameters), input.dtype)

    def rule(g: Any, out: Any, input: Any, *parameters: Any) -> Any:
        assert slope is not None
        return g.to(wide(g.dtype)) * slope(input.to(wide(input.dtype)), *parameters)

    body.takes = taken  # type: ignore[attr-defined]
    body.__doc__ = also(function.__doc__, OF_FLOATS)
    body.__annotations__ = function.__annotations__
    return kind(name, body, None if slope is None else (rule,) + (None,) * count, numbers)


def _relu(input: Tensor) -> Tensor:
    """max(input, 0), in input's dtype; NaN stays. Raises RuntimeError for bools."""
    if input.dtype is dtypes.bool_:
        raise RuntimeError("Boolean inputs not supported for relu")
    return emit(elementwise.maximum, input, as_dtype(0, input.dtype))


relu = ElementwiseOp("relu", _relu, (lambda g, out, input: g.where((out <= 0).logical_not(), 0.0),))  # of NaN it is g

relu.formal = RELU_LIKE


def _gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """input * P(normal <= input), exactly or with tanh (Hendrycks and Gimpel 2016).

    `approximate` is "none" (by erf) or "tanh": 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))), else
    RuntimeError.
    """
    if not isinstance(approximate, str):
        raise TypeError(f"gelu(): argument 'approximate' must be str, not {type(approximate).__name__}")
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (input + 0.044715 * (input * input * input))
        return 0.5 * input * (1.0 + inner.tanh())
    if approximate != "none":
        raise RuntimeError("approximate argument must be either none or tanh.")
    return input * 0.5 * (1.0 + (input * math.sqrt(0.5)).erf())


def _gelu_slope(x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        scale = math.sqrt(2 / math.pi)
        t = (scale * (x + 0.044715 * (x * x * x))).tanh()
        return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * (scale * (1.0 + 3 * 0.044715 * (x * x)))
    return 0.5 * (1.0 + (x * math.sqrt(0.5)).erf()) + x * ((x * x * -0.5).exp() * (1 / math.sqrt(2 * math.pi)))


gelu = _activation("gelu", _gelu, _gelu_slope)


def _silu(input: Tensor) -> Tensor:
    """input * sigmoid(input) (Elfwing et al. 2018)."""
    return input * input.sigmoid()


def _silu_slope(x: Any) -> Any:
    s = x.sigmoid()
    return s * (1.0 + x * (1.0 - s))


silu = _activation("silu", _silu, _silu_slope)


def _leaky_relu(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """input where positive, else negative_slope * input (Maas et al. 2013)."""
    return input.where(input > 0, input * negative_slope)


leaky_relu = _activation(
    "leaky_relu",
    _leaky_relu,
    lambda x, negative_slope: x.new_ones(()).where(x > 0, negative_slope),
    ("negative_slope",),
)
leaky_relu.formal = RELU_LIKE


def _elu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """input where positive, else alpha * (e**input - 1) (Clevert et al. 2016)."""
    return input.where(input > 0, alpha * input.expm1())


def _exp_below(x: Any) -> Any:
    """e**x where x < 0, else 1: beyond, where it overflows, its own slope times zero would be NaN."""
    return x.where(x < 0, 0.0).exp()


def _elu_slope(x: Any, alpha: Any) -> Any:
    return (alpha * _exp_below(x)).where(x < 0, x.new_ones(()).where(x != 0, alpha))  # which has no slope at 0


elu = _activation("elu", _elu, _elu_slope, ("alpha",))


def _selu(input: Tensor) -> Tensor:
    """The self-normalising exponential unit: 1.0507 * input where positive, else 1.7581 * (e**input - 1).

    The constants keep mean 0 and variance 1 from layer to layer (Klambauer et al. 2017).
    """
    return 1.0507009873554805 * input.where(input > 0, 1.6732632423543772 * input.expm1())


def _selu_slope(x: Any) -> Any:
    return 1.0507009873554805 * _elu_slope(x, 1.6732632423543772)


selu = _activation("selu", _selu, _selu_slope)


def _celu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """input where positive, else alpha * (e**(input / alpha) - 1) (Barron 2017)."""
    return input.where(input > 0.0, alpha * (input / alpha).expm1())


celu = _activation("celu", _celu, lambda x, alpha: (x.where(x < 0, 0.0) / alpha).exp(), ("alpha",))


def _softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + e**(beta * input)) / beta; input itself where beta * input exceeds the threshold."""
    scaled = input * beta
    return input.where(scaled > threshold, scaled.exp().log1p() / beta)


softplus = _activation(
    "softplus",
    _softplus,
    lambda x, beta, threshold: x.new_ones(()).where(x * beta > threshold, (x * beta).sigmoid()),
    ("beta", "threshold"),
)
for _op in (celu, softplus):
    _op.steady = _op.numbers


def _hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """input limited to [min_val, max_val]."""
    if input.dtype is dtypes.bool_:
        raise RuntimeError("Bool inputs not supported for hardtanh")
    if input.dtype is dtypes.uint8 and (min_val < 0 or max_val < 0):
        raise RuntimeError("hardtanh: cannot do hardtanh on an unsigned type with negative limits")
    if input.dtype.is_complex:
        raise NotImplementedError(f"hardtanh: clamp is not supported for complex types, got {input.dtype}")
    low = emit(elementwise.maximum, input, as_dtype(min_val, input.dtype))
    return emit(elementwise.minimum, low, as_dtype(max_val, input.dtype))


hardtanh = ElementwiseOp(
    "hardtanh",
    _hardtanh,
    (
        lambda g, out, input, min_val, max_val: g.where((input > min_val).logical_and(input < max_val), 0.0),
        None,
        None,
    ),
    ("min_val", "max_val"),
)

hardtanh.formal = RELU_LIKE


def _hardsigmoid(input: Tensor) -> Tensor:
    """input / 6 + 1/2 limited to [0, 1] (Howard et al. 2019)."""
    return (input + 3.0).clamp(0.0, 6.0) / 6.0


def _hardsigmoid_slope(x: Any) -> Any:
    return (x * 0.0 + 1.0 / 6.0).where((x > -3.0).logical_and(x < 3.0), 0.0)


hardsigmoid = _activation("hardsigmoid", _hardsigmoid, _hardsigmoid_slope)


def _hardswish(input: Tensor) -> Tensor:
    """input * hardsigmoid(input) (Howard et al. 2019)."""
    return input * (input + 3.0).clamp(0.0, 6.0) / 6.0


def _hardswish_slope(x: Any) -> Any:
    return (x / 3.0 + 0.5).where(x < 3.0, 1.0).where((x <= -3.0).logical_not(), 0.0)


hardswish = _activation("hardswish", _hardswish, _hardswish_slope)


def _mish(input: Tensor) -> Tensor:
    """input * tanh(softplus(input)) (Misra 2020)."""
    return input * _softplus(input).tanh()


def _mish_slope(x: Any) -> Any:
    squashed = _softplus(x).tanh()
    return squashed + x * x.sigmoid() * (1.0 - squashed * squashed)


mish = _activation("mish", _mish, _mish_slope)


def _logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(input)) without overflow."""
    return emit(elementwise.minimum, input, as_dtype(0, input.dtype)) - (-input.abs()).exp().log1p()


logsigmoid = _activation("logsigmoid", _logsigmoid, lambda x: (-x).sigmoid(), kind=Op)


def _softsign(input: Tensor) -> Tensor:
    """input / (1 + |input|); of integers and complex numbers, too."""
    return input / (1.0 + input.abs())


softsign = ElementwiseOp("softsign", _softsign)

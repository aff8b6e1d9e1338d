"""Numbers rounded as quantization would round them, for training with it: gradients pass where nothing is cut off.

Jacob et al., Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference, CVPR 2018.
"""

from __future__ import annotations

from typing import Any

from eagerjit.calling.casts import converting
from eagerjit.calling.elementwise import ElementwiseOp
from eagerjit.calling.public import public
from eagerjit.ops import views
from eagerjit.ops.conditions import required
from eagerjit.ops.pointwise import as_dtype, wide
from eagerjit.recording.numbers import to_float
from eagerjit.runtime import dtypes
from eagerjit.tensors.creation import full
from eagerjit.tensors.promotion import TYPE_NAMES
from eagerjit.tensors.tensor import Tensor


def _places(input: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
    """Which step of the scale each number is nearest to, halves to even."""
    x = as_dtype(input, wide(input.dtype))
    steps, zero = x * as_dtype(1.0 / scale, x.dtype), as_dtype(zero_point, x.dtype)
    return (steps + zero).round() if zero_point.dtype.is_floating_point else steps.round() + zero


def _rounded(input: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int) -> Tensor:
    """Numbers moved to the steps quant_min to quant_max of a scale; NaN is the lowest."""
    message = "fake_quantize: `zero_point` must be between `quant_min` and `quant_max`."
    fits = (zero_point >= quant_min).logical_and(zero_point <= quant_max)
    zero_point = required(fits, zero_point, "RuntimeError", message)
    places = _places(input, scale, zero_point)
    kept = as_dtype(places.where(places == places, float(quant_min)).clamp(quant_min, quant_max), dtypes.float32)
    # As in PyTorch the product is one of float32 for float64 too.
    return as_dtype((kept - as_dtype(zero_point, dtypes.float32)) * as_dtype(scale, dtypes.float32), input.dtype)


def _rule(g: Any, out: Any, input: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Any:
    places = _places(input, scale, zero_point)
    return g.where((places >= quant_min).logical_and(places <= quant_max), 0.0)


_op = ElementwiseOp("fake_quantize", _rounded, (_rule, None, None, None, None))


def _call(name: str, input: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int) -> Tensor:
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f'"{name}" not implemented for \'{TYPE_NAMES[input.dtype]}\'')
    if quant_min > quant_max:
        raise RuntimeError(f"{name}: `quant_min` should be less than or equal to `quant_max`.")
    return _op.call(input, scale.detach(), zero_point.detach(), int(quant_min), int(quant_max))


@converting
@public
def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Tensor:
    """Numbers rounded to (step - zero_point) * scale for integer steps of quant_min to quant_max.

    `scale` and `zero_point` are numbers or tensors of one element. Gradients pass where no number is cut off. Raises
    RuntimeError for a zero point that is no step.
    """
    scale = scale if isinstance(scale, Tensor) else full((), to_float(scale), dtype=dtypes.float32, device=input.device)
    if isinstance(zero_point, float):
        raise TypeError("fake_quantize_per_tensor_affine(): argument 'zero_point' must be int or Tensor, not float")
    if not isinstance(zero_point, Tensor):
        zero_point = full((), zero_point, dtype=dtypes.int64, device=input.device)
    name = "fake_quantize_per_tensor_affine"
    return _call(name, input, scale.reshape(()), zero_point.reshape(()), quant_min, quant_max)


@public
def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """`fake_quantize_per_tensor_affine` with a scale and a zero point for each index of a dimension."""
    name, d = "fake_quantize_per_channel_affine", views.dimension(axis, input.ndim)
    if zero_point.dtype not in (dtypes.int32, dtypes.float32, dtypes.float16):
        raise RuntimeError(f"{name}: Zero-point must be Int32, Float or Half, found {TYPE_NAMES[zero_point.dtype]}")
    sizes = tuple(scale.shape), tuple(zero_point.shape)
    if sizes != ((input.shape[d],),) * 2:
        raise RuntimeError(f"{name}: dimensions of scale and zero-point are not consistent with input tensor: {sizes}")
    shape = [-1 if i == d else 1 for i in range(input.ndim)]
    return _call(name, input, scale.reshape(shape), zero_point.reshape(shape), quant_min, quant_max)

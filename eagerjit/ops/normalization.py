"""Softmax and normalisation: one pass in, one pass out, gradients in terms of what is known already."""

from __future__ import annotations

from typing import Any

import ml_dtypes

from eagerjit.autograd.formal import Formal
from eagerjit.calling.dispatch import Op, emit
from eagerjit.calling.elementwise import KeepingOp
from eagerjit.compiler.ops import elementwise, reductions
from eagerjit.ops import views
from eagerjit.ops.activation import only_fitting, only_floats, widened
from eagerjit.ops.pointwise import as_dtype
from eagerjit.ops.reduce import extent, reduce, sum_
from eagerjit.recording.channels_last import lies_last
from eagerjit.runtime import dtypes
from eagerjit.runtime.planned import Plan
from eagerjit.tensors.mistakes import planned_of_ranks
from eagerjit.tensors.tensor import Shape, Tensor


def _exponentials(input: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """(the largest, exponentials of the input less that, their sum)."""
    largest = reduce(reductions.amax, input, dim, True)
    exponentials = emit(elementwise.exp_sub, input, largest)
    return largest, exponentials, reduce(reductions.sum_, exponentials, dim, True)


def _floating(name: str, input: Tensor, dtype: Any) -> Any:
    target = dtype or input.dtype
    if not target.is_floating_point:
        raise NotImplementedError(f'"{name}" not implemented for {target}')
    return target


def _softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """exp(input) / sum(exp(input)) along a dimension."""
    target = _floating("softmax", input, dtype)
    (x,) = widened(as_dtype(input, target))
    if input.numel() == 0:
        return as_dtype(x * 1.0, target)
    _, exponentials, total = _exponentials(x, dim)
    return as_dtype(exponentials / total, target)


def softmax_gradient(g: Any, out: Any, dim: int) -> Any:
    """The gradient of softmax from its result."""
    g, out = (t.float() if t.dtype in (dtypes.float16, dtypes.bfloat16) else t for t in (g, out))
    return out * (g - (g * out).sum(dim, keepdim=True))


softmax_op = Op("softmax", _softmax, (lambda g, out, input, dim, dtype: softmax_gradient(g, out, dim), None, None))


def _log_softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """log(softmax(input)) along a dimension."""
    target = _floating("log_softmax", input, dtype)
    (x,) = widened(as_dtype(input, target))
    if input.numel() == 0:
        return as_dtype(x * 1.0, target)
    largest, _, total = _exponentials(x, dim)
    return as_dtype((x - largest) - total.log(), target)


def _log_softmax_rule(g: Any, out: Any, input: Any, dim: int, dtype: Any) -> Any:
    g, out = (t.float() if t.dtype in (dtypes.float16, dtypes.bfloat16) else t for t in (g, out))
    return g - out.exp() * g.sum(dim, keepdim=True)


log_softmax_op = Op("log_softmax", _log_softmax, (_log_softmax_rule, None, None))


@planned_of_ranks
def softmax(input: Tensor, dim: int | None = None, dtype: Any = None, *, _stacklevel: int = 3) -> Plan:
    """exp(input) / sum(exp(input)) along a dimension.

    The result has input's shape, and `dtype` where that is given; sums along `dim` are 1. The largest element is
    subtracted first, so nothing overflows; halves are computed in float32. Without `dim` it is 0 for tensors of 0, 1
    and 3 dimensions and 1 for others. Raises IndexError for a dimension out of range, NotImplementedError for integers
    and bools without a floating `dtype`.
    """
    return softmax_op.call, (input, views.dimension(_implicit(input, dim), input.ndim), dtype)


@planned_of_ranks
def log_softmax(input: Tensor, dim: int | None = None, dtype: Any = None, *, _stacklevel: int = 3) -> Plan:
    """log(softmax(input)) along a dimension.

    Computed as input - max - log(sum(exp(input - max))), which loses no digits where softmax is near 0. Shapes, dtypes,
    a missing `dim` and errors are those of `softmax`.
    """
    return log_softmax_op.call, (input, views.dimension(_implicit(input, dim), input.ndim), dtype)


def _implicit(input: Tensor, dim: int | None) -> int:
    """The dimension that PyTorch takes where none is named."""
    return (0 if input.ndim in (0, 1, 3) else 1) if dim is None else dim


def softmin(input: Tensor, dim: int | None = None, dtype: Any = None) -> Tensor:
    """softmax(-input). Shapes and errors are those of `softmax`."""
    return softmax(-input, dim, dtype)


# -- normalisation over the last dimensions ---------------------------------------------------------------------------


def _last(input: Tensor, normalized_shape: Any) -> tuple[int, ...]:
    """The dimensions of `normalized_shape`, which must be the last ones."""
    shape = tuple(input.shape)
    count = len(normalized_shape := Shape(normalized_shape))
    if count == 0 or len(shape) < count or any(a != b for a, b in zip(shape[-count:], normalized_shape, strict=True)):
        raise RuntimeError(
            f"Given normalized_shape={list(normalized_shape)}, expected input with shape [*, "
            f"{', '.join(map(str, normalized_shape))}], but got input of size{list(shape)}"
        )
    return tuple(range(len(shape) - count, len(shape)))


def _check_parameters(name: str, normalized_shape: Any, **parameters: Tensor | None) -> None:
    """Raises RuntimeError for parameters of another shape than that normalised over, which would be broadcast."""
    wanted = tuple(Shape(normalized_shape))
    for parameter, given in parameters.items():
        if given is not None and tuple(given.shape) != wanted:
            raise RuntimeError(
                f"{name}(): Expected {parameter} to be of same shape as normalized_shape, but got {parameter} of shape "
                f"{list(given.shape)} and normalized_shape = {list(wanted)}"
            )


def _standardised(x: Tensor, axes: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor]:
    """(x with mean 0 and variance 1, the factor that made it so)."""
    count = extent(x, axes)
    centered = x - reduce_sum(x, axes) / count
    scale = (reduce_sum(centered * centered, axes) / count + eps).rsqrt()
    return centered * scale, scale


def reduce_sum(x: Any, axes: tuple[int, ...]) -> Any:
    """A sum that keeps its dimensions."""
    return sum_.call(x, axes, True)


def _layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """input with mean 0 and variance 1 over the last dimensions, times weight, plus bias."""
    axes = _last(input, normalized_shape)
    only_floats("layer_norm", input)
    _check_parameters("layer_norm", normalized_shape, weight=weight, bias=bias)
    only_fitting(input, weight, bias)
    x, w, b = widened(input, weight, bias)
    out, _ = _standardised(x, axes, eps)
    out = out if w is None else out * w
    return as_dtype(out if b is None else out + b, input.dtype)


def _layer_norm_input(g: Any, out: Any, input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    axes = _axes(input, normalized_shape)
    g, x, w = widened_now(g, input, weight)
    normal, scale = _standardised(x, axes, eps)
    weighted = g if w is None else g * w
    count = extent(x, axes)
    mean = reduce_sum(weighted, axes) / count
    slope = reduce_sum(weighted * normal, axes) / count
    return scale * (weighted - mean - normal * slope)


def _axes(input: Any, normalized_shape: Any) -> tuple[int, ...]:
    return tuple(range(input.ndim - len(normalized_shape), input.ndim))


def widened_now(*tensors: Any) -> list[Any]:
    """`widened` outside of a body too."""
    half = (dtypes.float16, dtypes.bfloat16)
    return [t.float() if isinstance(t, Tensor) and t.dtype in half else t for t in tensors]


def _layer_norm_weight(g: Any, out: Any, input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    g, x = widened_now(g, input)
    return g * _standardised(x, _axes(input, normalized_shape), eps)[0]


def _layer_norm_bias(g: Any, out: Any, input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    return widened_now(g)[0]


layer_norm_op = Op(
    "layer_norm", _layer_norm, (_layer_norm_input, None, _layer_norm_weight, _layer_norm_bias, None), ("eps",)
)
layer_norm_op.formal = Formal((0, 2, 3), zeros=False)


@planned_of_ranks
def layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Plan:
    """input with mean 0 and variance 1 over the last dimensions, times weight, plus bias.

    (input - mean) / sqrt(variance + eps), the variance divided by the number of elements (Ba, Kiros and Hinton 2016).
    `normalized_shape` is the sizes of the dimensions normalised over, weight and bias have that shape. Raises
    RuntimeError where input's last sizes are others, NotImplementedError for integers.
    """
    return layer_norm_op.call, (input, sizes_normalized(normalized_shape), weight, bias, eps)


def sizes_normalized(normalized_shape: Any) -> tuple[int, ...]:
    """The sizes of the dimensions normalised over, of which one may be given as a number."""
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


def _mean_square(x: Any, axes: tuple[int, ...], eps: float) -> Any:
    """1 / the root of the mean square."""
    return (reduce_sum(x * x, axes) / extent(x, axes) + eps).rsqrt()


def _rms_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None, eps: float) -> Tensor:
    """input divided by the root of its mean square over the last dimensions, times weight."""
    axes = _last(input, normalized_shape)
    only_floats("rms_norm", input)
    _check_parameters("rms_norm", normalized_shape, weight=weight)
    x, w = widened(input, weight)
    out = x * _mean_square(x, axes, eps)
    return as_dtype(out if w is None else out * w, input.dtype)


def _rms_norm_input(g: Any, out: Any, input: Any, normalized_shape: Any, weight: Any, eps: float) -> Any:
    axes = _axes(input, normalized_shape)
    g, x, w = widened_now(g, input, weight)
    scale = _mean_square(x, axes, eps)
    weighted = g if w is None else g * w
    normal = x * scale
    return scale * (weighted - normal * (reduce_sum(weighted * normal, axes) / extent(x, axes)))


def _rms_norm_weight(g: Any, out: Any, input: Any, normalized_shape: Any, weight: Any, eps: float) -> Any:
    g, x = widened_now(g, input)
    return g * (x * _mean_square(x, _axes(input, normalized_shape), eps))


rms_norm_op = KeepingOp("rms_norm", _rms_norm, (_rms_norm_input, None, _rms_norm_weight, None), ("eps",))


def rms_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """input divided by the root of its mean square over the last dimensions, times weight.

    input / sqrt(mean(input**2) + eps) (Zhang and Sennrich 2019); without `eps` it is the distance from 1 to the next
    number of input's dtype. Shapes and errors are those of `layer_norm`.
    """
    known = eps is not None or not input.dtype.is_floating_point  # which the op refuses
    epsilon = eps or 0.0 if known else float(ml_dtypes.finfo(input.dtype.numpy).eps)
    laid = input if lies_last(input) else input.contiguous()
    return rms_norm_op.call(laid, sizes_normalized(normalized_shape), weight, epsilon)

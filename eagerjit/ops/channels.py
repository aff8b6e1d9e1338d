"""Normalisation per channel and per group of channels.

The ops keep the statistics as results, small as they are: a gradient reads its operands once for its sums and once for
its result. Sums over points come first: what follows is arithmetic on one number per channel.
"""

from __future__ import annotations

from typing import Any

from eagerjit.autograd.formal import TOGETHER, Formal
from eagerjit.calling.spatial import SpatialOp
from eagerjit.ops.activation import only_fitting, only_floats, widened
from eagerjit.ops.normalization import widened_now
from eagerjit.ops.pointwise import as_dtype
from eagerjit.ops.reduce import extent
from eagerjit.ops.views import reshaped
from eagerjit.tensors.tensor import Tensor


def over_channels(x: Any, vector: Any) -> Any:
    """A vector over channels, shaped so that it broadcasts against x."""
    return vector.reshape((1, -1, *(1,) * (x.ndim - 2)))


def _per_channel(x: Any) -> Any:
    """Sums over everything but channels: over points first, then of the few that remain along lines."""
    if x.ndim == 2:
        return x.sum(0)
    return _over_batch(x.sum(tuple(range(2, x.ndim))))


def _over_batch(sums: Any) -> Any:
    """Sums of (batch, channels) over the batch: few, so that what follows per channel is part of the same loop."""
    return sums.t().sum(1)


# -- over the batch ---------------------------------------------------------------------------------------------------


def _all_but_channels(x: Any) -> tuple[int, ...]:
    return (0, *range(2, x.ndim))


def _batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """(input with mean 0 and variance 1 per channel, times weight, plus bias; the mean; the variance)."""
    only_floats("batch_norm", input)
    only_fitting(input, weight, bias)
    x, w, b = widened(input, weight, bias)
    count = extent(x, _all_but_channels(x))
    mean = _per_channel(x) / count
    centered = x - over_channels(x, mean)
    variance = _per_channel(centered * centered) / count
    scale = (variance + eps).rsqrt()
    out = centered * over_channels(x, scale if w is None else scale * w)
    return as_dtype(out if b is None else out + over_channels(x, b), input.dtype), mean, variance


def _batch_sums(g: Any, out: Any, input: Any) -> tuple[Any, Any, Any, Any]:
    """(gradient of the result, input - mean, per channel the sum of the first and of their product)."""
    given, x = widened_now(input.new_zeros(input.shape) if g[0] is None else g[0], input)
    centered = x - over_channels(x, out[1])
    return given, centered, _per_channel(given), _per_channel(given * centered)


def _batch_norm_input(g: Any, out: Any, input: Any, weight: Any, bias: Any, eps: float) -> Any:
    given, centered, total, product = _batch_sums(g, out, input)
    count = extent(centered, _all_but_channels(centered))
    factor = (out[2] + eps).rsqrt()
    factor = factor if weight is None else factor * widened_now(weight)[0]
    shift, slope = total * factor / count, product * factor / (out[2] + eps) / count
    if g[1] is not None:
        shift = shift - g[1] / count
    if g[2] is not None:
        slope = slope - 2.0 * g[2] / count
    factor, shift, slope = (over_channels(given, v) for v in (factor, shift, slope))
    return given * factor - shift - centered * slope


batch_norm_op = SpatialOp(
    "batch_norm",
    _batch_norm,
    (
        _batch_norm_input,
        lambda g, out, input, weight, bias, eps: _batch_sums(g, out, input)[3] * (out[2] + eps).rsqrt(),
        lambda g, out, input, weight, bias, eps: _batch_sums(g, out, input)[2],
        None,
    ),
    ("eps",),
)
batch_norm_op.absent_gradients, batch_norm_op.results_read, batch_norm_op.formal = True, (1, 2), TOGETHER
batch_norm_op.follows = True


# -- with statistics that are known -----------------------------------------------------------------------------------


def _known_norm(
    input: Tensor, mean: Tensor, variance: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    """(input - mean) / sqrt(variance + eps) * weight + bias, per channel."""
    only_floats("batch_norm", input)
    only_fitting(input, mean, variance, weight, bias)
    x, mean, variance, w, b = widened(input, mean, variance, weight, bias)
    scale = (variance + eps).rsqrt()
    out = (x - over_channels(x, mean)) * over_channels(x, scale if w is None else scale * w)
    return as_dtype(out if b is None else out + over_channels(x, b), input.dtype)


def _factor(variance: Any, weight: Any, eps: float) -> Any:
    """What one step of the input changes the result by, per channel."""
    v, w = widened_now(variance, weight)
    scale = (v + eps).rsqrt()
    return scale if w is None else scale * w


def _product(g: Any, input: Any, mean: Any) -> Any:
    """The sum of gradient times (input - mean), per channel."""
    g, x, mean = widened_now(g, input, mean)
    return _per_channel(g * (x - over_channels(x, mean)))


def _total(g: Any) -> Any:
    return _per_channel(widened_now(g)[0])


def _known_norm_variance(g: Any, out: Any, input: Any, mean: Any, variance: Any, weight: Any, b: Any, eps: Any) -> Any:
    slope = _product(g, input, mean) * _factor(variance, weight, eps)
    return slope * -0.5 / (widened_now(variance)[0] + eps)


known_norm = SpatialOp(
    "known_norm",
    _known_norm,
    (
        lambda g, out, x, mean, variance, w, b, eps: widened_now(g)[0] * over_channels(g, _factor(variance, w, eps)),
        lambda g, out, x, mean, variance, w, b, eps: -(_total(g) * _factor(variance, w, eps)),
        _known_norm_variance,
        lambda g, out, x, mean, variance, w, b, eps: _product(g, x, mean) * _factor(variance, None, eps),
        lambda g, out, x, mean, variance, w, b, eps: _total(g),
        None,
    ),
    ("eps",),
)

known_norm.formal, known_norm.follows = Formal((0, 3), zeros=False), True


# -- over groups of channels ------------------------------------------------------------------------------------------


def _over_points(x: Any) -> Any:
    """Sums over all points: (batch, channels)."""
    return x.sum(tuple(range(2, x.ndim))) if x.ndim > 2 else x


def _over_groups(sums: Any, groups: int | None) -> Any:
    """Sums over the channels of each group, from those per channel; without `groups` each channel is one."""
    if groups is None:
        return sums
    return reshaped(sums, sums.shape[0], groups, sums.shape[1] // groups).sum(2)


def _at_channels(statistic: Any, x: Any) -> Any:
    """A number per group, shaped so that it broadcasts against (batch, channels, ...)."""
    batch, channels = x.shape[:2]
    if statistic.shape[1] != channels:
        count = statistic.shape[1]
        statistic = reshaped(statistic.unsqueeze(2).expand(batch, count, channels // count), batch, channels)
    return _at_points(statistic, x)


def _at_points(sums: Any, x: Any) -> Any:
    """A number per channel of an example, shaped so that it broadcasts against (batch, channels, ...)."""
    return reshaped(sums, *sums.shape, *(1,) * (x.ndim - 2))


def _group_size(x: Any, groups: int | None) -> Any:
    """How many numbers there are in a group of channels."""
    count = extent(x, tuple(range(2, x.ndim))) if x.ndim > 2 else 1
    return count if groups is None else count * (x.shape[1] // groups)


def _group_norm(
    input: Tensor, groups: int | None, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(input with mean 0 and variance 1 per group, times weight, plus bias; the mean; the variance)."""
    only_floats("group_norm" if groups else "batch_norm", input)
    only_fitting(input, weight, bias)
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None and tuple(given.shape) != (input.shape[1],):
            raise RuntimeError(
                f"{'group' if groups else 'instance'}_norm(): Expected {name} to be a vector of size equal to the "
                f"number of channels in input, but got {name} of shape {list(given.shape)} for {list(input.shape)}"
            )
    x, w, b = widened(input, weight, bias)
    count = _group_size(x, groups)
    mean = _over_groups(_over_points(x), groups) / count
    centered = x - _at_channels(mean, x)
    variance = _over_groups(_over_points(centered * centered), groups) / count
    scale = _at_channels((variance + eps).rsqrt(), x)
    out = centered * (scale if w is None else scale * over_channels(x, w))
    return as_dtype(out if b is None else out + over_channels(x, b), input.dtype), mean, variance


def _group_sums(g: Any, out: Any, input: Any) -> tuple[Any, Any, Any, Any]:
    """(gradient of the result, input - mean, per example and channel the sum of the first and of their product)."""
    given, x = widened_now(input.new_zeros(input.shape) if g[0] is None else g[0], input)
    centered = x - _at_channels(out[1], x)
    return given, centered, _over_points(given), _over_points(given * centered)


def _group_norm_input(g: Any, out: Any, input: Any, groups: int | None, weight: Any, bias: Any, eps: float) -> Any:
    given, centered, total, product = _group_sums(g, out, input)
    count = _group_size(input, groups)
    scale = (out[2] + eps).rsqrt()
    factor = _at_channels(scale, given)
    if weight is not None:
        (w,) = widened_now(weight)
        total, product, factor = total * w, product * w, factor * over_channels(given, w)
    shift = _over_groups(total, groups) * scale / count
    slope = _over_groups(product, groups) * scale / (out[2] + eps) / count
    if g[1] is not None:
        shift = shift - g[1] / count
    if g[2] is not None:
        slope = slope - 2.0 * g[2] / count
    return given * factor - _at_channels(shift, given) - centered * _at_channels(slope, given)


def _group_norm_weight(g: Any, out: Any, input: Any, groups: int | None, weight: Any, bias: Any, eps: float) -> Any:
    given, _, _, product = _group_sums(g, out, input)
    factor = _at_channels((out[2] + eps).rsqrt(), given)
    return _over_batch(product * reshaped(factor, *product.shape))


group_norm_op = SpatialOp(
    "group_norm",
    _group_norm,
    (
        _group_norm_input,
        None,
        _group_norm_weight,
        lambda g, out, input, groups, weight, bias, eps: _over_batch(_group_sums(g, out, input)[2]),
        None,
    ),
    ("eps",),
)
group_norm_op.absent_gradients, group_norm_op.results_read = True, (1, 2)
group_norm_op.formal = Formal((0, 2), zeros=False, mode=(1, (None,)))  # instance_norm
group_norm_op.lays_out, group_norm_op.follows = (lambda arguments: arguments[1] is not None), True

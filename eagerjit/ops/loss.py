"""Losses, each one op: its gradient reads the inputs once more instead of keeping intermediate values."""

from __future__ import annotations

import warnings
from typing import Any

from eagerjit import creation
from eagerjit.dispatch import Op
from eagerjit.ops.activation import widened
from eagerjit.ops.normalization import log_softmax, softmax, widened_now
from eagerjit.ops.pointwise import as_dtype
from eagerjit.runtime import dtypes
from eagerjit.tensor import Tensor

REDUCTIONS = ("none", "mean", "sum")


def check_reduction(reduction: str) -> None:
    """Refuse names that are no reduction."""
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "mean":
        return loss.mean()
    return loss.sum() if reduction == "sum" else loss


# -- classes ----------------------------------------------------------------------------------------------------------


def class_dimension(input: Tensor) -> int:
    """Where the classes are: (classes) or (batch, classes, ...)."""
    return 0 if input.ndim == 1 else 1


def _check_batch(input: Tensor, target: Tensor) -> None:
    if input.ndim > 1 and target.ndim >= 1 and target.shape[0] != input.shape[0]:
        raise ValueError(f"Expected input batch_size ({input.shape[0]}) to match target batch_size ({target.shape[0]}).")


def check_target(input: Tensor, target: Tensor) -> None:
    """Refuse class numbers that do not fit the input's shape."""
    if target.dtype not in (dtypes.int64, dtypes.int32, dtypes.uint8):
        raise RuntimeError(f"expected scalar type Long but found {target.dtype.name.capitalize()}")
    if input.ndim == 0:
        raise ValueError("Expected at least 1 dimension for the input")
    d = class_dimension(input)
    shape = tuple(input.shape)
    expected = (*shape[:d], *shape[d + 1 :])
    _check_batch(input, target)
    if tuple(target.shape) != expected:
        raise RuntimeError(f"Expected target size {list(expected)}, got {list(target.shape)}")


def _picked(log_probabilities: Any, target: Any, weight: Any, ignored: int) -> tuple[Any, Any, Any]:
    """(-log p of the target, the target's weight or 0 where ignored, whether it counts)."""
    d = class_dimension(log_probabilities)
    valid = target != ignored
    safe = target.where(valid, 0)
    picked = log_probabilities.gather(d, safe.unsqueeze(d)).squeeze(d)
    factor = valid.to(log_probabilities.dtype)
    if weight is not None:
        factor = factor * weight.take_rows(safe)
    return (-picked).where(valid, 0.0), factor, valid


def _class_shape(input: Any) -> tuple[Any, ...]:
    """The shape along which a vector over classes broadcasts."""
    return (-1,) + (1,) * max(input.ndim - 2, 0)


def _normalised(g: Any, factor: Any, reduction: str) -> Any:
    """The gradient of every position's loss."""
    return g / factor.sum() if reduction == "mean" else g


def _hit(input: Any, target: Any) -> Any:
    """Which class each position has, as ones and zeros of the input's shape."""
    d = class_dimension(input)
    classes = creation.arange(input.shape[d]).view(_class_shape(input))
    return (classes == target.unsqueeze(d)).to(input.dtype)


def _nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """-input[target], weighted."""
    (x, w) = widened(input, weight)
    picked, factor, _ = _picked(x, target, w, ignore_index)
    loss = picked * factor
    if reduction == "none":
        return as_dtype(loss, input.dtype)
    total = loss.sum()
    return as_dtype(total / factor.sum() if reduction == "mean" else total, input.dtype)


def _factor(input: Any, target: Any, weight: Any, ignore_index: int) -> Any:
    valid = target != ignore_index
    factor = valid.to(input.dtype)
    return factor if weight is None else factor * weight.take_rows(target.where(valid, 0))


def _nll_loss_rule(g: Any, out: Any, input: Any, target: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    g, x, w = widened_now(g, input, weight)
    d = class_dimension(x)
    factor = _factor(x, target, w, ignore_index)
    seed = (_normalised(g, factor, reduction) * factor).where(target != ignore_index, 0.0)
    return -_hit(x, target) * seed.unsqueeze(d)


nll_loss_op = Op("nll_loss", _nll_loss, (_nll_loss_rule,) + (None,) * 4)


def _cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log(softmax(input))[target], weighted and smoothed."""
    x, w = widened(input, weight)
    d = class_dimension(x)
    logs = log_softmax(x, d)
    picked, factor, valid = _picked(logs, target, w, ignore_index)
    loss = picked * factor
    if label_smoothing:
        weighted = logs if w is None else logs * w.view(_class_shape(x))
        spread = (-weighted.sum(d)).where(valid, 0.0)
        loss = loss * (1.0 - label_smoothing) + spread * (label_smoothing / x.shape[d])
    if reduction == "none":
        return as_dtype(loss, input.dtype)
    total = loss.sum()
    return as_dtype(total / factor.sum() if reduction == "mean" else total, input.dtype)


def _cross_entropy_rule(
    g: Any, out: Any, input: Any, target: Any, weight: Any, ignore_index: int, reduction: str, label_smoothing: float
) -> Any:
    g, x, w = widened_now(g, input, weight)
    d = class_dimension(x)
    factor = _factor(x, target, w, ignore_index)
    seed = _normalised(g, factor, reduction)
    hit = _hit(x, target)
    valid = (target != ignore_index).unsqueeze(d)
    if not label_smoothing:
        return ((softmax(x, d) - hit) * (seed * factor).unsqueeze(d)).where(valid, 0.0)
    share = label_smoothing / x.shape[d]
    counted = seed.where(target != ignore_index, 0.0).unsqueeze(d)
    kept = (seed * factor * (1.0 - label_smoothing)).unsqueeze(d)
    each = counted * share if w is None else counted * (w.view(_class_shape(x)) * share)
    total = kept + (counted * label_smoothing if w is None else counted * (w.sum() * share))
    return (softmax(x, d) * total - (hit * kept + each)).where(valid, 0.0)


cross_entropy_op = Op("cross_entropy", _cross_entropy, (_cross_entropy_rule,) + (None,) * 5)


def _soft_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, label_smoothing: float
) -> Tensor:
    """-sum(target * log(softmax(input))) over classes."""
    x, t, w = widened(input, target, weight)
    d = class_dimension(x)
    if label_smoothing:
        t = t * (1.0 - label_smoothing) + label_smoothing / x.shape[d]
    logs = log_softmax(x, d) * t
    loss = -(logs if w is None else logs * w.view(_class_shape(x))).sum(d)
    if reduction == "none":
        return as_dtype(loss, input.dtype)
    total = loss.sum()
    return as_dtype(total / loss.numel() if reduction == "mean" else total, input.dtype)


soft_cross_entropy_op = Op("soft_cross_entropy", _soft_cross_entropy)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross entropy of logits (batch, classes, ...) and class numbers (batch, ...) or class probabilities."""
    check_reduction(reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if weight is not None and tuple(weight.shape) != (input.shape[class_dimension(input)],):
        raise RuntimeError(
            f"cross_entropy: weight tensor should be defined either for all {input.shape[class_dimension(input)]} classes "
            f"or no classes but got weight tensor of shape: {list(weight.shape)}"
        )
    if target.dtype.is_floating_point:
        _check_batch(input, target)
        if tuple(target.shape) != tuple(input.shape):
            raise RuntimeError(f"Expected floating point type target with class probabilities of shape {list(input.shape)}")
        return soft_cross_entropy_op.call(input, target, weight, reduction, label_smoothing)
    check_target(input, target)
    return cross_entropy_op.call(input, target, weight, ignore_index, reduction, label_smoothing)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log likelihood of log probabilities (batch, classes, ...) and class numbers (batch, ...)."""
    check_reduction(reduction)
    check_target(input, target)
    return nll_loss_op.call(input, target, weight, ignore_index, reduction)


# -- numbers ----------------------------------------------------------------------------------------------------------


def _difference_loss(name: str, measure: Any) -> Op:
    """The reduced measure of the differences; `parameter` is what the measure takes besides."""

    def body(input: Tensor, target: Tensor, reduction: str, parameter: float = 0.0) -> Tensor:
        x, t = widened(input, target)
        return as_dtype(_reduced(measure(x - t, parameter), reduction), input.dtype)

    return Op(name, body)


def _smooth(d: Tensor, beta: float) -> Tensor:
    size = d.abs()
    return (0.5 * d * d / beta).where(size < beta, size - 0.5 * beta) if beta else size


def _huber(d: Tensor, delta: float) -> Tensor:
    size = d.abs()
    return (0.5 * d * d).where(size <= delta, delta * (size - 0.5 * delta))


_mse = _difference_loss("mse_loss", lambda d, parameter: d * d)
_l1 = _difference_loss("l1_loss", lambda d, parameter: d.abs())
_smooth_l1 = _difference_loss("smooth_l1_loss", _smooth)
_huber_loss = _difference_loss("huber_loss", _huber)


def _warn_sizes(input: Tensor, target: Tensor) -> None:
    if tuple(input.shape) != tuple(target.shape):
        warnings.warn(
            f"Using a target size ({tuple(target.shape)}) that is different to the input size ({tuple(input.shape)}). This "
            "will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=3,
        )


def mse_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> Tensor:
    """Mean squared difference."""
    check_reduction(reduction)
    _warn_sizes(input, target)
    return _mse.call(input, target, reduction)


def l1_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> Tensor:
    """Mean absolute difference."""
    check_reduction(reduction)
    _warn_sizes(input, target)
    return _l1.call(input, target, reduction)


def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean", beta: float = 1.0
) -> Tensor:
    """Half squares / beta for differences below beta, absolute differences - beta / 2 above."""
    check_reduction(reduction)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    _warn_sizes(input, target)
    return _smooth_l1.call(input, target, reduction, float(beta))


def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """Half squares for differences up to delta, delta * (difference - delta / 2) beyond."""
    check_reduction(reduction)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    _warn_sizes(input, target)
    return _huber_loss.call(input, target, reduction, float(delta))


# -- probabilities ----------------------------------------------------------------------------------------------------


def _binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """-(target * log(input) + (1 - target) * log(1 - input)), logarithms no lower than -100."""
    x, t, w = widened(input, target, weight)
    loss = (t - 1.0) * (-x).log1p().clamp(min=-100.0) - t * x.log().clamp(min=-100.0)
    return as_dtype(_reduced(loss if w is None else loss * w, reduction), input.dtype)


def _mean_scale(g: Any, input: Any, weight: Any, reduction: str) -> Any:
    g = g / input.numel() if reduction == "mean" else g
    return g if weight is None else g * weight


def _binary_rule(g: Any, out: Any, input: Any, target: Any, weight: Any, reduction: str) -> Any:
    g, x, t, w = widened_now(g, input, target, weight)
    return _mean_scale(g, x, w, reduction) * (x - t) / (x * (1.0 - x)).clamp(min=1e-12)


def _binary_target_rule(g: Any, out: Any, input: Any, target: Any, weight: Any, reduction: str) -> Any:
    g, x, w = widened_now(g, input, weight)
    return _mean_scale(g, x, w, reduction) * ((-x).log1p() - x.log())


_bce = Op("binary_cross_entropy", _binary_cross_entropy, (_binary_rule, _binary_target_rule, None, None))


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Cross entropy of probabilities and targets in [0, 1]."""
    check_reduction(reduction)
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(
            f"Using a target size ({tuple(target.shape)}) that is different to the input size ({tuple(input.shape)}) is "
            "deprecated. Please ensure they have the same size."
        )
    return _bce.call(input, target, weight, reduction)


def _with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None, pos_weight: Tensor | None, reduction: str
) -> Tensor:
    """binary_cross_entropy(sigmoid(input), target) without overflow."""
    x, t, w, positive = widened(input, target, weight, pos_weight)
    soft = (-x.abs()).exp().log1p() + (-x).clamp(min=0.0)
    loss = (1.0 - t) * x + (soft if positive is None else soft * ((positive - 1.0) * t + 1.0))
    return as_dtype(_reduced(loss if w is None else loss * w, reduction), input.dtype)


def _with_logits_rule(
    g: Any, out: Any, input: Any, target: Any, weight: Any, pos_weight: Any, reduction: str
) -> Any:
    g, x, t, w, positive = widened_now(g, input, target, weight, pos_weight)
    scale = _mean_scale(g, x, w, reduction)
    if positive is None:
        return scale * (x.sigmoid() - t)
    return scale * ((positive * t + 1.0 - t) * x.sigmoid() - positive * t)


def _with_logits_target(
    g: Any, out: Any, input: Any, target: Any, weight: Any, pos_weight: Any, reduction: str
) -> Any:
    g, x, w, positive = widened_now(g, input, weight, pos_weight)
    soft = (-x.abs()).exp().log1p() + (-x).clamp(min=0.0)
    slope = -x if positive is None else soft * (positive - 1.0) - x
    return _mean_scale(g, x, w, reduction) * slope


_bce_logits = Op(
    "binary_cross_entropy_with_logits", _with_logits, (_with_logits_rule, _with_logits_target, None, None, None)
)


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean", pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Cross entropy of logits and targets in [0, 1]."""
    check_reduction(reduction)
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(f"Target size ({tuple(target.shape)}) must be the same as input size ({tuple(input.shape)})")
    return _bce_logits.call(input, target, weight, pos_weight, reduction)


def _kl_div(input: Tensor, target: Tensor, reduction: str, log_target: bool) -> Tensor:
    """target * (log(target) - input)."""
    x, t = widened(input, target)
    if log_target:
        loss = t.exp() * (t - x)
    else:
        loss = ((t * t.log()).where(t > 0, 0.0)) - t * x
    total = loss.sum() / x.shape[0] if reduction == "batchmean" else _reduced(loss, reduction)
    return as_dtype(total, input.dtype)


_kl = Op("kl_div", _kl_div)


def kl_div(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:  # fmt: skip
    """Kullback-Leibler divergence of log probabilities `input` from probabilities `target`."""
    if reduction != "batchmean":
        check_reduction(reduction)
    return _kl.call(input, target, reduction, log_target)


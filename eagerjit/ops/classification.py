"""Losses of classes: cross entropy and negative log likelihood. Gradients read the inputs once more."""

from __future__ import annotations

from typing import Any

from eagerjit.autograd.formal import RELU_LIKE
from eagerjit.calling.dispatch import Op
from eagerjit.ops.activation import only_floats, widened
from eagerjit.ops.index import pick
from eagerjit.ops.loss import check_alike, check_constant, check_reduction, joint_dtype
from eagerjit.ops.normalization import log_softmax, softmax, widened_now
from eagerjit.ops.pointwise import as_dtype
from eagerjit.runtime import dtypes
from eagerjit.runtime.planned import Plan
from eagerjit.tensors import creation
from eagerjit.tensors.mistakes import planned
from eagerjit.tensors.promotion import TYPE_NAMES
from eagerjit.tensors.tensor import Tensor


def class_dimension(input: Tensor) -> int:
    """Where the classes are: (classes) or (batch, classes, ...)."""
    return 0 if input.ndim == 1 else 1


def _check_batch(input: Tensor, target: Tensor) -> None:
    if input.ndim > 1 and target.ndim >= 1 and target.shape[0] != input.shape[0]:
        raise ValueError(
            f"Expected input batch_size ({input.shape[0]}) to match target batch_size ({target.shape[0]})."
        )


def check_target(input: Tensor, target: Tensor) -> None:
    """Refuse class numbers that do not fit the input's shape."""
    if target.dtype not in ((dtypes.int64, dtypes.uint8) if input.ndim < 3 else (dtypes.int64,)):
        kinds = "Long or Byte" if input.ndim < 3 else "Long"
        raise RuntimeError(f"expected target dtype to be {kinds}, but got {TYPE_NAMES[target.dtype]}")
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
    picked = pick.call(log_probabilities, d, safe.unsqueeze(d)).squeeze(d)
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
    only_floats("nll_loss", input)
    check_alike(input, weight)
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
nll_loss_op.formal = RELU_LIKE


def _cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log(softmax(input))[target], weighted and smoothed."""
    check_alike(input, weight)
    x, w = widened(input, weight)
    d = class_dimension(x)
    logs = log_softmax(x, d)
    picked, factor, valid = _picked(logs, target, w, ignore_index)
    loss = picked * factor
    if label_smoothing and x.shape[d]:
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
    # Where nothing counts, the mean divides by zero: what is ignored has no slope in turn, either.
    seed = _normalised(g, factor, reduction).where(target != ignore_index, 0.0)
    hit = _hit(x, target)
    valid = (target != ignore_index).unsqueeze(d)
    if not label_smoothing or not x.shape[d]:
        return ((softmax(x, d) - hit) * (seed * factor).unsqueeze(d)).where(valid, 0.0)
    share = label_smoothing / x.shape[d]
    counted = seed.unsqueeze(d)
    kept = (seed * factor * (1.0 - label_smoothing)).unsqueeze(d)
    each = counted * share if w is None else counted * (w.view(_class_shape(x)) * share)
    total = kept + (counted * label_smoothing if w is None else counted * (w.sum() * share))
    return (softmax(x, d) * total - (hit * kept + each)).where(valid, 0.0)


cross_entropy_op = Op("cross_entropy", _cross_entropy, (_cross_entropy_rule,) + (None,) * 5, ("label_smoothing",))


def _soft_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, label_smoothing: float
) -> Tensor:
    """-sum(target * log(softmax(input))) over classes."""
    x, t, w = widened(input, target, weight)
    d = class_dimension(x)
    if label_smoothing and x.shape[d]:
        t = t * (1.0 - label_smoothing) + label_smoothing / x.shape[d]
    logs = log_softmax(x, d) * t
    loss = -(logs if w is None else logs * w.view(_class_shape(x))).sum(d)
    dtype = joint_dtype(input, target, weight)
    if reduction == "none":
        return as_dtype(loss, dtype)
    total = loss.sum()
    # Without classes PyTorch divides by what the classes' number leaves of the elements' number: 0 / 0.
    count = loss.numel() if x.shape[d] else 0
    return as_dtype(total / count if reduction == "mean" else total, dtype)


soft_cross_entropy_op = Op("soft_cross_entropy", _soft_cross_entropy, numbers=("label_smoothing",))
for _op in (cross_entropy_op, soft_cross_entropy_op):
    _op.steady = _op.numbers


@planned
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Plan:
    """Cross entropy of logits (batch, classes, ...) and class numbers (batch, ...) or class probabilities.

    -log(softmax(input))[target] with softmax over classes; logits of one example are (classes). Floating point targets
    are probabilities of input's shape.

    weight            one factor per class, (classes)
    ignore_index      class number that counts for nothing, neither in the sum nor in the mean
    reduction         "mean" (over weights), "sum", or "none": the loss of every target, in target's shape
    label_smoothing   share of the target spread evenly over all classes (Szegedy et al. 2016)

    Raises ValueError for another batch size or an unknown reduction, RuntimeError for other shapes and dtypes of
    targets and for a smoothing outside [0, 1], IndexError for class numbers that are none.
    """
    reduction = check_reduction(reduction, size_average, reduce)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if input.ndim == 0 and target.ndim == 0:
        error = IndexError if target.dtype.is_floating_point else RuntimeError
        raise error("Expected floating point type for target with class probabilities, and at least one dimension")
    if weight is not None and tuple(weight.shape) != (input.shape[class_dimension(input)],):
        raise RuntimeError(
            f"cross_entropy: weight tensor should be defined either for all {input.shape[class_dimension(input)]} "
            f"classes or no classes but got weight tensor of shape: {list(weight.shape)}"
        )
    if target.dtype.is_floating_point:
        _check_batch(input, target)
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
        if tuple(target.shape) != tuple(input.shape):
            raise RuntimeError(
                f"Expected floating point type target with class probabilities of shape {list(input.shape)}"
            )
        return soft_cross_entropy_op.call, (input, target, weight, reduction, label_smoothing)
    check_target(input, target)
    check_constant("nll_loss_forward", weight=weight)
    return cross_entropy_op.call, (input, target, weight, ignore_index, reduction, label_smoothing)


@planned
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Plan:
    """Negative log likelihood of log probabilities (batch, classes, ...) and class numbers (batch, ...).

    -input[target], weighted: `weight`, `ignore_index`, `reduction` and errors are those of `cross_entropy`, which is
    this of `log_softmax`.
    """
    reduction = check_reduction(reduction, size_average, reduce)
    check_target(input, target)
    check_constant("nll_loss_forward", weight=weight)
    return nll_loss_op.call, (input, target, weight, ignore_index, reduction)

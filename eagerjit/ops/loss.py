"""Losses, each one op: its gradient reads the inputs once more instead of keeping intermediate values."""

from __future__ import annotations

from typing import Any

from eagerjit.calling.dispatch import Op
from eagerjit.calling.elementwise import SteppedOp
from eagerjit.effects.cautions import caution
from eagerjit.ops.activation import only_floats, widened
from eagerjit.ops.conditions import required
from eagerjit.ops.elementary import ELEMENTARY
from eagerjit.ops.normalization import widened_now
from eagerjit.ops.pointwise import as_dtype
from eagerjit.recording.numbers import to_float
from eagerjit.runtime import dtypes, mode
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.planned import Plan
from eagerjit.tensors.mistakes import planned
from eagerjit.tensors.promotion import TYPE_NAMES, result_type
from eagerjit.tensors.tensor import Tensor

REDUCTIONS = ("none", "mean", "sum")


def check_reduction(reduction: str, size_average: Any = None, reduce: Any = None) -> str:
    """The reduction's name, which may come from the options it once had. Raises ValueError for names of none."""
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def legacy_reduction(size_average: Any, reduce: Any) -> str:
    """The reduction that the two older options mean."""
    averaged, reduced_ = (True if option is None else option for option in (size_average, reduce))
    reduction = "none" if not reduced_ else "mean" if averaged else "sum"
    message = f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead."
    caution(message)
    return reduction


def check_tensor(name: str, argument: str, position: int, value: Any) -> None:
    """Refuse what is no tensor, where arithmetic would take a number."""
    if not isinstance(value, Tensor):
        where = f"argument '{argument}' (position {position})"
        raise TypeError(f"{name}(): {where} must be Tensor, not {type(value).__name__}")


def check_constant(name: str, **options: Any) -> None:
    """Refuse options that a loss gives no gradient to."""
    for option, value in options.items():
        if isinstance(value, Tensor) and value.requires_grad and mode.grad_mode():
            raise RuntimeError(
                f"The function '{name}' is not differentiable with respect to argument '{option}'. This input cannot "
                "have requires_grad True."
            )


def check_alike(input: Tensor, weight: Tensor | None) -> None:
    """Refuse weights of classes of another dtype: where autocast is on, they have been converted."""
    if weight is not None and weight.dtype is not input.dtype:
        raise RuntimeError(f"expected scalar type {TYPE_NAMES[input.dtype]} but found {TYPE_NAMES[weight.dtype]}")


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """The mean or the sum of a loss, or the loss as it is."""
    if reduction == "mean":
        return loss.mean()
    return loss.sum() if reduction == "sum" else loss


def joint_dtype(*tensors: Tensor | None) -> DType:
    """The dtype that tensors have together: of logits of 16 bits and targets of 32 bits, that of the targets."""
    return result_type(*[t for t in tensors if t is not None])


# -- numbers ----------------------------------------------------------------------------------------------------------


def _difference_loss(
    name: str, measure: Any, of_weights: bool = True, promotes: bool = True, of_any: bool = False
) -> Op:
    """The reduced measure of the differences; `parameter` is what the measure takes besides.

    `of_weights`: the mean of weighted differences is that over the weights, not over the elements. `promotes`: the
    result has the dtype of both tensors together, not that of the input. `of_any`: of
    integers and complex numbers too; bools beside floats are no numbers then.
    """

    def body(
        input: Tensor, target: Tensor, reduction: str, parameter: float = 0.0, weight: Tensor | None = None
    ) -> Tensor:
        joint = result_type(input, target)
        if not (of_any or joint.is_floating_point):
            raise NotImplementedError(f'"{name}" not implemented for {joint}')
        dtype = joint if promotes else input.dtype
        x, t, w = widened(input, target, weight)
        if not of_any:
            x, t = _number(x, t), _number(t, x)
        loss = measure(x - t, parameter)
        dtype = loss.dtype if dtype.is_complex else dtype
        if w is None:
            out = reduced(loss, reduction)
            return as_dtype(out, dtype) if dtype.is_differentiable else out
        loss = loss * w
        if reduction == "mean" and of_weights:
            return as_dtype(loss.sum() / w.sum(), dtype)
        return as_dtype(reduced(loss, reduction), dtype)

    op = SteppedOp(name, body, numbers=("parameter",))
    op.steady = op.numbers
    return op


def _number(flag: Tensor, beside: Tensor) -> Tensor:
    """A bool as a number, beside one."""
    return as_dtype(flag, beside.dtype) if flag.dtype is dtypes.bool_ and beside.dtype.is_differentiable else flag


def _smooth(d: Tensor, beta: float) -> Tensor:
    size = d.abs()
    far = size >= beta
    return (size - 0.5 * beta).where(far, 0.5 * _near(d, far).square() / beta)


def _huber(d: Tensor, delta: float) -> Tensor:
    far = d.abs() >= delta
    return (delta * (d.abs() - 0.5 * delta)).where(far, 0.5 * _near(d, far).square())


def _near(d: Tensor, far: Tensor) -> Tensor:
    """0 in the place of far differences, the slope of whose squares may be infinite."""
    return d.where(far.logical_not(), 0.0)


_mse = _difference_loss("mse_loss", lambda d, parameter: d * d)
_l1 = _difference_loss("l1_loss", lambda d, parameter: d.abs(), of_any=True)
_smooth_l1 = _difference_loss("smooth_l1_loss", _smooth)
_huber_loss = _difference_loss("huber_loss", _huber, of_weights=False, promotes=False)


def _warn_sizes(input: Tensor, target: Tensor) -> None:
    if tuple(input.shape) != tuple(target.shape):
        caution(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}). This "
            "will likely lead to incorrect results due to broadcasting. Please ensure they have the same size."
        )


def _measured(
    op: Op, input: Tensor, target: Tensor, size_average: Any, reduce: Any, reduction: str, *more: Any
) -> Plan:
    """The loss at once where nothing is to be warned of."""
    if size_average is None and reduce is None and tuple(input.shape) == tuple(target.shape):
        return op.call, (input, target, check_reduction(reduction), *more)
    return _cautiously, (op, input, target, size_average, reduce, reduction, *more)


def _cautiously(
    op: Op, input: Tensor, target: Tensor, size_average: Any, reduce: Any, reduction: str, *more: Any
) -> Tensor:
    reduction = check_reduction(reduction, size_average, reduce)
    _warn_sizes(input, target)
    return op.call(input, target, reduction, *more)


@planned
def mse_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
    weight: Tensor | None = None,
) -> Plan:  # fmt: skip
    """Mean squared difference, weighted.

    input and target broadcast, with a warning where their shapes differ; the result is a number, or of their shape with
    `reduction` "none" ("sum" is the third). The mean is over `weight` where it is given, in input's shape. Raises
    ValueError for a weight of another shape and for an unknown reduction.
    """
    return _measured(_mse, input, target, size_average, reduce, reduction, 0.0, _same_shape(weight, input))


@planned
def l1_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
    weight: Tensor | None = None,
) -> Plan:  # fmt: skip
    """Mean absolute difference, weighted. Shapes, options and errors are those of `mse_loss`."""
    return _measured(_l1, input, target, size_average, reduce, reduction, 0.0, _same_shape(weight, input))


def _same_shape(weight: Tensor | None, input: Tensor) -> Tensor | None:
    if weight is not None and tuple(weight.shape) != tuple(input.shape):
        raise ValueError("Weights and input must have the same size.")
    return weight


@planned
def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
    beta: float = 1.0,
) -> Plan:  # fmt: skip
    """Half squares / beta for differences below beta, absolute differences - beta / 2 above (Girshick 2015).

    Shapes and reductions are those of `mse_loss`; beta 0 is `l1_loss`. Raises RuntimeError for a negative beta.
    """
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    return _measured(_smooth_l1 if beta else _l1, input, target, size_average, reduce, reduction, to_float(beta))


@planned
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Plan:
    """Half squares for differences up to delta, delta * (difference - delta / 2) beyond; weighted (Huber 1964).

    Shapes and reductions are those of `mse_loss`, but the mean is over elements. Raises RuntimeError unless delta > 0.
    """
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    return _measured(_huber_loss, input, target, None, None, reduction, to_float(delta), _same_shape(weight, input))


# -- probabilities ----------------------------------------------------------------------------------------------------


def _probability(name: str, x: Tensor) -> Tensor:
    """x, which is refused where it is no probability."""
    return required((x >= 0.0) & (x <= 1.0), x, "RuntimeError", f"all elements of {name} should be between 0 and 1")


def _binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """-(target * log(input) + (1 - target) * log(1 - input)), logarithms no lower than -100."""
    if target.dtype is not input.dtype:
        raise RuntimeError(f"Found dtype {TYPE_NAMES[target.dtype]} but expected {TYPE_NAMES[input.dtype]}")
    x, t, w = widened(input, target, weight)
    x, t = _probability("input", x), _probability("target", t)
    loss = (t - 1.0) * (-x).log1p().clamp(min=-100.0) - t * x.log().clamp(min=-100.0)
    return as_dtype(reduced(loss if w is None else loss * w, reduction), input.dtype)


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
    """Cross entropy of probabilities and targets in [0, 1].

    -weight * (target * log(input) + (1 - target) * log(1 - input)), logarithms no lower than -100; input and target
    have one shape, `weight` broadcasts to it. `reduction` is "mean", "sum" or "none". Raises ValueError for shapes that
    differ, RuntimeError for numbers outside [0, 1] and for dtypes that differ.
    """
    reduction = check_reduction(reduction, size_average, reduce)
    check_constant("binary_cross_entropy", weight=weight)
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) "
            "is deprecated. Please ensure they have the same size."
        )
    return _bce.call(input, target, weight, reduction)


def _with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None, pos_weight: Tensor | None, reduction: str
) -> Tensor:
    """binary_cross_entropy(sigmoid(input), target) without overflow, in the dtype of the targets."""
    only_floats("binary_cross_entropy_with_logits", input)
    if not target.dtype.is_floating_point:
        raise RuntimeError(f"binary_cross_entropy_with_logits: targets are floating point numbers, not {target.dtype}")
    x, t, w, positive = widened(input, target, weight, pos_weight)
    soft = (-x.abs()).exp().log1p() + (-x).clamp(min=0.0)
    loss = (1.0 - t) * x + (soft if positive is None else soft * ((positive - 1.0) * t + 1.0))
    return as_dtype(reduced(loss if w is None else loss * w, reduction), target.dtype)


def _with_logits_rule(g: Any, out: Any, input: Any, target: Any, weight: Any, pos_weight: Any, reduction: str) -> Any:
    g, x, t, w, positive = widened_now(g, input, target, weight, pos_weight)
    scale = _mean_scale(g, x, w, reduction)
    if positive is None:
        return scale * (x.sigmoid() - t)
    return scale * ((positive * t + 1.0 - t) * x.sigmoid() - positive * t)


def _with_logits_target(g: Any, out: Any, input: Any, target: Any, weight: Any, pos_weight: Any, reduction: str) -> Any:
    g, x, w, positive = widened_now(g, input, weight, pos_weight)
    soft = (-x.abs()).exp().log1p() + (-x).clamp(min=0.0)
    slope = -x if positive is None else soft * (positive - 1.0) - x
    return _mean_scale(g, x, w, reduction) * slope


_bce_logits = SteppedOp(
    "binary_cross_entropy_with_logits", _with_logits, (_with_logits_rule, _with_logits_target, None, None, None)
)


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean", pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Cross entropy of logits and targets in [0, 1].

    `binary_cross_entropy` of sigmoid(input), without overflow; `pos_weight`, which broadcasts to input's shape, is a
    factor of the part with target. Raises ValueError for shapes that differ, RuntimeError for targets that are
    integers.
    """
    reduction = check_reduction(reduction, size_average, reduce)
    check_constant("binary_cross_entropy_with_logits", weight=weight, pos_weight=pos_weight)
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(f"Target size ({tuple(target.shape)}) must be the same as input size ({tuple(input.shape)})")
    return _bce_logits.call(input, target, weight, pos_weight, reduction)


def _kl_div(input: Tensor, target: Tensor, reduction: str, log_target: bool) -> Tensor:
    """target * (log(target) - input)."""
    for dtype in (input.dtype, target.dtype):
        if not dtype.is_floating_point:
            raise RuntimeError(f"kl_div: {'Complex' if dtype.is_complex else 'Integral'} inputs not supported.")
    x, t = widened(input, target)
    if log_target:
        loss = t.exp() * (t - x)
    else:
        loss = ELEMENTARY["xlogy"].call(t, t) - t * x
    batch = x.shape[0] if x.ndim else 1
    total = loss.sum() / batch if reduction == "batchmean" else reduced(loss, reduction)
    return as_dtype(total, joint_dtype(input, target))


_kl = SteppedOp("kl_div", _kl_div)


def kl_div(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:  # fmt: skip
    """Kullback-Leibler divergence of log probabilities `input` from probabilities `target`.

    target * (log(target) - input) for each element of shapes that broadcast, 0 where target is; with `log_target` the
    target is logarithms too. `reduction` is "mean" (over elements), "batchmean" (their sum by the first size, which is
    the divergence), "sum" or "none". Raises ValueError for another one, RuntimeError for integers and complex numbers.
    """
    if reduction != "batchmean":
        reduction = check_reduction(reduction, size_average, reduce)
    return _kl.call(input, target, reduction, log_target)

"""Losses that ask for a margin between what belongs together and what does not."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter
from typing import Any

from eagerjit.calling.casts import converted
from eagerjit.calling.dispatch import Op
from eagerjit.ops.activation import logsigmoid, only_floats, widened
from eagerjit.ops.loss import check_alike, check_constant, check_reduction, check_tensor, joint_dtype, reduced
from eagerjit.ops.pointwise import as_dtype
from eagerjit.ops.reduce import norm
from eagerjit.ops.shaping import broadcast_shapes
from eagerjit.recording.numbers import to_float
from eagerjit.runtime import dtypes
from eagerjit.runtime.parameters import Parameters, parameters
from eagerjit.tensors import creation
from eagerjit.tensors.tensor import Tensor


def _loss(name: str, function: Callable[..., Tensor], tensors: int, promotes: bool = True) -> Op:
    """The reduction of an elementwise loss of some tensors and then options, as one op: (reduction, *arguments).

    `promotes`: the result has the dtype that all tensors together have, not that of the first.
    """

    def body(reduction: str, *arguments: Any) -> Tensor:
        loss = function(*widened(*arguments[:tensors]), *arguments[tensors:])
        dtype = joint_dtype(*arguments[:tensors]) if promotes else arguments[0].dtype
        return as_dtype(reduced(loss, reduction), dtype if dtype.is_floating_point else loss.dtype)

    taken = parameters(function)
    body.takes = Parameters(("reduction", *taken.names), (Parameter.empty, *taken.defaults))  # type: ignore[attr-defined]
    body.__doc__ = function.__doc__
    op = Op(name, body, numbers=[name for name in taken.names if name == "margin"])
    op.steady = op.numbers
    return op


_hinge = _loss(
    "hinge_embedding_loss",
    lambda input, target, margin: (
        (margin - input).clamp(min=0.0).where(target != 1, 0.0) + input.where(target != -1, 0.0)
    ),
    2,
    promotes=False,
)


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Distances where target is 1, and what is missing from them to the margin where it is -1."""
    return _hinge.call(check_reduction(reduction, size_average, reduce), input, only_compared(target), to_float(margin))


def only_compared(target: Tensor) -> Tensor:
    """A target that a loss has no slope along."""
    return target.detach() if target.requires_grad else target


_ranking = _loss(
    "margin_ranking_loss",
    lambda input1, input2, target, margin: (-target * (input1 - input2) + margin).clamp(min=0.0),
    3,
)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, -target * (input1 - input2) + margin)."""
    if not input1.ndim == input2.ndim == target.ndim:
        raise RuntimeError(
            f"margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {list(input1.shape)}, input2: {list(input2.shape)}, target: {list(target.shape)} "
        )
    return _ranking.call(check_reduction(reduction, size_average, reduce), input1, input2, target, to_float(margin))


_soft = _loss("soft_margin_loss", lambda input, target: (-target * input).exp().log1p(), 2, promotes=False)


def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Tensor:
    """log(1 + exp(-target * input)), target 1 or -1: the mean, the sum, or with reduction "none" input's shape.

    Raises RuntimeError where the target is not broadcast to input's shape.
    """
    check_tensor("soft_margin_loss", "target", 2, target)
    check_constant("soft_margin_loss", target=target)
    if tuple(shape := broadcast_shapes(input.shape, target.shape)) != tuple(input.shape):
        raise RuntimeError(
            f"soft_margin_loss(): output with shape {list(input.shape)} doesn't match the broadcast shape {list(shape)}"
        )
    return _soft.call(check_reduction(reduction, size_average, reduce), input, target)


def _cosine_embedding(input1: Tensor, input2: Tensor, target: Tensor, margin: float) -> Tensor:
    dim = target.ndim
    lengths = ((input1 * input1).sum(dim) + 1e-12) * ((input2 * input2).sum(dim) + 1e-12)
    cosine = (input1 * input2).sum(dim) / lengths.sqrt()
    return (1.0 - cosine).where(target == 1, 0.0) + (cosine - margin).clamp(min=0.0).where(target == -1, 0.0)


_cosine = _loss("cosine_embedding_loss", _cosine_embedding, 2)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """1 - cosine where target is 1, the cosine beyond the margin where it is -1; (batch, features) or (features)."""
    if target.ndim not in (0, 1) or input1.ndim != target.ndim + 1 or input2.ndim != target.ndim + 1:
        raise RuntimeError(
            f"{target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found inputs with sizes "
            f"{list(input1.shape)} and {list(input2.shape)}."
        )
    reduction = check_reduction(reduction, size_average, reduce)
    return _cosine.call(reduction, input1, input2, only_compared(target), to_float(margin))


_triplet = _loss(
    "triplet_margin_loss", lambda near, far, margin: (near - far + margin).clamp(min=0.0), 2
)  # distances to the positive and to the negative example


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-6,
    swap: bool = False, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """How much closer than the positive example, less a margin, the negative one is (Balntas et al. 2016).

    With `swap` the negative example's distance to the positive one counts if that is smaller.
    """
    reduction = check_reduction(reduction, size_average, reduce)
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")

    def distance(a: Tensor, b: Tensor) -> Tensor:
        return norm(a - b + eps, p, -1)

    return _of_distances(distance, anchor, positive, negative, to_float(margin), swap, reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0, swap: bool = False,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """`triplet_margin_loss` with a distance of one's own."""
    reduction = check_reduction(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )

    def euclidean(a: Tensor, b: Tensor) -> Tensor:
        return norm(a - b + 1e-6, 2, -1)

    distance = euclidean if distance_function is None else distance_function
    return _of_distances(distance, anchor, positive, negative, to_float(margin), swap, reduction)


def _of_distances(
    distance: Callable[[Tensor, Tensor], Tensor], anchor: Tensor, positive: Tensor, negative: Tensor, margin: float,
    swap: bool, reduction: str,
) -> Tensor:  # fmt: skip
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return _triplet.call(reduction, near, far, margin)


# -- classes ----------------------------------------------------------------------------------------------------------


def _multi_margin(input: Tensor, target: Tensor, weight: Tensor | None, p: int, margin: float) -> Tensor:
    classes = creation.arange(input.shape[-1])
    own = target.unsqueeze(-1)
    gap = (margin - input.gather(-1, own) + input).relu()
    gap = gap if p == 1 else gap * gap
    gap = gap if weight is None else gap * as_dtype(weight.take_rows(own), gap.dtype)
    return gap.where(classes != own, 0.0).sum(-1) / input.shape[-1]


_multi = _loss("multi_margin_loss", _multi_margin, 1)


def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
    size_average: Any = None, reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """How much other classes come closer to the score of the right one than the margin, to the power p (1 or 2)."""
    reduction = check_reduction(reduction, size_average, reduce)
    check_constant("multi_margin_loss", weight=weight)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    input = input.unsqueeze(0) if input.ndim == 0 else input
    if input.ndim not in (1, 2) or tuple(target.shape) not in ((input.shape[0],) if input.ndim == 2 else (), (1,)):
        if tuple(target.shape) != tuple(input.shape)[:-1]:
            raise RuntimeError(
                f"inconsistent target size, expected {list(input.shape)[:-1]} but got {list(target.shape)}"
            )
    if input.ndim == 1 and target.ndim == 1:
        input = input.unsqueeze(0)
    input, weight = converted("multi_margin_loss", input, weight)
    only_floats("multi_margin_loss", input)
    check_alike(input, weight)
    return _multi.call(reduction, input, target, weight, int(p), to_float(margin))


def _multilabel_margin(input: Tensor, target: Tensor) -> Tensor:
    """Targets count up to the first negative one."""
    count = input.shape[-1]
    places = creation.arange(count)
    end = places.where(target < 0, count).amin(-1, keepdim=True)
    listed = places < end
    safe = target.where(listed, 0)
    wanted = (safe.unsqueeze(-1) == places).logical_and(listed.unsqueeze(-1)).any(-2)
    gaps = (1.0 - input.gather(-1, safe).unsqueeze(-1) + input.unsqueeze(-2)).relu()
    counted = listed.unsqueeze(-1).logical_and(wanted.logical_not().unsqueeze(-2))
    return gaps.where(counted, 0.0).sum((-2, -1)) / count


_multilabel = _loss("multilabel_margin_loss", _multilabel_margin, 1)


def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Tensor:
    """How much other classes come closer than 1 to those that `target` lists; the list ends with the first -1."""
    reduction = check_reduction(reduction, size_average, reduce)
    input, target = (x.unsqueeze(0) if x.ndim == 0 else x for x in (input, target))
    if tuple(target.shape) != tuple(input.shape) or input.ndim not in (1, 2):
        raise RuntimeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}")
    if input.shape[-1] == 0:
        raise RuntimeError(
            "multilabel_margin_loss: Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(input.shape)}"
        )
    return _multilabel.call(reduction, input, target)


def _multilabel_soft(input: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
    loss = -(target * logsigmoid.body(input) + (1.0 - target) * logsigmoid.body(-input))
    return (loss if weight is None else loss * weight).mean(-1)


_multilabel_soft_op = _loss("multilabel_soft_margin_loss", _multilabel_soft, 3)


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Cross entropy of logits and targets in [0, 1], the mean over classes."""
    if target.dtype is dtypes.bool_ or not target.dtype.is_floating_point:
        target = target.to(input.dtype)
    return _multilabel_soft_op.call(check_reduction(reduction, size_average, reduce), input, target, weight)

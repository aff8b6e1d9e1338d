"""Losses that PyTorch has in its main namespace too, where reductions are numbers: 0 none, 1 the mean, 2 the sum."""

from __future__ import annotations

import operator
from typing import Any

from eagerjit.ops import likelihood_loss, loss, margin_loss
from eagerjit.tensors.tensor import Tensor


def _named(reduction: int) -> str:
    """The reduction's name; every other number means none."""
    return {1: "mean", 2: "sum"}.get(operator.index(reduction), "none")


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: int = 0
) -> Tensor:
    """`nn.functional.binary_cross_entropy_with_logits` of logits that are expanded to the targets' shape."""
    logits = input.expand_as(target)
    return loss.binary_cross_entropy_with_logits(
        logits, target, weight, reduction=_named(reduction), pos_weight=pos_weight
    )


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """`nn.functional.cosine_embedding_loss`."""
    return margin_loss.cosine_embedding_loss(input1, input2, target, margin, reduction=_named(reduction))


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: int = 0,
    zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """`nn.functional.ctc_loss`."""
    return likelihood_loss.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, _named(reduction), zero_infinity
    )


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 0) -> Tensor:
    """`nn.functional.hinge_embedding_loss`."""
    return margin_loss.hinge_embedding_loss(input, target, margin, reduction=_named(reduction))


def kl_div(input: Tensor, target: Tensor, reduction: int = 0, *, log_target: bool = False) -> Tensor:
    """`nn.functional.kl_div`."""
    return loss.kl_div(input, target, reduction=_named(reduction), log_target=log_target)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """`nn.functional.margin_ranking_loss`."""
    return margin_loss.margin_ranking_loss(input1, input2, target, margin, reduction=_named(reduction))


def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """`nn.functional.poisson_nll_loss`."""
    return likelihood_loss.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_named(reduction))


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-6,
    swap: bool = False, reduction: int = 0,
) -> Tensor:  # fmt: skip
    """`nn.functional.triplet_margin_loss`."""
    return margin_loss.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=_named(reduction)
    )

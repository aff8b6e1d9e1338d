"""Negative log likelihoods: of counts, of normal numbers, and of label sequences without alignment."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from eagerjit.calling.dispatch import Op
from eagerjit.calling.elementwise import SteppedOp
from eagerjit.devices import CPU
from eagerjit.ops import views
from eagerjit.ops.activation import widened
from eagerjit.ops.conditions import required
from eagerjit.ops.index import cat
from eagerjit.ops.loss import check_reduction, check_tensor, joint_dtype, reduced
from eagerjit.ops.pointwise import as_dtype
from eagerjit.recording.numbers import to_float
from eagerjit.state import state
from eagerjit.tensors.creation import arange, as_tensor
from eagerjit.tensors.placement import beside
from eagerjit.tensors.tensor import Tensor


def _poisson(input: Any, target: Any, log_input: bool, full: bool, eps: float, reduction: str) -> Tensor:
    """exp(input) - target * input, or input - target * log(input + eps), up to a constant."""
    x, t = widened(input, target)
    loss = x.exp() - t * x if log_input else x - t * (x + eps).log()
    if full:
        # Stirling's formula for the logarithm of target's factorial.
        safe = t.where(t > 1, 1.0)
        stirling = safe * safe.log() - safe + 0.5 * (2.0 * math.pi * safe).log()
        loss = loss + stirling.where(t > 1, 0.0)
    dtype = joint_dtype(input, target)
    return as_dtype(reduced(loss, reduction), dtype if dtype.is_floating_point else loss.dtype)


_poisson_op = SteppedOp("poisson_nll_loss", _poisson, numbers=("eps",))


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, size_average: Any = None,
    eps: float = 1e-8, reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Negative log likelihood of counts, given rates or (with `log_input`) their logarithms."""
    check_tensor("poisson_nll_loss", "target", 2, target)
    reduction = check_reduction(reduction, size_average, reduce)
    return _poisson_op.call(input, target, bool(log_input), bool(full), to_float(eps), reduction)


def _gaussian(input: Any, target: Any, var: Tensor, full: bool, eps: float, reduction: str) -> Tensor:
    """(log(var) + (input - target)**2 / var) / 2, var at least eps."""
    if not var.dtype.is_floating_point:
        raise RuntimeError(f"gaussian_nll_loss: variances are floating point numbers, not {var.dtype}")
    x, t, v = widened(input, target, var)
    v = required((v < 0.0).logical_not(), v, "ValueError", "var has negative entry/entries")
    # The gradient of a variance below eps is that at eps.
    v = v.where(v >= eps, (v - v.detach()) + eps)
    loss = 0.5 * (v.log() + (x - t) * (x - t) / v)
    loss = loss + 0.5 * math.log(2 * math.pi) if full else loss
    return as_dtype(reduced(loss, reduction), joint_dtype(input, target, var))


_gaussian_op = SteppedOp("gaussian_nll_loss", _gaussian, numbers=("eps",))
for _op in (_poisson_op, _gaussian_op):
    _op.steady = _op.numbers


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """Negative log likelihood of normal numbers of means `input` and variances `var`."""
    if not isinstance(var, Tensor):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = input.new_full((), float(var)).expand_as(input)
    elif tuple(var.shape) != tuple(input.shape):
        if tuple(input.shape)[:-1] == tuple(var.shape):
            var = var.unsqueeze(-1)
        elif var.ndim != input.ndim or any(b not in (1, a) for a, b in zip(input.shape, var.shape, strict=True)):
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    return _gaussian_op.call(input, target, var, bool(full), to_float(eps), reduction)


# -- connectionist temporal classification ----------------------------------------------------------------------------

_IMPOSSIBLE = -1e38
"""The logarithm of 0: finite, so that its derivatives are, and below what scores of any model add up to."""


def _ctc_step(alpha: Tensor, emitted: Tensor, skips: Tensor, goes_on: Tensor) -> Tensor:
    """Log probabilities of all prefixes one time step later, for sequences that go on."""
    batch, width = alpha.shape

    def shifted(by: int) -> Tensor:
        gone = alpha.new_full((batch, by), _IMPOSSIBLE)
        return cat.body([gone, views.narrow(alpha, 1, 0, width - by)], 1)

    one = shifted(1)
    two = shifted(2).where(skips, _IMPOSSIBLE)
    largest = alpha.maximum(one).maximum(two)
    total = ((alpha - largest).exp() + (one - largest).exp() + (two - largest).exp()).log() + largest
    return (total + emitted).clamp(min=_IMPOSSIBLE).where(goes_on.unsqueeze(1), alpha)


_ctc_step_op = Op("ctc_step", _ctc_step)


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """-log of the probability of label sequences, summed over all alignments (Graves et al. 2006).

    log_probs       (steps, batch, classes), or (steps, classes) for one sequence
    targets         (batch, longest target), or all of them one after the other
    input_lengths   how many steps each sequence has
    target_lengths  how many labels each target has
    blank           the class of no label
    With reduction "mean" losses are divided by the targets' lengths first.
    """
    reduction = check_reduction(reduction)
    single = log_probs.ndim == 2
    logs = log_probs.unsqueeze(1) if single else log_probs
    steps, batch, classes = logs.shape
    if any(n == 0 for n in logs.shape):
        raise RuntimeError("log_probs tensor must not be empty")
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    targets, lengths, counts = (beside(x, logs) for x in (targets, _lengths(input_lengths), _lengths(target_lengths)))
    lengths = _within_op.call(lengths, steps)
    for name, found in (("input_lengths", lengths), ("target_lengths", counts)):
        if found.shape[0] != batch:
            raise RuntimeError(f"{name} must be of size batch_size")
    labels = _rectangular(targets, counts, single)
    if labels.shape[1] == 0:
        labels = labels.new_full((batch, 1), blank)  # which no target has: a step looks two places back
    # Blanks stand around all labels: (batch, 2 * width + 1).
    extended = _between(labels, blank)
    places = arange(extended.shape[1], device=logs.device)
    skips = (extended != blank).logical_and(places >= 2).logical_and(_differ(extended))
    loss = -_likelihood(logs, extended, skips, lengths, counts)
    if logs.requires_grad:
        loss = loss + _nothing(logs, lengths)
    loss = loss.where((loss >= -_IMPOSSIBLE / 2).logical_not(), 0.0 if zero_infinity else math.inf)
    if reduction == "mean":
        return (loss / counts.clamp(min=1).to(loss.dtype)).mean()
    if reduction == "sum":
        return loss.sum()
    return loss.squeeze(0) if single else loss


def _within(lengths: Tensor, steps: Any) -> Tensor:
    """Lengths, which have to be numbers of steps that there are."""
    message = "ctc_loss: expected input_lengths to have values of at least 0 and at most the number of steps"
    return required((lengths >= 0).logical_and(lengths <= steps), lengths, "RuntimeError", message)


_within_op = Op("ctc_lengths", _within, differentiable=False, numbers=("steps",))


def _lengths(given: Any) -> Tensor:
    found = given if isinstance(given, Tensor) else as_tensor(given, device=CPU)
    if found.dtype.is_floating_point:
        raise RuntimeError("input_lengths and target_lengths must be integral")
    return found.reshape(-1).long()


def _nothing(logs: Tensor, lengths: Tensor) -> Tensor:
    """0 for every sequence, whose gradient is the probabilities: with it the loss's is that of the scores which a
    log_softmax makes probabilities of, as PyTorch's is. Of scores that are no logarithms of probabilities it must not
    be infinity less itself.
    """
    inside = arange(logs.shape[0], device=logs.device).unsqueeze(1) < lengths
    total = logs.clamp(max=60.0).exp().where(inside.unsqueeze(2), 0.0).sum((0, 2))
    return total - total.detach()


def _rectangular(targets: Tensor, counts: Tensor, single: bool) -> Tensor:
    """Targets as (batch, longest)."""
    targets = targets.long()
    if targets.ndim == 2:
        return targets
    if single:
        return targets.unsqueeze(0)
    longest = int(counts.max())
    if not longest:
        return targets.new_zeros((counts.shape[0], 0))
    starts = (counts.cumsum(0) - counts).unsqueeze(1)
    return targets.take_rows((starts + arange(longest, device=targets.device)).clamp(max=targets.shape[0] - 1))


def _between(labels: Tensor, blank: int) -> Tensor:
    """Labels with a blank before, between and after."""
    batch, width = labels.shape
    pairs = cat.call([labels.new_full((batch, width, 1), blank), labels.unsqueeze(2)], 2)
    return cat.call([pairs.reshape(batch, 2 * width), labels.new_full((batch, 1), blank)], 1)


def _differ(extended: Tensor) -> Tensor:
    """Whether each label differs from the one two places before."""
    width = extended.shape[1]
    before = cat.call([views.narrow(extended, 1, 0, 2), views.narrow(extended, 1, 0, width - 2)], 1)
    return extended != before


def _carried(step: Callable[..., Any], alpha: Tensor, emitted: Tensor, times: Tensor) -> Tensor:
    """What the steps come to: in compiled calls by a loop of any length, which runs on CPUs and cannot be exported."""
    if state.tracer is not None and alpha.device.type == "cpu" and not state.exporting:
        from eagerjit.control.loops import scan

        return scan(step, alpha, (emitted, times))[0]  # type: ignore[no-any-return]
    for now in zip(emitted.unbind(0), times.unbind(0), strict=True):
        alpha, _ = step(alpha, now)
    return alpha


def _likelihood(logs: Tensor, extended: Tensor, skips: Tensor, lengths: Tensor, counts: Tensor) -> Tensor:
    """log of the probability of each target."""
    places = arange(extended.shape[1], device=logs.device)
    emitted = logs.clamp(min=_IMPOSSIBLE).gather(2, extended.expand(logs.shape[0], *extended.shape))
    alpha = emitted[0].where((places < 2).logical_and(lengths.unsqueeze(1) > 0), _IMPOSSIBLE)
    alpha = alpha.where(lengths.unsqueeze(1) > 0, (alpha * 0.0).where(places < 1, _IMPOSSIBLE))

    def step(alpha: Tensor, now: Any) -> Any:
        row, t = now
        return _ctc_step_op.call(alpha, row, skips, lengths > t), ()

    alpha = _carried(step, alpha, emitted[1:], arange(logs.shape[0], device=logs.device)[1:])
    end = (2 * counts).unsqueeze(1)
    blank_last = alpha.gather(1, end)
    label_last = alpha.gather(1, (end - 1).clamp(min=0)).where(end > 0, _IMPOSSIBLE)
    largest = blank_last.maximum(label_last)
    return (((blank_last - largest).exp() + (label_last - largest).exp()).log() + largest).squeeze(1)

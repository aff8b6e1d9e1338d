"""torchaudio's operators: filters with feedback, alignment with a transcript, the loss of transducers."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit import arange, autograd, cat, enable_grad, eye, no_grad
from eagerjit.linalg import solve_triangular
from eagerjit.nn import functional as F
from eagerjit.ops.running import linear_recurrence
from eagerjit.runtime import dtypes
from eagerjit.tensors.creation import from_numpy
from eagerjit.tensors.tensor import Tensor

_BLOCK = 128
"""Samples that a filter computes at a time, as a product with its responses."""


def lfilter_core_loop(waveform: Tensor, coefficients: Tensor, padded: Tensor) -> None:
    """y[t] = x[t] - sum of a[k] y[t - k], k from 1 on.

    waveform (batch, channel, time) is x, coefficients (channel, order + 1) are a backwards, a[0] taken for 1, and
    padded (batch, channel, order + time) has the y before the first, and is given the others. A block of y is a product
    of its x and of the y before it with matrices, since it solves triangular equations; blocks follow each other.
    """
    order = coefficients.shape[1] - 1
    batch, channels, time = waveform.shape
    if 0 in (batch, channels, time):
        return
    with no_grad():
        size = min(_BLOCK, max(time, order))
        blocks = -(-time // size)
        x = F.pad(waveform, (0, blocks * size - time)).reshape(batch, channels, blocks, size)
        # Row t has a[t - s] at column s: in the first `order` columns those of the y before, then those of the block.
        back = arange(size)[:, None] + order - arange(order + size)
        taps = coefficients.flip(1)[:, back.clamp(0, order).to(coefficients.device)]
        taps = taps * ((back >= 0) & (back <= order)).to(taps)
        own = taps[:, :, order:].tril(-1) + eye(size).to(taps)
        sides = cat((eye(size).to(taps).expand(channels, -1, -1), -taps[:, :, :order]), 2)
        from_x, from_before = solve_triangular(own, sides, upper=False).split((size, order), 2)
        y = from_x @ x.permute(1, 3, 2, 0).reshape(channels, size, blocks * batch)
        y = y.reshape(channels, size, blocks, batch)
        before = padded[:, :, :order].permute(1, 2, 0)
        if order:
            step, states = from_before[:, size - order :], [before]
            for last in y[:, size - order :].unbind(2)[:-1]:
                states.append(last.baddbmm(step, states[-1]))
            y = y + (from_before @ cat(states, 2)).reshape(channels, size, blocks, batch)
        padded[:, :, order:] = y.permute(3, 0, 2, 1).reshape(batch, channels, blocks * size)[:, :, :time]


def overdrive_core_loop(waveform: Tensor, temp: Tensor, last_in: Tensor, last_out: Tensor, output: Tensor) -> None:
    """o[t] = d[t] - d[t - 1] + 0.995 o[t - 1], of which `output` is given 0.75 and half of the waveform.

    waveform, temp (d) and output are (channel, time); last_in and last_out (channel) are d and o before the first.
    """
    if temp.shape[1] == 0:
        return
    with no_grad():
        terms = temp - cat((last_in.unsqueeze(1), temp[:, :-1]), 1)
        terms[:, 0] += 0.995 * last_out
        output.copy_(waveform * 0.5 + linear_recurrence.call(terms.new_full(terms.shape, 0.995), terms, 1) * 0.75)


# -- alignment --------------------------------------------------------------------------------------------------------


def forced_align(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int
) -> tuple[Tensor, Tensor]:
    """The most probable path of labels and blanks that says the targets (Graves et al., CTC, 2006), and log_probs.

    log_probs (1, time, classes), targets (1, length) of integers other than the blank. Raises RuntimeError where there
    is no such path.
    """
    _check_alignment(log_probs, targets, input_lengths, target_lengths, blank)
    scores, labels = log_probs.detach().cpu().numpy()[0], targets.cpu().numpy()[0]
    time, length = len(scores), len(labels)
    repeats = int((labels[1:] == labels[:-1]).sum())
    if time < length + repeats:
        raise RuntimeError(
            f"targets length is too long for CTC. Found log_probs length: {time}, targets length: {length}, and number "
            f"of repeats: {repeats}"
        )
    states = np.full(2 * length + 1, blank)
    states[1::2] = labels
    skips = np.zeros(len(states), bool)
    skips[3::2] = labels[1:] != labels[:-1]
    best = np.full(len(states) + 2, -np.inf, scores.dtype)  # two before the first, that nothing comes from
    best[2:4] = scores[0, states[:2]]
    came = np.zeros((time, len(states)), np.int8)
    for t in range(1, time):
        stay, step = best[2:], best[1:-1]
        skip = np.where(skips, best[:-2], -np.inf)
        came[t] = np.where((skip > step) & (skip > stay), 2, step > stay)
        best[2:] = np.choose(came[t], (stay, step, skip)) + scores[t, states]
    state = len(states) - 1 if len(states) == 1 or best[-1] > best[-2] else len(states) - 2
    path = np.empty((1, time), labels.dtype)
    for t in range(time - 1, -1, -1):
        path[0, t] = states[state]
        state -= came[t, state]
    return from_numpy(path).to(targets.device), log_probs


def _check_alignment(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int) -> None:
    if log_probs.ndim != 3 or targets.ndim != 2 or input_lengths.ndim != 1 or target_lengths.ndim != 1:
        raise RuntimeError(
            "forced_align: log_probs must be 3-D (batch_size, input length, num classes), targets 2-D and lengths 1-D, "
            f"got {log_probs.ndim}-D, {targets.ndim}-D, {input_lengths.ndim}-D and {target_lengths.ndim}-D"
        )
    if not log_probs.dtype.is_floating_point or targets.dtype not in (dtypes.int32, dtypes.int64):
        raise RuntimeError(
            f"forced_align: log_probs must be floating-point and targets int32 or int64, got {log_probs.dtype} and "
            f"{targets.dtype}"
        )
    if log_probs.shape[0] != 1 or targets.shape[0] != 1:
        raise RuntimeError("The batch dimension for log_probs and targets must be 1 at the current version.")
    if not 0 <= blank < log_probs.shape[2]:
        raise RuntimeError("blank must be within [0, num classes)")
    if log_probs.shape[1] != int(input_lengths.max()):
        raise RuntimeError("input length mismatch")
    if targets.shape[1] != int(target_lengths.max()):
        raise RuntimeError("target length mismatch")


# -- transducers ------------------------------------------------------------------------------------------------------


def rnnt_loss_forward(
    logits: Tensor, targets: Tensor, logit_lengths: Tensor, target_lengths: Tensor, blank: int, clamp: float,
    fused_log_softmax: bool = True,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Negative log probabilities of targets (Graves, Sequence Transduction, 2012), and their gradients by the logits.

    logits (batch, time, length + 1, classes), targets (batch, length); gradients are cut at `clamp` if it is positive.
    """
    if logits.ndim != 4 or targets.ndim != 2 or targets.shape[1] + 1 != logits.shape[2]:
        raise RuntimeError(
            "rnnt_loss: logits must be 4-D (batch, time, max target length + 1, class) and targets 2-D (batch, max "
            f"target length), got {list(logits.shape)} and {list(targets.shape)}"
        )
    with enable_grad():
        given = logits.detach().requires_grad_()
        labels, times, lengths = (x.long() for x in (targets, logit_lengths, target_lengths))
        costs = _costs(given.float(), labels, times, lengths, blank, fused_log_softmax)
        gradient: Any = autograd.grad(costs.sum(), given)[0]
    if clamp > 0:
        gradient = gradient.clamp(-clamp, clamp)
    return costs.detach().to(logits.dtype), gradient


def _costs(logits: Tensor, targets: Tensor, times: Tensor, lengths: Tensor, blank: int, normalize: bool) -> Tensor:
    scores = logits.log_softmax(-1) if normalize else logits
    silent = scores[..., blank]
    batch, time, places = silent.shape
    said = scores[:, :, :-1].gather(3, targets[:, None, :, None].expand(-1, time, -1, 1)).squeeze(3)
    # Less the scores of the targets so far, what leads to a place in a frame is a sum of exponentials.
    shift = F.pad(said.cumsum(2), (1, 0))
    beginning = silent.new_full((batch, places), float("-inf"))
    beginning[:, 0] = 0
    levels = [shift[:, 0] + (beginning - shift[:, 0]).logcumsumexp(1)]
    for t in range(1, time):
        levels.append(shift[:, t] + (levels[-1] + silent[:, t - 1] - shift[:, t]).logcumsumexp(1))
    rows = arange(batch, device=logits.device)
    last = cat([level.unsqueeze(1) for level in levels], 1)[rows, times - 1, lengths]
    return -(last + silent[rows, times - 1, lengths])


OPERATORS = {
    "_lfilter_core_loop": lfilter_core_loop, "_overdrive_core_loop": overdrive_core_loop,
    "forced_align": forced_align, "rnnt_loss_forward": rnnt_loss_forward,
}  # fmt: skip

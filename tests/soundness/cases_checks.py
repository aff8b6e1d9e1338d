"""Checks of the library's own that nearly every call passes, and calls that do not."""

from __future__ import annotations

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, attempt, case

D = torch.distributions


@case
def checks_that_fail_in_the_first_call(jit):
    @jit
    def f(location, scale, x):
        return D.Normal(location, scale).log_prob(x).sum()

    location, scale, x = torch.zeros(3), torch.ones(3), torch.arange(3.0)
    for factor in (-1, 1, -1, 1, float("nan"), 1):
        yield attempt(lambda factor=factor: f(location, scale * factor, x))
        yield attempt(lambda factor=factor: f(location[:2], scale[:2] * factor, x[:2]))


@case
def checks_that_fail_after_effects(jit):
    written, seen = torch.zeros(()), []

    @jit
    def f(scale, x):
        written.add_(1)
        noise = torch.rand(3)
        seen.append(len(seen))
        d = D.Uniform(-scale, scale)
        seen.append("made")
        written.mul_(2)
        return d.log_prob(x).sum() + noise

    for factor in (-1.0, 1.0, 0.0, 1.0, 0.5, 0.5):
        yield attempt(lambda factor=factor: f(torch.ones(3) * factor, torch.full((3,), 0.25)))
        yield written
        yield list(seen)
        yield torch.rand(1)


@case(outcome=FELL_BACK)  # the error's text shows the tensor
def checks_whose_errors_are_caught(jit):
    @jit
    def f(rate, x):
        try:
            d = D.Exponential(rate)
        except ValueError:
            d = D.Exponential(rate.abs() + 1)
        return d.log_prob(x).sum()

    for factor in (-1.0, 1.0, -2.0, 2.0):
        x = torch.ones(2, requires_grad=True)
        y = attempt(lambda factor=factor, x=x: f(torch.ones(2) * factor, x))
        yield y
        y.backward()
        yield x.grad


@case
def checks_before_other_questions(jit):
    @jit
    def f(scale):
        x, steps = D.HalfNormal(scale).icdf(torch.full((3,), 0.7)), 0
        while x.max() > 0.1:
            x, steps = x / 2, steps + 1
        D.Bernoulli(x).log_prob(torch.ones(3))
        return x, steps

    for factor in (1.0, -1.0, 30.0, 1.0):
        yield attempt(lambda factor=factor: f(torch.ones(3) * factor))


@case
def checks_of_sequences_and_windows(jit):
    @jit
    def packed(x, lengths):
        return torch.nn.utils.rnn.pack_padded_sequence(x, lengths).data.sum()

    @jit
    def inverse(spectrum, window):
        return torch.istft(spectrum, 8, 4, window=window)

    x = torch.arange(12.0).reshape(4, 3)
    for lengths in ([2, 3, 1], [4, 2, 1], [4, 0, 0], [3, 3, 1]):
        yield attempt(lambda lengths=lengths: packed(x, torch.tensor(lengths)))
    spectrum = torch.ones(5, 4) + 0j
    for window in (torch.zeros(8), torch.ones(8), torch.zeros(8), torch.arange(8.0) + 1):
        yield attempt(lambda window=window: inverse(spectrum, window))

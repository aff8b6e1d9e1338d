"""Custom operations in the backward of custom operations: their code runs with the gradient's gradient."""

from __future__ import annotations

import eagerjit as torch
from tests.soundness.framework import attempt, case


def squared(factor):
    """x * x, whose second gradient is multiplied with what `factor` says of (context, gradient, x, what came in)."""

    class Gradient(torch.autograd.Function):
        @staticmethod
        def forward(ctx, g, x, number):
            ctx.save_for_backward(g, x)
            ctx.number = number
            return g * x * 2

        @staticmethod
        def backward(ctx, incoming):
            g, x = ctx.saved_tensors
            k = factor(ctx, g, x, incoming)
            return incoming * x * 2 * k, incoming * g * 2 * k, None

    class Squared(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, number):
            ctx.save_for_backward(x)
            ctx.number = number
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return Gradient.apply(g, x, ctx.number), None

    return Squared.apply


def second_gradients(f, x, *numbers):
    x = x.requires_grad_()
    (g,) = torch.autograd.grad(f(x, *numbers), x, create_graph=True)
    (h,) = torch.autograd.grad((g * g).sum(), x)
    return h.tolist()


@case
def code_of_second_gradients_acts_on_numbers(jit):
    of = squared(lambda ctx, g, x, incoming: 10.0 if ctx.number > 2 else 1.0)
    f = jit(lambda x, number: (of(x, number) * number).sum())
    for number in (1.5, 1.7, 1.9, 3.0, 2.5, 1.2, 4.0):
        yield second_gradients(f, torch.ones(2), number)


@case
def code_of_second_gradients_acts_on_sizes(jit):
    of = squared(lambda ctx, g, x, incoming: 10.0 if x.shape[0] > 3 else 1.0)
    f = jit(lambda x: (of(x, 0) * 1.5).sum())
    for n in (2, 3, 4, 5, 6, 2, 7):
        yield second_gradients(f, torch.ones(n))


@case
def code_of_second_gradients_reads_what_is_outside(jit):
    table, scale = [1.0], torch.ones(())
    of = squared(lambda ctx, g, x, incoming: table[0] * scale)
    f = jit(lambda x: (of(x, 0) * 1.5).sum())
    for i in range(5):
        table[0] = 1.0 + i // 2
        scale.fill_(i % 3)
        yield second_gradients(f, torch.ones(2))


@case
def code_of_second_gradients_acts_on_values(jit):
    for of in (
        squared(lambda ctx, g, x, incoming: 10.0 if x.sum() > 0 else 1.0),
        squared(lambda ctx, g, x, incoming: 10.0 if incoming.sum() > 0 else 1.0),
    ):
        f = jit(lambda x, of=of: (of(x, 0) * 1.5).sum())
        for sign in (1, 1, -1, -1, 1):
            yield second_gradients(f, torch.ones(2) * sign)


@case
def what_second_gradients_reach_is_added_inside_of_the_call(jit):
    of = squared(lambda ctx, g, x, incoming: 1.0)
    f = jit(lambda x, b: of(torch.addcmul(x, x, b), 0))
    for n in (2, 5, 3):
        x, b = torch.randn(n, 3), torch.randn(3).requires_grad_()
        (g,) = torch.autograd.grad(f(x, b).square().mean(), b, create_graph=True)
        g.square().sum().backward()
        yield g, b


@case
def hooks_of_results_with_second_gradients_of_their_own(jit):
    of, seen = squared(lambda ctx, g, x, incoming: 1.0), []
    f = jit(lambda x, b: (of(x * b, 0), (x * b).sin()))
    for n in (2, 3):
        x, b = torch.randn(n, 3), torch.randn(3).requires_grad_()
        y, z = f(x, b)
        y.register_hook(lambda g: seen.append(g.tolist()))
        z.register_hook(lambda g: g * 2)
        (g,) = torch.autograd.grad((y * z).sum(), b, create_graph=True)
        (h,) = torch.autograd.grad((g * y.sum()).sum(), b, create_graph=True)
        (h.square().sum() + z.sum()).backward()
        yield seen, g, h, b


@case
def results_with_second_gradients_of_their_own_are_used_up(jit):
    of = squared(lambda ctx, g, x, incoming: 1.0)
    f = jit(lambda x: of(x * 1.5, 0).sin())
    for n in (2, 3):
        x = torch.randn(n).requires_grad_()
        y = f(x).sum()
        torch.autograd.grad(y, x, create_graph=True, retain_graph=False)
        yield type(attempt(torch.autograd.grad, y, x))

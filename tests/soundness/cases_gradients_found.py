"""Gradients that calls find in tensors, read or replaced by functions whose own gradient is taken outside, or later."""

from __future__ import annotations

import types

import numpy as np

import eagerjit as torch
from tests.soundness.framework import attempt, case


def filled(k):
    return torch.full((3,), float(k + 1))


def leaf():
    return torch.ones(3, requires_grad=True)


def parameter():
    return torch.nn.Parameter(torch.arange(3.0) / 4)


def orders(out, leaf, count=3):
    """The gradients of all orders of a result."""
    for _ in range(count):
        (out,) = torch.autograd.grad(out.sum(), leaf, create_graph=True)
        yield out.tolist()


@case
def a_gradient_found_that_the_gradient_reads(jit):
    b = parameter()
    f = jit(lambda x: (x * b.grad).sin() * b)
    for k in range(4):
        b.grad = filled(k)
        x = leaf()
        out = f(x)
        b.grad = None
        out.sum().backward()
        yield out.detach(), x.grad, b.grad


@case
def a_gradient_found_in_an_argument(jit):
    f = jit(lambda x, y: (y * x.grad).sin())
    for k in range(4):
        x, y = leaf(), leaf()
        x.grad = filled(k)
        out = f(x, y)
        x.grad = None if k % 2 else x.grad * 7
        yield list(orders(out, y))


@case
def gradients_of_a_layer_that_are_found(jit):
    layer = torch.nn.Linear(3, 3)
    f = jit(lambda x: sum((p * p.grad).sum() for p in layer.parameters()) * x)
    for k in range(4):
        layer.zero_grad()
        layer(torch.ones(2, 3) * k).square().sum().backward()
        x = leaf()
        out = f(x)
        layer.zero_grad()
        out.sum().backward()
        yield layer.weight.grad, layer.bias.grad, x.grad


@case
def a_gradient_found_that_is_written_before_the_gradient(jit):
    b = parameter()
    f = jit(lambda x: (x * b.grad).sin())
    for k in range(4):
        b.grad = filled(k)
        x = leaf()
        out = f(x)
        b.grad.zero_()
        yield attempt(lambda out=out, x=x: torch.autograd.grad(out.sum(), x))


@case
def a_gradient_found_that_the_call_replaces(jit):
    b = parameter()

    @jit
    def f(x):
        out = (x * b.grad).sin() * b
        b.grad = b.grad * 2
        return out

    for k in range(4):
        b.grad = filled(k)
        x = leaf()
        out = f(x)
        yield b.grad.tolist(), list(orders(out, x))
        yield b.grad


@case
def gradients_of_all_orders_where_the_found_one_is_another_by_then(jit):
    b = parameter()
    f = jit(lambda x: (x * b.grad).sin())
    for k in range(4):
        b.grad = filled(k)
        x = leaf()
        out = f(x)
        b.grad = None if k % 2 else filled(9)
        yield list(orders(out, x))
        yield b.grad


@case
def gradients_of_all_orders_of_a_call_that_leaves_gradients(jit):
    b, c = parameter(), parameter()

    @jit
    def f(x):
        (b * 2).square().sum().backward()
        c.grad = None
        return x.sin() * b

    for k in range(3):
        c.grad = filled(k)
        x = leaf()
        out = f(x)
        c.grad = filled(k + 5)
        yield list(orders(out, x))
        yield b.grad, c.grad


@case
def a_derivative_along_a_tangent_of_a_call_that_leaves_a_gradient_with_a_history(jit):
    b = parameter()

    @jit
    def loss(x):
        inner = torch.nn.Parameter(x.detach())
        (inner * b).square().sum().backward(create_graph=True)
        return (x * inner.grad).square().mean()

    for k in range(3):
        x = filled(k).requires_grad_()
        out, tangent = torch.func.jvp(loss, (x * 1,), (torch.ones(3),))
        yield out.detach(), tangent.detach(), b.grad.detach()
        (out + tangent.square()).backward()
        yield x.grad, b.grad.detach()
        b.grad = None


@case
def gradients_of_all_orders_of_views_of_one_result(jit):
    @jit
    def f(x):
        y = x.sin() * x
        return y[0], y.reshape(2, 2)[1:]

    for k in range(3):
        x = (torch.arange(4.0) + k).requires_grad_()
        first, rest = f(x)
        yield list(orders(first.square() + rest, x))


@case
def gradients_found_as_results_and_in_arrays(jit):
    b, kept = parameter(), types.SimpleNamespace()

    @jit
    def f(x):
        kept.view = b.grad[1:]
        return b.grad, x * float(np.square(b.grad.numpy()).sum()), b.grad.unsqueeze(0)

    for k in range(4):
        b.grad = filled(k)
        found, product, row = f(leaf())
        yield found is b.grad, product, row
        row.add_(1)
        kept.view.mul_(2)
        yield b.grad, kept.view


@case
def a_gradient_found_that_is_told_from_others(jit):
    b, known = parameter(), filled(3)
    f = jit(lambda x: x * 2 if b.grad is known else x * b.grad)
    for gradient in (filled(0), known, filled(1), known, filled(2)):
        b.grad = gradient
        yield f(leaf())


@case
def a_gradient_found_that_is_an_argument_or_another_gradient(jit):
    b, c = parameter(), parameter()
    f = jit(lambda x: (b.grad is x, b.grad is c.grad, b.grad * 2 + x, c.grad - x))
    for k in range(6):
        x = filled(k)
        b.grad, c.grad = (x if k % 2 else filled(7)), filled(8)
        if k % 3 == 2:
            c.grad = b.grad
        yield f(x)


@case
def a_gradient_found_that_is_written_under_another_name(jit):
    b, kept = parameter(), [filled(0)]

    @jit
    def f(x):
        b.grad.add_(x)
        return kept[0] * 2, b.grad * 3

    for k in range(5):
        b.grad = kept[0] if k % 2 else filled(k)
        yield f(filled(1)), kept

"""Gradients that calls leave in tensors, and hooks that see them."""

from __future__ import annotations

import types

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, attempt, case


def weight():
    return torch.tensor([1.0, -2.0, 3.0], requires_grad=True)


@case
def a_gradient_set_to_none_inside(jit):
    w = weight()

    @jit
    def step(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad

    for value in (1.0, 2.0, 3.0):
        step(torch.full((3,), value))
        yield w.grad


@case
def a_gradient_that_was_kept(jit):
    w = weight()

    @jit
    def step(x):
        w.grad = None
        (w * x).sum().backward()

    step(torch.ones(3))
    first = w.grad
    step(torch.full((3,), 5.0))
    yield first, w.grad, first is w.grad


@case
def backward_outside_and_twice(jit):
    w = weight()
    f = jit(lambda x: (w * x).exp().sum())
    loss = f(torch.ones(3))
    loss.backward(retain_graph=True)
    yield w.grad
    loss.backward()
    yield w.grad, type(attempt(loss.backward))


@case
def derivatives_of_derivatives(jit):
    f = jit(lambda x: (x**3).sum())
    for n in (1.0, 2.0):
        x = torch.tensor([n, 2.0], requires_grad=True)
        (g,) = torch.grad(f(x), x, create_graph=True)
        g.sum().backward()
        yield x.grad


@case
def results_that_were_detached(jit):
    x = weight()
    f = jit(lambda: ((x * 2).detach(), x.detach(), x * 1))
    for _ in range(2):
        yield f()


@case(versions=1)
def the_hook_of_a_leaf(jit):
    w = weight()
    w.register_hook(lambda g: g * 2)
    f = jit(lambda x: (w * x).sum())
    for _ in range(3):
        w.grad = None
        f(torch.ones(3)).backward()
        yield w.grad


@case
def a_hook_added_and_removed(jit):
    w = weight()

    @jit
    def step(x):
        w.grad = None
        (w * x).sum().backward()

    step(torch.ones(3))
    handle = w.register_hook(lambda g: g * 5)
    step(torch.ones(3))
    yield w.grad
    handle.remove()
    step(torch.ones(3))
    yield w.grad


@case(versions=2)
def a_state_cut_off_inside(jit):
    w = torch.nn.Parameter(torch.ones(3))
    holder = types.SimpleNamespace(state=torch.zeros(3))

    @jit
    def step(x):
        holder.state = torch.tanh(holder.state.detach() * w + x)
        return holder.state.sum()

    for i in range(4):
        loss = step(torch.ones(3) * i)
        loss.backward()
        yield loss, w.grad


@case
def a_state_of_the_class_is_replaced(jit):
    class Holder:
        state = torch.zeros(3)

    w = torch.nn.Parameter(torch.ones(3))
    for _ in range(2):
        holder = Holder()

        @jit
        def step(x, holder=holder):
            holder.state = torch.tanh(holder.state.detach() * w + x)
            return holder.state.sum()

        for i in range(3):
            step(torch.ones(3) * i).backward()
            yield holder.state, w.grad, Holder.state


@case
def an_argument_whose_graph_is_used_up(jit):
    w, v = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(3))

    @jit
    def f(a, b):
        return (a.detach() * w).sum() + (b * b).sum(), a * a

    for _ in range(3):
        a, b = v * 2.0, w * 3.0
        a.sum().backward()
        loss, _ = f(a, b)
        loss.backward()
        yield w.grad, v.grad
        a = v * 2.0
        loss, square = f(a, w * 3.0)
        loss.backward()
        (a * a).sum().backward(retain_graph=True)
        square.sum().backward()
        yield w.grad, v.grad


@case
def hooks_of_parameters_run_in_order(jit):
    layers = [torch.nn.Linear(2, 2) for _ in range(3)]
    shared, seen = torch.nn.Parameter(torch.ones(2)), []
    named = [("shared", shared), *((f"{i}.{n}", p) for i, m in enumerate(layers) for n, p in m.named_parameters())]
    for name, p in named:
        p.register_hook(lambda g, name=name: seen.append(name))
        p.register_post_accumulate_grad_hook(lambda p, name=name: seen.append(f"{name} has its gradient"))

    @jit
    def f(x):
        for layer in layers:
            x = layer(x) * shared
        return x.sum()

    for n in (2, 3, 1):
        f(torch.ones(n, 2)).backward()
        yield list(seen)
        seen.clear()


@case(outcome=FELL_BACK)
def hooks_are_given_to_an_argument(jit):
    ways = (
        lambda x: x.register_hook(lambda g: g * 2) and None,
        lambda x: x.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(3)) and None,
    )
    for way in ways:

        @jit
        def f(x, way=way):
            y = x * x
            way(x)
            return y

        for _ in range(3):
            x = torch.ones(3, requires_grad=True)
            f(x).sum().backward()
            yield x.grad


@case(outcome=FELL_BACK)
def an_argument_with_a_history_keeps_its_gradient(jit):

    @jit
    def f(x):
        x.retain_grad()
        return x * x

    for _ in range(3):
        x = torch.ones(3, requires_grad=True) * 2
        f(x).sum().backward()
        yield x.grad


@case(versions=1)
def hooks_of_arguments_with_a_history(jit):
    """The walk around the call applies them, once; those of a leaf given beside such an argument too."""
    f = jit(lambda x, w: (x * x * w).sum())
    for factor in (0.5, 3.0, 0.25):
        w, seen = weight(), []
        x = w * 2
        x.register_hook(lambda g, factor=factor: g * factor)
        x.register_hook(lambda g, seen=seen: seen.append(g.tolist()))
        w.register_hook(lambda g: g + 1)
        x.retain_grad()
        f(x, w).backward()
        yield w.grad, x.grad, seen


@case
def leaves_made_of_numbers(jit):
    """`requires_grad` of numbers, alone and among others, of sizes and of elements of tensors."""

    @jit
    def derivatives(x, number):
        single = torch.tensor(number, requires_grad=True)
        several = torch.tensor([number, 1.0, x.shape[0], x.sum()], requires_grad=True)
        value = (several * several).sum() * single**3
        (first,) = torch.grad(value, single, create_graph=True)
        (second,) = torch.grad(first, single, retain_graph=True)
        value.backward()
        return first.detach(), second, several.grad, single, several.is_leaf

    for number in (2.0, 0.5, -3.0):
        yield derivatives(torch.ones(int(number * number) + 1), number)
    yield attempt(jit(lambda n: torch.tensor(n, requires_grad=True)), 3)

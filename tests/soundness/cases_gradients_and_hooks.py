"""Gradients that calls leave in tensors, and hooks that see them."""

from __future__ import annotations

import types

import eagerjit as torch
from eagerjit.utils.checkpoint import checkpoint
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


@case(versions=2)
def statistics_in_a_checkpoint(jit):
    norm, w = torch.nn.BatchNorm1d(3), weight()

    @jit
    def f(x):
        checkpoint(lambda x: norm(x * w).exp(), x, use_reentrant=False).sum().backward()

    for n in (2, 3):
        f(torch.arange(3.0 * n).reshape(n, 3))
        yield norm.running_mean, norm.num_batches_tracked, w.grad


@case(outcome=FELL_BACK)
def statistics_in_a_checkpoint_whose_gradient_is_taken_outside(jit):
    norm, w = torch.nn.BatchNorm1d(3), weight()

    @jit
    def f(x):
        return checkpoint(lambda x: norm(x * w).exp(), x, use_reentrant=False).sum()

    for n in (2, 3):
        f(torch.arange(3.0 * n).reshape(n, 3)).backward()
        yield norm.running_mean, norm.num_batches_tracked, w.grad


@case(versions=2)
def a_counter_in_a_checkpoint_and_its_gradient(jit):
    holder, w = types.SimpleNamespace(calls=0, seen=[]), weight()

    def part(x):
        holder.calls += 1
        holder.seen.append(holder.calls)
        return (x * w * holder.calls).exp()

    @jit
    def f(x):
        y = x * w
        out = y + checkpoint(part, checkpoint(part, y, use_reentrant=False), use_reentrant=False)
        out.sum().backward()
        with torch.no_grad():
            return checkpoint(part, x, use_reentrant=False)

    for i in range(4):
        yield f(torch.ones(3) * i * 0.1), holder.calls, holder.seen, w.grad
        w.grad = None


@case
def statistics_without_a_gradient_in_a_checkpoint(jit):
    model, w = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Tanh(), torch.nn.BatchNorm1d(3)), weight()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @jit
    def f(x, gradient):
        optimizer.zero_grad()
        out = checkpoint(model, x * w, use_reentrant=False)
        out = checkpoint(model, out, use_reentrant=True)
        if gradient:
            (out**2).sum().backward()
            optimizer.step()
        return out.detach()

    for n, gradient in ((2, True), (3, False), (4, True), (2, True)):
        yield f(torch.arange(3.0 * n).reshape(n, 3), gradient)
        yield model.state_dict(), w.grad


@case
def a_checkpoint_that_gives_other_shapes_again(jit):
    holder, w = types.SimpleNamespace(calls=0), weight()

    def part(x):
        holder.calls += 1
        return (x * w)[: holder.calls]

    @jit
    def f(x):
        checkpoint(part, x, use_reentrant=False).sum().backward()

    for _ in range(3):
        attempt(f, torch.ones(3))
        yield holder.calls, w.grad


@case(outcome=FELL_BACK)
def a_counter_and_draws_in_a_checkpoint(jit):
    holder, w = types.SimpleNamespace(calls=0), weight()

    def part(x):
        holder.calls += 1
        return torch.nn.functional.dropout(x * w, 0.5)

    @jit
    def f(x):
        checkpoint(part, x, use_reentrant=False).sum().backward()

    for _ in range(3):
        f(torch.ones(3))
        yield holder.calls, w.grad


@case(outcome=FELL_BACK)
def a_counter_in_a_checkpoint(jit):
    holder, w = types.SimpleNamespace(calls=0), weight()

    @jit
    def f(x):
        def part(x):
            holder.calls += 1
            return (x * w).exp()

        return checkpoint(part, x, use_reentrant=False).sum()

    for i in range(3):
        f(torch.ones(3) * i).backward()
        yield holder.calls, w.grad


@case
def a_given_list_in_a_checkpoint_and_its_gradient(jit):
    w = weight()

    @jit
    def f(x, seen, options):
        def part(x):
            seen.append(2.0)
            options["calls"] += 1
            return (x * w).exp()

        checkpoint(part, x, use_reentrant=False).sum().backward()
        return len(seen)

    for i in range(3):
        seen, options = [0.5], {"calls": i}
        yield f(torch.ones(3) * i, seen, options), seen, options, w.grad


@case(outcome=FELL_BACK)
def a_given_list_in_a_checkpoint(jit):
    w = weight()

    def part(x, seen):
        seen.append(2.0)
        return (x * w).exp()

    f = jit(lambda x, seen: checkpoint(part, x, seen, use_reentrant=False).sum())
    for i in range(3):
        f(torch.ones(3) * i, seen := [0.5]).backward()
        yield seen, w.grad


@case
def lists_and_writes_of_its_own_in_a_checkpoint(jit):
    w = weight()

    @jit
    def f(x):
        def part(x):
            found = []
            for _ in range(2):
                found.append(x * w)
            made = torch.zeros(3)
            made += found[1]
            made[0] = 1.0
            return torch.nn.functional.dropout(made + found[0].exp(), 0.5)

        return checkpoint(part, x, use_reentrant=False).sum()

    for i in range(3):
        f(torch.ones(3) * i).backward()
        yield w.grad


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

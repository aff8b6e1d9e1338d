"""Checkpoints, whose parts run again for their gradient: what they count, draw, change and make."""

from __future__ import annotations

import types

import eagerjit as torch
from eagerjit.utils.checkpoint import checkpoint
from tests.soundness.framework import FELL_BACK, attempt, case
from tests.soundness.tools import network


def weight():
    return torch.tensor([1.0, -2.0, 3.0], requires_grad=True)


@case
def checkpoint_new(jit):
    m = network()

    @jit
    def f(x):
        return (checkpoint(m, x, use_reentrant=False) ** 2).mean()

    for i in range(3):
        m.zero_grad()
        f(torch.ones(2, 3) * i).backward()
        yield [p.grad for p in m.parameters()]


@case
def checkpoint_reentrant(jit):
    m = network()

    @jit
    def f(x):
        return (checkpoint(m, x, use_reentrant=True) ** 2).mean()

    for i in range(3):
        m.zero_grad()
        x = (torch.ones(2, 3) * i).requires_grad_()
        f(x).backward()
        yield [p.grad for p in m.parameters()]
        yield x.grad


@case
def checkpoint_jitted_function(jit):
    m = network()
    f = jit(lambda x: m(x))
    for i in range(3):
        m.zero_grad()
        x = (torch.ones(2, 3) * i).requires_grad_()
        (checkpoint(f, x, use_reentrant=False) ** 2).mean().backward()
        yield [p.grad for p in m.parameters()]
        yield x.grad


@case
def checkpoint_of_a_jitted_function_beside_its_input(jit):
    f = jit(lambda x: x * x.sum() + x.sin())
    parts = (
        lambda x: x + f(x),
        lambda x: x.cos() + f(x) * 3 + x.exp(),
        lambda x: x + checkpoint(lambda y: f(y) + y + f(y), x, use_reentrant=False),
    )
    for i, part in enumerate(parts):
        w = (torch.arange(5.0) / 7 + i).requires_grad_()
        x = w * 1
        y = x.tanh() + checkpoint(part, x, use_reentrant=False)
        (g,) = torch.autograd.grad(y.sin().sum(), w, create_graph=True)
        yield g, torch.autograd.grad(g.exp().sum(), w)


@case
def checkpoint_step(jit):
    m = network()
    o = torch.optim.SGD(m.parameters(), lr=0.1)

    @jit
    def step(x):
        o.zero_grad()
        loss = (checkpoint(m, x, use_reentrant=False) ** 2).mean()
        loss.backward()
        o.step()
        return loss

    for i in range(3):
        yield step(torch.ones(2, 3) * i)
        yield list(m.parameters())


@case
def checkpoint_draws_the_same_numbers_again(jit):
    w = torch.ones(6, requires_grad=True)

    def part(x):
        return torch.nn.functional.dropout(x * w, 0.5) ** 2

    @jit
    def f(x):
        return checkpoint(part, x, use_reentrant=False).sum()

    for i in range(3):
        f(torch.arange(6.0) + i).backward()
        yield w.grad
        yield torch.rand(2)


@case
def checkpoints_in_a_row(jit):
    w = torch.arange(3.0).requires_grad_()
    f = jit(
        lambda x: checkpoint(
            lambda y: (y * w).tanh() * w, checkpoint(lambda y: y * w + w, x, use_reentrant=False), use_reentrant=False
        ).sum()
    )
    for i in range(3):
        x = (torch.ones(3) * i).requires_grad_()
        (f(x) + (w**2).sum()).backward()
        yield w.grad
        yield x.grad


@case
def gradient_of_a_gradient_of_a_checkpoint(jit):
    f = jit(lambda x: checkpoint(lambda y: (y**3 * y.sin()).sum(), x, use_reentrant=False))
    for i in range(2):
        x = (torch.arange(3.0) + i).requires_grad_()
        (g,) = torch.autograd.grad(f(x), x, create_graph=True)
        g.sum().backward()
        yield g
        yield x.grad


@case(outcome=FELL_BACK)
def a_checkpoint_draws_other_numbers_again(jit):
    w = torch.ones(4, requires_grad=True)

    def drop(x, p):
        return torch.nn.functional.dropout(x * w, p)

    @jit
    def f(x, p):
        y = checkpoint(drop, x, p, use_reentrant=False)
        return checkpoint(drop, y, p, use_reentrant=False, preserve_rng_state=False).sum()

    for p in (0.5, 0.2):
        w.grad = None
        loss = f(torch.ones(4), p)
        loss.backward()
        yield loss, w.grad, torch.rand(1)


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
def leaves_made_in_a_checkpoint(jit):
    w = weight()

    def forces(x):
        positions = x.detach().requires_grad_()
        energy = (positions.sin() * w).sum()
        (found,) = torch.autograd.grad(energy, positions, create_graph=True)
        scale = torch.nn.Parameter(torch.full((3,), 2.0))
        return found * x * scale

    f = jit(lambda x: checkpoint(forces, x, use_reentrant=False))
    for i in range(3):
        x = (torch.arange(3.0) + i).requires_grad_()
        f(x).square().sum().backward()
        yield x.grad, w.grad
        first = torch.autograd.grad(f(x).square().sum(), (x, w), create_graph=True)
        yield first, torch.autograd.grad(sum(g.square().sum() for g in first), (x, w))


@case(outcome=FELL_BACK)
def a_leaf_made_in_a_checkpoint_that_is_kept(jit):
    made = []

    def part(x):
        made.append(x.detach().requires_grad_())
        return made[-1] * x

    f = jit(lambda x: checkpoint(lambda y: checkpoint(part, y, use_reentrant=False).sin(), x, use_reentrant=False))
    for i in range(3):
        x = (torch.arange(3.0) + i).requires_grad_()
        f(x).sum().backward()
        yield x.grad, len(made), [leaf.grad for leaf in made]

"""Structured control flow: cond, while_loop, scan and map with surroundings that change."""

from __future__ import annotations

import types

import eagerjit as torch
from eagerjit.control import cond, map, scan, while_loop
from tests.soundness.framework import attempt, case


def sequences(*lengths, width=3):
    torch.manual_seed(5)
    return [torch.randn(n, width) for n in lengths]


@case(versions=1)
def a_scan_over_changing_lengths(jit):
    weight = torch.randn(3, 3).requires_grad_()
    f = jit(lambda xs: scan(lambda h, x: ((h @ weight + x).tanh(), h.sum()), torch.zeros(3), xs), fullgraph=True)
    for xs in sequences(2, 5, 9, 33):
        xs.requires_grad_()
        last, sums = f(xs)
        (last.sum() + (sums * sums).sum()).backward()
        yield xs.grad, weight.grad


@case(versions=1)
def a_scan_over_changing_batches(jit):
    def f(xs, h):
        return scan(lambda h, x: ((h * 0.5 + x).sin(), h), h, xs, dim=1, reverse=True)

    f = jit(f, fullgraph=True)
    for batch, length in ((2, 3), (4, 7), (9, 2)):
        torch.manual_seed(batch)
        f(torch.randn(batch, length, 3), torch.randn(batch, 3))


@case(versions=3)
def a_scan_over_nothing_and_one(jit):
    f = jit(lambda xs: scan(lambda c, x: (c + x, c * x), torch.ones(3), xs), fullgraph=True)
    for xs in sequences(0, 1, 2, 5, 0, 1):
        f(xs)


@case(versions=1)
def a_number_that_the_body_reads(jit):
    config = types.SimpleNamespace(decay=0.9)
    f = jit(lambda xs, rate: scan(lambda c, x: (c * config.decay + x * rate, c), torch.zeros(3), xs), fullgraph=True)
    for rate, xs in zip((0.1, 0.2, 0.3), sequences(3, 4, 5), strict=True):
        f(xs, rate)


@case
def a_captured_number_replaced(jit):
    config = types.SimpleNamespace(decay=0.9)
    f = jit(lambda xs: scan(lambda c, x: (c * config.decay + x, c), torch.zeros(3), xs), fullgraph=True)
    for config.decay, xs in zip((0.9, 0.5, -0.0), sequences(3, 4, 5), strict=True):
        f(xs)


@case
def a_captured_tensor_replaced_and_written(jit):
    world = types.SimpleNamespace(weight=torch.ones(3))
    f = jit(lambda xs: map(lambda x: x * world.weight, xs), fullgraph=True)
    (xs,) = sequences(4)
    f(xs)
    world.weight.mul_(3)
    f(xs)
    world.weight = torch.full((3,), 5.0)
    f(xs)


@case
def the_body_function_replaced(jit):
    bodies = [lambda c, x: (c + x, c), lambda c, x: (c * x, c)]
    world = types.SimpleNamespace(body=bodies[0])
    f = jit(lambda xs: scan(world.body, torch.ones(3), xs), fullgraph=True)
    (xs,) = sequences(4)
    for world.body in (*bodies, bodies[0]):
        f(xs)


@case(versions=1)
def an_integer_and_a_bool_carried(jit):
    def f(xs):
        def step(carry, x):
            count, seen, best = carry
            hit = x.sum() > 0
            return (count + hit, seen.logical_or(hit), torch.where(hit, x, best)), count

        return scan(step, (0, torch.tensor(False), torch.zeros(3)), xs)

    f = jit(f, fullgraph=True)
    for xs in sequences(3, 8):
        f(xs)


@case(versions=1)
def a_loop_until_small(jit):
    def f(x):
        return while_loop(lambda i, x: x.norm() > 0.1, lambda i, x: (i + 1, x * 0.7), (0, x))

    f = jit(f, fullgraph=True)
    for (x,) in ([s] for s in sequences(2, 4, 8)):
        x.requires_grad_()
        count, y = f(x)
        y.sum().backward()
        yield x.grad, count.item()


@case(versions=1)
def a_loop_up_to_an_argument(jit):
    f = jit(lambda x, n: while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * 2), (0, x))[1], fullgraph=True)
    for n in (2, 5, 3):
        f(torch.ones(2), torch.tensor(n))


@case(versions=1)
def a_cond_taken_both_ways(jit):
    weight = torch.ones(3).requires_grad_()
    f = jit(lambda x: cond(x.sum() > 0, lambda x: x * weight, lambda x: (x - weight).exp(), (x,)), fullgraph=True)
    for x in sequences(2, 3, 4, 5, 6):
        x.requires_grad_()
        f(x).sum().backward()
        yield x.grad, weight.grad


@case(versions=1)
def a_cond_in_a_scan_in_a_scan(jit):
    def f(xs):
        def row(c, x):
            return scan(lambda a, y: cond(y > a, lambda: (y, a), lambda: (a * 0.5, y)), c, x)

        return scan(row, torch.tensor(0.0), xs)

    f = jit(f, fullgraph=True)
    for xs in sequences(3, 5, width=4):
        xs.requires_grad_()
        last, ys = f(xs)
        (last + ys.sum()).backward()
        yield xs.grad


@case
def random_numbers_in_a_scan(jit):
    f = jit(lambda xs: scan(lambda c, x: (c + torch.randn(3), torch.nn.functional.dropout(x)), torch.zeros(3), xs))
    for xs in sequences(3, 4):
        f(xs)
        yield torch.rand(2)


@case
def random_numbers_in_one_branch(jit):
    f = jit(lambda x: cond(x.sum() > 0, lambda: x + torch.rand(3), lambda: x))
    for x in (torch.ones(3), -torch.ones(3), torch.ones(3)):
        f(x)
        yield torch.rand(1)


@case
def a_helper_made_inside_reads_the_surroundings(jit):
    config = types.SimpleNamespace(scale=2.0, shift=1.0)

    def f(x, settings):
        helper = lambda y: y * config.scale + settings.power  # noqa: E731
        return helper(x) + settings.offset + sum([config.shift * y for y in x.unbind(0)])

    f = jit(f)
    settings = types.SimpleNamespace(power=1.0, offset=0.5)
    (x,) = sequences(2)
    for config.scale, config.shift, settings.power, settings.offset in (
        (2.0, 1.0, 1.0, 0.5), (3.0, 1.0, 1.0, 0.5), (3.0, 2.0, 1.0, 0.5), (3.0, 2.0, 4.0, 0.5), (3.0, 2.0, 4.0, 0.1),
    ):  # fmt: skip
        f(x, settings)


@case(versions=2)
def a_model_in_a_scan(jit):
    torch.manual_seed(0)
    cell = torch.nn.GRUCell(3, 4)
    optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)

    def train(xs):
        optimizer.zero_grad()
        last, states = scan(lambda h, x: (cell(x, h),) * 2, torch.zeros(xs.shape[1], 4), xs)
        loss = (last**2).sum() + states.mean()
        loss.backward()
        optimizer.step()
        return loss

    f = jit(train, fullgraph=True)
    for length, batch in ((3, 2), (5, 4), (4, 3)):
        f(torch.randn(length, batch, 3))
        yield list(cell.parameters())


@case
def in_place_on_what_the_body_made(jit):
    def step(c, x):
        y = c.clone()
        y[0] = 5.0
        first = y[0]
        y.mul_(x)
        return y, first

    f = jit(lambda xs: scan(step, torch.ones(3), xs), fullgraph=True)
    for xs in sequences(2, 4):
        f(xs)


@case
def a_body_that_appends_to_a_list(jit):
    seen = []

    def step(c, x):
        seen.append(1)
        return c + x, x

    f = jit(lambda xs: scan(step, torch.ones(3), xs))
    for xs in sequences(2, 3):
        f(xs)
        yield seen


@case
def an_index_out_of_range_in_a_body(jit):
    table = torch.arange(4.0)
    f = jit(lambda idx: map(lambda i: table[i] * 2, idx), fullgraph=True)
    for idx in ([0, 3], [1, 4, 2], [2, 2, 1]):
        yield str(attempt(f, torch.tensor(idx)))


@case
def second_derivatives_of_a_scan(jit):
    def f(x, w):
        last, _ = scan(lambda c, y: ((c * w + y).sin(), c), torch.zeros(3), x)
        (g,) = torch.autograd.grad(last.sum(), w, create_graph=True)
        return (g * g).sum()

    f = jit(f, fullgraph=True)
    w = torch.ones(3).requires_grad_()
    for x in sequences(3, 6):
        f(x, w).backward()
        yield w.grad

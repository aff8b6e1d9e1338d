"""Tensors that get other memory inside of a compiled function: `x.data = y`."""

from __future__ import annotations

import copy
import types

import eagerjit as torch
from eagerjit import nn
from tests.soundness.framework import FELL_BACK, case


def ones(*shape):
    return torch.ones(*shape)


@case(versions=1)
def keys_that_follow_queries(jit):
    query, key = nn.Linear(3, 2), nn.Linear(3, 2)
    optimizer = torch.optim.SGD(query.parameters(), lr=0.1, momentum=0.9)
    weight = key.weight

    @jit
    def step(x, share):
        loss = query(x).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for a, b in zip(query.parameters(), key.parameters(), strict=True):
                b.data = b.data * share + a.data * (1.0 - share)
        return key(x).detach(), loss.item()

    before = key.weight.detach()
    for i in range(4):
        yield step(ones(2 + i, 3) * i, 0.1 * i), list(key.parameters())
        yield key.weight is weight, key.weight._version, before


@case
def weights_set_aside_and_put_back(jit):
    model = nn.Linear(3, 2)
    averages = {n: p.detach().clone() for n, p in model.named_parameters()}

    @jit
    def evaluate(x):
        kept = {}
        for n, p in model.named_parameters():
            kept[n] = p.data
            p.data = averages[n]
        with torch.no_grad():
            result = model(x)
        for n, p in model.named_parameters():
            p.data = kept[n]
        return result

    for i in range(4):
        yield evaluate(ones(2, 3) * i), list(model.parameters()), averages
        with torch.no_grad():
            model.weight += 1.0
            averages["bias"] *= 0.5


@case
def weights_exchanged_for_good(jit):
    model = nn.Linear(2, 2)
    other = ones(2, 2)

    @jit
    def f(x):
        before = model.weight.data
        model.weight.data = other
        before.mul_(2.0)
        return model(x).detach(), before

    for _ in range(3):
        result, before = f(ones(1, 2))
        other.add_(1.0)
        yield result, before, model.weight, other
        before.add_(1.0)
        model.weight.data = ones(2, 2)
        yield model.weight, other


@case(versions=2)
def a_perturbation_within_bounds(jit):
    weight = torch.arange(3.0)

    @jit
    def attack(x, most, rounds):
        delta = torch.zeros_like(x).requires_grad_()
        for _ in range(rounds):
            ((x + delta) * weight).sin().sum().backward()
            delta.data = (delta + 0.1 * delta.grad.sign()).clamp(-most, most)
            delta.grad.zero_()
        return delta.detach()

    for n in (2, 3, 4):
        yield attack(torch.randn(n, 3), 0.05 * n, 2)


@case
def given_after_it_was_written(jit):
    x, y = ones(3), torch.arange(3.0)
    seen = x[1:]

    @jit
    def f(z):
        x.mul_(2.0)
        x.data = x.data.clamp(max=5.0) + z
        return x * y

    for i in range(4):
        yield f(ones(3) * i), x, seen, x._version


@case
def an_argument_given_other_memory(jit):
    @jit
    def f(x, y):
        x.data = y * 2
        return (x + 1).sum()

    for i in range(3):
        x, y = ones(2) * i, ones(2)
        view = x[:1]
        yield f(x, y), x, y, view


@case(versions=1)
def an_argument_with_a_gradient_given_other_memory(jit):
    @jit
    def f(x, y):
        x.data = y * 2
        return (x + 1).sum()

    x = torch.ones(2, requires_grad=True)
    yield f(x, ones(2)), x


@case(outcome=FELL_BACK)
def given_what_it_is_computed_with(jit):
    x, y = ones(3), torch.arange(3.0)

    @jit
    def f(z):
        x.mul_(2.0)
        x.data = x + z
        return x * y

    yield f(ones(3)), x, y
    x.data = y
    yield f(ones(3)), x, y
    yield f(ones(3)), x, y


@case
def given_twice(jit):
    x = ones(2)

    @jit
    def f(y):
        first = x.data
        x.data = x.data + y
        second = x.data
        x.data = x.data * 2
        return first + second, x - second

    for i in range(3):
        yield f(ones(2) * i), x


@case(versions=1)
def given_and_written_after(jit):
    x = ones(2)

    @jit
    def f(y):
        x.data = y * 2
        x.add_(1.0)
        return x + y

    for i in range(3):
        yield f(ones(2) * i), x, x._version


@case(outcome=FELL_BACK)
def given_memory_that_is_returned(jit):
    x = torch.zeros(2)

    @jit
    def f(y):
        new = y * 2
        x.data = new
        return new

    for i in range(3):
        new = f(ones(2) * i)
        new.add_(1.0)
        yield new, x


@case(versions=1)
def given_other_memory_before_a_gradient(jit):
    model = nn.Linear(2, 1)
    start = copy.deepcopy(model)

    @jit
    def f(x):
        result = (model(x) ** 2).sum()
        model.weight.data = model.weight.data * 3
        return result

    for _ in range(2):
        model.zero_grad()
        f(torch.ones(2, 2)).backward()
        yield model.weight.grad, model.weight
    yield start


@case(versions=1)
def keys_follow_and_the_loss_is_returned(jit):
    query, key = nn.Linear(3, 2), nn.Linear(3, 2)
    key.requires_grad_(False)
    optimizer = torch.optim.SGD(query.parameters(), lr=0.1)

    @jit
    def step(x, share):
        with torch.no_grad():
            for a, b in zip(query.parameters(), key.parameters(), strict=True):
                b.data = b.data * share + a.data * (1.0 - share)
        loss = (query(x) * key(x)).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    for i in range(4):
        yield step(ones(2 + i, 3) * i, 0.1 * i), list(key.parameters()), list(query.parameters())


@case(versions=2)
def projected_before_a_step(jit):
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    shown = model.weight.data

    @jit
    def step(x):
        model.weight.data = nn.functional.normalize(model.weight.data, dim=1)
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.bias.data -= 0.1
        return loss

    for i in range(4):
        yield step(ones(2, 3) * i), list(model.parameters()), shown
        yield [p._version for p in model.parameters()]


@case(versions=2)
def given_and_a_gradient_outside(jit):
    first, second = nn.Linear(3, 3), nn.Linear(3, 2)

    @jit
    def f(x):
        before = first.weight.exp()
        first.weight.data = first.weight.data.clamp(-0.3, 0.3)
        return second(first(x) * before.sum()), before.square()

    for i in range(3):
        a, b = f(ones(2, 3) * i)
        c, d = f(ones(2, 3) * i + 1)
        grads = torch.autograd.grad(a.sum() + d.sum(), [*first.parameters(), *second.parameters()], retain_graph=True)
        c.square().sum().backward()
        yield grads, [p.grad for p in first.parameters()], b.requires_grad


@case(outcome=FELL_BACK)
def a_gradient_that_reads_what_was_given(jit):
    weight = torch.ones(2, requires_grad=True)

    @jit
    def f(x):
        weight.data = weight.data * 0.75
        return (x * weight).sum()

    x = torch.ones(2, requires_grad=True)
    (f(x) + f(x)).backward()
    yield x.grad, weight.grad


@case(outcome=FELL_BACK)
def a_view_of_what_it_had_is_returned(jit):
    x = torch.zeros(2)

    @jit
    def f(y):
        before = x.detach()
        x.data = y * 2
        return before

    for i in range(3):
        before = f(ones(2) * i)
        yield before, x
        before.add_(1.0)
        yield before, x


@case(outcome=FELL_BACK)
def given_memory_of_another_size(jit):
    x = torch.zeros(2)

    @jit
    def f(y):
        x.data = torch.cat([y, y])
        return x.sum()

    for i in range(2):
        yield f(ones(2) * i), x


@case(outcome=FELL_BACK)
def a_tensor_made_that_shows_an_argument(jit):
    @jit
    def f(x):
        made = torch.zeros(2)
        made.data = x
        return made

    for i in range(3):
        x = ones(2) * i
        made = f(x)
        x.add_(5.0)
        yield made, x


@case(outcome=FELL_BACK)
def a_tensor_kept_that_shows_a_parameter(jit):
    parameter, kept = nn.Parameter(ones(2)), {}

    @jit
    def f(x):
        made = torch.zeros(2)
        made.data = parameter.data
        kept["made"] = made
        return x.sum()

    for i in range(3):
        yield f(ones(2) * i)
        parameter.data.add_(1.0)
        yield kept["made"], parameter


@case(versions=1)
def given_to_a_parameter_made_inside(jit):
    @jit
    def f(x):
        base = x * 2
        made = nn.Parameter(base, requires_grad=False)
        row, shown = made[0], made.data
        made.data = made.data + 1
        row.mul_(3.0)
        shown[1] = 7.0
        made.add_(10.0)
        return base * 1, made * 1, row * 1, shown * 1

    for i in range(3):
        yield f(ones(2, 3) * i)


@case(versions=1)
def adapters_merged_and_taken_out(jit):
    model, a, b = nn.Linear(3, 2), ones(1, 3) * 0.5, ones(2, 1)

    @jit
    @torch.no_grad()
    def both_ways(x, scale):
        model.weight.data += (b @ a) * scale
        merged = model(x)
        model.weight.data -= (b @ a) * scale
        return merged, model(x)

    for i in range(4):
        yield both_ways(ones(2 + i, 3), 0.5 * i), model.weight, model.weight._version


@case(versions=4)
def a_tensor_given_memory_is_the_argument_of_another_call(jit):
    world = types.SimpleNamespace(shared=ones(2), other=torch.zeros(2))

    @jit
    def f(x):
        world.shared.data = x.detach() * 2
        world.other.copy_(x.detach())
        return x + 1

    for x in (ones(2) * 3, world.shared, world.shared, ones(2) * 5, world.other, world.shared[:]):
        yield f(x), world

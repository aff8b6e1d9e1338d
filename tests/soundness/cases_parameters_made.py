"""Parameters that are made in a compiled function, of arguments, of what it found and of what it has computed."""

from __future__ import annotations

import copy

import eagerjit as torch
from eagerjit import nn
from tests.soundness.framework import FELL_BACK, case


def ones(*shape):
    return torch.ones(*shape)


@case(versions=1)
def of_an_argument(jit):
    f = jit(lambda x: nn.Parameter(x) * 2)
    for i in range(3):
        yield f(ones(3) * i)


@case(versions=1)
def of_a_tensor_found(jit):
    weight = ones(3)
    f = jit(lambda x: nn.Parameter(weight) * x)
    for i in range(3):
        yield f(ones(3) * i)
        weight.add_(1.0)


@case(versions=1)
def of_a_view_that_is_written(jit):
    @jit
    def f(x):
        base = x * 2
        row = base[0]
        base.add_(1.0)
        return nn.Parameter(row) * 3

    for i in range(3):
        yield f(ones(2, 3) * i)


@case(versions=1)
def whose_memory_is_written(jit):
    @jit
    def f(x):
        base = x * 2
        made, shown = nn.Parameter(base, requires_grad=False), nn.Parameter(x, requires_grad=False)
        made.add_(1.0)
        base.mul_(2.0)
        shown.mul_(3.0)
        return made * 3, base * 1, base._version, x * 2

    for i in range(3):
        x = ones(2, 3) * i
        yield f(x), x, x._version


@case(versions=1)
def that_is_returned(jit):
    @jit
    def f(x):
        doubled = x * 2
        return nn.Parameter(doubled), nn.Parameter(doubled, requires_grad=False), doubled

    for i in range(3):
        first, second, doubled = f(ones(3) * i)
        doubled.add_(1.0)
        yield first, second, doubled, isinstance(first, nn.Parameter), type(second).__name__


@case(versions=1)
def that_replaces_one(jit):
    model = nn.Module()
    model.weight = nn.Parameter(ones(3))

    @jit
    def f(x):
        model.weight = nn.Parameter(model.weight.detach() * 0.5 + x)
        return x * model.weight.detach()

    for i in range(4):
        yield f(ones(3) * i), list(model.parameters()), type(model.weight).__name__
        model.weight.sum().backward()
        yield model.weight.grad


@case(versions=1)
def copies_of_one_given(jit):
    @jit
    def f(p):
        return copy.copy(p) * 2, copy.deepcopy(p) * 3

    for i in range(3):
        p = nn.Parameter(ones(3) * i)
        a, b = f(p)
        (a + b).sum().backward()
        yield a, b, p.grad


@case(versions=1)
def as_a_class_of_ones_own(jit):
    class Named(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

    f = jit(lambda x: Named(x) * 2)
    for i in range(3):
        yield f(ones(3) * i)


class Marked(torch.Tensor):
    """A class of the program's."""


@case
def tensors_made_by_their_class(jit):
    """Written, and kept by the caller: each call makes others."""

    def of_numbers(x, k):
        made = torch.Tensor([1.0, k, 2.0])
        made.add_(x)
        return made, made.sum()

    def of_tensors(x, k):
        made = torch.Tensor([x.sum(), k])
        made.mul_(2)
        return made

    def of_sizes(x, k):
        made = torch.Tensor(k, 3).fill_(k)
        made[0].add_(x)
        return made

    def of_random_numbers(x, k):
        return torch.Tensor(3).normal_().add_(x)

    def of_another_class(x, k):
        made = Marked([1.0, k, 2.0])
        made.add_(x)
        return made, type(made).__name__

    def parameters(x, k):
        weight = torch.nn.Parameter(torch.Tensor(3))
        with torch.no_grad():
            weight.fill_(k)
        (weight * x).sum().backward()
        return weight, weight.grad

    for function in (of_numbers, of_tensors, of_sizes, of_random_numbers, of_another_class, parameters):
        f, results = jit(function), []
        for k in (2, 2, 3, 4, 2):
            torch.manual_seed(k)
            results.append(f(torch.ones(3), k))
        yield results


@case(outcome=FELL_BACK)
def tensors_made_over_buffers(jit):
    kept = bytearray(8)

    def of_outside(x):
        made = torch.frombuffer(kept, dtype=torch.float32)
        made.add_(x)
        return made

    def of_inside(x):
        made = torch.frombuffer(bytearray(8), dtype=torch.float32)
        made.add_(x)
        return made

    for function in (of_outside, of_inside):
        f = jit(function)
        yield [f(torch.ones(2)) for _ in range(3)]

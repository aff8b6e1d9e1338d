"""Attributes of Modules that the library reads, unseen, and that the function replaces afterwards."""

from __future__ import annotations

import eagerjit as torch
from eagerjit import nn
from tests.soundness.framework import case
from tests.soundness.tools import network


def ones(*shape):
    return torch.ones(*shape)


@case(versions=2)
def a_buffer_replaced_after_its_layer_has_run(jit):
    norm = nn.BatchNorm1d(3).eval()

    @jit
    def f(x):
        result = norm(x)
        norm.running_mean = x.mean(0)
        return result

    for i in range(4):
        yield f(ones(2, 3) * i), norm.running_mean
    norm.running_mean = ones(3)
    yield f(ones(2, 3)), norm.running_mean


@case(versions=2)
def buffers_replaced_by_name(jit):
    norm = nn.BatchNorm1d(3).eval()

    @jit
    def f(x):
        for name, value in list(norm.named_buffers()):
            if value.is_floating_point():
                setattr(norm, name, value * 0.5 + x.square().mean(0))
        return norm(x)

    for i in range(4):
        yield f(ones(2, 3) * i), norm.running_mean, norm.running_var


@case(versions=2)
def a_buffer_replaced_in_its_table(jit):
    norm = nn.BatchNorm1d(3).eval()

    @jit
    def f(x):
        result = norm(x)
        norm._buffers["running_mean"] = x.mean(0)
        return result

    for i in range(4):
        yield f(ones(2, 3) * i), norm.running_mean


@case(versions=3)
def a_rate_replaced_after_its_layer_has_run(jit):
    dropout, norm = nn.Dropout(0.0), nn.BatchNorm1d(3, momentum=0.5)

    @jit
    def f(x, rate):
        result = dropout(norm(x))
        dropout.p, norm.momentum = rate, rate
        return result

    for i in range(4):
        yield f(ones(4, 3) * i, 0.2 * i), dropout.p, norm.momentum, norm.running_mean


@case(versions=2)
def what_a_layer_reads_becomes_none(jit):
    norm = nn.BatchNorm1d(3).eval()

    @jit
    def f(x):
        result = norm(x)
        norm.running_mean = norm.running_var = None
        return result

    for i in range(3):
        yield f(torch.arange(6.0).reshape(2, 3) * i), norm.running_mean


@case(versions=2)
def parameters_replaced_by_new_ones(jit):
    model = network()

    @jit
    def step(x):
        loss = model(x).square().sum()
        model.zero_grad()
        loss.backward()
        for part in model:
            for name, p in list(part.named_parameters(recurse=False)):
                setattr(part, name, nn.Parameter(p.detach() - 0.1 * p.grad))
        return loss.detach()

    for i in range(4):
        yield step(ones(2, 3) * i), list(model.parameters())


@case(versions=2)
def a_shared_parameter_replaced_in_one_place(jit):
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    second.weight = first.weight

    @jit
    def f(x):
        result = second(first(x)).detach()
        first.weight = nn.Parameter(first.weight.detach() * 0.5)
        return result

    for _ in range(4):
        yield f(ones(2, 3)), first.weight, second.weight


@case(versions=2)
def a_parameter_replaced_beside_its_optimizer(jit):
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @jit
    def step(x):
        loss = model(x).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.weight = nn.Parameter(model.weight.detach().clamp(-0.1, 0.1))
        return loss.detach()

    for i in range(4):
        yield step(ones(2, 3) * i), model.weight, optimizer.param_groups[0]["params"]


@case(versions=2)
def a_part_of_a_module_with_getattr(jit):
    class Wrapped(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner, self.asked = inner, []

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                self.asked.append(name)
                return getattr(super().__getattr__("inner"), name)

        def forward(self, x):
            result = self.inner(x)
            self.weight = x.mean(0)
            self.inner.running_mean = x.mean(0)
            return result

    wrapped = Wrapped(nn.BatchNorm1d(3).eval())
    f = jit(wrapped.forward)
    for i in range(4):
        yield f(ones(2, 3) * i), wrapped.weight, wrapped.inner.running_mean, wrapped.asked

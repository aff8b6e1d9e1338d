"""Modules called with other parameters and buffers, some of which they replace themselves."""

from __future__ import annotations

import types

import eagerjit as torch
import eagerjit.nn as nn
from eagerjit.func import functional_call
from eagerjit.nn.utils import stateless
from eagerjit.utils.checkpoint import checkpoint
from tests.soundness.framework import FELL_BACK, attempt, case


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x):
        self.calls = self.calls + 1
        return x * self.weight + self.calls


@case
def a_buffer_replaced_in_a_functional_call(jit):
    module = Counting()
    given = {"weight": torch.full((1,), 2.0), "calls": torch.full((1,), 5.0)}
    f = jit(lambda given, x: functional_call(module, given, x))
    for i in range(4):
        yield f(given, torch.ones(1) * i), given, module.calls
    module.calls = torch.full((1,), 7.0)
    yield f(given, torch.ones(1)), given, module.calls


@case
def a_buffer_replaced_beside_a_plain_call(jit):
    module = Counting()

    @jit
    def f(x):
        given = {"calls": x * 2}
        before = module(x)
        found = functional_call(module, given, x)
        return before, found, given["calls"], module(x)

    for i in range(4):
        yield f(torch.ones(1) * i), module.calls


@case
def a_buffer_that_is_not_given(jit):
    module = Counting()
    given = {"weight": torch.full((1,), 2.0)}
    f = jit(lambda x: functional_call(module, given, x))
    for i in range(4):
        yield f(torch.ones(1) * i), given, module.calls
        given["weight"] = given["weight"] + 1


@case
def buffers_in_several_dictionaries(jit):
    module = Counting()
    weights, buffers = {"weight": torch.full((1,), 2.0)}, {"calls": torch.full((1,), 5.0)}
    f = jit(lambda x: functional_call(module, (weights, buffers), x))
    for i in range(4):
        yield f(torch.ones(1) * i), weights, buffers, module.calls


@case
def parts_whose_buffers_are_replaced(jit):
    module = nn.Sequential(Counting(), nn.Linear(1, 1), Counting())
    given = {name: torch.full_like(value, 0.5) for name, value in module.state_dict().items()}

    @jit
    def f(x):
        with stateless._reparametrize_module(module, given):
            first = module(x)
            return first, module(x) + given["0.calls"]

    for i in range(4):
        yield f(torch.ones(1, 1) * i), given, [b.clone() for b in module.buffers()]


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2))

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=False)


@case
def a_checkpoint_in_a_functional_call(jit):
    """The part runs again when the call has given the parameters back: with those that it was called with."""
    module, x = Checkpointed(), torch.ones(3, 2)
    own = {name: p.detach() for name, p in module.named_parameters()}
    module.forward = jit(module.forward)
    for factor in (0.5, 1.0, -2.0):
        given = {name: (p * factor).requires_grad_() for name, p in own.items()}
        functional_call(module, given, x).square().sum().backward()
        yield {name: p.grad for name, p in given.items()}, [p.grad for p in module.parameters()]
        yield torch.func.grad(lambda given: functional_call(module, given, x).square().sum())(given)


@case(outcome=FELL_BACK)
def a_tensor_that_leaves_a_mapped_function(jit):
    """It can be used no more, here and there: but the call that keeps it gives its result."""
    kept = types.SimpleNamespace(last=None)

    def one(x):
        kept.last = x * 2
        return (kept.last * x).sum()

    f = jit(lambda x: torch.func.vmap(one)(x))
    for n in (3, 3, 2):
        yield f(torch.ones(n, 2)), attempt(lambda: kept.last + 1)


@case(outcome="fell back")
def a_view_leaves_a_transform(jit):
    kept = types.SimpleNamespace(last=None)

    def one(x):
        row = x[None]
        kept.last = row.detach()
        return (row * row).sum()

    f = jit(torch.func.vmap(one))
    for n in (2, 3):
        yield f(torch.ones(n, 3))


@case
def parameters_renewed_after_a_transform(jit):
    """The transform is given the dictionary, whose items the function then replaces."""
    module, x = nn.Linear(2, 1), torch.arange(6.0).reshape(3, 2)
    parameters = {name: p.detach().clone() for name, p in module.named_parameters()}
    gradients = torch.vmap(torch.func.grad(lambda p, x: functional_call(module, p, (x,)).sum()), in_dims=(None, 0))

    @jit
    def step(x):
        for name, gradient in gradients(parameters, x).items():
            parameters[name] = parameters[name] - 0.1 * gradient.mean(0)

    for n in (3, 2, 3):
        step(x[:n])
        yield dict(parameters)

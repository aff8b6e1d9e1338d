"""Modules and parameters copied by `copy.deepcopy` inside of compiled functions."""

from __future__ import annotations

import copy

import eagerjit as torch
from tests.soundness.framework import case
from tests.soundness.tools import network


def ramp(*sizes):
    return (torch.arange(float(torch.Size(sizes).numel())) / 7 - 0.3).reshape(sizes)


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)
        self.factors, self.shift, self.table = [2.0, 3.0], 0.5, {"a": torch.ones(3)}
        self.hidden = [torch.nn.Linear(3, 3), {"last": torch.nn.Tanh()}]
        self.register_buffer("mean", torch.ones(3))
        with torch.no_grad():
            self.inner.weight.fill_(0.3)
            self.inner.bias.zero_()
            self.hidden[0].weight.fill_(0.2)
            self.hidden[0].bias.zero_()

    def forward(self, x):
        hidden = self.hidden[1]["last"](self.hidden[0](self.inner(x)))
        y = hidden * self.factors[0] + self.shift + self.mean * self.table["a"]
        return y if self.training else -y


@case(versions=8)
def a_copied_module_follows_its_original(jit):
    model = Scaled()

    def function(x):
        made = copy.deepcopy(model)
        made.shift += 1
        made.factors.append(7.0)
        with torch.no_grad():
            made.mean.mul_(2)
            for p in made.parameters():
                p.mul_(0.5)
        return made(x), len(made.factors), made.inner.weight is model.inner.weight

    f = jit(function)
    f(ramp(2, 3))
    with torch.no_grad():
        model.inner.weight.add_(1)
    f(ramp(2, 3))
    model.shift = 2.5
    f(ramp(2, 3))
    model.factors[0] = 5.0
    f(ramp(2, 3))
    model.table["a"] = torch.full((3,), 2.0)
    f(ramp(2, 3))
    model.hidden[0].bias = None
    f(ramp(2, 3))
    model.eval()
    f(ramp(2, 3))
    model.inner = torch.nn.Linear(3, 3)
    f(ramp(2, 3))
    yield model.factors, model.mean, model.shift


@case(versions=4)
def a_module_in_a_list_is_copied(jit):
    models = [Scaled(), Scaled()]
    f = jit(lambda x, i: copy.deepcopy(models[i])(x))
    f(ramp(2, 3), 0)
    models[0].shift = 7.0
    f(ramp(2, 3), 0)
    models[0].factors[0] = 1.0
    f(ramp(2, 3), 0)
    models[0] = Scaled().eval()
    f(ramp(2, 3), 0)
    yield


class Agent:
    def __init__(self):
        self.models, self.gain = {"actor": [Scaled()]}, 1.0


@case(versions=4)
def an_object_that_holds_modules_is_copied(jit):
    agent = Agent()
    f = jit(lambda x: copy.deepcopy(agent).models["actor"][0](x) * agent.gain)
    f(ramp(2, 3))
    agent.models["actor"][0].shift = 3.0
    f(ramp(2, 3))
    agent.models["actor"][0].factors[0] = 3.0
    f(ramp(2, 3))
    agent.models["actor"].insert(0, Scaled().eval())
    f(ramp(2, 3))
    yield


@case(outcome="fell back")
def an_optimizer_is_copied(jit):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    f = jit(lambda x: x * copy.deepcopy(optimizer).param_groups[0]["lr"])
    f(ramp(3))
    optimizer.param_groups[0]["lr"] = 0.5
    f(ramp(3))
    yield


@case(versions=2)
def steps_on_a_copy_of_a_model(jit):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(x):
        fast = copy.deepcopy(model)
        inner = fast(x).pow(2).mean()
        gradients = torch.autograd.grad(inner, list(fast.parameters()))
        with torch.no_grad():
            for p, g in zip(fast.parameters(), gradients, strict=True):
                p.sub_(0.1 * g)
        loss = fast(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        for p, q in zip(model.parameters(), fast.parameters(), strict=True):
            p.grad = q.grad
        optimizer.step()
        return inner.detach(), loss.detach()

    f = jit(step)
    for i in range(4):
        f(ramp(2, 3) + i)
        yield list(model.parameters()), [p.grad for p in model.parameters()]


@case(versions=3)
def gradients_are_copied_too(jit):
    model = network()

    def function(x):
        made = copy.deepcopy(model)
        return [None if p.grad is None else p.grad * 2 for p in made.parameters()], made(x)

    f = jit(function)
    f(ramp(2, 3))
    model(ramp(2, 3)).sum().backward()
    f(ramp(2, 3))
    model(ramp(2, 3)).sum().backward()
    f(ramp(2, 3)).__getitem__(1).sum().backward()
    yield [p.grad for p in model.parameters()]


@case(versions=1)
def a_module_made_inside_learns(jit):
    def function(x):
        torch.manual_seed(3)
        model = torch.nn.Linear(3, 2)
        optimizer = []
        for _ in range(2):
            model.zero_grad()
            model(x).pow(2).sum().backward()
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.01 * p.grad
            optimizer.append(model.weight.grad)
        return model(x).detach(), optimizer

    f = jit(function)
    for i in range(3):
        f(ramp(2, 3) + i)
        yield


@case(outcome="fell back")
def a_copied_module_is_kept(jit):
    model, kept = network(), []

    def function(x):
        kept.append(copy.deepcopy(model))
        return model(x)

    f = jit(function)
    f(ramp(2, 3))
    f(ramp(2, 3))
    yield [list(m.parameters()) for m in kept]


@case(versions=2)
def a_parameter_is_copied(jit):
    weight = torch.nn.Parameter(ramp(3))
    frozen = torch.nn.Parameter(ramp(3), requires_grad=False)

    def function(x):
        a, b, c = copy.deepcopy([weight, frozen, weight])
        (a * x).sum().backward()
        return type(a) is torch.nn.Parameter, a.requires_grad, b.requires_grad, a is c, a.grad, (b * x).sum()

    f = jit(function)
    for i in range(3):
        f(ramp(3) + i)
        yield weight.grad

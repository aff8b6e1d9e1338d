"""Dictionaries and lists of Modules and optimizers, changed past their methods."""

from __future__ import annotations

import collections
import copy
import pickle

import numpy as np

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, case
from tests.soundness.tools import network


@case
def parts_replaced_in_their_table(jit):
    model = network()
    f = jit(lambda x: model(x))
    yield f(torch.ones(2, 3))
    model._modules["1"] = torch.nn.Sigmoid()
    yield f(torch.ones(2, 3))
    del model._modules["2"]
    yield f(torch.ones(2, 3))
    model._modules.update({"1": torch.nn.ReLU()})
    yield f(torch.ones(2, 3))
    model._modules.pop("1")
    yield f(torch.ones(2, 3))


@case
def parameters_and_buffers_replaced_in_their_table(jit):
    model = torch.nn.Sequential(network()[0], torch.nn.BatchNorm1d(4))
    f = jit(lambda x: model(x))
    x = torch.arange(6.0).reshape(2, 3)
    yield f(x)
    model[0]._parameters["weight"] = torch.nn.Parameter(torch.ones(4, 3))
    yield f(x)
    model[0]._parameters["bias"] = None
    before, model[1]._buffers["running_mean"] = model[1].running_mean, torch.ones(4)
    yield f(x), before, model[1].running_mean


@case
def hooks_cleared_in_their_table(jit):
    model = network()
    f = jit(lambda x: model(x))
    model.register_forward_hook(lambda module, given, result: result * 2)
    yield f(torch.ones(2, 3))
    model._forward_hooks.clear()
    yield f(torch.ones(2, 3))
    model.register_forward_pre_hook(lambda module, given: (given[0] + 1,))
    yield f(torch.ones(2, 3))
    model._forward_pre_hooks = collections.OrderedDict()
    yield f(torch.ones(2, 3))


@case
def tables_of_copies_replaced(jit):
    model = network()
    for made in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), copy.copy(model)):
        f = jit(lambda x, made=made: made(x))
        yield f(torch.ones(2, 3))
        made._modules["1"] = torch.nn.Sigmoid()
        yield f(torch.ones(2, 3))
        made[0]._parameters["bias"] = None
        yield f(torch.ones(2, 3))


def stepping(jit, optimizer, *parameters):
    @jit
    def step(x):
        optimizer.zero_grad()
        loss = sum((p * x).pow(2).sum() for p in parameters)
        loss.backward()
        optimizer.step()
        return loss

    return lambda: [step(torch.arange(1.0, 3.0)), list(parameters), optimizer.state_dict()]


@case
def the_state_of_an_optimizer_replaced(jit):
    w = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([w], lr=0.1)
    step = stepping(jit, optimizer, w)
    yield step()
    optimizer.state[w]["exp_avg"] = torch.ones(2)
    yield step()
    optimizer.state[w].update(step=torch.tensor(9.0))
    yield step()
    optimizer.state.clear()
    yield step()
    optimizer.state[w] = {k: v.clone() for k, v in optimizer.state[w].items()}
    yield step()
    optimizer.state[w]["exp_avg"] = torch.ones(2)
    yield step()
    optimizer.state = collections.defaultdict(dict)
    yield step()


@case
def parameters_of_an_optimizer_replaced(jit):
    w, v = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.5)
    step = stepping(jit, optimizer, w, v)
    yield step()
    optimizer.param_groups[0]["params"].append(v)
    yield step()
    optimizer.param_groups[0]["params"].remove(w)
    yield step()
    optimizer.param_groups[0]["params"][0] = w
    yield step()
    optimizer.add_param_group({"params": [v], "lr": 1.0})
    yield step()
    optimizer.param_groups.pop(0)
    yield step()


@case
def options_of_an_optimizer_updated(jit):
    w = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.AdamW([w], lr=0.1)
    step = stepping(jit, optimizer, w)
    group = optimizer.param_groups[0]
    yield step()
    group.update(lr=0.5)
    yield step()
    group.update(betas=(0.1, 0.2), weight_decay=1)
    yield step()
    group |= {"maximize": True}
    yield step()


@case
def options_of_an_optimizer_updated_inside(jit):
    w = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([w], lr=0.1)

    @jit
    def step(x, lr):
        for group in optimizer.param_groups:
            group.update(lr=lr)
        (w * x).sum().backward()
        optimizer.step()

    for lr in (0.1, 0.2, 0.3):
        step(torch.ones(2), lr)
        yield w, optimizer.param_groups[0]["lr"]


@case(versions=3)
def counts_among_the_options_of_an_optimizer(jit):
    w = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([w], lr=0.1)
    group = optimizer.param_groups[0]
    group["turn"] = 0

    @jit
    def step(x):
        (w * x * group["turn"]).sum().backward()
        optimizer.step()
        for options in optimizer.param_groups:
            options["turn"] += 1
            options.setdefault("calls", 0)
            options["calls"] = options.get("calls", 5) + 2
        return x * group["calls"]

    for _ in range(6):
        yield step(torch.ones(2)), w, group["turn"], group["calls"]


@case(versions=5)
def counts_among_the_options_of_an_optimizer_of_ones_own(jit):
    class Counting(torch.optim.Optimizer):
        def __init__(self, parameters):
            super().__init__(parameters, {"lr": 0.1, "k": 0, "weights": 0.0, "training": True})

        @torch.no_grad()
        def step(self):
            for group in self.param_groups:
                rate = group["lr"] * (group["k"] + 1) / 3 if group["k"] < 3 else group["lr"]
                group["weights"] += rate
                group["training"] = not group["training"]
                for parameter in group["params"]:
                    parameter.add_(parameter.grad, alpha=-rate / group["weights"])
                group["k"] = group["k"] + 1

    w = torch.nn.Parameter(torch.ones(2))
    optimizer = Counting([w])
    step = stepping(jit, optimizer, w)
    for _ in range(8):
        yield step(), w, optimizer.state_dict()["param_groups"]


@case
def options_of_an_optimizer_that_come_and_go(jit):
    w = torch.nn.Parameter(torch.ones(2))
    group = torch.optim.SGD([w], lr=0.1).param_groups[0]
    has = jit(lambda x: x * 2 if "scale" in group else x)
    got = jit(lambda x: x * (3 if group.get("scale") is None else group.get("scale", 1)))
    for value in (None, 4, 5, 2.5, torch.full((2,), 7.0), True, 6):
        group["scale"] = value
        yield has(torch.ones(2)), got(torch.ones(2))
        del group["scale"]
        yield has(torch.ones(2)), got(torch.ones(2))


@case
def options_that_the_library_reads_counted(jit):
    w = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([w], lr=1, momentum=0)
    group = optimizer.param_groups[0]

    @jit
    def step(x):
        (w * x).sum().backward()
        optimizer.step()
        group["lr"] += 1
        group["momentum"] = (group["momentum"] + 1) % 3
        group["maximize"] = not group["maximize"]

    for _ in range(6):
        step(torch.ones(2))
        yield w, group["lr"], group["momentum"], group["maximize"]


@case(versions=7)
def options_of_an_optimizer_from_a_schedule_of_numpy(jit):
    w = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([w], lr=0.1)
    group, rates = optimizer.param_groups[0], np.linspace(0.5, 0.0, 11)

    @jit
    def outside(x):
        (w * x * group["lr"]).sum().backward()
        optimizer.step()
        return group["lr"] * 2

    @jit
    def inside(x, turn):
        group["lr"] = rates[turn]
        (w * x).sum().backward()
        optimizer.step()

    for turn in range(11):
        group["lr"] = rates[turn]
        yield outside(torch.ones(2)), inside(torch.ones(2), turn), w, group["lr"]
    group["lr"] = 0.3
    yield outside(torch.ones(2)), w
    del group["lr"]
    try:
        outside(torch.ones(2))
    except KeyError as error:
        yield str(error)


@case
def options_of_an_optimizer_of_other_classes(jit):
    w = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([w], lr=0.1)
    step = stepping(jit, optimizer, w)
    for rate in (0.1, np.float64(0.2), np.float32(0.3), torch.tensor(0.5), 1, 0.1):
        optimizer.param_groups[0]["lr"] = rate
        yield step(), w


@case(outcome=FELL_BACK)
def options_of_an_optimizer_in_a_dictionary_of_ones_own(jit):
    w = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([w], lr=0.1)
    step = stepping(jit, optimizer, w)
    yield step()
    optimizer.param_groups = [dict(optimizer.param_groups[0], lr=0.3)]
    yield step()
    optimizer.param_groups[0]["lr"] = 1.0
    yield step()


class Averaging(torch.optim.Optimizer):
    """An optimizer of ones own, with settings in attributes."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})
        self.share, self.signs, self.steps = 0.5, False, 0

    @torch.no_grad()
    def step(self):
        self.steps += 1
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    state["average"] = torch.zeros_like(parameter)
                state["average"].mul_(self.share).add_(parameter.grad)
                change = state["average"].sign() if self.signs else state["average"]
                parameter.add_(change, alpha=-group["lr"])


@case
def attributes_of_an_optimizer_of_ones_own(jit):
    w = torch.nn.Parameter(torch.ones(2))
    optimizer = Averaging([w])
    step = stepping(jit, optimizer, w)
    yield step()
    yield step()
    optimizer.share = 0.9
    yield step()
    optimizer.signs = True
    yield step()
    yield step(), optimizer.steps


@case(versions=3)
def tables_read_by_forward(jit):
    class Chain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Tanh(), torch.nn.ReLU()
            self.register_buffer("scale", torch.ones(3))

        def forward(self, x):
            for part in self._modules.values():
                x = part(x)
            return x * self._buffers["scale"] * len(self._modules)

    model = Chain()
    f = jit(lambda x: model(x))
    for i in range(4):
        yield f(torch.ones(2, 3) * i)
    model._modules["third"] = torch.nn.Sigmoid()
    yield f(torch.ones(2, 3))
    model._buffers["scale"] = torch.zeros(3)
    yield f(torch.ones(2, 3))

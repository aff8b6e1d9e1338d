"""Attributes that code looks for before it reads or makes them."""

from __future__ import annotations

import eagerjit as torch
from tests.soundness.framework import case


class Counted:
    limit = 3


@case(versions=7)
def attributes_made_where_there_are_none(jit):
    layer, holder = torch.nn.Linear(2, 2), Counted()
    torch.nn.init.ones_(layer.weight)

    @jit
    def f(x):
        for one in (layer, holder):
            if not hasattr(one, "calls"):
                one.calls, one.mean = 0, torch.zeros(())
            one.calls += 1
            one.mean = one.mean * 0.5 + x.mean()
        return layer(x) * holder.mean / holder.calls, hasattr(holder, "limit"), hasattr(layer, "bias")

    for i in range(9):
        yield f(torch.ones(3, 2) * i), layer.calls, holder.calls, layer.mean, holder.mean
        if i == 3:
            del layer.calls
        if i == 5:
            holder.calls, holder.mean = 7, 2.0
        if i == 6:
            holder.limit = 4
        if i == 7:
            del holder.limit, holder.calls


@case(versions=2)
def statistics_that_the_first_call_makes(jit):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 2))

    @jit
    def f(x):
        for module in model.modules():
            if isinstance(module, torch.nn.Linear):
                if not hasattr(module, "norm"):
                    module.norm = torch.zeros(())
                module.norm = module.norm * 0.9 + module.weight.detach().norm()
        return model(x)

    for i in range(6):
        yield f(torch.ones(3, 2) * i), model[0].norm, model[2].norm
        model.eval()
        model.train()


class Answering:
    def __init__(self):
        self.known = 1

    def __getattr__(self, name):
        if name == "asked":
            return 2
        raise AttributeError(name)

    @property
    def computed(self):
        return self.unknown


@case
def attributes_that_code_answers_for(jit):
    holder = Answering()
    f = jit(lambda x, names: (x, [hasattr(holder, name) for name in names]))
    for i in range(6):
        yield f(torch.ones(1) * i, ("known", "asked", "computed", "unknown", "__dict__", "__class__"))
        if i == 1:
            holder.unknown = 0
        if i == 2:
            del holder.known
        if i == 3:
            holder.asked = None
        if i == 4:
            Answering.known = 1
    del Answering.known

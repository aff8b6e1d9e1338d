"""Tensors copied deeply, items set by methods, and attributes read by `getattr`."""

from __future__ import annotations

import copy
import types

import eagerjit as torch
from eagerjit import nn
from tests.soundness.framework import FELL_BACK, attempt, case


def ramp(*sizes):
    n = torch.Size(sizes).numel()
    return (torch.arange(float(n)) / n - 0.3).reshape(*sizes)


@case(versions=1)
def tensors_copied_deeply(jit):

    @jit
    def f(x):
        y = copy.deepcopy(x)
        y.mul_(2)
        z = copy.deepcopy({"a": [y, y, x.t()], "n": 2})
        z["a"][0].add_(1)
        return (x + y, z, y)

    for i in range(4):
        yield (f(ramp(2, 3) + i), [t._version for t in f(ramp(2, 3))[1]["a"]])


@case(outcome=FELL_BACK)
def views_copied_deeply(jit):
    pair = [torch.zeros(3), None]
    pair[1] = pair[0][1:]

    @jit
    def of_own(x):
        y = x * 2
        a, b, nothing = copy.deepcopy([y, y.view(-1), None])
        a[0] = 5.0
        return a, b, nothing

    @jit
    def of_kept(x):
        a, b = copy.deepcopy(pair)
        a.add_(x)
        return a, b

    for i in range(3):
        pair[0].fill_(i)
        a, b, nothing = of_own(ramp(2, 2) + i)
        b.mul_(2)
        yield a, b, nothing
        c, d = of_kept(torch.ones(3))
        d.mul_(3)
        yield c, d, pair


@case
def a_leaf_copied_deeply(jit):
    w = torch.ones(2, requires_grad=True)
    f = jit(lambda x: copy.deepcopy(x))
    g = jit(lambda x: copy.deepcopy(x * w))
    x = torch.ones(2)
    yield f(x)
    x.grad = torch.ones(2)
    yield attempt(g, x)


@case(versions=1)
def a_copied_state_kept(jit):
    box = types.SimpleNamespace(best=None)
    t = torch.zeros(2)

    @jit
    def f(x):
        t.add_(x)
        box.best = copy.deepcopy(t)
        return t * 2

    for i in range(4):
        f(ramp(2) + i)
        yield (box, t)


@case(versions=1)
def items_set_by_a_method(jit):
    kept = {}

    @jit
    def f(x):
        kept.__setitem__("a", x * 2)
        kept.__setitem__("b", kept["a"] + 1)
        return x

    for i in range(4):
        f(ramp(2) + i)
        yield kept


@case(versions=1)
def activations_kept_by_hooks(jit):
    kept, model = ({}, nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    for i, layer in enumerate(model):
        layer.register_forward_hook(lambda m, given, out, i=i: kept.__setitem__(i, out.detach()))
    f = jit(lambda x: model(x))
    for i in range(4):
        f(ramp(2, 3) + i)
        yield kept


@case
def a_dictionary_with_a_method_of_its_own(jit):

    class D(dict):
        def __setitem__(self, k, v):
            self.n = getattr(self, "n", 0) + 1
            dict.__setitem__(self, k, v)
            super().__setitem__(k + "2", v)

    d = D()

    @jit
    def f(x):
        d["a"] = x
        d.__setitem__("b", x * 2)
        return x

    for i in range(4):
        f(ramp(2) + i)
        yield (d, d.n)


@case(versions=2)
def a_state_read_by_getattr(jit):
    box = types.SimpleNamespace(n=0, h=torch.zeros(2), s={"k": torch.ones(2)})

    number, hidden, state = "n", "h", "s"

    @jit
    def f(x):
        n = getattr(box, number)
        setattr(box, number, n + 1)
        h = getattr(box, hidden, None)
        setattr(box, hidden, h + x)
        s = getattr(box, state)
        box.s = {"k": s["k"] + h}
        return x * n

    for i in range(6):
        yield (f(ramp(2) + i), box)


class Held:
    def __init__(self, scale):
        self.scale = scale


@case(versions=6)
def objects_in_containers_that_are_copied(jit):
    for make in (lambda held: [held], lambda held: {"item": held}, lambda held: ([held], 1)):
        held = Held(1.0)
        container = make(held)

        def scale(copied):
            while not isinstance(copied, Held):
                copied = copied["item"] if isinstance(copied, dict) else copied[0]
            return copied.scale

        f = jit(lambda x, container=container, scale=scale: x * scale(copy.deepcopy(container)))
        for held.scale in (1.0, 1.0, 3.0):
            yield f(torch.ones(2))


@case
def how_objects_are_copied_replaced(jit):
    class Copied(Held):
        pass

    held = [Copied(1.0)]
    f = jit(lambda x: x * copy.deepcopy(held)[0].scale + copy.copy(held[0]).scale)
    yield f(torch.ones(2)), f(torch.ones(2))
    Copied.__deepcopy__ = lambda self, memo: Held(5.0)
    yield f(torch.ones(2))
    Copied.__copy__ = lambda self: Held(7.0)
    yield f(torch.ones(2))
    del Copied.__deepcopy__
    yield f(torch.ones(2))

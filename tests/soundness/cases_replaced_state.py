"""Programs as people write them: state that is replaced, gradients asked for when something has changed."""

from __future__ import annotations

import collections
import types

import eagerjit as torch
import eagerjit.nn as nn
import eagerjit.nn.functional as F
from tests.soundness.framework import FELL_BACK, attempt, case
from tests.soundness.tools import network


def ones(*sizes):
    return torch.ones(*sizes)


def ramp(*sizes):
    n = torch.Size(sizes).numel()
    return (torch.arange(float(n)) / n - 0.3).reshape(*sizes)


@case(versions=2)
def a_pair_of_states_is_replaced(jit):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.hidden = nn.LSTMCell(3, 4), None

        def forward(self, x):
            if self.hidden is None:
                self.hidden = torch.zeros(x.shape[0], 4), torch.zeros(x.shape[0], 4)
            self.hidden = self.cell(x, self.hidden)
            return self.hidden[0].sum()

    model = Model()
    f = jit(lambda x: model(x))
    for i in range(5):
        model.zero_grad()
        f(ramp(2, 3) + i).backward()
        model.hidden = tuple(h.detach() for h in model.hidden)
        yield model.cell.weight_ih.grad, model.hidden


@case(versions=2)
def a_named_tuple_of_states(jit):
    State = collections.namedtuple("State", "h c")
    box = types.SimpleNamespace(state=State(torch.zeros(2), torch.ones(2)))

    @jit
    def f(x):
        box.state = State(box.state.h + x, box.state.c * x)
        return box.state.h.sum() + box.state.c.sum()

    for i in range(5):
        f(ramp(2) + i)
        yield box.state
    box.state = State(torch.zeros(3), torch.ones(3))
    yield f(ramp(3)), box.state


@case
def states_that_change_places(jit):
    box = types.SimpleNamespace(pair=(torch.zeros(2), torch.ones(2)))

    @jit
    def f(x):
        a, b = box.pair
        box.pair = b, a + x
        return a * 2

    for i in range(4):
        yield f(ramp(2) + i), box.pair
    box.pair = box.pair[0], box.pair[0]
    yield f(ramp(2)), box.pair


@case(versions=2)
def averages_put_in_a_dictionary(jit):
    model = network()
    shadow = {name: p.detach().clone() for name, p in model.named_parameters()}

    @jit
    def f(decay):
        with torch.no_grad():
            for name, p in model.named_parameters():
                shadow[name] = decay * shadow[name] + (1 - decay) * p

    for i in range(5):
        f(0.9 + 0.01 * i)
        yield shadow


@case(versions=2)
def states_put_in_a_list(jit):
    states = [torch.zeros(2) for _ in range(3)]

    @jit
    def f(x):
        for i in range(3):
            states[i] = x = torch.tanh(states[i] + x)
        return x

    for i in range(5):
        yield f(ramp(2) + i), states


@case(versions=4)
def keys_and_values_joined_to_a_pair(jit):
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.project, self.cache = nn.Linear(4, 12), None

        def forward(self, x):
            q, k, v = self.project(x).chunk(3, -1)
            if self.cache is not None:
                k, v = torch.cat([self.cache[0], k], 1), torch.cat([self.cache[1], v], 1)
            self.cache = k, v
            return F.scaled_dot_product_attention(q, k, v)

    layer = Attention()
    f = jit(torch.no_grad()(lambda x: layer(x)))
    for i in range(7):
        yield f(ramp(2, 1, 4) + i), layer.cache


@case(versions=3)
def keys_of_every_layer_in_a_dictionary(jit):
    layers, cache = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)]), {}

    @jit
    def f(x):
        for i, layer in enumerate(layers):
            k = layer(x)
            cache[i] = torch.cat((cache[i], k), 0) if i in cache else k
            x = x + cache[i].mean(0)
        return x

    with torch.no_grad():
        for i in range(6):
            yield f(ramp(1, 4) + i), cache


@case
def the_last_state_of_a_list(jit):
    states = [torch.zeros(2), torch.zeros(2)]

    @jit
    def f(x):
        states[-1] = states[-1] + x
        states[0], states[1] = states[1], states[0]
        return states[0]

    for i in range(4):
        yield f(ramp(2) + i), states


@case
def states_taken_from_a_list(jit):
    queue = [torch.zeros(2), torch.ones(2)]

    @jit
    def f(x):
        old = queue.pop(0)
        queue.append(x)
        queue[0] = queue[0] * 2
        return old + x

    for i in range(4):
        yield f(ramp(2) + i), queue


# -- gradients asked for when something has changed --------------------------------------------------------------------


@case
def a_state_in_a_list_cut_off(jit):
    state, weight = [torch.zeros(2)], torch.ones(2, requires_grad=True)

    @jit
    def f(x):
        state[0] = torch.tanh(state[0] * weight + x)
        out = state[0].sum()
        state[0] = state[0].detach()
        return out

    for i in range(3):
        weight.grad = None
        f(ramp(2) + i).backward()
        yield weight.grad, state


@case
def a_state_made_by_the_first_call(jit):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.h = nn.Parameter(ones(3)), None

        def forward(self, x):
            if self.h is None:
                self.h = torch.zeros(3)
            self.h = torch.tanh(self.weight * x + self.h)
            return (self.h * 2).sum()

    model = Model()
    f = jit(lambda x: model(x))
    for i in range(4):
        model.zero_grad()
        f(ones(3) * i).backward()
        model.h = model.h.detach()
        yield model.weight.grad


@case
def a_gradient_after_evaluation_began(jit):
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    f = jit(lambda x: (model(x).sum(), model(x * 2)))
    loss, _ = f(ramp(2, 3))
    model.eval()
    loss.backward()
    yield model[0].weight.grad
    model.train()
    _, out = f(ramp(2, 3))
    out.sum().backward()
    yield model[0].weight.grad


@case
def a_gradient_after_settings_changed(jit):
    settings, weight = types.SimpleNamespace(scale=2.0, mode="exp"), torch.ones(2, requires_grad=True)

    @jit
    def f(x):
        y = weight * x * settings.scale
        if settings.mode == "exp":
            y = y.exp()
        return y.sum(), (y * y).sum()

    first, _ = f(ramp(2))
    settings.mode, settings.scale = "none", 5.0
    first.backward()
    yield weight.grad
    _, second = f(ramp(2))
    settings.mode = "exp"
    second.backward()
    yield weight.grad, settings


@case
def a_gradient_after_what_was_read_is_another(jit):
    world, functions = {"weight": torch.ones(2, requires_grad=True)}, [torch.tanh]
    model = nn.Linear(2, 2)

    @jit
    def f(x):
        y = model(functions[0](world["weight"] * x))
        return y.sum(), (y * y).sum()

    first, _ = f(ramp(2))
    before = world["weight"], model.weight
    world["weight"], functions[0] = torch.zeros(2, requires_grad=True), torch.exp
    model.weight = nn.Parameter(torch.zeros(2, 2))
    first.backward()
    yield [t.grad for t in before], world, model.weight.grad


@case(versions=1)
def a_target_network_that_follows(jit):
    online, target = network(), network()
    x = torch.ones(2, 3)

    @jit
    def follow():
        held, given = target.state_dict(), online.state_dict()
        for key in given:
            held[key] = given[key] * 0.1 + held[key] * 0.9
        return target.load_state_dict(held)

    for step in range(3):
        with torch.no_grad():
            next(online.parameters()).add_(step)
        yield follow()
        yield target(x), [p._version for p in target.parameters()]


@case
def a_state_of_another_shape_is_loaded(jit):
    target, given = network(), {name: value + 1 for name, value in network().state_dict().items()}
    name = next(iter(given))
    load = jit(lambda: target.load_state_dict(given, strict=False))
    yield attempt(load), list(target.parameters())
    given[name] = given[name][:1]
    yield str(attempt(load)), list(target.parameters())
    del given[name]
    yield attempt(load), list(target.parameters())


@case(outcome=FELL_BACK)
def a_state_that_replaces_parameters(jit):
    target = network()
    load = jit(lambda given: target.load_state_dict(given, assign=True))
    for scale in (1.0, 2.0):
        yield load({name: torch.full_like(value, scale) for name, value in target.state_dict().items()})
        yield list(target.parameters())


@case(outcome=FELL_BACK)
def a_state_whose_loading_a_hook_counts(jit):
    target, seen = network(), []
    target.register_load_state_dict_post_hook(lambda module, keys: seen.append(1))
    load = jit(lambda given: target.load_state_dict(given))
    for _ in range(3):
        load(target.state_dict())
        yield len(seen)


class Doubled(collections.namedtuple("Doubled", ["value", "count"])):
    """A named tuple that makes something of what it is made of."""

    __slots__ = ()

    def __new__(cls, value):
        return super().__new__(cls, value * 2, 2)


@case
def a_named_tuple_with_a_constructor_of_its_own(jit):
    f = jit(lambda x: Doubled(x + 1))
    g = jit(lambda pair: pair.value * pair.count)
    for n in (2, 3):
        yield f(ones(n)), type(f(ones(n))).__name__
        yield g(Doubled(ones(n)))


class Named(tuple):
    """A tuple that takes attributes."""


@case(outcome=FELL_BACK)
def a_tuple_with_an_attribute(jit):
    def f(x):
        made = Named((x + 1, x))
        made.name = "pair"
        return made

    f = jit(f)
    for n in (2, 3):
        yield f(ones(n)), f(ones(n)).name

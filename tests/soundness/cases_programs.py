"""Programs as people write them: state that is replaced, gradients asked for late, attributes in unusual places."""

from __future__ import annotations

import collections
import contextlib
import functools
import types
import weakref

import eagerjit as torch
import eagerjit.nn as nn
import eagerjit.nn.functional as F
from eagerjit import optim
from tests.soundness.framework import FELL_BACK, case
from tests.soundness.tools import error_of, network


def ones(*sizes):
    return torch.ones(*sizes)


def ramp(*sizes):
    n = torch.Size(sizes).numel()
    return (torch.arange(float(n)) / n - 0.3).reshape(*sizes)


# -- state that a function replaces ------------------------------------------------------------------------------------


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


# -- attributes in unusual places --------------------------------------------------------------------------------------


@case
def attributes_of_arguments(jit):
    f = jit(lambda x: x * x.tag)
    x, y = ramp(3), ramp(3)
    for x.tag in (5.0, 6.0):
        yield f(x).tolist()
    y.tag = 7.0
    yield f(y).tolist(), error_of(lambda: f(ramp(3)))


@case
def attributes_that_arguments_lack(jit):
    f = jit(lambda x: x * 2 if getattr(x, "doubled", False) else x)
    x = ramp(3)
    yield f(x).tolist()
    x.doubled = True
    yield f(x).tolist(), f(ramp(3)).tolist()


@case
def attributes_of_parameters(jit):
    weight = nn.Parameter(ramp(3))
    f = jit(lambda x: x * weight * getattr(weight, "scale", 1.0))
    yield f(ones(3))
    for weight.scale in (2.0, 3.0):
        yield f(ones(3))
    del weight.scale
    yield f(ones(3))


@case
def attributes_given_to_parameters(jit):
    weight = nn.Parameter(ramp(3))

    @jit
    def f(x):
        weight.calls = getattr(weight, "calls", 0) + 1
        weight.last = x.detach() * 2
        return x * weight * weight.calls

    for _ in range(3):
        yield f(ones(3)), weight.calls, weight.last


@case
def a_counter_of_a_decorator(jit):
    def counted(function):
        @functools.wraps(function)
        def call(*args):
            call.calls += 1
            return function(*args)

        call.calls = 0
        return call

    g = counted(lambda x: x * 2)
    f = jit(lambda x: g(x) + g(x))
    for _ in range(3):
        yield f(ones(2)), g.calls


@case
def settings_of_a_function(jit):
    def g(x):
        return x * g.scale if getattr(g, "on", True) else x

    f = jit(lambda x: g(x))
    for g.scale in (2.0, 3.0):
        yield f(ones(2))
    g.on = False
    yield f(ones(2))


@case
def lists_and_dictionaries_of_a_module(jit):
    class Model(nn.Module):
        table = [1.0, 2.0]  # noqa: RUF012

        def __init__(self):
            super().__init__()
            self.scales, self.names, self.deep = [1.0, 2.0], {"a": 1.0}, [[1.0], {"k": [2.0]}]
            self.on, self.functions = {1, 2}, [torch.relu, torch.tanh]

        def forward(self, x):
            for function in self.functions:
                x = function(x)
            x = x * self.scales[0] * self.names["a"] * (2.0 if 1 in self.on else 1.0)
            return x * self.deep[1]["k"][0] * self.table[0]

    model = Model()
    f = jit(model)
    yield f(ones(2))
    model.scales[0] = 3.0
    yield f(ones(2))
    model.names["a"] = 5.0
    yield f(ones(2))
    model.on.discard(1)
    yield f(ones(2))
    model.deep[1]["k"][0] = 7.0
    yield f(ones(2))
    model.functions.reverse()
    yield f(ones(2))
    Model.table[0] = 9.0
    yield f(ones(2))


@case
def a_module_counts_what_it_has_seen(jit):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = []

        def forward(self, x):
            self.seen.append(x.sum())
            return x * len(self.seen)

    model = Model()
    f = jit(model)
    for i in range(4):
        yield f(ones(2) * i), model.seen


@case
def the_forward_of_a_class_replaced(jit):
    class Layer(nn.Linear):
        pass

    class Model(nn.Module):
        def forward(self, x):
            return x * 2

    models = Model(), nn.Sequential(Layer(2, 2))
    f = [jit(lambda x, m=m: m(x)) for m in models]
    yield [g(ones(2)) for g in f]
    Model.forward = lambda self, x: x * 3
    Layer.forward = lambda self, x: F.linear(x, self.weight * 2)
    yield [g(ones(2)) for g in f]


@case
def functions_of_the_library_replaced(jit):
    f = jit(lambda x: F.softmax(torch.relu(x), -1))
    yield f(ramp(3))
    for owner, name in ((torch, "relu"), (F, "softmax")):
        before = getattr(owner, name)
        setattr(owner, name, lambda x, *_: x * 100)
        yield f(ramp(3))
        setattr(owner, name, before)
    yield f(ramp(3))


@case
def classes_of_the_library_replaced(jit):
    model = nn.Sequential(nn.Linear(3, 3))
    f, g = jit(lambda x: nn.GELU()(x)), jit(lambda x: model(x))
    before = nn.GELU, nn.Linear.forward
    yield f(ramp(3)), g(ramp(3))
    nn.GELU, nn.Linear.forward = nn.Tanh, lambda self, x: x * 2
    yield f(ramp(3)), g(ramp(3))
    nn.GELU, nn.Linear.forward = before
    yield f(ramp(3)), g(ramp(3))


@case
def attributes_assigned_by_a_method_of_ones_own(jit):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.log, self.scale = [], 1.0

        def __setattr__(self, name, value):
            if name == "scale" and "log" in self.__dict__:
                self.log.append(name)
            super().__setattr__(name, value)

        def forward(self, x):
            self.scale = self.scale * 2
            return x * self.scale

    model = Model()
    f = jit(model)
    for _ in range(3):
        yield f(ramp(2)), model.scale, model.log


@case
def methods_of_classes_replaced(jit):
    class Base:
        scale = 2.0

        @classmethod
        def times(cls, x):
            return x * cls.scale

    class Derived(Base):
        scale = 3.0

    f = jit(lambda x: Base.times(x) + Derived.times(x))
    yield f(ones(1))
    Base.scale = 5.0
    yield f(ones(1))
    Base.times = classmethod(lambda cls, x: x * 100 * cls.scale)
    yield f(ones(1))


@case
def an_empty_dictionary_of_an_object(jit):
    class Rows:
        def __init__(self):
            self.hits, self.known = 0, {}

        def __call__(self, x, n):
            if n in self.known:
                self.hits += 1
            else:
                self.known[n] = torch.arange(float(n))
            return x + self.known[n].sum()

    rows = Rows()
    f = jit(lambda x, n: rows(x, n))
    for n in (2, 3, 2, 2):
        yield f(ones(1), n), rows.hits, rows.known


@case(outcome=FELL_BACK)
def items_of_the_attributes_of_an_object(jit):
    class Box:
        def __init__(self):
            self.scale = 1.0

    box = Box()

    @jit
    def f(x):
        box.__dict__["scale"] = box.scale + 1
        return x * box.scale

    for _ in range(3):
        yield f(ones(1)), box.scale


# -- optimizers --------------------------------------------------------------------------------------------------------


class Signs(optim.Optimizer):
    """Steps along the sign of a running mean, and counts them."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if len(state) == 0:
                    state["mean"], state["steps"] = torch.zeros_like(p), 0
                state["steps"] += 1
                p.add_((state["mean"] * 0.9 + p.grad * 0.1).sign(), alpha=-group["lr"])
                state["mean"].mul_(0.99).add_(p.grad, alpha=0.01)


@case(versions=2)
def an_optimizer_with_a_state_of_its_own(jit):
    model = network()
    optimizer = Signs(model.parameters(), 0.01)

    @jit
    def step(x):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(4):
        step(ramp(4, 3))
        optimizer.param_groups[0]["lr"] *= 0.9
        yield [p.detach() for p in model.parameters()], list(optimizer.state.values())


class Momentum(optim.Optimizer):
    """Keeps a buffer that every step replaces."""

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state.setdefault(p, {})
                known = state.get("buffer")
                state["buffer"] = p.grad.clone() if known is None else known * 0.9 + p.grad
                p -= group["lr"] * state["buffer"]


@case
def an_optimizer_that_replaces_its_buffers(jit):
    weight = torch.ones(2, requires_grad=True)
    optimizer = Momentum([weight], {"lr": 0.1})

    @jit
    def step(x):
        optimizer.zero_grad()
        (weight * x).pow(2).sum().backward()
        optimizer.step()

    for _ in range(3):
        step(ramp(2))
        yield weight.detach(), optimizer.state[weight]
    optimizer.state.clear()
    step(ramp(2))
    yield weight.detach(), optimizer.state[weight]


# -- containers --------------------------------------------------------------------------------------------------------


@case
def the_least_recent_is_dropped(jit):
    cache = collections.OrderedDict()

    @jit
    def f(x, key):
        if key in cache:
            cache.move_to_end(key)
        else:
            cache[key] = x * 2
            if len(cache) > 2:
                cache.popitem(last=False)
        return cache[key]

    for key in "abcabbca":
        yield f(ones(1), key), list(cache)


@case
def the_order_of_an_ordered_dictionary(jit):
    table = collections.OrderedDict(a=1.0, b=2.0)
    f = jit(lambda x: x * next(iter(table.values())))
    yield f(ones(2))
    table.move_to_end("a")
    yield f(ones(2))


@case
def dictionaries_behind_other_objects(jit):
    base, over = {"k": 1.0}, {}
    chain, proxy, values = collections.ChainMap(over, base), types.MappingProxyType(base), base.values()
    f = jit(lambda x: x * chain["k"] + proxy["k"] + next(iter(values)))
    yield f(ones(2))
    over["k"] = 3.0
    yield f(ones(2))
    base["k"] = 5.0
    yield f(ones(2))


@case
def dictionaries_and_lists_of_users(jit):
    table, row = collections.UserDict(k=2.0), collections.UserList([1.0])
    f = jit(lambda x: x * table["k"] + row[0] + len(row))
    yield f(ones(2))
    table["k"] = 3.0
    yield f(ones(2))
    row.insert(0, 4.0)
    yield f(ones(2))


@case
def objects_held_weakly_in_a_dictionary(jit):
    first, second = nn.Linear(2, 1), nn.Linear(2, 1)
    table = weakref.WeakValueDictionary(model=first)
    f = jit(lambda x: table["model"](x))
    yield f(ones(2))
    table["model"] = second
    yield f(ones(2))


@case
def lists_in_a_tuple(jit):
    pair = [1.0], ([2.0], 3.0)
    f = jit(lambda x: x * pair[0][0] + pair[1][0][0])
    yield f(ones(2))
    pair[1][0][0] = 9.0
    yield f(ones(2))


# -- what is left to the plain call ------------------------------------------------------------------------------------


@case(outcome=FELL_BACK)
def a_callback_given_to_the_standard_library(jit):
    log = []

    @jit
    def f(x):
        with contextlib.ExitStack() as stack:
            stack.callback(log.append, "end")
            return x * 2

    for _ in range(2):
        yield f(ones(2)), log


@case(outcome=FELL_BACK)
def an_object_that_tells_of_its_end(jit):
    log = []

    class Resource:
        def __del__(self):
            log.append("end")

    @jit
    def f(x):
        resource = Resource()
        y = x * 2
        del resource
        return y

    for _ in range(2):
        yield f(ones(1)), list(log)


# -- numbers -----------------------------------------------------------------------------------------------------------


@case(versions=2)
def numbers_in_a_list_as_an_index(jit):
    @jit
    def f(x, i, j):
        x[[i, j]] = x[[j, i]]
        return x[[i, j]] * 2

    for i, j in ((0, 1), (1, 2), (2, 0), (1, 1)):
        yield f(ramp(3, 2), i, j)


# -- errors of kernels -------------------------------------------------------------------------------------------------


@case
def effects_before_an_index_out_of_range(jit):
    log, counts, buffer = [], types.SimpleNamespace(begun=0, ended=0), torch.zeros(3)

    @jit
    def f(x, rows, columns):
        counts.begun += 1
        log.append(counts.begun)
        buffer.add_(1.0)
        y = x[rows]
        log.append("rows")
        buffer.mul_(2.0)
        y = y[columns]
        counts.ended += 1
        buffer.mul_(3.0)
        return y

    for rows, columns in (([0, 1], [1]), ([0, 5], [1]), ([0, 1], [7]), ([2, 2], [0]), ([-9], [0])):
        rows, columns = torch.tensor(rows), torch.tensor(columns)
        yield error_of(lambda r=rows, c=columns: f(ramp(3), r, c)), log, counts, buffer


@case
def lines_printed_before_an_index_out_of_range(jit):
    @jit
    def f(x, index):
        print("begun", x.shape[0])
        y = x.gather(0, index)
        print("done")
        return y

    for index in ([0, 1], [7, 1], [2, 1]):
        yield error_of(lambda i=index: f(ramp(3), torch.tensor(i)))


@case
def an_index_out_of_range_caught(jit):
    calls = torch.zeros(())

    @jit
    def f(x, index):
        try:
            return x[index]
        except IndexError:
            return torch.zeros(1)

    @jit
    def g(x, index):
        calls.add_(1.0)
        with contextlib.suppress(IndexError):
            x = x[index]
        return x * calls

    for index in ([0], [9], [1]):
        yield f(ramp(3), torch.tensor(index)), g(ramp(3), torch.tensor(index)), calls


@case
def gradients_kept_before_an_index_out_of_range(jit):
    weight = torch.ones(3, requires_grad=True)

    @jit
    def f(x, index):
        (weight * x).sum().backward()
        return weight.detach()[index]

    for index in ([0], [7], [1]):
        yield error_of(lambda i=index: f(ramp(3), torch.tensor(i))), weight.grad


@case
def a_matrix_that_has_no_factor(jit):
    counts = types.SimpleNamespace(begun=0, ended=0)

    @jit
    def f(a):
        counts.begun += 1
        y = torch.linalg.cholesky(a)
        counts.ended += 1
        return y

    for scale in (1.0, -1.0, 2.0):
        yield error_of(lambda s=scale: f(torch.eye(2) * s)), counts


@case(versions=2)
def a_rate_of_dropout_that_grows(jit):
    f = jit(lambda x, p: F.dropout(x, p))
    for p in (0.1, 0.2, 0.5, 0.0, 0.3):
        yield f(ones(4), p)

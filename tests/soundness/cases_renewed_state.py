"""Lists, dictionaries and records that every call replaces by others, and reads before."""

from __future__ import annotations

import collections
import dataclasses
import types
import typing

import eagerjit as torch
from eagerjit import nn
from tests.soundness.framework import case


def ramp(*sizes):
    n = torch.Size(sizes).numel()
    return (torch.arange(float(n)) / n - 0.3).reshape(*sizes)


@case(versions=2)
def a_list_of_states_replaced(jit):

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(4, 4)
            self.states = [torch.zeros(2, 4), torch.ones(2, 4)]

        def forward(self, x):
            new = []
            for s in self.states:
                x = self.l(x) + s
                new.append(x)
            self.states = new
            return x

    m = M()
    f = jit(torch.no_grad()(lambda x: m(x)))
    for i in range(5):
        f(ramp(2, 4) + i)
        yield m.states


@case(versions=2)
def a_dictionary_of_states_replaced(jit):

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(4, 4)
            self.state = {"h": torch.zeros(2, 4), "c": torch.ones(2, 4)}

        def forward(self, x):
            h = self.l(x) + self.state["h"]
            c = self.state["c"] * h
            self.state = {"h": h.detach(), "c": c.detach()}
            return h + c

    m = M()
    f = jit(lambda x: m(x))
    for i in range(5):
        f(ramp(2, 4) + i)
        yield m.state


@case(versions=2)
def a_namespace_of_states_replaced(jit):
    box = types.SimpleNamespace(state=types.SimpleNamespace(h=torch.zeros(2), c=torch.ones(2)))

    @jit
    def f(x):
        s = box.state
        box.state = types.SimpleNamespace(h=s.h + x, c=s.c * x)
        return box.state.h

    for i in range(5):
        f(ramp(2) + i)
        yield box.state


@dataclasses.dataclass
class St:
    h: object
    n: int = 0


@case(versions=2)
def a_record_of_states_replaced(jit):

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(2, 2)
            self.state = St(torch.zeros(2))

        def forward(self, x):
            self.state = St(self.l(x) + self.state.h, self.state.n + 1)
            return self.state.h

    m = M()
    f = jit(torch.no_grad()(lambda x: m(x)))
    for i in range(5):
        f(ramp(2) + i)
        yield m.state


@case(versions=2)
def how_many_the_last_call_kept(jit):

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(4, 4)
            self.acts = []

        def forward(self, x):
            n = len(self.acts)
            self.acts = []
            for _ in range(3):
                x = self.l(x)
                self.acts.append(x)
            return x * n

    m = M()
    f = jit(lambda x: m(x))
    for i in range(5):
        f(ramp(2, 4) + i)
        yield m.acts


@case(versions=2)
def whether_the_last_call_kept_something(jit):

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(4, 4)
            self.cache = {}

        def forward(self, x):
            if self.cache:
                x = x + self.cache["h"]
            self.cache = {"h": self.l(x).detach()}
            return x

    m = M()
    f = jit(lambda x: m(x))
    for i in range(5):
        yield f(ramp(2, 4) + i)
        yield m.cache


@case(versions=3)
def keys_and_values_of_every_layer_in_a_list(jit):

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
            self.past = None

        def forward(self, x):
            new = []
            for i, layer in enumerate(self.l):
                k = layer(x)
                if self.past is not None:
                    k = k + self.past[i][0]
                new.append((k, x))
                x = k
            self.past = new
            return x

    m = M()
    f = jit(torch.no_grad()(lambda x: m(x)))
    for i in range(5):
        yield f(ramp(2, 4) + i)
        yield m.past


@case(versions=2)
def a_list_that_the_caller_renews(jit):

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(4, 4)
            self.aux = []

        def forward(self, x):
            y = self.l(x)
            self.aux.append(y.mean())
            return y

    m = M()
    f = jit(lambda x: m(x))
    for i in range(5):
        m.aux = []
        f(ramp(2, 4) + i)
        yield m.aux


@case(versions=2)
def a_log_that_the_caller_renews(jit):
    box = types.SimpleNamespace(log={})

    @jit
    def f(x):
        box.log["m"] = x.mean()
        return x * 2

    for i in range(5):
        box.log = {}
        f(ramp(2, 4) + i)
        yield box.log


@case(versions=2)
def settings_that_the_caller_renews(jit):
    box = types.SimpleNamespace(cfg={"scale": 2.0})

    @jit
    def f(x):
        return x * box.cfg["scale"]

    for i in range(5):
        box.cfg = {"scale": 2.0}
        yield f(ramp(2, 4) + i)


@case(versions=2)
def nested_settings_that_the_caller_renews(jit):
    box = types.SimpleNamespace(cfg=types.SimpleNamespace(scale=2.0, names=["a", "b"]))

    @jit
    def f(x):
        return x * box.cfg.scale * len(box.cfg.names)

    for i in range(5):
        box.cfg = types.SimpleNamespace(scale=2.0, names=["a", "b"])
        yield f(ramp(2, 4) + i)


@case(versions=2)
def a_dictionary_in_a_global_replaced(jit):
    global STATE
    STATE = {"h": torch.zeros(2)}

    @jit
    def f(x):
        global STATE
        STATE = {"h": STATE["h"] + x}
        return STATE["h"] * 2

    for i in range(5):
        yield (f(ramp(2) + i), STATE)


@case(versions=2)
def a_list_in_a_variable_replaced(jit):
    state = [torch.zeros(2), 0]

    @jit
    def f(x):
        nonlocal state
        state = [state[0] + x, state[1] + 1]
        return state[0] * state[1]

    for i in range(5):
        yield (f(ramp(2) + i), state)


@case(versions=2)
def a_list_in_a_class_replaced(jit):

    class M:
        state: typing.ClassVar = [torch.zeros(2)]

    @jit
    def f(x):
        M.state = [M.state[0] + x]
        return M.state[0] * 2

    for i in range(5):
        yield (f(ramp(2) + i), M.state)


@case(versions=2)
def a_named_tuple_with_a_count(jit):
    S = collections.namedtuple("S", "h n")
    box = types.SimpleNamespace(s=S(torch.zeros(2), 0))

    @jit
    def f(x):
        box.s = box.s._replace(h=box.s.h + x, n=box.s.n + 1)
        return box.s.h * box.s.n

    for i in range(5):
        yield (f(ramp(2) + i), box.s)


@case(versions=2)
def a_cache_in_a_dictionary_grows(jit):
    box = types.SimpleNamespace(c={"k": torch.zeros(1, 2)})

    @jit
    def f(x):
        box.c = {"k": torch.cat([box.c["k"], x])}
        return box.c["k"].sum(0)

    for i in range(5):
        yield (f(ramp(1, 2) + i), box)


@case(versions=3)
def a_list_of_states_back_through_time(jit):
    w = torch.ones(2, requires_grad=True)
    box = types.SimpleNamespace(s=[torch.zeros(2)])

    @jit
    def f(x):
        box.s = [torch.tanh(box.s[0] * w + x)]
        return box.s[0].sum()

    for _ in range(3):
        w.grad = None
        box.s = [torch.zeros(2)]
        loss = sum(f(ramp(2) + i) for i in range(4))
        loss.backward()
        yield (w.grad, box)


class Cache:
    def __init__(self, k=None):
        self.keys = k or []
        self.n = 0

    def push(self, x):
        self.keys.append(x)
        self.n += 1
        return self


@case(versions=2)
def an_object_of_states_replaced(jit):
    box = types.SimpleNamespace(c=Cache())

    @jit
    def f(x):
        box.c.push(x)
        r = sum(box.c.keys) * box.c.n
        box.c = Cache([r])
        return r

    for i in range(5):
        old = box.c
        yield (f(ramp(2) + i), box, old)


@dataclasses.dataclass
class Stats:
    total: object
    count: int = 0

    def add(self, x):
        self.total = self.total + x
        self.count += 1
        return self

    @property
    def mean(self):
        return self.total / max(self.count, 1)


@case(versions=2)
def a_record_changed_by_its_method_and_replaced(jit):
    box = types.SimpleNamespace(s=Stats(torch.zeros(2)))

    @jit
    def f(x):
        box.s.add(x)
        m = box.s.mean
        box.s = dataclasses.replace(box.s, count=box.s.count + 1)
        return m

    for i in range(5):
        old = box.s
        yield (f(ramp(2) + i), box, old)

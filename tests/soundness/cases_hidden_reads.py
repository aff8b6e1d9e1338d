"""Ways of reading and changing objects that no name in the code tells of."""

from __future__ import annotations

import copy
import dataclasses
import functools
import heapq
import operator
import types

import eagerjit as torch
from eagerjit import nn
from tests.soundness.framework import FELL_BACK, case


def ones(*shape):
    return torch.ones(*shape)


class Config:
    def __init__(self, scale):
        self.scale = scale


@dataclasses.dataclass
class Point:
    x: int
    y: int


@case
def attributes_of_objects_in_a_list(jit):
    configs = [Config(2.0), Config(3.0)]

    def f(x):
        for config in configs:
            x = x * config.scale
        return x + configs[0].scale

    f = jit(f)
    yield f(ones(1))
    configs[1].scale = 5.0
    yield f(ones(1))
    configs[0].scale = 7.0
    yield f(ones(1))


@case
def attributes_of_what_a_call_returns(jit):
    config = Config(2.0)

    def current():
        return config

    f = jit(lambda x: x * current().scale)
    for config.scale in (2.0, 3.0, 2.0):
        yield f(ones(1))


@case
def attributes_read_by_getattr(jit):
    config = Config(2.0)
    f = jit(lambda x, name: x * getattr(config, name) + (1 if hasattr(config, "extra") else 0))
    yield f(ones(1), "scale")
    config.scale = 3.0
    yield f(ones(1), "scale")
    config.extra = None
    yield f(ones(1), "scale")


@case
def modules_in_a_plain_list(jit):
    layers = [nn.Dropout(1.0), nn.Linear(2, 2)]
    torch.manual_seed(0)
    f = jit(lambda x: layers[1](layers[0](x)))
    yield f(ones(1, 2))
    layers[0].eval()
    yield f(ones(1, 2))
    layers[1].bias = None
    yield f(ones(1, 2))


@case
def a_method_replaced_on_its_class(jit):
    class Model:
        def scale(self):
            return 2.0

        def forward(self, x):
            return x * self.scale()

    model = Model()
    f = jit(model.forward)
    yield f(ones(1))
    Model.scale = lambda self: 3.0
    yield f(ones(1))
    model.scale = lambda: 5.0
    yield f(ones(1))


@case
def a_heap_that_a_library_changes(jit):
    heap = [5, 7]

    def f(x):
        heapq.heappush(heap, x.shape[0])
        return x * heap[0]

    f = jit(f)
    for n in (3, 1, 2):
        yield f(ones(n)), heap


@case
def a_list_changed_through_operator(jit):
    items = [0, 0]

    def f(x):
        operator.setitem(items, 0, x.shape[0])
        return x

    f = jit(f)
    for n in (3, 1, 2):
        yield f(ones(n)), items


@case(outcome=FELL_BACK)
def an_attribute_set_through_the_dictionary(jit):
    state = Config(1.0)

    def f(x):
        state.__dict__["scale"] = x.shape[0]
        vars(state).update(seen=True)
        return x

    f = jit(f)
    for n in (3, 1, 2):
        yield f(ones(n)), state


@case
def an_outside_list_is_returned(jit):
    found = [1.0]
    f = jit(lambda x: (x + 1, found))
    for _ in range(3):
        _, out = f(ones(1))
        out.append(2.0)
        yield out is found, found


@case(outcome=FELL_BACK)
def a_function_made_inside_is_returned(jit):
    f = jit(lambda x: (x + 1, lambda y: y * 2))
    for n in (1, 2):
        _, g = f(ones(n))
        yield g(ones(n))


@case
def a_function_made_of_text(jit):
    seen, scope = [], {}
    scope["seen"] = seen
    exec("def f(x):\n    seen.append(x.shape[0])\n    return x * len('ab')", scope)
    f = jit(scope["f"])
    for n in (1, 2, 3):
        yield f(ones(n)), seen


@case
def dataclasses_compared(jit):
    a, b = Point(1, 2), Point(1, 2)
    f = jit(lambda x: x * 2 if a == b else x)
    yield f(ones(1))
    b.y = 3
    yield f(ones(1))


@case
def a_size_returned_as_a_shape(jit):
    f = jit(lambda x: (x.shape, x.size(0), x.numel()))
    for n in (2, 3, 1):
        yield f(ones(n, 2))


@case
def an_object_copied_inside(jit):
    config = types.SimpleNamespace(scale=2.0, parts=[1, 2])

    def f(x):
        mine = copy.deepcopy(config)
        mine.scale += 1
        mine.parts.append(3)
        return x * mine.scale * len(mine.parts)

    f = jit(f)
    yield f(ones(1)), config
    config.scale = 5.0
    yield f(ones(1)), config
    config.parts.append(9)
    yield f(ones(1)), config


@case
def effects_in_a_key_function(jit):
    calls = []

    def key(n):
        calls.append(n)
        return -n

    f = jit(lambda x: x * sorted([1, 3, 2], key=key)[0])
    for _ in range(3):
        yield f(ones(1)), calls


@case
def effects_in_reduce_and_map(jit):
    log = []

    def add(a, b):
        log.append("add")
        return a + b

    f = jit(lambda x: functools.reduce(add, list(map(lambda k: x * k, (1.0, 2.0, 3.0)))))
    for n in (1, 2):
        yield f(ones(n)), log


@case(versions=2)
def a_module_switched_inside(jit):
    model = nn.Dropout(0.5)

    def f(x):
        model.eval()
        return model(x)

    f = jit(f)
    for _ in range(3):
        yield f(ones(2)), model.training
        model.train()


@case
def gradients_of_part_of_what_is_kept(jit):
    class Model:
        def __init__(self):
            self.weight, self.hidden = torch.ones(2, requires_grad=True), None

        def __call__(self, x):
            self.hidden = self.weight * x
            return (self.hidden * self.hidden).sum()

    model = Model()
    f = jit(model)
    for n in (1.0, 2.0):
        f(torch.full((2,), n)).backward(retain_graph=True)
        model.hidden.sum().backward()
        yield model.weight.grad


@case
def a_state_with_gradients_through_several_calls(jit):
    class Cell:
        def __init__(self):
            self.weight, self.state = torch.full((2,), 0.5, requires_grad=True), torch.zeros(2)

        def __call__(self, x):
            self.state = torch.tanh(self.state * self.weight + x)
            return self.state.sum()

    cell = Cell()
    f = jit(cell)
    total = sum(f(torch.full((2,), n / 4)) for n in range(4))
    total.backward()
    yield cell.weight.grad, total


@case(versions=7)
def methods_of_the_library_replaced(jit):
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    noise = torch.distributions.Normal(0.0, 1.0)

    @jit
    def f(x):
        return [p.sum() for p in model.parameters()], noise.log_prob(x)

    @jit
    def step(x):
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def both():
        for _ in range(2):
            yield f(ones(2)), step(ones(2)), list(model.parameters())

    for holder, name, method in (
        (nn.Module, "parameters", lambda self: iter([self.bias])),
        (nn.Linear, "parameters", lambda self: iter([self.weight])),
        (torch.distributions.Normal, "log_prob", lambda self, x: x * 3),
        (torch.optim.SGD, "step", lambda self: None),
        (torch.optim.Optimizer, "zero_grad", lambda self: None),
    ):
        yield from both()
        before = vars(holder).get(name)
        setattr(holder, name, method)
        try:
            yield from both()
        finally:
            delattr(holder, name) if before is None else setattr(holder, name, before)
    yield from both()


class Asked:
    """All attributes are read by code of the class."""

    def __init__(self):
        self.rows, self.table, self.pair = [1], {"n": [1]}, ([1], 2)

    def __getattribute__(self, name):
        return object.__getattribute__(self, name)


class AskedBelow(Asked):
    def __getattribute__(self, name):
        return super().__getattribute__(name)


@case
def containers_found_by_getattribute(jit):
    for kind in (Asked, AskedBelow):
        held = kind()

        @jit
        def f(x, held=held):
            return x * held.rows[0] + len(held.rows) + held.table["n"][0] + sum(held.pair[0])

        for change in (
            lambda held: None,
            lambda held: held.rows.__setitem__(0, 5),
            lambda held: held.rows.append(2),
            lambda held: held.table["n"].__setitem__(0, 7),
            lambda held: held.pair[0].append(3),
            lambda held: setattr(held, "rows", [9]),
        ):
            change(held)
            for i in range(2):
                yield f(torch.ones(2) * i)


@case
def attributes_of_functions_with_underscores(jit):
    @functools.wraps(ones)
    def scale(x):
        return x * 2

    f = jit(lambda x: scale.__wrapped__(2) + x)
    for inner in (ones, ones, torch.zeros, torch.zeros):
        scale.__wrapped__ = inner
        yield f(torch.ones(2))


@case(outcome=FELL_BACK)
def defaults_by_name_that_the_function_changes(jit):
    def scaled(x, *, by=2):
        return x * by

    part = functools.partial(scaled, by=3)

    @jit
    def of_function(x):
        y = scaled(x)
        scaled.__kwdefaults__["by"] += 2
        return y

    @jit
    def of_partial(x):
        part.keywords["by"] += 2
        return part(x)

    for i in range(4):
        yield of_function(torch.ones(2) * i), of_partial(torch.ones(2) * i), scaled.__kwdefaults__, part.keywords

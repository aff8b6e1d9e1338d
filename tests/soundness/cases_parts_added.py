"""Modules that get buffers, parameters and parts in their first calls."""

from __future__ import annotations

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, attempt, case


def ones(*shape):
    return torch.ones(*shape)


@case(versions=1)
def a_buffer_in_the_first_call(jit):
    model = torch.nn.Linear(2, 2)

    @jit
    def f(x):
        if not hasattr(model, "seen"):
            model.register_buffer("seen", torch.zeros(()))
        model.seen.add_(1)
        return model(x) * 0 + model.seen

    for i in range(4):
        yield f(ones(2) * i), model.seen, list(model.state_dict())


@case(versions=2)
def parts_until_there_are_enough(jit):
    class Grown(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = torch.nn.ModuleList()

        def forward(self, x):
            if len(self.parts) < 3:
                self.parts.append(torch.nn.Identity())
            for part in self.parts:
                x = part(x) + 1
            return x

    model = Grown()
    f = jit(model.forward)
    for i in range(6):
        yield f(ones(2) * i), len(model.parts)
    model.parts[0] = torch.nn.ReLU()
    yield f(-ones(2))


@case(outcome=FELL_BACK)
def parts_in_every_call(jit):
    parts = torch.nn.ModuleList()

    @jit
    def f(x):
        parts.append(torch.nn.Identity())
        return x * len(parts)

    for i in range(36):
        yield f(ones(2) * i), len(parts)


@case(versions=2)
def a_parameter_in_the_first_call(jit):
    class Lazy(torch.nn.Module):
        def forward(self, x):
            if not hasattr(self, "weight"):
                self.weight = torch.nn.Parameter(torch.ones(x.shape[-1]))
            return (x * self.weight).sum()

    model = Lazy()
    f = jit(model.forward)
    for n in (2, 3, 4):
        model.zero_grad()
        f(ones(n, 2)).backward()
        yield model.weight.grad, list(model.state_dict())
    model.weight = torch.nn.Parameter(torch.zeros(2))
    yield f(ones(1, 2))


@case(outcome=FELL_BACK)
def a_parameter_in_every_call(jit):
    model = torch.nn.Module()

    @jit
    def f(x):
        model.weight = torch.nn.Parameter(x * 2)
        return model.weight.sum()

    for i in range(3):
        yield f(ones(2) * i), model.weight


class Remembers(torch.nn.Module):
    """Registers its buffer again at each call, as caches do that grow."""

    def __init__(self, persistent=True):
        super().__init__()
        self.register_buffer("seen", torch.zeros(0, 3), persistent=persistent)
        self.persistent = persistent

    def forward(self, x):
        self.register_buffer("seen", torch.cat([self.seen, x]), persistent=self.persistent)
        return self.seen.sum(0) + x


@case(versions=6)
def a_buffer_registered_again(jit):
    for model in (Remembers(), Remembers(False)):
        f = jit(model)
        for n in (1, 2, 3, 4, 2):
            yield f(torch.ones(n, 3)), model.seen, list(model.state_dict()), [n for n, _ in model.named_buffers()]
        model.seen = torch.ones(5, 3)
        yield f(torch.ones(2, 3)), model.seen


@case
def a_buffer_registered_again_that_is_kept_otherwise(jit):
    model = Remembers()
    f = jit(model)
    for persistent in (True, True, False, True, True):
        model.register_buffer("seen", torch.ones(2, 3), persistent=persistent)
        yield f(torch.ones(2, 3)), model.seen, list(model.state_dict())


@case(outcome=FELL_BACK)
def a_buffer_registered_again_where_assignments_are_noted(jit):
    assigned = []

    class Notes(Remembers):
        def __setattr__(self, name, value):
            assigned.append(name)
            super().__setattr__(name, value)

    model = Notes()
    f = jit(model)
    for n in (1, 2, 2):
        yield f(torch.ones(n, 3)), model.seen, assigned


@case(versions=4)
def a_buffer_registered_as_none_and_by_keyword(jit):
    class Emptied(Remembers):
        def forward(self, x):
            self.register_buffer(name="seen", tensor=torch.cat([x, x]))
            total = self.seen.sum(0) + x
            self.register_buffer("seen", tensor=None)
            return total

    class Filled(Remembers):
        def forward(self, x):
            self.register_buffer("seen", None, persistent=True)
            before = self.seen
            self.register_buffer("seen", persistent=True, tensor=x * 2)
            return self.seen + x, before

    for model in (Emptied(), Filled()):
        f = jit(model)
        for n in (1, 2, 3, 2):
            yield f(torch.ones(n, 3)), model.seen, list(model.state_dict()), [n for n, _ in model.named_buffers()]


@case(outcome=FELL_BACK)
def a_buffer_registered_by_arguments_that_do_not_fit(jit):
    model = Remembers()

    @jit
    def f(x, args, kwargs):
        model.register_buffer(*args, **kwargs)
        return x + 1

    t = torch.ones(1, 3)
    for args, kwargs in ((("seen", t), {}), (("seen",), {}), (("seen", t, True), {"tensor": t}), ((), {"name": "seen"}),
                         (("seen",), {"name": "seen"}), (("seen", 3), {}), (("seen", t, True, 1), {})):  # fmt: skip
        attempt(f, torch.ones(2), args, kwargs)
        yield model.seen


@case
def names_that_no_buffer_may_have(jit):
    model = Remembers()

    @jit
    def f(x, name):
        model.register_buffer(name, x * 2)
        return x + 1

    for name in ("seen", "seen", "a.b", "persistent", ""):
        attempt(f, torch.ones(2), name)
        yield model.seen

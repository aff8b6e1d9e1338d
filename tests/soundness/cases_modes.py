"""Modes of the thread that a function leaves switched."""

from __future__ import annotations

import numpy as np

import eagerjit as torch
from eagerjit import nn
from eagerjit.nn.utils import parametrize
from tests.soundness.framework import FELL_BACK, attempt, case


@case(outcome=FELL_BACK)
def gradients_left_off(jit):

    @jit
    def f(x):
        torch.set_grad_enabled(False)
        return x * 2

    for _ in range(3):
        yield f(torch.ones(2, requires_grad=True))
        yield torch.is_grad_enabled()
        torch.set_grad_enabled(True)


@case(outcome=FELL_BACK)
def a_context_entered_here_and_left_there(jit):
    context = torch.no_grad()

    @jit
    def enter(x):
        context.__enter__()
        return x * 2

    @jit
    def leave(x):
        context.__exit__(None, None, None)
        return x * 3

    for _ in range(3):
        x = torch.ones(2, requires_grad=True)
        yield enter(x), torch.is_grad_enabled()
        yield leave(x), torch.is_grad_enabled()


@case
def gradients_off_before_an_error(jit):

    @jit
    def f(x):
        torch.set_grad_enabled(False)
        if x.sum() > 2:
            raise ValueError("too much")
        torch.set_grad_enabled(True)
        return x * 2

    for n in (1, 3, 1, 3):
        yield attempt(f, torch.ones(n))
        yield torch.is_grad_enabled()
        torch.set_grad_enabled(True)


@case(outcome=FELL_BACK)
def anomaly_detection_left_on(jit):

    @jit
    def f(x):
        torch.autograd.set_detect_anomaly(True)
        return x * 2

    for _ in range(3):
        yield f(torch.ones(2))
        yield torch.is_anomaly_enabled()
        torch.autograd.set_detect_anomaly(False)


@case(outcome=FELL_BACK)
def autocast_left_on(jit):
    context = torch.autocast("cpu", dtype=torch.bfloat16)

    @jit
    def f(x):
        context.__enter__()
        return x @ x

    for _ in range(3):
        yield f(torch.ones(2, 2))
        yield torch.is_autocast_enabled("cpu")
        context.__exit__(None, None, None)


@case(outcome=FELL_BACK)
def errors_of_numpy_left_ignored(jit):

    @jit
    def f(x):
        np.seterr(all="ignore")
        return x * 2

    before = np.geterr()
    for _ in range(3):
        yield f(torch.ones(2))
        yield np.geterr()
        np.seterr(**before)


@case(outcome=FELL_BACK)
def the_precision_of_products_changed(jit):

    @jit
    def f(x):
        torch.set_float32_matmul_precision("high")
        return x * 2

    for _ in range(3):
        yield f(torch.ones(2))
        yield torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")


class Doubled(nn.Module):
    def forward(self, weight):
        return weight.tanh() * 2


@case(versions=2)
def parametrizations_computed_once(jit):
    model = nn.Linear(3, 3)
    parametrize.register_parametrization(model, "weight", Doubled())

    @jit
    def inside(x):
        with parametrize.cached():
            loss = (model(x) ** 3).sum() + 0.1 * model.weight.square().sum()
            return loss, model.weight is model.weight

    outside = jit(lambda x: ((model(x) ** 3).sum() + 0.1 * model.weight.square().sum(), model.weight is model.weight))
    for i in range(3):
        for f in (inside, outside):
            loss, same = f(torch.ones(2, 3) * i)
            loss.backward()
            yield same, model.parametrizations.weight.original.grad


@case(outcome=FELL_BACK)
def parametrizations_left_cached(jit):
    model = nn.Linear(3, 3)
    parametrize.register_parametrization(model, "weight", Doubled())
    context = parametrize.cached()

    @jit
    def f(x):
        context.__enter__()
        return model(x)

    yield f(torch.ones(2, 3)), model.weight is model.weight
    context.__exit__(None, None, None)
    yield f.__name__, model.weight is model.weight


@case(versions=10)
def contexts_made_otherwise(jit):
    cast, off = torch.autocast("cpu", dtype=torch.bfloat16, enabled=False), torch.no_grad()
    inference = torch.inference_mode()

    @cast
    def product(x):
        return x @ x

    @inference
    def doubled(x):
        return x * 2

    @jit
    def f(x):
        with cast:
            y = x @ x
        with off:
            return y, x * 3

    @jit
    def g(x):
        return product(x), doubled(x)

    for change in (
        lambda: None,
        lambda: setattr(cast, "_enabled", True),
        lambda: setattr(cast, "fast_dtype", torch.float16),
        lambda: setattr(off, "enabled", True),
        lambda: setattr(inference, "enabled", False),
    ):
        change()
        for _ in range(2):
            x = torch.ones(2, 2, requires_grad=True)
            yield f(x), g(x), g(x)[1].is_inference()


@case
def generators_inside_of_modes(jit):
    w = torch.ones(3, requires_grad=True)

    @torch.no_grad()
    def multiples(x):
        for i in range(3):
            if (yield x * w * i):
                yield x * w

    @jit
    def f(x):
        found = [*multiples(x)]
        one = multiples(x)
        next(one)
        found += [x * w, one.send(True), w * w]
        one.close()
        return found, torch.is_grad_enabled()

    for n in (1.0, 2.0, 3.0):
        found, enabled = f(torch.arange(3.0) * n)
        yield found, [y.requires_grad for y in found], enabled

"""Functions that keep their results, and context variables."""

from __future__ import annotations

import contextvars
import functools
import random

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, attempt, case


def ones(*shape):
    return torch.ones(*shape)


@case
def a_kept_number(jit):
    calls = []

    @functools.lru_cache
    def scale(name):
        calls.append(name)
        return len(name) * 2.0

    f = jit(lambda x, name: x * scale(name))
    for name in ("a", "bb", "a", "ccc"):
        yield f(ones(2), name), list(calls)
    scale.cache_clear()
    yield f(ones(2), "a"), list(calls)
    yield f(ones(2), "a"), list(calls)


@case
def a_kept_tensor(jit):
    made = []

    @functools.cache
    def table(size):
        made.append(size)
        return torch.arange(size) * 1.0

    f = jit(lambda x: (x * table(3)).sum() + table(3)[1])
    yield f(ones(3)), list(made)
    table(3).add_(1)
    yield f(ones(3)), list(made)
    table.cache_clear()
    yield f(ones(3)), list(made)
    yield f(ones(3)), table(3), list(made)


@case
def a_kept_tensor_with_a_gradient(jit):
    weight = ones(3).requires_grad_()

    @functools.lru_cache
    def doubled(factor):
        return weight * factor

    f = jit(lambda x: (x * doubled(2.0)).sum())
    for _ in range(3):
        f(ones(3)).backward(retain_graph=True)
        yield weight.grad


@case
def a_few_results_are_kept(jit):
    calls = []

    @functools.lru_cache(maxsize=1)
    def scale(factor):
        calls.append(factor)
        return factor + 0.5

    f = jit(lambda x: x * scale("ab" * 2 == "abab") + scale(3))
    for _ in range(3):
        yield f(ones(2)), list(calls)


@case
def a_list_is_kept(jit):
    @functools.lru_cache
    def values(name):
        return [1.0, 2.0]

    f = jit(lambda x: x * values("a")[0])
    yield f(ones(2))
    values("a")[0] = 5.0
    yield f(ones(2))


@case
def a_size_is_the_argument(jit):
    @functools.lru_cache
    def half(size):
        return size / 2

    f = jit(lambda x: x * half(x.shape[0]))
    for size in (2, 3, 4):
        yield f(ones(size))


@case
def a_mask_for_a_size_is_kept_after_something_has_changed(jit):
    made, settings = [], {"rate": 0.0}

    @functools.lru_cache(maxsize=4)
    def window_mask(size, width):
        made.append(size)
        places = torch.arange(size)
        return (places[:, None] - places).abs() < width

    def step(x, rate):
        settings["rate"] = rate
        return x.masked_fill(window_mask(x.shape[0], 2), settings["rate"])

    step = jit(step)
    for size in (3, 4, 3, 4, 3, 5, 5, 4, 3):
        yield step(ones(size, size), size / 2), dict(settings), list(made), window_mask.cache_info()
    window_mask(4, 2).fill_(False)
    yield step(ones(4, 4), 1.0)


@case(outcome=FELL_BACK)
def a_mask_for_a_size_is_forgotten_and_made_again_after_something_has_changed(jit):
    made, settings = [], {"rate": 0.0}

    @functools.lru_cache(maxsize=2)
    def window_mask(size):
        made.append(size)
        return torch.arange(size) < 2

    def step(x, rate):
        settings["rate"] = rate
        return x.masked_fill(window_mask(x.shape[0]), settings["rate"])

    step = jit(step)
    for size in (3, 4, 3, 4, 5, 3, 4, 5, 3):
        yield step(ones(size), size / 2), list(made), window_mask.cache_info()
    window_mask.cache_clear()
    for size in (4, 4, 3):
        yield step(ones(size), 2.0), list(made), window_mask.cache_info()


@case
def a_context_variable_is_read(jit):
    scale = contextvars.ContextVar("scale", default=2.0)
    f = jit(lambda x: x * scale.get())
    yield f(ones(2))
    scale.set(3.0)
    yield f(ones(2))
    context = contextvars.copy_context()
    yield context.run(lambda: (scale.set(7.0), f(ones(2)))[1])
    yield f(ones(2))


@case
def a_context_variable_is_set_for_a_while(jit):
    seen = contextvars.ContextVar("seen", default=None)

    def inner(x):
        found = seen.get()
        return x if found is None else x * found["scale"]

    def f(x):
        token = seen.set({"scale": 3.0})
        try:
            return inner(x) + 1
        finally:
            seen.reset(token)

    f = jit(f)
    for _ in range(3):
        yield f(ones(2)), seen.get()
    seen.set({"scale": 5.0})
    yield inner(ones(2))


@case(outcome=FELL_BACK)
def a_context_variable_stays_set(jit):
    last = contextvars.ContextVar("last", default=0)

    def f(x):
        last.set(last.get() + 1)
        return x * last.get()

    f = jit(f)
    for _ in range(3):
        yield f(ones(2)), last.get()


@case(outcome=FELL_BACK)
def a_context_variable_set_outside_is_set_back(jit):
    scale = contextvars.ContextVar("scale", default=1.0)

    def f(x, token):
        y = x * scale.get()
        scale.reset(token)
        return y

    f = jit(f)
    for value in (2.0, 3.0):
        yield f(ones(2), scale.set(value)), scale.get()


@case
def a_generator_is_left_before_its_end(jit):
    def parts(x):
        yield x.sum()
        yield x * 2

    f = jit(lambda x: next(parts(x)) + any(v is not None for v in (1, x)))
    for size in (2, 3, 4):
        yield f(ones(size))


@case
def a_kept_number_beside_a_decision(jit):
    @functools.lru_cache
    def scale(name):
        return 2.0

    def f(x):
        return x * scale("a") if x.sum() > 0 else x - scale("b")

    f = jit(f)
    for value in (1.0, -1.0, 2.0):
        yield f(ones(2) * value)


@case
def a_mask_for_every_layer(jit):
    made = []

    @functools.lru_cache
    def mask(size, kind="causal"):
        made.append((size, kind))
        return torch.ones(size, size).tril()

    def f(x):
        for _ in range(3):
            x = torch.softmax(mask(x.shape[0]) * x, 1)
        return x + mask(x.shape[0], kind="other")

    f = jit(f)
    for size in (2, 3, 4, 3, 1, 5):
        yield f(torch.arange(float(size * size)).reshape(size, size)), made, mask.cache_info()


@case
def a_kept_size_gives_a_tensor_with_a_gradient(jit):
    @functools.lru_cache
    def weight(size):
        return torch.full((size,), 2.0, requires_grad=True)

    f = jit(lambda x: (weight(x.shape[0]) * x * weight(x.shape[0])).sum())
    for size in (2, 3, 2):
        f(ones(size)).backward()
        yield weight(size).grad


@case(outcome=FELL_BACK)
def a_kept_list_of_a_size(jit):
    @functools.lru_cache
    def values(size):
        return [float(size)]

    def f(x):
        first = values(x.shape[0])
        first.append(1.0)
        return x * len(values(x.shape[0])) + first[0]

    f = jit(f)
    for size in (2, 3, 2):
        yield f(ones(size)), values(size)


@case
def a_number_drawn_after_a_call_with_a_number_of_the_call_and_before_an_error(jit):
    made = []

    @functools.lru_cache
    def table(n):
        made.append(n)
        return ones(2) * n

    @jit
    def f(x, n, fails):
        drawn = table(n) * random.choice([1, 2, 3])
        made.append(drawn)
        if fails:
            raise KeyError(n)
        return x * drawn

    for n, fails in ((1, True), (1, True), (2, True), (1, False), (2, False), (3, False), (3, True)):
        yield attempt(f, ones(2), n, fails), made, table.cache_info(), random.random()

"""NumPy is given Python numbers of the call: by operators, functions and lists."""

from __future__ import annotations

import collections
import math
import time
import types

import numpy as np

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, case


def numbers(value, rate):
    return [value * 0.1**k + rate for k in range(11)]


def compare(jit, function):
    @jit
    def f(x, rate):
        return function(x.sum().item(), rate, x.shape[0])

    for i in range(3):
        yield f(torch.arange(9.0) * (i + 0.1), 0.1 + i)


@case
def numpy_reduces_lists_of_numbers(jit):
    for reduce in (np.mean, np.sum, np.std, np.median, np.max):
        yield from compare(jit, lambda value, rate, n, reduce=reduce: reduce(numbers(value, rate)))
    yield from compare(jit, lambda value, rate, n: np.mean(collections.deque(numbers(value, rate))))
    yield from compare(jit, lambda value, rate, n: (np.percentile(numbers(value, rate), 50), np.mean([n, n + 1])))


@case
def arrays_of_numbers(jit):
    yield from compare(jit, lambda value, rate, n: np.array([value, rate]))
    yield from compare(jit, lambda value, rate, n: np.array([value, n]).mean())
    yield from compare(jit, lambda value, rate, n: (np.asarray(value), np.array([n, n])))
    yield from compare(jit, lambda value, rate, n: (np.append([1.0], value), np.stack([rate, n]), np.full(3, value)))
    yield from compare(jit, lambda value, rate, n: (np.where(value > 1, rate, np.float32(2)) * np.ones(1, "float32")))
    yield from compare(jit, lambda value, rate, n: np.array([rate]).tobytes())


@case
def numpy_calculates_with_numbers(jit):
    yield from compare(jit, lambda value, rate, n: (np.ones(3) * rate, value * np.ones(3), np.add(np.ones(2), [n, 1])))
    yield from compare(jit, lambda value, rate, n: (np.ones(3, "float32") * value, n * np.ones(2, "float32")))
    yield from compare(jit, lambda value, rate, n: (np.float64(2) * value, value - np.float64(2), np.float64(rate) * n))
    yield from compare(jit, lambda value, rate, n: (np.int64(3) * value, n / np.float64(3), np.float64(2) // rate))
    yield from compare(jit, lambda value, rate, n: (np.sqrt(rate), np.exp(-rate), np.minimum(value, rate), np.log(n)))
    yield from compare(jit, lambda value, rate, n: (np.clip(value, 0, 1), np.abs(value), np.isfinite(value)))
    yield from compare(jit, lambda value, rate, n: (value == np.float64(value), n == np.float64(9), rate < np.int64(2)))
    yield from compare(jit, lambda value, rate, n: (n != np.float64(9), n >= np.float64(9), np.float64(9) == n))


@case(versions=20)
def schedules_by_numpy(jit):
    schedules = (
        lambda n, rate: 2.0 / (1.0 + np.exp(-10 * (n / 10))) - 1,
        lambda n, rate: 1.0 / (np.exp(n) + 1.0) + n / np.float64(rate - 0.3),
        lambda n, rate: (-np.exp(n), abs(np.sin(n)), -(np.float64(rate) * 0.0)),
        lambda n, rate: (np.clip(rate, 0.25, 1), np.power(0.9, n), np.power(rate, n), np.minimum(1, rate)),
        lambda n, rate: (np.floor(rate * 3), np.ceil(n / 3), np.sign(rate - 0.5), np.rint(rate * 4), np.tan(n)),
        lambda n, rate: (np.float32(rate), np.float32(n / 3), np.float64(n), np.float64(rate), np.hypot(n, rate)),
    )
    for schedule in schedules:
        f = jit(lambda x, n, rate, schedule=schedule: (schedule(n, rate), x * n))
        for n, rate in ((3, 0.25), (5, 0.75), (0, 0.5), (-2, 1.25), (7, -0.0), (8, 0.125), (9, 2.0**20)):
            yield f(torch.ones(2), n, rate)


@case(versions=3)
def numbers_of_numpy_made_inside(jit):
    f = jit(lambda x: (np.float32(0.5), [np.int64(3), np.int32(x.shape[0])], {"half": np.float16(0.1)}, x * np.int8(2)))
    for n in (2, 3, 4):
        yield f(torch.ones(n))


@case(outcome=FELL_BACK)
def numpy_warns_of_schedules(jit):
    f = jit(lambda x, n: x / (np.exp(n) - 1.0))
    for n in (1, 0, 2, 2000):
        yield f(torch.ones(2), n)


@case(outcome=FELL_BACK)
def numpy_is_given_what_clocks_say(jit):
    @jit
    def f(x):
        start = time.perf_counter()
        y = x + 1
        return y, bool(np.mean([time.perf_counter() - start, 0.0]) >= 0)

    for _ in range(3):
        yield f(torch.ones(2))


@case(versions=4)
def means_by_numpy_are_reported(jit):
    losses, best = [], [0.0]

    @jit
    def f(x):
        loss = (x * 0.37).sum().item()
        losses.append(loss)
        mean, spread = np.mean(losses[-9:] if len(losses) > 9 else [loss, 1.0, 2]), np.std([loss, 0.1, 0.2])
        print(f"{mean:.3f} {spread}", mean, np.sqrt(loss))
        if np.isnan(loss) or not np.isfinite(mean):
            raise ValueError("no number")
        best.append(mean)
        return x * mean, np.maximum(loss, 0.5)

    for i in range(14):
        yield f(torch.arange(1.0, 5.0) + i), best


@case(outcome=FELL_BACK)
def numpy_warns_of_numbers(jit):
    @jit
    def f(x):
        return np.sqrt(x.sum().item()) * 2

    for i in (4.0, 9.0, -1.0, 4.0):
        yield f(torch.ones(1) * i)


@case(versions=1)
def boxes_cut_by_numpy(jit):
    @jit
    def f(x, share, at):
        size = x.shape[1]
        cut = int(size * np.sqrt(1.0 - share))
        first, last = np.clip(at - cut // 2, 0, size), int(np.clip(at + cut // 2, 0, size))
        y = x.clone()
        y[:, first:last] = x.flip(0)[:, first:last]
        return y, 1 - (last - first) / size, first, np.minimum(at, 5), np.maximum(size, at)

    for share, at, size in ((0.5, 3, 20), (0.9, 11, 30), (0.2, 19, 25), (0.75, 0, 40)):
        yield f(torch.arange(2.0 * size).reshape(2, size), np.float64(share), at)


@case(versions=8)
def floats_of_numpy_that_change_where_they_are_kept(jit):
    kept, table, rates = types.SimpleNamespace(value=0.2), {"rate": np.float64(0.5)}, np.linspace(0.9, 1.0, 10)
    average, rate = torch.zeros(2), rates[0]

    @jit
    def penalized(x):
        return x * -kept.value, kept.value * 2, x * table["rate"], f"{kept.value:.3f}"

    @jit
    def averaged(x):
        average.mul_(rate).add_((1 - rate) * x)
        return math.sqrt(rate), rate > 0.95, type(rate) is np.float64

    for turn in range(10):
        rate = rates[turn]
        yield penalized(torch.ones(2)), averaged(torch.ones(2)), average
        kept.value *= 1 + np.clip(turn / 6 - 1, -0.2, 0.2)
        table["rate"] = table["rate"] * 1.5
    for value in (0.25, np.float32(0.25), np.float64(0.25)):
        kept.value = value
        yield penalized(torch.ones(2))


@case(versions=6)
def floats_of_numpy_that_calls_change(jit):
    model = torch.nn.Linear(2, 2)
    torch.nn.init.ones_(model.weight), torch.nn.init.ones_(model.bias)
    model.scale, history = np.float64(1.0), []

    @jit
    def step(x):
        model.scale = model.scale * 0.8
        history.append(model.scale)
        out = model(x) * model.scale
        return out if model.scale > 0.4 else out / model.scale

    for _ in range(8):
        x = torch.ones(3, 2, requires_grad=True)
        out = step(x)
        model.scale = model.scale + np.float64(0.01)
        out.sum().backward()
        yield out, x.grad, model.scale, history

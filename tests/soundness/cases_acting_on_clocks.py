"""What code does when so much time has passed. Clocks are set by the cases, so that both runs see the same times."""

from __future__ import annotations

import random
import time
import types

import eagerjit as torch
from tests.soundness.framework import case


def ones(*sizes):
    return torch.ones(*sizes)


@case(versions=3)
def a_report_after_some_time(jit):
    state = types.SimpleNamespace(last=time.time(), reports=0, steps=0)
    weight = torch.zeros(2)

    def step(x, wait):
        weight.add_(x)
        loss = (weight * weight).sum()
        state.steps += 1
        if time.time() - state.last > wait:
            state.last = time.time()
            state.reports += 1
            print(f"step {state.steps}: {loss.item():.1f}")
        return loss

    f = jit(step)
    for wait in (1e9, 1e9, -1.0, 1e9, -1.0):
        f(ones(2), wait)
        yield state.reports, state.steps, weight


@case(versions=4)
def a_time_limit_and_draws(jit):
    begin = time.perf_counter()

    def step(x, limit):
        y = x * random.random()
        if time.perf_counter() - begin > limit:
            return None
        return y + random.random()

    f = jit(step)
    for limit in (1e9, 1e9, -1.0, 1e9, -1.0):
        f(ones(2), limit)
        yield random.random()


@case(versions=4)
def a_clock_that_decides_and_draws_that_cannot_be_compiled(jit):
    def step(x, limit):
        if time.monotonic() > limit:
            x = x * random.random()
        return x + random.random()

    f = jit(step)
    for limit in (1e12, -1.0, 1e12, -1.0, 1e12):
        f(ones(2), limit)
        yield random.random()


@case(outcome="fell back")
def work_that_takes_too_long(jit):
    state = types.SimpleNamespace(slow=0)

    def step(x):
        begin = time.perf_counter()
        y = torch.linalg.svd(x @ x.T + torch.eye(x.shape[0]))[1]
        if time.perf_counter() - begin > 1e9:
            state.slow += 1
        return y

    f = jit(step)
    for _ in range(3):
        f(ones(3, 3))
        yield state.slow

"""Several threads call one function."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, case


@case
def threads_with_changing_sizes(jit):
    function = jit(lambda x, k: (x * k).exp().sum() + x.shape[0])
    f = function.function  # calls in other threads come in any order

    def work(start):
        return [f(torch.ones(n), 0.5).item() for n in range(start, start + 10)]

    with ThreadPoolExecutor(4) as pool:
        yield list(pool.map(work, range(2, 10)))


@case
def threads_with_a_grad_mode_each(jit):
    w = torch.ones(2, requires_grad=True)
    f = jit(lambda x: x * w).function

    def work(enabled):
        with torch.set_grad_enabled(enabled):
            return [f(torch.ones(2)).requires_grad for _ in range(20)]

    with ThreadPoolExecutor(4) as pool:
        yield list(pool.map(work, [True, False] * 4))


@case
def threads_that_differentiate(jit):
    f = jit(lambda x: (x.sin() * x).sum()).function

    def work(n):
        x = torch.full((4,), float(n), requires_grad=True)
        for _ in range(5):
            f(x).backward()
        return x.grad.tolist()

    with ThreadPoolExecutor(4) as pool:
        yield list(pool.map(work, range(8)))


@case(outcome=FELL_BACK)
def a_thread_started_inside(jit):
    def f(x):
        found = []
        thread = threading.Thread(target=lambda: found.append(3.0))
        thread.start()
        thread.join()
        return x * found[0]

    f = jit(f)
    for _ in range(3):
        yield f(torch.ones(2))


@case
def what_first_calls_set_up_under_locks(jit):
    first, second, state = threading.Lock(), threading.Lock(), {}

    def f(x):
        if "scale" not in state:
            with first:
                state["scale"] = 2.0
        elif "offset" not in state:
            with second:
                state["offset"] = 1.0
        return x * state["scale"] + state.get("offset", 0.0)

    f = jit(f)
    for n in range(5):
        yield f(torch.full((2,), float(n))), dict(state)


@case(outcome=FELL_BACK)
def threads_that_count_under_a_lock(jit):
    lock, state = threading.Lock(), {"calls": 0}

    def count(x):
        with lock:
            state["calls"] += 1
        return x * 2

    f = jit(count).function

    def work(n):
        return [f(torch.ones(n + 1)).sum().item() for _ in range(5)]

    with ThreadPoolExecutor(4) as pool:
        yield list(pool.map(work, range(4))), state

"""What a function does outside of the program: random states, clocks, files, iterators."""

from __future__ import annotations

import itertools
import os
import random
import tempfile
import time
import types
from pathlib import Path

import numpy as np

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, case


def ones(*shape):
    return torch.ones(*shape)


@case
def random_numbers_of_python(jit):
    def f(x):
        return x * random.random() + random.randint(0, 5)

    f = jit(f)
    for _ in range(4):
        yield f(ones(2))
    random.seed(7)
    yield f(ones(2))


@case
def random_choices_of_python(jit):
    def f(x):
        if random.random() < 0.5:
            return x * 2
        return x + 10

    f = jit(f)
    for _ in range(8):
        yield f(ones(2))


@case
def random_numbers_of_numpy(jit):
    def f(x):
        return x + float(np.random.rand()) + torch.tensor(np.random.randn(2).astype(np.float32))

    f = jit(f)
    for _ in range(4):
        yield f(ones(2))


@case
def a_generator_of_random_numbers(jit):
    generator = np.random.default_rng(0)
    ours = random.Random(3)

    def f(x):
        return x + float(generator.random()) * ours.uniform(1, 2)

    f = jit(f)
    for _ in range(4):
        yield f(ones(2))


@case(versions=1)
def random_numbers_of_the_library(jit):
    f = jit(lambda x: (x + torch.rand(3), torch.randn(2, 2)))
    for _ in range(3):
        f(ones(3))
    torch.manual_seed(3)
    yield f(ones(3))


@case
def a_random_number_decides_a_branch(jit):
    def f(x):
        return x * 2 if torch.rand(1).item() < 0.5 else x + 10

    f = jit(f)
    for _ in range(8):
        yield f(ones(2))


@case(versions=1)
def time_that_passes(jit):
    times = []

    def f(x):
        times.append(time.perf_counter())
        return x + 1

    f = jit(f)
    for _ in range(4):
        f(ones(2))
    pairs = list(itertools.pairwise(times))
    times.clear()
    yield all(a < b for a, b in pairs), len(pairs)


@case(outcome=FELL_BACK)
def a_timer_around_the_work(jit):
    spent = types.SimpleNamespace(seconds=0.0, grew=True)

    def f(x):
        start = time.perf_counter()
        y = x * 2
        before = spent.seconds
        spent.seconds += time.perf_counter() - start
        spent.grew = spent.grew and spent.seconds > before
        return y

    f = jit(f)
    for _ in range(3):
        f(ones(2))
    yield spent.grew


@case(outcome=FELL_BACK)
def a_file_read_in_every_call(jit):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scale"

        def f(x):
            with open(path) as file:
                return x * float(file.read())

        f = jit(f)
        for value in (1.0, 2.0, 3.0):
            path.write_text(str(value))
            yield f(ones(2))


@case
def a_file_read_by_its_path(jit):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scale"
        f = jit(lambda x: x * float(path.read_text()))
        for value in (1.0, 2.0, 3.0):
            path.write_text(str(value))
            yield f(ones(2))


@case
def lines_written_to_a_file(jit):
    with tempfile.TemporaryFile("w+") as file:

        def f(x):
            file.write(f"{x.shape[0]} rows\n")
            return x + 1

        f = jit(f)
        for n in (2, 3, 4):
            f(ones(n))
        file.seek(0)
        yield file.read()


@case
def an_environment_variable_set(jit):
    def f(x):
        os.environ["SOUNDNESS_SEEN"] = str(x.shape[0])
        return x + 1

    f = jit(f)
    for n in (2, 3):
        f(ones(n))
        yield os.environ.pop("SOUNDNESS_SEEN")


@case
def an_iterator_moves_on(jit):
    numbers = iter([1.0, 2.0, 3.0])
    f = jit(lambda x: x * next(numbers))
    for _ in range(3):
        yield f(ones(1))


@case
def a_generator_moves_on(jit):
    def count():
        n = 0.0
        while True:
            n += 1
            yield n

    numbers = count()

    def f(x):
        return x * next(numbers)

    f = jit(f)
    for _ in range(4):
        yield f(ones(1))


@case
def an_iterator_argument_is_consumed(jit):
    f = jit(lambda numbers, x: x * next(numbers))
    numbers = iter([1.0, 2.0, 3.0, 4.0])
    for _ in range(4):
        yield f(numbers, ones(1))


@case
def a_counter_of_itertools(jit):
    ids = itertools.count()

    def f(x):
        return x + next(ids)

    f = jit(f)
    for _ in range(4):
        yield f(ones(1))

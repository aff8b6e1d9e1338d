"""`range` of sizes and of ints among the arguments."""

from __future__ import annotations

import copy
import functools
import random
import types

import numpy as np

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, attempt, case

SIZES = (3, 5, 8, 0, 1, 6)


def rows(n):
    return torch.arange(n * 4.0).reshape(n, 4)


def classes(n):
    return torch.arange(n) * 3 % 4


@case(versions=3)
def a_range_as_an_index(jit):
    @jit
    def f(t, seen):
        everywhere = range(len(t))
        return t[range(t.shape[0]), seen].sum(), t[everywhere, 0], t[everywhere], t[seen * 0, seen]

    for n in SIZES:
        f(rows(n).requires_grad_(), classes(n))


@case(versions=3)
def a_range_as_an_index_that_is_written(jit):
    @jit
    def f(scores, seen):
        target = torch.full_like(scores, 0.05)
        target[range(len(seen)), seen] = 0.95
        scores[range(0, len(seen), 2)] += 1
        return ((scores - target) ** 2).mean()

    for n in SIZES:
        f(rows(n), classes(n))


@case
def a_range_as_an_index_of_another_length(jit):
    @jit
    def f(t, seen, n):
        return t[range(n), seen] * 2

    for n, count, limit in ((3, 3, 3), (4, 4, 4), (4, 4, 3), (5, 5, 2), (4, 1, 2), (4, 1, -2), (4, 4, -2), (4, 4, 1)):
        attempt(f, rows(n), classes(count), limit)


@case(versions=3)
def whether_a_range_holds_an_int(jit):
    @jit
    def f(x, k, n):
        return x * 2 if k in range(n) else x

    for k, n in ((1, 2), (3, 5), (5, 3), (-1, 4), (7, 9), (0, 0), (2, 2)):
        f(torch.ones(2), k, n)


@case
def whether_ranges_with_steps_hold_an_int(jit):
    @jit
    def f(x, k, n):
        return x, k in range(1, n, 3), k in range(n, 0, -2), k not in range(n, 2 * n), 2.0 in range(n), None in range(n)

    for k, n in ((1, 2), (3, 5), (4, 5), (5, 3), (-1, 4), (7, 9), (0, 0), (2, -2), (True, 3)):
        f(torch.ones(2), k, n)


@case(versions=2)
def the_length_of_a_range(jit):
    @jit
    def f(x, n):
        return x * len(range(n)), x[len(range(n)) :]

    for n in (2, 3, 7, 0, -4, 1):
        f(torch.ones(9), n)


@case
def lengths_of_ranges_with_steps(jit):
    @jit
    def f(x, n):
        made = range(1, n, 3), range(n, -5, -2), range(n, 2 * n)
        return x, [len(r) for r in made], [bool(r) for r in made], [(r.start, r.stop, r.step) for r in made]

    for n in (2, 3, 7, 0, -4, 1, -5, -6):
        f(torch.ones(1), n)


@case(versions=5)
def ranges_as_data(jit):
    @jit
    def f(x, n):
        made = torch.tensor(list(range(n)))
        return x + made, torch.tensor(range(n)), torch.as_tensor(range(2, n), dtype=torch.float32)

    for n in (3, 5, 8, 0, 2, 9, 1, 7):
        f(torch.ones(1), n)


@case
def ranges_as_data_of_other_dtypes(jit):
    @jit
    def f(x, n, dtype):
        return x, torch.tensor(range(n - 1, n + 2), dtype=dtype)

    for dtype in (torch.int8, torch.uint8, torch.bool, torch.float16, torch.float64):
        for n in (3, 127, 255, 4000):
            attempt(f, torch.ones(1), n, dtype)


@case(versions=1)
def ranges_that_are_returned_and_kept(jit):
    kept = types.SimpleNamespace(places=None, all=[])

    @jit
    def f(x, n):
        kept.places = range(n)
        kept.all.append(range(1, n))
        print(kept.places, range(n))
        return x + 1, {"places": [range(n, 0, -1)]}, range(x.shape[0])

    for n in (3, 5, 8, 0):
        yield f(torch.ones(n + 2), n), kept


@case
def what_python_does_with_ranges(jit):
    @jit
    def f(x, n):
        r = range(n)
        first, *rest = range(n)
        table = {"items": [*r], **dict.fromkeys(r), "found": {r: 1, range(3): 2}[range(n)]}
        told = f"{r}", str(r), repr(r), f"{r!r:>20}", type(r) is range, isinstance(r, range), hash(r) == hash(range(n))
        numbers = sum(r), max(r), sorted(r, reverse=True), list(enumerate(r)), [*zip(r, r, strict=True)], [*reversed(r)]
        more = r == range(n), r != range(3), r[1:], r[-1], r.index(1), r.count(2), set(r), tuple(r), copy.copy(r)
        return x + len(list(range(n))), first, rest, table, told, numbers, more, not list(range(n))

    for n in (3, 5, 3, 2, 4):
        f(torch.ones(1), n)


@case
def what_numpy_and_random_do_with_ranges(jit):
    @jit
    def f(x, a, n):
        drawn = random.sample(range(n), 2), random.choice(range(n))
        return x, drawn, a[range(n)] * 2, a[range(n), range(n)], np.array(range(n)), np.sum(range(n))

    for n in (3, 2, 4, 3):
        f(torch.ones(1), np.arange(25.0).reshape(5, 5), n)


@case(outcome=FELL_BACK)
def ranges_that_are_no_index_of_a_list(jit):
    values = [1, 2, 3]

    @jit
    def f(x, n):
        try:
            return x * values[range(n)]
        except TypeError as error:
            return x, str(error)

    for n in (1, 2, 3):
        yield f(torch.ones(1), n)


@case
def functions_that_are_given_ranges(jit):
    @functools.cache
    def total(r):
        return sum(r)

    def inner(r, *, again=None):
        return len(r), again is r, again[1:] if again else None

    @jit
    def f(x, n):
        r = range(n)
        return x + total(range(n)), inner(r, again=r), (lambda *rs: rs)(r, range(1, n)), slice(r, None)

    for n in (3, 5, 3, 0):
        f(torch.ones(1), n)


@case
def ranges_of_what_is_no_int(jit):
    @jit
    def f(x, n, m):
        return x, range(n, m, 2), range(n, m, n)

    for n, m in ((1, 3), (2, 5), (0, 5), (1.0, 2), (True, 4), ("a", 2), (-1, -6)):
        attempt(f, torch.ones(1), n, m)


@case(versions=3)
def loops_over_ranges_are_a_version_each(jit):
    @jit
    def f(x, n):
        for i in range(n):
            x = x * 2 + i
        return x

    for n in (3, 5, 3, 2, 5):
        f(torch.ones(2), n)


@case(versions=2)
def drawn_of_ranges(jit):
    @jit
    def f(x, n):
        rows, others = random.sample(range(n), 3), random.choices(range(1, n), k=2)
        return x[rows], x[others], x * random.choice(range(n)), x[random.sample(population=range(len(x)), k=2)], rows

    for n in (5, 6, 9, 7, 12, 5):
        f(torch.arange(float(n)), n)
        yield random.random()


@case(outcome=FELL_BACK)
def ranges_of_which_too_many_are_drawn(jit):
    @jit
    def f(x, n):
        try:
            return x[random.sample(range(n), 4)]
        except ValueError as error:
            return x, str(error)

    for n in (5, 3, 6, 4, 2, 8):
        yield f(torch.arange(10.0), n), random.random()
    g = jit(lambda x, n: x * random.choice(range(n)))
    for n in (5, 3, 0, 4):
        yield attempt(g, torch.ones(2), n), random.random()


@case
def ways_after_what_is_drawn_of_a_range(jit):
    @jit
    def f(x, n):
        rows = random.sample(range(n), 2)
        if x.sum() > 40:
            rows = random.sample(range(rows[0], n + 5), 3)
        if len(rows) + n > 9:
            rows += random.choices(range(len(rows), n), k=1)
        return x[rows]

    for n in (5, 6, 9, 7, 12, 5, 10, 11, 4):
        f(torch.arange(20.0) * (n / 60), n)
        yield random.random()


@case
def generators_that_are_exchanged(jit):
    kept, own = random.sample, random.Random(7)
    f = jit(lambda x, n: x[random.sample(range(n), 2)])
    g = jit(lambda x, n, generator: x[generator.sample(range(n), 2)])
    try:
        for n in (5, 6, 7):
            yield f(torch.arange(9.0), n), random.random()
        random.sample = lambda values, count: [*values][-count:]
        for n in (5, 6, 7):
            yield f(torch.arange(9.0), n), random.random()
    finally:
        random.sample = kept
    for n in (5, 6, 7):
        yield f(torch.arange(9.0), n), g(torch.arange(9.0), n, own), own.random(), random.random()


class LastOnes(random.Random):
    def sample(self, population, k):
        return [*population][-k:]


@case(outcome=FELL_BACK)
def a_generator_of_ones_own_class(jit):
    generator = LastOnes(3)
    f = jit(lambda x, n: x[generator.sample(range(n), 2)] + generator.choice(range(n)))
    for n in (5, 6, 7, 5):
        yield attempt(f, torch.arange(9.0), n), generator.random()


@case(versions=6)
def lists_of_ranges_as_an_index(jit):
    @jit
    def f(t, n, batch):
        return t[list(range(n))] * 2, t[list(range(len(t)))][list(range(1, n))], batch["x"][list(range(n))].sum()

    for n in (3, 5, 2, 4, 0, 1, 6):
        f(rows(6), n, {"x": torch.arange(6.0)})
    g = jit(lambda t, n: t[list(range(n))].sum())
    for n in (3, 6, 4, 2):
        t = rows(6).requires_grad_()
        g(t, n).backward()
        yield t.grad


class Keeping:
    def __init__(self, t):
        self.t, self.keys = t, []

    def __getitem__(self, key):
        key.append(0)
        self.keys.append(key)
        return self.t[key]


@case
def lists_of_ranges_as_a_key(jit):
    kept, array = Keeping(rows(9)), np.arange(12.0)

    @jit
    def f(x, n):
        kept.keys.clear()
        return kept[list(range(n))] + x, [type(k) is list for k in kept.keys], array[list(range(n))].sum()

    for n in (3, 5, 2, 4):
        yield f(torch.ones(4), n), kept.keys


@case(outcome=FELL_BACK)
def lists_of_ranges_that_are_no_key(jit):
    values, table = [1, 2, 3], {1: 2}

    def look(x, held, n):
        try:
            return x * held[list(range(n))]
        except TypeError as error:
            return x, str(error)

    for held in (values, table, (1, 2), "text"):
        f = jit(lambda x, n, held=held: look(x, held, n))
        for n in (1, 2, 3):
            yield f(torch.ones(1), n)

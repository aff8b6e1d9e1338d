"""What functions ask of the world: random numbers, items of iterators, files; decisions, errors and gradients too."""

from __future__ import annotations

import functools
import itertools
import os
import random
import tempfile
import types
from pathlib import Path

import numpy as np

import eagerjit as torch
from eagerjit import nn
from tests.soundness.framework import FELL_BACK, attempt, case


def ones(*shape):
    return torch.ones(*shape)


# -- random numbers ----------------------------------------------------------------------------------------------------


@case
def decisions_by_random_numbers(jit):
    def f(x):
        for _ in range(3):
            if random.random() < 0.5:
                x = x * 2
            elif x.sum() > 3:
                x = x - random.random()
        return x

    f = jit(f)
    for _ in range(20):
        yield f(ones(2)), random.getstate()[1][-1]


@case(versions=1)
def a_random_part_of_a_picture(jit):
    def f(x):
        i, j = random.randint(0, x.shape[0] - 3), np.random.randint(x.shape[1] - 2)
        return x[i : i + 2, j : j + 2]

    f = jit(f)
    for n in range(6, 12):
        yield f(torch.arange(float(n * (n + 1))).reshape(n, n + 1))


@case(versions=1)
def two_pictures_mixed(jit):
    def f(x):
        share = np.random.beta(0.4, 0.4)
        other = torch.from_numpy(np.random.permutation(x.shape[0]))
        return share * x + (1 - share) * x[other]

    f = jit(f)
    for n in range(4, 9):
        yield f(torch.arange(3.0 * n).reshape(n, 3))


@case
def noise_of_the_size_of_an_argument(jit):
    generator = np.random.default_rng(5)

    def f(x):
        noise = generator.normal(0.0, 0.5, size=x.shape).astype(np.float32)
        return x + torch.from_numpy(noise) + torch.tensor(np.random.randn(*x.shape), dtype=torch.float32)

    f = jit(f)
    for shape in ((2, 3), (4, 3), (5, 2)):
        yield f(ones(*shape)), generator.bit_generator.state


@case
def choices_of_several_kinds(jit):
    names = ["a", "b"]

    def f(x):
        if random.choice(names) == "a":
            return x * random.choice([1.0, 2, 3.5])
        return x - random.choice((1, 2))

    f = jit(f)
    for _ in range(12):
        yield f(ones(2))
    names[:] = ["a"]
    for _ in range(4):
        yield f(ones(2))


@case
def layers_left_out_at_random(jit):
    layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1, momentum=0.9)

    @jit
    def step(x):
        for layer in layers:
            if random.random() > 0.3:
                x = layer(x).tanh()
        return x.square().sum()

    for n in (2, 3, 4, 2, 3):
        optimizer.zero_grad()
        loss = step(ones(n, 3))
        if loss.requires_grad:
            loss.backward()
        optimizer.step()
        yield loss, [p.grad for p in layers.parameters()]


@case
def a_gradient_of_a_gradient_of_noisy_work(jit):
    def f(x, w):
        return ((x * w) ** 3 * random.random() + w * float(np.random.rand())).sum()

    f = jit(f)
    for n in (2.0, 3.0):
        w = torch.full((2,), n, requires_grad=True)
        (g,) = torch.autograd.grad(f(ones(2), w), w, create_graph=True)
        g.square().sum().backward()
        yield g, w.grad


@case
def the_draws_of_a_nested_function(jit):
    inner = jit(lambda x: x + random.random())
    f = jit(lambda x: inner(x) * random.random())
    for _ in range(3):
        yield f(ones(2)), inner(ones(2))


@case(versions=1)
def an_error_between_draws(jit):
    def f(x, i):
        a = random.random()
        y = x[i]
        return y * a + np.random.rand()

    f = jit(f)
    for last in (1, 9, 0, 9):
        yield attempt(f, ones(2), torch.tensor([0, last])), random.random(), np.random.rand()


@case
def a_draw_that_is_an_error(jit):
    def f(x):
        high = int(1 + random.random() * 4)
        return x * random.randint(3, high)

    f = jit(f)
    for _ in range(8):
        yield attempt(f, ones(2)), random.random()


@case
def a_list_shuffled(jit):
    order = [1.0, 2.0, 3.0]

    def f(x):
        x = x * random.random()
        random.shuffle(order)
        return x * order[0]

    f = jit(f)
    for _ in range(4):
        yield f(ones(2)), order


@case
def a_list_of_nothing_shuffled(jit):
    @jit
    def f(x):
        order = list(range(x.shape[0]))
        random.shuffle(order)
        return x[order], random.random()

    for n in (0, 3, 0, 0, 3):
        yield attempt(f, ones(n))


@case
def draws_that_are_turned_off(jit):
    switch, switches, config = {"on": True}, [True], types.SimpleNamespace(on=True)
    globals()["drawing"] = True

    @jit
    def f(x, config):
        if drawing and switch["on"] and switches[0] and config.on:  # noqa: F821
            x = x * random.random()
        return x

    for turn in range(4):
        f(ones(1), config)
        f(ones(1), config)
        for on in (False, True):
            if turn == 0:
                globals()["drawing"] = on
            if turn == 1:
                switch["on"] = on
            if turn == 2:
                switches[0] = on
            if turn == 3:
                config.on = on
            yield f(ones(1), config), random.getstate()[1][-1], random.random()


@case
def items_taken_while_that_is_wanted(jit):
    items, wanted = itertools.count(), [True]

    @jit
    def f(x):
        return x + next(items) if wanted[0] else x

    for wanted[0] in (True, True, False, True, False):
        yield f(ones(1)), items


@case
def draws_by_the_size_of_what_is_found(jit):
    table = torch.ones(2, 3)
    holder = types.SimpleNamespace(table=table)

    @jit
    def f(x):
        if holder.table.shape[0] > 2:
            return x
        return x * random.random() + holder.table.sum()

    for n in (2, 2, 3, 2, 3):
        holder.table = torch.ones(n, 3)
        yield f(ones(1)), random.random()


@case(versions=3)
def places_shuffled(jit):
    def f(x):
        places = list(range(len(x)))
        random.shuffle(places)
        first = places[: len(x) // 2]
        np.random.shuffle(places)
        return x[places], x[first], places

    f = jit(f)
    for n in (6, 8, 11, 6):
        yield f(torch.arange(float(n))), random.random(), np.random.rand()


@case
def things_shuffled(jit):
    words = ["a", "b"]

    def f(x):
        parts = [x, x * 2]
        random.shuffle(parts)
        random.shuffle(words)
        return parts[0] - parts[1], words[0]

    f = jit(f)
    for _ in range(12):
        yield f(ones(2)), words


@case
def a_shuffle_of_another_name(jit):
    generator = random.Random(3)

    def f(x):
        places = [0, 1, 2]
        random.shuffle(places)
        generator.shuffle(places)
        return x[places]

    f = jit(f)
    yield f(torch.arange(3.0))
    kept, random.shuffle = random.shuffle, lambda values: values.reverse()
    try:
        yield f(torch.arange(3.0)), generator.getstate()[1][-1]
    finally:
        random.shuffle = kept
    yield f(torch.arange(3.0)), generator.getstate()[1][-1]


@case(versions=3)
def generators_seeded(jit):
    def f(x, seed):
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        return x * random.random() + np.random.rand() + torch.rand(2)

    f = jit(f)
    for seed in (0, 1, 5, 0):
        yield f(ones(2), seed), random.random(), np.random.rand()
    yield attempt(f, ones(2), -1), random.random()


@case(outcome=FELL_BACK)
def draws_before_what_cannot_be_compiled(jit):
    def f(x):
        y = x * random.random() + np.random.rand()
        return y, float(x.numpy().sum()), random.random()

    f = jit(f)
    for _ in range(3):
        yield f(ones(2)), random.random(), np.random.rand()


@case(outcome=FELL_BACK)
def attributes_asked_for_before_what_cannot_be_compiled(jit):
    def scale(x, *factors):
        return x * sum(factors)

    def f(x):
        y = getattr(random, "random")() * x  # noqa: B009
        y = scale(y, *[1.0, getattr(scale, "factor", 2.0)])
        return y, float(x.numpy().sum()), random.random()

    f = jit(f)
    for _ in range(3):
        yield f(ones(2)), random.random()


@case
def numbers_drawn_by_another_function(jit):
    draw = random.random

    def f(x):
        return x * draw() + random.random()

    f = jit(f)
    yield f(ones(2))
    kept, random.random = random.random, lambda: 2.0
    try:
        yield f(ones(2))
    finally:
        random.random = kept
    yield f(ones(2))


# -- iterators ---------------------------------------------------------------------------------------------------------


@case
def an_iterator_with_an_end(jit):
    items = iter([1.0, 2.0, 3.0])
    f = jit(lambda x: x * next(items))
    for _ in range(5):
        yield attempt(f, ones(2))


@case(versions=2)
def an_iterator_with_a_default(jit):
    items = iter([1.0, 2.0, 3.0])
    f = jit(lambda x: x * next(items, 0.5))
    for _ in range(6):
        yield f(ones(2))


@case(versions=2)
def the_end_of_an_iterator_is_caught(jit):
    items = iter([1.0, 2.0, 3.0])

    def f(x):
        try:
            return x * next(items)
        except StopIteration:
            return x - 100

    f = jit(f)
    for _ in range(6):
        yield f(ones(2))


@case(versions=1)
def two_names_of_one_iterator(jit):
    items = iter(range(20))
    same = items
    f = jit(lambda x: x * next(items) + 10 * next(same))
    for _ in range(3):
        yield f(ones(2))
    yield next(items)


@case(versions=1)
def an_iterator_that_others_take_of(jit):
    items = itertools.count(5, 2)
    f = jit(lambda x: x * next(items))
    for n in range(4):
        yield f(ones(2)), [next(items) for _ in range(n)]


@case(versions=2)
def batches_of_an_iterator(jit):
    batches = iter([[torch.full((n, 2), float(n)), torch.arange(n)] for n in (2, 3, 1, 4)])
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @jit
    def step():
        x, y = next(batches)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y % 2)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(5):
        yield attempt(step), list(model.parameters())


@case
def an_item_taken_after_a_decision(jit):
    items = iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])

    def f(x):
        first = next(items)
        return x * next(items) if (x * first).sum() > 5 else x - first

    f = jit(f)
    for _ in range(4):
        yield f(ones(2))
    yield list(items)


@case
def an_error_between_items(jit):
    items, calls = iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), []

    def f(x, i):
        first = next(items)
        calls.append(first)
        return x[i] * next(items)

    f = jit(f)
    for last in (9, 1, 9, 0):
        yield attempt(f, ones(2), torch.tensor([0, last])), calls
    yield list(items)


@case
def an_iterator_in_a_loop(jit):
    items = iter([1.0, 2.0, 3.0, 4.0, 5.0])

    def f(x):
        for item in items:
            x = x * item
            if x.sum() > 20:
                break
        return x

    f = jit(f)
    for _ in range(3):
        yield f(ones(2))


@case
def iterators_side_by_side(jit):
    items, others = iter([1.0, 2.0, 3.0, 4.0]), {"a": 10.0, "b": 20.0}
    values = iter(others.values())
    f = jit(lambda x: sum((x * a * b for a, b in zip(items, values, strict=False)), start=x))
    for _ in range(2):
        yield f(ones(2)), list(items)


@case
def lists_of_an_iterator_are_changed(jit):
    rows = [[1.0], [2.0], [3.0]]
    items = iter(rows)

    def f(x):
        row = next(items)
        row.append(len(row))
        return x * row[0], row

    f = jit(f)
    for n in range(3):
        result, row = f(ones(2))
        yield result, row is rows[n], rows


@case(outcome=FELL_BACK)
def the_list_behind_an_iterator_is_changed(jit):
    rows = [[1.0], [2.0], [3.0], [4.0]]
    items = iter(rows)

    def f(x):
        row = next(items)
        rows[1].append(5.0)
        return x * row[0] + len(row)

    f = jit(f)
    for _ in range(4):
        yield f(ones(2)), rows


@case(outcome=FELL_BACK)
def one_list_given_twice(jit):
    row = [1.0]
    items = itertools.cycle([row])

    def f(x):
        next(items).append(2.0)
        return x * len(next(items))

    f = jit(f)
    for _ in range(3):
        yield f(ones(2)), row


@case
def an_iterator_of_tensors_known_by_name(jit):
    weights = [torch.full((2,), float(n + 1), requires_grad=True) for n in range(3)]
    items = itertools.cycle(weights)

    @jit
    def f(x):
        return (next(items) * weights[0] * x).sum()

    for _ in range(4):
        f(ones(2)).backward()
        yield [w.grad for w in weights]


@case(outcome=FELL_BACK)
def a_generator_with_effects(jit):
    calls = []

    def produced():
        for n in range(5):
            calls.append(n)
            yield float(n)

    items = produced()
    f = jit(lambda x: x * next(items) + len(calls))
    for _ in range(3):
        yield f(ones(2)), calls


@case
def a_generator_over_a_list(jit):
    def products(values, factor):
        for n in range(3):
            for value in values:
                factor += 1
                yield value * factor + n

    items = products((1.0, 2.0), 1)
    f = jit(lambda x: x * next(items))
    for _ in range(7):
        yield attempt(f, ones(2))


@case
def a_partial_that_takes_items(jit):
    items = iter([1.0, 2.0, 3.0])
    take = functools.partial(next, items)
    f = jit(lambda x: x * take())
    for _ in range(4):
        yield attempt(f, ones(2))


@case
def items_that_are_printed(jit):
    items = iter(["a", "b", "c", "d"])

    def f(x):
        print(*itertools.islice(items, 2))
        return x + 1

    f = jit(f)
    for _ in range(3):
        yield f(ones(2))


@case(outcome=FELL_BACK)
def items_before_what_cannot_be_compiled(jit):
    items = iter(range(20))

    def f(x):
        first, second = next(items), next(items)
        return x * first, float(x.numpy().sum()), second, [next(items) for _ in range(2)]

    f = jit(f)
    for _ in range(3):
        yield f(ones(2)), next(items)


# -- files -------------------------------------------------------------------------------------------------------------


@case
def a_file_that_comes_and_goes(jit):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stop"
        f = jit(lambda x: x * 2 if path.exists() else x + len(os.getcwd()))
        for n in range(4):
            yield f(ones(2)) * 0 + int(path.exists())
            path.write_text("") if n % 2 else path.unlink(missing_ok=True)


@case(outcome=FELL_BACK)
def an_item_that_is_compared(jit):
    weights = [ones(2), torch.full((2,), 2.0)]
    items = itertools.cycle(weights)
    f = jit(lambda x: x * (2 if next(items) is weights[1] else 3))
    for _ in range(4):
        yield f(ones(2))


@case(outcome=FELL_BACK)
def an_item_that_is_a_key(jit):
    weights = [ones(2), torch.full((2,), 2.0)]
    names = {w: n for n, w in enumerate(weights)}
    items = itertools.cycle(weights)
    f = jit(lambda x: x * names[next(items)])
    for _ in range(4):
        yield f(ones(2))


@case(versions=3)
def rows_sampled(jit):
    def augment(x):
        rows, others = random.sample(range(len(x)), 3), random.choices([0, 1, 2], weights=[1, 2, 3], k=2)
        return x[rows], x[others], x[rows[0]], rows

    f = jit(augment)
    for n in (5, 5, 5, 5, 6, 6):
        f(torch.arange(float(n)))
        yield random.random()


@case(versions=2)
def items_of_a_list_sampled(jit):
    population = [3, 1, 2, 0]
    f = jit(lambda x: (x[random.sample(population, 2)], random.sample(["a"], 1)))
    for _ in range(4):
        f(torch.arange(5.0))
    population.append(4)
    f(torch.arange(5.0))
    yield random.random()


class Batches:
    """A loader as programs write them."""

    def __init__(self, data, size):
        self.data, self.size, self.given = data, size, 0

    def __len__(self):
        return -(-len(self.data) // self.size)

    def __iter__(self):
        self.place = 0
        return self

    def __next__(self):
        if self.place >= len(self.data):
            raise StopIteration
        self.place += self.size
        self.given += 1
        return self.data[self.place - self.size : self.place]


@case
def an_iterator_of_a_class_of_ones_own(jit):
    loader = Batches(torch.arange(10.0).reshape(5, 2), 2)

    @jit
    def f(x, batches):
        total = 0.0
        for batch in batches:
            total = total + (batch * x).sum()
        return total / len(batches), next(iter(batches)), [len(b) for b in zip(batches, range(2), strict=False)]

    for i in range(4):
        yield f(ones(2) * i, loader), loader.place, loader.given
    loader.data = torch.arange(6.0).reshape(3, 2)
    yield f(ones(2), loader), loader.place, loader.given


@case
def an_iterator_of_ones_own_in_the_middle(jit):
    class Countdown:
        def __init__(self):
            self.left = 7

        def __iter__(self):
            return self

        def __next__(self):
            if not self.left:
                raise StopIteration
            self.left -= 1
            return self.left

    countdown = Countdown()

    @jit
    def f(x):
        for number in countdown:
            x = x + number
            if number % 3 == 0:
                break
        return x, next(countdown, None), countdown.left

    for _ in range(5):
        yield f(ones(1)), countdown.left

"""Indices out of range after a tensor was written in the same call, and before it is written again."""

from __future__ import annotations

import eagerjit as torch
from eagerjit.nn import functional as F
from tests.soundness.framework import attempt, case

INDICES = (
    ([0, 1], [0, 1]), ([1, 0], [0, 5]), ([1, 5], [0, 1]), ([-1, 0], [1, 0]), ([0, 0], [2, -1]), ([2, 2], [2, 2]),
)  # fmt: skip


def states(f):
    """What calls with good and bad indices give, and what they leave of the tensors that they write."""
    for i, j in INDICES:
        x, y = torch.arange(3.0), torch.arange(3.0) + 10
        yield attempt(f, x, y, torch.tensor(i), torch.tensor(j))
        yield x, x._version, y, y._version


@case(versions=1)
def rows_added_twice(jit):

    @jit
    def f(x, y, i, j):
        x.index_put_((i,), y[:2], accumulate=True)
        x.index_add_(0, j, y[:2])
        return x

    yield from states(f)


@case(versions=1)
def a_write_then_rows_read_and_written(jit):

    @jit
    def f(x, y, i, j):
        x.add_(1)
        x[i] = y.gather(0, j)
        y.mul_(x.sum())
        return x

    yield from states(f)


@case(versions=1)
def rows_exchanged_between_two_tensors(jit):

    @jit
    def f(x, y, i, j):
        y[j] = x[i]
        x[i] = y[j]
        x.scatter_(0, j, 3.0)
        return x + y

    yield from states(f)


@case(versions=1)
def rows_written_in_a_loop(jit):

    @jit
    def f(x, y, i, j):
        for _ in range(2):
            x[i] = x[j] + y[i]
            y.index_add_(0, j, x[i])
        return y

    yield from states(f)


@case(versions=1)
def an_error_between_writes_is_caught(jit):

    @jit
    def f(x, y, i, j):
        try:
            x.add_(1)
            y[j] = x[i]
        except IndexError:
            x.mul_(100)
        return x, y

    yield from states(f)


@case(versions=1)
def losses_between_writes(jit):

    @jit
    def f(x, y, i, j):
        x.mul_(2)
        loss = F.cross_entropy(y[None], j[:1])
        x.add_(loss)
        return loss + F.cross_entropy(x[None], i[1:])

    yield from states(f)


@case(versions=1)
def draws_between_writes(jit):

    @jit
    def f(x, y, i, j):
        x.mul_(2)
        drawn = torch.multinomial((y - j[0] - 9).clamp(max=3), 1)
        x[drawn] = 0
        again = torch.multinomial(x[i].abs(), 1)
        y[again] = -1
        return drawn, again

    yield from states(f)


@case(versions=1)
def a_token_written_and_the_next_one_drawn(jit):
    cache, table = torch.zeros(6, 4), torch.arange(20.0).reshape(5, 4).sin()

    @jit
    def step(token, position):
        row = table[token]
        cache[position] = row
        attended = (cache @ row).softmax(-1) @ cache
        return torch.multinomial((table @ attended).softmax(-1), 1)[0]

    token = torch.tensor(1)
    for position in (0, 1, 2, 5, 6, 3):
        found = attempt(step, token, torch.tensor(position))
        yield found, cache, cache._version
        token = found if isinstance(found, torch.Tensor) else token
    yield attempt(step, torch.tensor(9), torch.tensor(1)), cache, cache._version


@case(versions=1)
def the_first_of_several_bad_indices(jit):
    @jit
    def f(t, places, columns, lines):
        kept = t.index_select(0, places) * 2
        return kept.sum() + t.gather(0, columns).sum() + t[lines].sum()

    for places, columns, lines in ((0, 0, 0), (0, 0, 5), (0, 7, 0), (0, 7, 5), (4, 0, 5), (4, 7, 0), (4, 7, 5)):
        attempt(f, torch.arange(12.0).reshape(3, 4), *map(torch.tensor, ([places], [[columns]], [lines])))


class Full(Exception):
    """An error with attributes of its own."""

    queued = 5


class Answering(Exception):
    """An error that has any attribute."""

    def __getattr__(self, name):
        return len(name)


@case
def errors_with_attributes_of_any_name(jit):

    def check(x, limit, error):
        if limit < 2:
            raise error(f"{limit}")
        return x + limit

    for error in (Full, Answering):
        f = jit(lambda x, limit, error=error: check(x * 2, limit, error))
        for limit in (3, 1, 3, 0, 1):
            yield attempt(f, torch.ones(2), limit)


@case
def classes_that_are_none(jit):
    f = jit(lambda x, n: torch.nn.functional.one_hot(x, n))
    for values in ([0, 1], [1, 3], [-1, 1], [5, -1], [1, 2], [7, 0]):
        for count in (3, 4, 0):
            yield str(attempt(f, torch.tensor(values), count)).partition(" (")[0]

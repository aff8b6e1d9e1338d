"""What a function does to lists, dictionaries and sets besides computing."""

from __future__ import annotations

import collections
import functools
import types

import numpy as np

import eagerjit as torch
from tests.soundness.framework import case

HISTORY: list = []


def ones(*shape):
    return torch.ones(*shape)


@case(versions=1)
def a_list_of_losses(jit):
    losses = []

    def f(x):
        loss = (x * x).sum()
        losses.append(loss.item())
        return loss

    f = jit(f)
    for n in range(2, 6):
        f(torch.full((3,), float(n)))
    yield losses


@case
def a_list_of_tensors(jit):
    kept = []

    def f(x):
        kept.append(x * 2)
        kept.append(x)
        return x + 1

    f = jit(f)
    for n in (1.0, 2.0, 3.0):
        f(torch.full((2,), n))
    yield kept


@case
def a_global_list_of_constants(jit):
    HISTORY.clear()

    def f(x):
        HISTORY.append("called")
        HISTORY.extend((x.shape[0], x.dtype))
        return x + 1

    f = jit(f)
    for n in (2, 3, 4):
        f(ones(n))
    yield HISTORY


@case
def a_list_of_an_object(jit):
    class Logger:
        def __init__(self):
            self.seen = []

        def call(self, x):
            self.seen.append(len(self.seen))
            return x + 1

    logger = Logger()
    f = jit(logger.call)
    for _ in range(4):
        f(ones(1))
    yield logger


@case
def a_list_argument_grows(jit):
    def f(log, x):
        log.append(x.shape[0])
        return x + 1

    f, log = jit(f), []
    for n in (1, 2, 3):
        f(log, ones(n))
    yield log


@case
def a_dictionary_argument_is_filled(jit):
    def f(cache, x):
        cache["y"] = x + 1
        return x

    f = jit(f)
    for _ in range(3):
        cache = {}
        f(cache, ones(1))
        yield cache


@case
def a_list_in_a_list(jit):
    logs = [[], []]

    def f(x):
        logs[0].append(1)
        logs[-1].append(x.shape[0])
        return x + 1

    f = jit(f)
    for n in (2, 3, 4):
        f(ones(n))
        yield logs


@case
def a_method_kept_in_a_variable(jit):
    seen = []
    add = seen.append

    def f(x):
        add(1)
        return x + 1

    f = jit(f)
    for _ in range(3):
        f(ones(2))
        yield seen


@case
def a_queue_of_fixed_length(jit):
    recent = collections.deque(maxlen=2)

    def f(x):
        recent.append(x.sum().item())
        return x + len(recent)

    f = jit(f)
    for n in range(5):
        yield f(torch.full((2,), float(n))), list(recent)


@case
def a_defaultdict_and_a_counter(jit):
    groups, counts = collections.defaultdict(list), collections.Counter()

    def f(x, name):
        groups[name].append(x.shape[0])
        counts[name] += 1
        return x + 1

    f = jit(f)
    for n, name in ((1, "a"), (2, "b"), (3, "a"), (4, "a")):
        f(ones(n), name)
        yield dict(groups), dict(counts)


@case(versions=2)
def a_counter_that_counts_names(jit):
    """What stands for the C function that counts is watched: a count that it reads and writes is an input."""
    counts = collections.Counter()

    @jit
    def f(x):
        counts.update(["calls", "layers", "layers"])
        return x * counts["calls"] + counts["layers"]

    for n in range(6):
        yield f(ones(2)), dict(counts)
        counts["layers"] += n


@case
def a_set_of_what_was_seen(jit):
    seen = set()

    def f(x):
        new = x.shape[0] not in seen
        seen.add(x.shape[0])
        return x * 2 if new else x

    f = jit(f)
    for n in (2, 3, 2, 3, 4):
        f(ones(n))
    yield seen


@case
def a_list_is_sorted_popped_and_cleared(jit):
    numbers = [3, 1, 2]

    def f(x):
        numbers.sort()
        last = numbers.pop()
        return x * last

    f = jit(f)
    for _ in range(3):
        yield f(ones(1)), numbers
        numbers.append(7)


@case
def items_assigned_and_deleted(jit):
    table = {"a": 1, "b": 2}

    def f(x):
        table["c"] = x.shape[0]
        table.pop("a", None)
        table.pop("b", None)
        return x

    f = jit(f)
    for n in (2, 3):
        f(ones(n))
        yield table


@case
def a_slice_of_a_list_assigned(jit):
    window = [0, 0, 0]

    def f(x):
        window[1:] = [x.shape[0], window[1]]
        return x + 1

    f = jit(f)
    for n in (2, 3, 4):
        f(ones(n))
        yield window


@case
def dictionaries_merged_in_place(jit):
    totals = {"n": 0}

    def f(x):
        nonlocal totals
        totals |= {"n": totals["n"] + x.shape[0], "last": x.shape[0]}
        return x

    f = jit(f)
    for n in (2, 3, 4):
        f(ones(n))
        yield totals


@case
def a_list_extended_in_place(jit):
    seen = []
    holder = types.SimpleNamespace(seen=seen)

    def f(x):
        holder.seen += [x.shape[0]]
        return x

    f = jit(f)
    for n in (2, 3, 4):
        f(ones(n))
        yield seen, holder.seen is seen


@case
def a_cache_of_tensors_by_size(jit):
    cache = {}

    def positions(n):
        if n not in cache:
            cache[n] = torch.arange(n).float()
        return cache[n]

    f = jit(lambda x: x + positions(x.shape[0]))
    for n in (2, 3, 2, 3, 4):
        f(ones(n))
    yield cache


@case
def a_cached_function(jit):
    calls = []

    @functools.cache
    def scale(n):
        calls.append(n)
        return n * 2.0

    f = jit(lambda x, k: x * scale(k))
    for k in (1, 2, 1, 2, 3):
        f(ones(2), k)
    yield calls, scale.cache_info().misses


@case
def an_array_written(jit):
    history = np.zeros(4)

    def f(x, i):
        history[i] = x.sum().item()
        return x + 1

    f = jit(f)
    for i in range(4):
        f(torch.full((2,), float(i)), i)
    yield history

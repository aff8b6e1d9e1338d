"""Containers that `+=`, `|=` and the like change: what is assigned lies there already, what was added may change."""

from __future__ import annotations

import types
from collections import deque

import eagerjit as torch
from tests.soundness.framework import attempt, case

kept: list[float] = []


def ones(*shape):
    return torch.ones(*shape)


@case(versions=1)
def items_added_to_a_list_under_an_attribute(jit):
    log = types.SimpleNamespace(losses=[], names=set(), last=deque(maxlen=3), parts={})

    @jit
    def f(x):
        value = x.sum().item()
        log.losses += [value]
        log.last += [value, 2 * value]
        log.names |= {"sum"}
        log.parts |= {"sum": value}
        return x * 2

    for i in range(12):
        yield f(ones(3) * i), log
    log.losses[:] = [1.0, "text"]
    log.names.add("other")
    yield f(ones(3)), log


@case(versions=2)
def items_added_to_a_list_of_an_enclosing_function(jit):
    losses = []

    @jit
    def f(x):
        nonlocal losses
        losses += [x.sum().item()]
        return x * 2

    for i in range(12):
        yield f(ones(3) * i), losses
    before, losses = losses, [7.0]
    yield f(ones(3)), losses, before
    yield f(ones(3)), losses, before


@case(versions=2)
def items_added_to_a_global_list(jit):
    global kept
    kept = []

    @jit
    def f(x):
        global kept
        kept += [x.sum().item()]
        return x * 2

    for i in range(12):
        yield f(ones(3) * i), kept
    before, kept = kept, []
    yield f(ones(3)), kept, before
    yield f(ones(3)), kept, before


@case(versions=4)
def items_added_under_a_key_while_code_branches(jit):
    stats = {"small": [], "count": 0}

    @jit
    def f(x):
        stats["small"] += [x.sum().item()]
        stats["count"] += 1
        return x if x.sum() > 3 else x * 2

    for i in range(20):
        yield f(ones(2) * (i % 5)), stats
    before = stats["small"]
    stats["small"] = [1.0]
    yield f(ones(2)), stats, before
    yield f(ones(2) * 3), stats, before
    stats["small"] = (1.0,)
    yield attempt(f, ones(2)), stats, before


@case
def a_list_kept_under_a_second_name(jit):
    holder = types.SimpleNamespace(losses=[], best=None)

    @jit
    def f(x):
        losses = holder.losses
        losses += [x.sum().item()]
        holder.best = losses
        return x * 2

    for i in range(4):
        yield f(ones(3) * i), holder
    holder.best = []
    yield f(ones(3)), holder
    yield f(ones(3)), holder
    holder.losses = holder.best = [3.0]
    yield f(ones(3)), holder
    holder.losses = []
    yield f(ones(3)), holder
    yield f(ones(3)), holder.losses is holder.best


@case
def a_list_that_an_argument_holds_as_well(jit):
    holder = types.SimpleNamespace(losses=[])

    @jit
    def f(x, given):
        holder.losses += [x.sum().item()]
        given["losses"] += [1.0]
        holder.losses = given["losses"]
        return x * 2

    for i in range(3):
        yield f(ones(3) * i, {"losses": [2.0]}), holder
    given = {"losses": holder.losses}
    yield f(ones(3), given), holder, given
    yield f(ones(3), given), holder, given
    yield f(ones(3), {"losses": []}), holder, given


@case
def a_list_replaced_while_it_is_added_to(jit):
    holder = types.SimpleNamespace(losses=[])

    @jit
    def f(x):
        def renewed():
            holder.losses = [0.0]
            return [x.sum().item()]

        before = holder.losses
        holder.losses += renewed()
        return x * len(before)

    for i in range(4):
        yield f(ones(3) * i), holder


@case
def the_length_of_a_list_after_it_was_added_to(jit):
    holder = types.SimpleNamespace(losses=[])

    @jit
    def f(x):
        holder.losses += [x.sum().item()]
        return x * len(holder.losses), holder.losses[-1]

    for i in range(8):
        yield f(ones(3) * i), holder
    holder.losses.clear()
    yield f(ones(3)), holder


@case
def what_was_added_changes_afterwards(jit):
    holder = types.SimpleNamespace(values=[], seen=set(), table={}, last=deque([0]), slots=[1, 2, 3])

    @jit
    def f(x):
        items, names, pairs = [x.sum().item()], {"a"}, {"k": x}
        holder.values += items
        holder.values.__iadd__(items)
        holder.last += items
        holder.slots[1:] = items
        items.append(5.0)
        holder.seen |= names
        holder.seen.update(names)
        names.add("b")
        holder.seen.difference_update(names - {"a"})
        holder.table |= pairs
        pairs["l"] = 1
        return x * 2

    for i in range(4):
        yield f(ones(3) * i), holder


@case(versions=2)
def items_of_iterators_made_inside(jit):
    holder = types.SimpleNamespace(values=[], table={}, last=deque(maxlen=5), names=set(), factor=2.0)

    def scaled(x):
        for part in x:
            yield part.item() * holder.factor

    @jit
    def f(x):
        holder.values.extend(part.item() for part in x)
        holder.values.extend(scaled(x))
        holder.table.update(zip("ab", x.tolist(), strict=False))
        holder.last.extend(zip(x.unbind(), (x * 2).unbind(), strict=True))
        holder.last.extendleft(map(float, x))
        holder.names.update(str(i) for i in range(2))
        items = {"first": x[0].item()}
        holder.values.extend(items.values())
        items["second"] = 1.0
        return x * 2

    for i in range(6):
        yield f(ones(2) * i), holder
    holder.factor = 3.0
    yield f(ones(2)), holder
    holder.factor = -1.5
    yield f(ones(2)), holder


@case
def iterators_from_outside_that_run_out(jit):
    values, given = [], iter([1.0, 2.0, 3.0])
    pairs = zip(iter([1, 2, 3]), iter([4, 5, 6]), strict=True)

    @jit
    def f(x):
        values.extend(value for value in (next(given), x.sum().item()))
        return x * values[-1]

    @jit
    def g(x):
        values.extend(pair for pair in pairs)
        return x * len(values)

    for _ in range(4):
        yield attempt(f, ones(2)), values
    for _ in range(3):
        yield attempt(g, ones(2)), values


@case
def an_iterator_that_fails_half_way(jit):
    values = []

    def some(x):
        yield x.sum().item()
        if x.sum() > 3:
            raise ValueError("too large")
        yield 0.0

    @jit
    def f(x):
        values.extend(some(x))
        return x * 2

    for i in range(4):
        yield attempt(f, ones(2) * i), values


@case(versions=1)
def numbers_of_a_tensor_by_map(jit):
    values = []

    @jit
    def f(x):
        values.extend(map(float, x))
        return sum(map(float, x)), list(map(float, x))

    for i in range(6):
        yield f(ones(2) * i), values


@case(versions=2)
def items_of_a_generator_added_to_a_list(jit):
    kept = types.SimpleNamespace(items=[], steps=0)

    @jit
    def f(xs):
        kept.items = []
        kept.items += (x * 2 for x in xs)
        mine = [xs[0]]
        mine += (x + 1 for x in xs)
        return mine, kept.items[-1]

    for n in (2, 3, 2):
        yield f([torch.ones(n), torch.ones(n) * 3]), kept


@case
def items_of_generators_with_effects(jit):
    kept = types.SimpleNamespace(items=[torch.zeros(1)], steps=0)

    def doubled(xs):
        for x in xs:
            kept.steps += 1
            yield x * 2 + len(kept.items)

    @jit
    def f(xs):
        kept.items += doubled(xs)
        kept.items.extend(doubled(xs))
        kept.items.extend(map(lambda x: x * len(kept.items), xs))
        return kept.items[-1]

    for n in (2, 3, 2):
        yield f([torch.ones(n), torch.ones(n) * 3]), kept

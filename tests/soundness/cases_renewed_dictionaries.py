"""Dictionaries whose items calls replace: by keys of every kind, and while all of them are read."""

from __future__ import annotations

import collections
import enum
import types

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, attempt, case


class Kind(enum.Enum):
    FIRST = 1
    SECOND = 2


class Level(enum.IntEnum):
    LOW = 1


def average(jit, table, key):
    """A running average under a key, whose other items are changed meanwhile."""
    f = jit(lambda x: table.__setitem__(key, table.get(key, 0.0) * 0.5 + x.mean()) or x * table[key])
    for i in range(6):
        yield f(torch.ones(3) * i), list(table.values())
        if i == 3:
            table["another"] = torch.ones(1)
    table[key] = 2
    yield f(torch.ones(3)), table[key]
    del table[key]
    yield f(torch.ones(3)), table[key]


@case
def averages_by_members(jit):
    for key in (*Kind, *Level):
        yield from average(jit, {}, key)


@case
def averages_by_numbers_and_tuples(jit):
    for key in (0.5, True, None, b"a", ("layer", 0), ("layer", (Kind.FIRST, 1.5)), float("nan"), 2 + 1j):
        yield from average(jit, {}, key)


@case
def averages_by_objects(jit):
    layer = torch.nn.Linear(2, 2)
    for key in (layer, layer.weight, torch.nn.Linear, torch.relu, len, average, types.SimpleNamespace, object()):
        yield from average(jit, {}, key)


@case(versions=3)
def averages_by_modules(jit):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 2))
    norms = {}

    @jit
    def f(x):
        for module in model:
            if isinstance(module, torch.nn.Linear):
                norms[module] = norms.get(module, 0) * 0.9 + module.weight.detach().norm()
        return model(x)

    for i in range(6):
        yield f(torch.ones(3, 2) * i), list(norms.values())
        with torch.no_grad():
            model[2].weight.mul_(2)
        if i == 4:
            model[2] = torch.nn.Linear(2, 2, bias=False)
            torch.nn.init.ones_(model[2].weight)


@case(outcome=FELL_BACK)
def keys_made_in_the_call(jit):
    table = {}

    @jit
    def f(x):
        layer, member = torch.nn.Identity(), Kind(2)
        table[layer] = table.get(layer, 0) + x
        table[member] = table.get(member, 0) + x
        return table[layer], len(table)

    for i in range(4):
        yield f(torch.ones(2) * i), list(table.values())


def shadows():
    return {"a": torch.ones(2), "b": torch.full((2,), 2.0), "c": 3.0}


def renewed(jit, renew):
    holder = types.SimpleNamespace(shadow=shadows())

    @jit
    def f(x):
        renew(holder, x)
        return x + sum(holder.shadow.values())

    for i in range(8):
        yield f(torch.ones(2) * i), list(holder.shadow.items())
        if i == 4:
            holder.shadow["a"] = torch.zeros(2)
        if i == 5:
            holder.shadow["a"] = holder.shadow["b"]
        if i == 6:
            holder.shadow = dict(reversed(holder.shadow.items()), d=torch.ones(2))


def by_items(holder, x):
    for name, value in holder.shadow.items():
        holder.shadow[name] = value * 0.9 + x


def by_a_list_of_items(holder, x):
    for name, value in list(holder.shadow.items()):
        holder.shadow[name] = value * 0.9 + x


def by_keys(holder, x):
    for name in holder.shadow.keys():
        holder.shadow[name] = holder.shadow[name] * 0.9 + x


def by_update(holder, x):
    holder.shadow.update({name: value * 0.9 + x for name, value in holder.shadow.items()})


def by_names(holder, x):
    holder.shadow.update(a=holder.shadow["a"] * 0.9 + x, e=x)


def by_operator(holder, x):
    holder.shadow |= {"a": holder.shadow["a"] * 0.9 + x}


def by_copy(holder, x):
    copy = holder.shadow.copy()
    copy["a"] = copy["a"] * 0.9 + x
    holder.shadow = copy


@case(versions=5)
def shadows_renewed_by_items(jit):
    yield from renewed(jit, by_items)


@case(versions=5)
def shadows_renewed_by_a_list_of_items(jit):
    yield from renewed(jit, by_a_list_of_items)


@case(versions=5)
def shadows_renewed_by_keys(jit):
    yield from renewed(jit, by_keys)


@case(versions=5)
def shadows_renewed_by_update(jit):
    yield from renewed(jit, by_update)


@case(versions=6)
def shadows_renewed_by_update_with_names(jit):
    yield from renewed(jit, by_names)


@case(versions=5)
def shadows_renewed_by_operator(jit):
    yield from renewed(jit, by_operator)


@case(versions=5)
def shadows_renewed_by_copy(jit):
    yield from renewed(jit, by_copy)


@case
def dictionaries_updated_with_others(jit):
    table, other = {"a": torch.ones(2)}, {"b": torch.ones(2)}

    @jit
    def f(x):
        table.update(other)
        other.update({"b": x, "c": 1})
        table.update([("d", x)], e=x)
        return sum(table.values())

    for i in range(5):
        yield attempt(f, torch.ones(2) * i), list(table.items()), list(other.items())
        if i == 2:
            other["a"] = torch.zeros(2)
        if i == 3:
            table.clear()


class Name(str):
    """A text of a class of its own."""


def found_as_the_same(jit, make, values):
    """What code makes of a dictionary while its keys become others that are found as the same."""
    table = make()
    f = jit(lambda x: ([(type(k).__name__, repr(k)) for k in table], values(table, x)))
    for keys in ((1, 2), (True, 2), (1.0, 2), (0.0, 1), (-0.0, 1), ((1, 2.0), 1), ((True, 2), 1)):
        table.clear()
        table.update({key: torch.ones(2) for key in keys})
        for i in range(2):
            yield f(torch.ones(2) * i)


@case(versions=7)
def keys_found_as_the_same(jit):
    yield from found_as_the_same(jit, dict, lambda table, x: x + sum(table.values()))


@case(versions=7)
def keys_found_as_the_same_in_order(jit):
    yield from found_as_the_same(jit, collections.OrderedDict, lambda table, x: x + sum(table.values()))


@case
def texts_found_as_the_same(jit):
    table = {"a": torch.ones(2)}
    f = jit(lambda x: (x + sum(table.values()), [type(k).__name__ for k in table]))
    for key in ("a", Name("a"), "a"):
        table.clear()
        table[key] = torch.ones(2)
        for i in range(2):
            yield f(torch.ones(2) * i)


@case
def renewed_keys_found_as_the_same(jit):
    shadow = {1: torch.ones(2)}

    @jit
    def f(x):
        for key, value in shadow.items():
            shadow[key] = value * 0.5 + x
        return [repr(k) for k in shadow]

    for key in (1, True, 1):
        shadow[key] = shadow.pop(1)
        for i in range(3):
            yield f(torch.ones(2) * i), list(shadow.items())

"""Containers and objects of which a part is written after code has read it with all the rest."""

from __future__ import annotations

import collections
import operator
import types

import eagerjit as torch
from tests.soundness.framework import case


def read_then_written(jit, holder, read, write):
    @jit
    def f(x):
        before = read(holder)
        write(holder)
        return x * before

    for _ in range(5):
        yield f(torch.ones(2)), holder


def add_to_first(values):
    values[0] = values[0] + 1


def add_to_a(values):
    values["a"] = values["a"] + 1


def first_of(a, b):
    return a


@case
def a_list_read_in_whole_before_an_item_is_written(jit):
    for read in (
        sum, max, len, lambda v: min(list(v)), lambda v: min([*v, 9]), lambda v: (v * 1 + v)[0], lambda v: v[-2],
        lambda v: 1.0 if v < [3.0] else 2.0, lambda v: first_of(*v), lambda v: v.copy()[0], lambda v: next(iter(v)),
        lambda v: torch.tensor(v)[0], lambda v: float(f"{v}"[1:4]), lambda v: v[:1][0], lambda v: [v, 1][0][0],
        lambda v: 1.0 if 2.0 in v else 3.0, lambda v: next(zip(v, v, strict=True))[1],
    ):  # fmt: skip
        yield from read_then_written(jit, [1.0, 2.0], read, add_to_first)


@case
def a_dictionary_read_in_whole_before_an_item_is_written(jit):
    for read in (
        lambda v: {**v}["a"], lambda v: dict(v)["a"], lambda v: dict(**v)["a"], lambda v: v.copy()["a"],
        lambda v: (v | {"c": 1})["a"], lambda v: first_of(**v), lambda v: float("{a}".format(**v)),
        lambda v: types.SimpleNamespace(**v).a, lambda v: sum(v.values()), lambda v: len({}.fromkeys(v.values())),
        lambda v: max([x for _, x in v.items()]),
    ):  # fmt: skip
        yield from read_then_written(jit, {"a": 1.0, "b": 2.0}, read, add_to_a)


@case
def an_attribute_read_by_name_before_it_is_written(jit):
    def add(holder):
        holder.a = holder.a + 1

    for read in (lambda v: getattr(v, "a"), operator.attrgetter("a"), lambda v: v.a, lambda v: v.__dict__["a"]):  # noqa: B009
        yield from read_then_written(jit, types.SimpleNamespace(a=1.0), read, add)


@case
def keys_in_another_order(jit):
    table = {}

    @jit
    def f(x):
        table["a"] = 1
        table["b"] = x.sum().item()
        return list(table), x * 2

    for _ in range(3):
        yield f(torch.ones(2)), table
    table.clear()
    table["b"] = table["a"] = 0
    for _ in range(3):
        yield f(torch.ones(2)), table


@case
def the_order_of_values(jit):
    table = collections.OrderedDict(a=1.0, b=2.0)

    @jit
    def f(x):
        return x * next(iter(table.values())), list(table.items())

    for _ in range(4):
        yield f(torch.ones(2))
        table.move_to_end("a")


@case(versions=1)
def a_list_that_is_shorter_than_where_it_was_written(jit):
    values = [1]

    @jit
    def f(x):
        values.append(2)
        values[1] = 5
        values.pop()
        return x * 2

    for _ in range(3):
        yield f(torch.ones(2)), values


@case
def counts_in_a_table_made_inside(jit):
    @jit
    def f(x, letters):
        counts = {}
        for letter in letters:
            counts[letter] = counts.get(letter, 0) + 1
        return x * counts["a"], collections.Counter(letters)

    for n in range(1, 14):
        yield f(torch.ones(2), "ab" * n)


@case(versions=6)
def a_table_written_and_then_read_in_whole(jit):
    model, outputs = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()), {}
    for name, layer in model.named_modules():
        layer.register_forward_hook(lambda layer, given, out, name=name: outputs.__setitem__(name, out.detach()))

    @jit
    def f(x):
        y = model(x)
        return y, {name: out.mean() for name, out in outputs.items()}, sum(outputs.values())

    def calls(n):
        for i in range(n):
            yield f(torch.ones(2, 2) * i), outputs

    yield from calls(4)
    outputs["more"] = torch.ones(2, 2)
    yield from calls(2)
    outputs["more"].add_(1)
    yield from calls(1)
    outputs["more"] = torch.zeros(2, 2)
    yield from calls(2)
    del outputs["more"]
    outputs[""] = outputs.pop("")
    yield from calls(2)
    outputs["0"] = outputs.pop("0")
    yield from calls(2)


@case
def a_table_read_in_whole_and_then_written(jit):
    table = {"a": 1.0, "b": 2.0}

    @jit
    def f(x):
        table["b"] = x.sum().item()
        before = sum(table.values())
        table["a"] = before * 0.5
        return x * before, list(table.items())

    for i in range(6):
        yield f(torch.ones(2) * i), table
    table["c"] = 5.0
    yield f(torch.ones(2)), table

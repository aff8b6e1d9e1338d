"""Containers with attributes beside their items, and tuples of the program's own classes that hold containers."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import types
from collections import Counter, OrderedDict
from typing import Any, NamedTuple

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, case


class Pair(NamedTuple):
    x: Any
    y: Any


class Named(Pair):
    """Its instances have attributes beside their items."""


class Row(tuple):
    """One that no call takes apart."""


FACTORS = (None, 2.0, 3.0, None, 4.0)


def with_factor(made, factor):
    if factor is not None:
        made.factor = factor
    return made


def pairs(i):
    return Named(torch.ones(2) * i, torch.arange(2.0))


def tables(i):
    return OrderedDict(x=torch.ones(2) * i, y=torch.arange(2.0))


@case(versions=2)
def named_tuples_given_with_attributes(jit):
    f = jit(lambda given: given.x * getattr(given, "factor", 1.0) + given[1])
    for i, factor in enumerate(FACTORS):
        yield f(with_factor(pairs(i), factor))


@case(versions=2)
def ordered_dictionaries_given_with_attributes(jit):
    f = jit(lambda given: given["x"] * getattr(given, "factor", 1.0) + given["y"])
    for i, factor in enumerate(FACTORS):
        yield f(with_factor(tables(i), factor))


@case(versions=4)
def attributes_of_given_containers_are_assigned(jit):
    @jit
    def f(pair, table):
        pair.factor = table.factor = table["x"].sum()
        table["z"] = pair.x * 2
        return pair.y + pair.factor

    for i, factor in enumerate(FACTORS):
        pair, table = with_factor(pairs(i), factor), with_factor(tables(i), factor)
        yield f(pair, table), vars(pair), vars(table), dict(table)


@case(versions=4)
def an_ordered_dictionary_found_with_attributes(jit):
    holder = types.SimpleNamespace()
    f = jit(lambda x: x * holder.table["x"] * getattr(holder.table, "factor", 1.0))
    for i, factor in enumerate((None, None, 2.0, 3.0)):
        holder.table = with_factor(tables(i), factor)
        yield f(torch.ones(2))


@case(versions=1)
def dictionaries_made_with_attributes(jit):
    @jit
    def f(x):
        ordered, counted = tables(2), Counter(a=3)
        ordered.factor, counted.factor = x + 1, x * 2
        return ordered, counted

    for i in range(3):
        ordered, counted = f(torch.ones(2) * i)
        yield dict(ordered), vars(ordered), dict(counted), vars(counted), type(ordered), type(counted)


@case(outcome=FELL_BACK)
def a_given_named_tuple_with_attributes_is_given_back(jit):
    f = jit(lambda given: (given, given.x + 1))
    for i in range(3):
        pair = with_factor(pairs(i), 2.0)
        same, _ = f(pair)
        yield same is pair, vars(same)


@case(versions=4)
def a_list_in_a_tuple_of_a_class_of_its_own(jit):
    row = Row(([torch.ones(2)], {"scale": 2.0}))
    f = jit(lambda row, x: x * row[0][0] * row[1]["scale"])
    for i in (1, 1, 2):
        row[0][0] = torch.ones(2) * i
        yield f(row, torch.arange(2.0))
    row[1]["scale"] = 3.0
    yield f(row, torch.arange(2.0))

"""Containers in containers that equal ones replace: calls that give them away or ask which they are tell them apart."""

from __future__ import annotations

import operator
import types

import eagerjit as torch
from tests.soundness.framework import case

CONTENTS = ({}, {"z": 1}, {"z": 1}, {}, {})


def replaced(jit, function):
    """Calls while the item that the function reads is replaced by dictionaries that are equal or not."""
    world = types.SimpleNamespace(held={"item": {}}, last=None, history=[])
    f = jit(lambda x: function(world, x))
    for content in CONTENTS:
        yield f(torch.ones(2)), world.held, world.last, world.history
        world.held["item"] = dict(content)


@case(versions=5)
def an_equal_dictionary_is_returned(jit):
    yield from replaced(jit, lambda world, x: (x * 2, world.held["item"]))


@case(versions=5)
def an_equal_dictionary_is_kept(jit):
    yield from replaced(jit, lambda world, x: setattr(world, "last", world.held["item"]))


@case(versions=4)
def an_equal_dictionary_replaces_the_one_that_is_kept_already(jit):
    """The first call that is recorded assigns what lies there."""
    world = types.SimpleNamespace(held={"item": {"z": 1}}, kept=[1], found=types.SimpleNamespace())
    world.last, world.found.kept = world.held["item"], world.kept

    def function(x):
        world.last, world.found.kept = world.held["item"], world.kept
        return x * 2

    f = jit(function)
    for change in range(6):
        yield f(torch.ones(2)), world.held, world.last, world.kept, world.found.kept
        if change in (1, 3):
            world.held["item"] = dict(world.held["item"])
        if change == 2:
            world.kept = [*world.kept]


@case(versions=5)
def an_equal_dictionary_is_kept_in_a_tuple(jit):
    yield from replaced(jit, lambda world, x: setattr(world, "last", [(world.held["item"], 1)]))


@case(versions=5)
def an_equal_dictionary_is_noted(jit):
    yield from replaced(jit, lambda world, x: world.history.append(world.held["item"]))


@case(versions=5)
def an_equal_dictionary_is_kept_by_a_loop(jit):
    def function(world, x):
        for value in world.held.values():
            world.last = value
        return x * 2

    yield from replaced(jit, function)


@case
def which_of_equal_lists_an_item_is(jit):
    for ask in (lambda a, b: a is b, operator.is_, lambda a, b: id(a) == id(b)):
        world = types.SimpleNamespace(held={"item": []}, last=[])
        f = jit(lambda x, world=world, ask=ask: x * (2 if ask(world.held["item"], world.last) else 3))
        for item in ([], [], world.last, world.last, []):
            yield f(torch.ones(2))
            world.held["item"] = item
        world.last = item
        yield f(torch.ones(2))


@case(versions=3)
def whether_an_item_is_none(jit):
    world = types.SimpleNamespace(held={"item": None})
    f = jit(lambda x: x * (2 if world.held["item"] is None else 3))
    for item in ([], [], [], None, [], {}):
        yield f(torch.ones(2))
        world.held["item"] = item

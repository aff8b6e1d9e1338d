"""Values that become others which are equal to them: of another class, another zero, another empty range."""

from __future__ import annotations

import collections
import enum
import types

import numpy as np

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, case


class Text(str):
    pass


class Whole(int):
    pass


class Real(float):
    pass


class Row(tuple):
    pass


class Level(enum.IntEnum):
    LOW = 1


Pair = collections.namedtuple("Pair", "first second")

EQUAL = (
    (1, True, 1.0, Whole(1), Level.LOW, 1 + 0j),
    (0.0, -0.0, 0, False, Real(0.0), Real(-0.0), 0j, complex(-0.0, 0.0), complex(0.0, -0.0)),
    ("a", Text("a"), np.str_("a")),
    ((1, 2), (True, 2), Pair(1, 2), Row((1, 2)), (1.0, 2)),
    (frozenset([1, 2]), frozenset([True, 2]), frozenset([1.0, 2])),
    (range(0), range(1, 1), range(0, 4, 3), range(0, 5, 3)),
    (b"a", bytearray(b"a")),
)


def told(value):
    return type(value).__name__, repr(value)


def shown(jit, read, put):
    """What code says of values that are equal, one after another, in both orders."""
    for values in EQUAL:
        f = jit(lambda x: (read(), x * 2))
        for value in (*values, *values[::-1]):
            if put(value) is not TypeError:
                for i in range(2):
                    yield f(torch.ones(2) * i)


@case
def equal_items_of_lists(jit):
    held = [None]
    yield from shown(jit, lambda: told(held[0]), lambda value: held.__setitem__(0, value))


@case
def equal_items_of_lists_read_whole(jit):
    held = [None, 3]
    yield from shown(jit, lambda: list(map(told, held)), lambda value: held.__setitem__(0, value))


@case
def equal_items_of_dictionaries_read_whole(jit):
    held = {}
    yield from shown(jit, lambda: list(map(told, held.values())), lambda value: held.__setitem__("key", value))


@case
def equal_items_of_nested_containers(jit):
    held = {"inner": {}, "rows": [None]}

    def put(value):
        held["inner"]["value"] = held["rows"][0] = value

    yield from shown(jit, lambda: (told(held["inner"]["value"]), list(map(told, held["rows"]))), put)


@case
def equal_items_of_queues(jit):
    held = collections.deque([None])
    yield from shown(jit, lambda: list(map(told, held)), lambda value: held.__setitem__(0, value))


@case
def equal_items_of_tuples(jit):
    held = [None]
    yield from shown(jit, lambda: list(map(told, held[0])), lambda value: held.__setitem__(0, (value, 2)))


@case
def equal_members_of_sets(jit):
    held = set()

    def put(value):
        if isinstance(value, bytearray):
            return TypeError
        held.clear()
        return held.add(value)

    yield from shown(jit, lambda: list(map(told, held)), put)


@case
def equal_keys(jit):
    held = {}

    def put(value):
        if isinstance(value, bytearray):
            return TypeError
        held.clear()
        return held.__setitem__(value, 1)

    yield from shown(jit, lambda: list(map(told, held)), put)


@case
def equal_attributes(jit):
    held, layer = types.SimpleNamespace(), torch.nn.Identity()

    def put(value):
        held.value = layer.value = value

    yield from shown(jit, lambda: (told(held.value), told(layer.value)), put)


@case
def equal_defaults(jit):
    def function(value=None, *, named=None):
        return told(value), told(named)

    def put(value):
        function.__defaults__, function.__kwdefaults__ = (value,), {"named": value}

    yield from shown(jit, function, put)


def given(jit, wrap, tell):
    """The same of arguments."""
    for values in EQUAL:
        f = jit(lambda given, x: (tell(given), x * 2))
        for value in (*values, *values[::-1]):
            for i in range(2):
                yield f(wrap(value), torch.ones(2) * i)


@case
def equal_arguments(jit):
    yield from given(jit, lambda value: value, told)


@case
def equal_arguments_in_containers(jit):
    yield from given(jit, lambda value: {"key": [value, (value,)]}, lambda x: (told(x["key"][0]), told(x["key"][1][0])))


@case
def equal_keys_of_arguments(jit):
    hashable = (tuple(v for v in values if not isinstance(v, bytearray)) for values in EQUAL)
    for values in hashable:
        f = jit(lambda given, x: (list(map(told, given)), x * 2))
        for value in (*values, *values[::-1]):
            for i in range(2):
                yield f({value: 1}, torch.ones(2) * i)


@case(versions=5)
def whether_small_integers_are_one_object(jit):
    world = types.SimpleNamespace(calls=0)

    @jit
    def f(x, a, b):
        world.calls += 1
        return x * (2 if a is b else 3) + (world.calls is a) + (b is None)

    for a, b in ((1, 2), (2, 2), (3, 5), (4, 4), (9, 9), (6, 7), (2.5, 3.5), (7, None)):
        yield f(torch.ones(2), a, b)


@case(outcome=FELL_BACK)
def whether_large_integers_are_one_object(jit):
    f = jit(lambda x, a, b: x * (2 if a is b else 3))
    large = 1000
    for a, b in ((1, 2), (2, 3), (large, large), (large, int("1000"))):
        yield f(torch.ones(2), a, b)


@case(versions=6)
def tensors_that_are_keys_of_a_dictionary(jit):
    first, second = torch.ones(2), torch.ones(2)
    weights = {first: 2.0}
    f = jit(lambda x: x * weights.get(x, 5.0) + (x in weights))
    for x in (first, second, torch.ones(2)):
        yield f(x)
    weights[second] = 3.0
    for x in (second, first, torch.ones(2)):
        yield f(x)

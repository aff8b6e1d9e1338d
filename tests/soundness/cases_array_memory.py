"""Tensors over NumPy's arrays from outside that a function returns or keeps; what the collector sees no holder of."""

from __future__ import annotations

import types

import numpy as np

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, case

DATA = np.arange(3, dtype=np.float32)


def array():
    return np.arange(3, dtype=np.float32)


def written(results, arrays):
    """The results after a write to each, and the arrays that they lie over."""
    for number, tensor in enumerate(results):
        tensor[number % len(tensor)] = 7 + number + float(tensor[0])
    return results, [a.copy() for a in arrays]


@case(versions=1)
def tensors_over_an_array_of_an_attribute_are_returned(jit):
    world = types.SimpleNamespace(a=array())

    def f(x):
        shown = torch.from_numpy(world.a)
        return x * 2, shown, shown[1:], torch.as_tensor(world.a)

    f = jit(f)
    for _ in range(3):
        yield written(f(torch.ones(2))[1:], [world.a])
        world.a[2] += 1
    before, world.a = world.a, array() * 3
    yield written(f(torch.ones(2))[1:], [world.a, before])


@case(versions=1)
def a_tensor_over_a_global_array_is_kept(jit):
    world = types.SimpleNamespace(shown=None)

    def f(x):
        world.shown = torch.as_tensor(DATA)
        return x * 2

    f = jit(f)
    before = DATA.copy()
    for _ in range(3):
        yield f(torch.ones(2)), written([world.shown], [DATA])
    DATA[:] = before


@case(versions=1)
def an_array_of_a_tensor_over_an_array_is_returned(jit):
    arrays = [array()]

    def f(x):
        return x * 2, [torch.from_numpy(arrays[0]).numpy()]

    f = jit(f)
    for number in range(3):
        shown = f(torch.ones(2))[1][0]
        shown[1] = number
        yield shown, arrays


@case(outcome=FELL_BACK)
def tensors_over_arrays_of_a_tuple_and_of_an_iterated_dictionary_are_returned(jit):
    pair, table = (array(), array()), {"a": array()}

    def f(x):
        return x * 2, torch.from_numpy(pair[1]), *[torch.from_numpy(a) for a in table.values()]

    f = jit(f)
    for _ in range(3):
        yield written(f(torch.ones(2))[1:], [*pair, *table.values()])


@case(versions=1)
def what_is_computed_of_a_tensor_over_an_array_is_no_part_of_it(jit):
    world = types.SimpleNamespace(a=array())
    f = jit(lambda x: (torch.from_numpy(world.a) + x, torch.from_numpy(world.a).clone()))
    for _ in range(3):
        yield written(f(torch.ones(3)), [world.a])


@case
def arrays_and_bytes_of_attributes_are_changed(jit):
    world = types.SimpleNamespace(a=array(), b=bytearray(b"a"))

    def f(x):
        world.a.__setitem__(0, world.a[0] + 1)
        world.b.append(65)
        return x * 2

    f = jit(f)
    for _ in range(3):
        yield f(torch.ones(2)), world.a, bytes(world.b)


@case
def items_of_bytes_of_an_attribute_are_changed(jit):
    world = types.SimpleNamespace(b=bytearray(b"a"))

    def f(x):
        world.b[0] += 1
        return x * 2

    f = jit(f)
    for _ in range(3):
        yield f(torch.ones(2)), bytes(world.b)

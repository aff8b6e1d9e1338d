"""Functions and classes that code looks at, and what NumPy is told to do where it warns or prints."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing

import numpy as np

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, attempt, case


def ones(*sizes):
    return torch.ones(*sizes)


@case
def annotations_of_a_function_asked_for(jit):
    def described(a: int, b: int = 2):
        return a

    f = jit(lambda x: x * len(typing.get_type_hints(described)))
    g = jit(lambda x: x * (inspect.signature(described).parameters["b"].annotation is int))
    for found in ({"b": int}, {"b": float}, {}):
        described.__annotations__ = found
        yield f(ones(2)), g(ones(2))
    described.__annotations__["b"] = int
    yield f(ones(2)), g(ones(2))


@case
def what_a_function_tells_of_itself(jit):
    def described(x):
        return x

    f = jit(lambda x: x * len(described.__name__) + len(described.__doc__ or "") + len(described.__annotations__))
    g = jit(lambda x: x * len(inspect.getdoc(described) or ""))
    yield f(ones(2)), g(ones(2))
    described.__name__ = "named otherwise"
    yield f(ones(2)), g(ones(2))
    described.__doc__ = "Returns it."
    yield f(ones(2)), g(ones(2))
    described.__annotations__["x"] = float
    yield f(ones(2)), g(ones(2))


@case
def members_and_fields_of_a_class(jit):
    @dataclasses.dataclass
    class Point:
        x: float = 1.0

        def length(self):
            return self.x

    f = jit(lambda x: x * len(inspect.getmembers(Point, inspect.isfunction)) + len(dataclasses.fields(Point)))
    yield f(ones(2)), f(ones(2))
    Point.area = lambda self: 0.0
    yield f(ones(2)), f(ones(2))
    Point.__dataclass_fields__["y"] = Point.__dataclass_fields__["x"]
    yield f(ones(2))


def in_other_modes(f):
    for mode in ("ignore", "raise", "ignore", "warn"):
        with np.errstate(all=mode):
            yield attempt(f, ones(2)), attempt(f, ones(2))


@case(outcome=FELL_BACK)
def operators_on_numbers_of_numpy_where_it_warns(jit):
    world = types.SimpleNamespace(total=np.float32(1), count=np.float32(0))
    yield from in_other_modes(jit(lambda x: x * float(world.total / world.count)))


@case(outcome=FELL_BACK)
def functions_of_numpy_where_it_warns(jit):
    world = types.SimpleNamespace(count=np.zeros(2))
    yield from in_other_modes(jit(lambda x: x * float(np.log(world.count)[0])))


@case
def texts_of_arrays(jit):
    world = types.SimpleNamespace(values=np.array([1.123456789]))
    f = jit(lambda x: x * len(f"{world.values}") + len(repr(world.values)) + len(str([world.values])))
    for precision in (8, 3, 8):
        with np.printoptions(precision=precision):
            yield f(ones(2)), f(ones(2))

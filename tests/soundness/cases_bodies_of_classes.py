"""What the bodies of classes read, and what Python evaluates later and keeps: annotations, what a `type` stands for."""

from __future__ import annotations

import sys
import types

import eagerjit as torch
from tests.soundness.framework import attempt, case

HAS_TYPES = sys.version_info >= (3, 12)
LATER = sys.version_info >= (3, 14)
TEXT = """
def of_function(c):
    class Kind:
        type Alias = c
        def method[T: c](self, y: c) -> T: ...
        field: c
    return Kind

def of_class():
    class Kind:
        c = 7
        type Alias = c
        def method[T: c](self, y: c) -> T: ...
        field: c
    return Kind

def made():
    class Kind:
        type Alias = c
        def method[T: c](self, y: c) -> T: ...
        field: c
    return Kind

def function():
    def inner(y: c): ...
    return inner

def alias(kind):
    return kind.Alias.__value__

def bound(kind):
    return kind.method.__type_params__[0].__bound__
"""
if not HAS_TYPES:
    TEXT = TEXT.replace("type Alias", "Alias").replace("[T: c]", "").replace(" -> T", "")


def generic() -> types.SimpleNamespace:
    """Functions that make a class which names `c`, and the globals that they read."""
    space: dict = {"c": 2}
    exec(compile(TEXT, "<string>", "exec", dont_inherit=True), space)
    return types.SimpleNamespace(space=space, **{n: v for n, v in space.items() if n != "__builtins__"})


@case(versions=6)
def a_variable_around_read_by_the_body_of_a_class(jit):
    scale, shift = 2.0, torch.tensor(1.0)
    options = types.SimpleNamespace(power=1)

    def shifted(x):
        return x + shift

    def enlarged(x):
        return x * 10

    change = shifted

    def f(x):
        class Kind:
            factor = scale
            values = tuple([i * scale for i in (1, 2)])
            start = change(x)
            power = options.power

        return Kind.start * Kind.factor**Kind.power + sum(Kind.values)

    f = jit(f)
    for _ in range(3):
        yield f(torch.arange(3.0))
        scale *= 1.5
        shift += 1
        options.power += 1
    change = enlarged
    yield f(torch.arange(3.0))


@case
def a_variable_around_that_a_class_lacks(jit):
    def f(x):
        class Kind:
            factor = scale

        return x * Kind.factor

    f = jit(f)
    attempt(f, torch.ones(2))
    scale = 2.0
    yield f(torch.ones(2))
    del scale
    attempt(f, torch.ones(2))
    scale = 3.0
    yield f(torch.ones(2))


@case
def a_variable_around_that_the_body_of_a_class_assigns(jit):
    count = 0

    def f(x):
        class Kind:
            nonlocal count
            before = count
            count = before + 1
            after = count

        return x * Kind.before + Kind.after

    f = jit(f)
    for _ in range(3):
        yield f(torch.ones(2)), count


@case
def annotations_of_classes_that_calls_make(jit):
    made = generic()

    def f(x, number):
        kind, own, of_globals = made.of_function(number), made.of_class(), made.made()
        kinds = [kind, own, of_globals]
        for k in kinds:
            x = x * k.__annotations__["field"] + k.method.__annotations__["y"]
        return x

    f = jit(f)
    for number in (2, 3, 4):
        yield f(torch.ones(2), number)
        made.space["c"] += 5


@case
def types_and_bounds_of_classes_that_calls_make(jit):
    made = generic()

    def f(x, number):
        for kind in (made.of_function(number), made.of_class(), made.made()):
            if HAS_TYPES:
                x = x * made.alias(kind) + made.bound(kind)
        return x

    f = jit(f)
    for number in (2, 3, 4):
        yield f(torch.ones(2), number)
        made.space["c"] += 5


@case
def annotations_read_first_by_a_compiled_call(jit):
    made = generic()
    kinds, functions = [made.made(), made.of_function(3)], [made.function()]

    def f(x):
        for kind in kinds:
            x = x * kind.__annotations__["field"] + getattr(kind.method, "__annotations__")["y"]  # noqa: B009
        return x * made.space["c"] + functions[0].__annotations__["y"]

    f = jit(f)
    for number in range(5):
        yield f(torch.ones(2)), [k.__annotations__["field"] for k in kinds], functions[0].__annotations__["y"]
        made.space["c"] += number
        kinds[:] = made.made(), made.of_function(number)
        functions[:] = [made.function()]


@case
def types_and_bounds_read_first_by_a_compiled_call(jit):
    made = generic()
    kinds = [made.made(), made.of_function(3)]

    def f(x):
        for kind in kinds if LATER else ():
            x = x * made.alias(kind) + made.bound(kind)
        return x * made.space["c"]

    f = jit(f)
    for number in range(5):
        yield f(torch.ones(2)), [made.alias(k) + made.bound(k) for k in kinds if LATER]
        made.space["c"] += number
        kinds[:] = made.made(), made.of_function(number)

"""What code asks of classes: whether abstract ones took them in, patterns, methods they get, settings they hold."""

from __future__ import annotations

import collections.abc
import numbers

import eagerjit as torch
from eagerjit import distributions
from tests.soundness.framework import attempt, case


class Empty:
    """A class that is derived anew by each case, as `register` cannot be taken back."""


def changed(jit, function, *changes):
    """Calls before and after each change."""
    f = jit(function)
    yield f(torch.ones(2))
    for change in changes:
        change()
        yield f(torch.ones(2))


@case(versions=2)
def an_abstract_class_of_python_takes_in_a_class(jit):
    kind = type("Kind", (Empty,), {})
    value = kind()
    yield from changed(
        jit,
        lambda x: x * (2 if isinstance(value, (int, collections.abc.Mapping)) else 3),
        lambda: collections.abc.Mapping.register(kind),
    )


@case(versions=2)
def a_subclass_by_registration(jit):
    kind = type("Kind", (Empty,), {})
    yield from changed(
        jit, lambda x: x * (2 if issubclass(kind, numbers.Number) else 3), lambda: numbers.Number.register(kind)
    )


@case(versions=3)
def an_abstract_class_in_a_pattern(jit):
    kind = type("Kind", (Empty,), {})
    value = kind()

    def function(x):
        match value:
            case collections.abc.Sequence():
                return x * 2
            case numbers.Number():
                return x * 3
        return x

    yield from changed(
        jit, function, lambda: numbers.Number.register(kind), lambda: collections.abc.Sequence.register(kind)
    )


@case(versions=2)
def a_class_becomes_a_sequence_to_patterns(jit):
    kind = type("Kind", (Empty,), {"__len__": lambda self: 2, "__getitem__": lambda self, i: (3.0, 4.0)[i]})
    value = kind()

    def function(x):
        match value:
            case [first, second]:
                return x * first - second
        return x

    yield from changed(jit, function, lambda: collections.abc.Sequence.register(kind))


@case(versions=2)
def a_class_becomes_a_mapping_to_patterns(jit):
    members = {"__len__": lambda self: 1, "get": lambda self, key, default=None: 4.0 if key == "k" else default}
    kind = type("Kind", (Empty,), members)
    value = kind()

    def function(x):
        match value:
            case {"k": found}:
                return x * found
        return x

    yield from changed(jit, function, lambda: collections.abc.Mapping.register(kind))


@case(versions=2)
def an_object_of_another_class_in_a_pattern(jit):
    first, second = type("First", (Empty,), {}), type("Second", (Empty,), {})
    value = first()

    def function(x):
        match value:
            case first():
                return x * 2
        return x * 3

    yield from changed(
        jit, function, lambda: setattr(value, "__class__", second), lambda: setattr(value, "__class__", first)
    )


@case(versions=3)
def what_a_pattern_reads_by_position(jit):
    kind = type("Kind", (Empty,), {"__match_args__": ("a",), "a": 2.0, "b": 3.0})
    value = kind()

    def function(x):
        match value:
            case kind(found):
                return x * found
        return x

    yield from changed(
        jit, function, lambda: setattr(kind, "__match_args__", ("b",)), lambda: setattr(value, "b", 5.0)
    )


@case(versions=2)
def a_class_comes_to_be_callable(jit):
    kind = type("Kind", (Empty,), {})
    value = kind()
    yield from changed(
        jit,
        lambda x: x * (2 if callable(value) else 3),
        lambda: setattr(kind, "__call__", lambda self: None),
        lambda: delattr(kind, "__call__"),
    )


@case(versions=3)
def whether_distributions_check_what_they_are_given(jit):
    @jit
    def f(mean, scale):
        return distributions.Normal(mean, scale).rsample()

    attempt(f, torch.zeros(2), torch.ones(2))
    for checked in (True, False, True):
        distributions.Distribution.set_default_validate_args(checked)
        yield attempt(f, torch.zeros(2), -torch.ones(2))
        yield attempt(f, torch.zeros(2), torch.ones(2))


@case
def methods_that_functions_of_python_look_for_first(jit):
    for bases, members, name, found, function in (
        ((), {"__index__": lambda self: 1}, "__float__", lambda self: 9.0, float),
        ((), {"__index__": lambda self: 1}, "__int__", lambda self: 9, int),
        ((), {"__float__": lambda self: 1.0}, "__complex__", lambda self: 9j, complex),
        ((), {"__len__": lambda self: 1}, "__bool__", lambda self: False, bool),
        ((), {"__repr__": lambda self: "a"}, "__str__", lambda self: "abc", lambda v: len(f"{v}") + len(f"{v!s:>2}")),
        ((), {"__str__": lambda self: "a"}, "__format__", lambda self, spec: "abc", lambda v: len(format(v))),
        ((float,), {}, "__round__", lambda self: 7, round),
        ((float,), {}, "__abs__", lambda self: 7, abs),
        ((list,), {}, "__len__", lambda self: 7, len),
        ((list,), {}, "__iter__", lambda self: iter([7.0]), sum),
    ):
        kind = type("Kind", bases, members)
        value = kind()
        f = jit(lambda x, value=value, function=function: x * function(value))
        yield f(torch.ones(2))
        setattr(kind, name, found)
        yield f(torch.ones(2))


@case(versions=2)
def a_class_comes_to_be_reversible(jit):
    members = {"__len__": lambda self: 2, "__getitem__": lambda self, i: float(i)}
    kind = type("Kind", (Empty,), members)
    value = kind()
    yield from changed(
        jit,
        lambda x: [x * v for v in reversed(value)],
        lambda: setattr(kind, "__reversed__", lambda self: iter([7.0])),
    )

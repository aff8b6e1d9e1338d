"""Lists and dictionaries that a call reaches in more than one way: two arguments, an argument and a global."""

from __future__ import annotations

import dataclasses
import types

import eagerjit as torch
from tests.soundness.framework import case


def ramp(*sizes):
    n = torch.Size(sizes).numel()
    return (torch.arange(float(n)) / n - 0.3).reshape(*sizes)


@case(versions=1)
def two_arguments_are_one_list(jit):
    @jit
    def f(a, b, x):
        a.append(x)
        return x * len(b)

    yield f([], [], ramp(2))
    both = []
    yield f(both, both, ramp(2)), both


@case(versions=1)
def one_list_twice_in_an_argument(jit):
    @jit
    def f(pair, x):
        pair[0].append(x)
        return x * len(pair[1])

    yield f([[], []], ramp(2))
    both = []
    yield f([both, both], ramp(2)), both


@case
def an_argument_that_is_a_list_of_outside(jit):
    known = [torch.ones(2)]

    @jit
    def f(given, x):
        given.append(x)
        return x * len(known)

    for _ in range(2):
        yield f([torch.ones(2)], ramp(2)), known
    for _ in range(2):
        yield f(known, ramp(2)), known


@case
def an_argument_that_is_a_list_in_an_attribute(jit):
    box = types.SimpleNamespace(items=[[]])

    @jit
    def f(given, x):
        box.items[0].append(x)
        return x * len(given)

    yield f([], ramp(2)), box
    for _ in range(2):
        box.items[0].clear()
        yield f(box.items[0], ramp(2)), box


@case
def a_record_that_is_two_arguments(jit):
    @dataclasses.dataclass
    class Record:
        count: int

    @jit
    def f(a, b, x):
        a.count += 1
        return x * b.count

    yield f(Record(1), Record(2), ramp(2))
    record = Record(3)
    for _ in range(2):
        yield f(record, record, ramp(2)), record


@case(versions=1)
def arguments_asked_whether_they_are_one_list(jit):
    f = jit(lambda a, b, x: x * 2 if a is b else x)
    yield f([], [], ramp(2))
    both = []
    yield f(both, both, ramp(2)), f([], [], ramp(2))


@case(versions=1)
def a_list_taken_out_of_an_argument_and_changed(jit):
    @jit
    def f(given, x):
        inner = given["a"]
        given["a"] = [x]
        inner.append(x * 2)
        return x

    for _ in range(3):
        inner = []
        given = {"a": inner}
        yield f(given, ramp(2)), given, inner

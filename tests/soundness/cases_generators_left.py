"""Generators that are left before their end: what their `finally` and `with` do when they are closed."""

from __future__ import annotations

import contextlib
import types

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, case


def _counting():
    state = types.SimpleNamespace(n=1)

    def rows(x):
        try:
            yield from x.unbind()
        finally:
            state.n += 1

    return state, rows


def _called(jit, function, state):
    f = jit(function)
    for size in (2, 3, 2, 2):
        yield f(torch.ones(size, 2)), state.n


@case
def the_first_of_a_generator_that_counts(jit):
    state, rows = _counting()
    yield from _called(jit, lambda x: next(rows(x)) * state.n, state)


@case
def a_loop_left_by_return(jit):
    state, rows = _counting()

    def f(x):
        for row in rows(x):
            return row * state.n

    yield from _called(jit, f, state)


@case
def a_loop_left_by_break(jit):
    state, rows = _counting()

    def f(x):
        for _ in range(2):
            for row in rows(x):
                x = x + row
                break
        return x * state.n

    yield from _called(jit, f, state)


@case
def a_generator_in_a_variable(jit):
    state, rows = _counting()

    def f(x):
        generator = rows(x)
        row = next(generator)
        return row * state.n

    yield from _called(jit, f, state)


@case
def a_generator_deleted_after_an_error(jit):
    state, rows = _counting()

    def f(x):
        generator = rows(x)
        row = next(generator)
        with contextlib.suppress(ValueError):
            raise ValueError
        del generator
        return row * state.n

    yield from _called(jit, f, state)


@case
def a_generator_that_is_given(jit):
    state, rows = _counting()

    def first(generator):
        row = next(generator)
        generator = None
        return row * state.n

    yield from _called(jit, lambda x: first(rows(x)) + state.n, state)


@case
def a_generator_that_an_expression_asks(jit):
    state, rows = _counting()
    yield from _called(jit, lambda x: any(row is not None for row in rows(x)) * x * state.n, state)


@case
def generators_in_one_another(jit):
    state, rows = _counting()

    @contextlib.contextmanager
    def counted():
        state.n += 10
        try:
            yield
        finally:
            state.n -= 5

    def outer(x):
        with counted():
            yield from rows(x)

    yield from _called(jit, lambda x: next(outer(x)) * state.n, state)


@case
def a_generator_left_by_an_error(jit):
    state, rows = _counting()

    def f(x):
        with contextlib.suppress(KeyError):
            for _ in rows(x):
                raise KeyError
        return x * state.n

    yield from _called(jit, f, state)


@case(outcome=FELL_BACK)
def a_generator_that_a_list_holds(jit):
    state, rows = _counting()

    def f(x):
        generators = [rows(x)]
        return next(generators[0]) * state.n

    yield from _called(jit, f, state)


@case(outcome=FELL_BACK)
def a_generator_that_an_iterator_holds(jit):
    state, rows = _counting()
    yield from _called(jit, lambda x: next(zip(rows(x), x.unbind(), strict=False))[0] * state.n, state)


@case(outcome=FELL_BACK)
def a_generator_that_lives_on(jit):
    state, rows = _counting()
    state.kept = None

    def f(x):
        state.kept = rows(x)
        return next(state.kept) * state.n

    f = jit(f)
    for _ in range(3):
        yield f(torch.ones(2, 2)), state.n

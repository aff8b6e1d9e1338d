"""Errors that the caller of a function handles while it calls: code may ask for them, and raise them again."""

from __future__ import annotations

import sys
import traceback

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, attempt, case


def called_while_handling(f):
    """Calls with no error handled, with one of two, and with none again."""

    def within(kind):
        try:
            raise kind
        except kind:
            return attempt(f, torch.ones(2))

    return [
        attempt(f, torch.ones(2)), attempt(f, torch.ones(2)), within(ZeroDivisionError), within(KeyError),
        attempt(f, torch.ones(2)),
    ]  # fmt: skip


@case(outcome=FELL_BACK)
def the_error_that_the_caller_handles(jit):
    yield called_while_handling(jit(lambda x: x * (2 if sys.exc_info()[0] is None else 3)))


@case(outcome=FELL_BACK)
def the_text_of_the_error_that_the_caller_handles(jit):
    yield called_while_handling(jit(lambda x: x * traceback.format_exc().startswith("NoneType")))


@case(outcome=FELL_BACK)
def an_error_of_the_caller_raised_again(jit):
    @jit
    def f(x):
        try:
            raise
        except ZeroDivisionError:
            return x * 2
        except RuntimeError:
            return x * 3

    yield called_while_handling(f)


@case(outcome=FELL_BACK)
def the_context_of_an_error(jit):
    @jit
    def f(x):
        try:
            raise ValueError
        except ValueError as error:
            return x * len(repr(error.__context__))

    yield called_while_handling(f)


@case(versions=1)
def an_error_raised_again_by_its_own_handler(jit):
    @jit
    def f(x):
        try:
            try:
                raise ValueError("three")
            except ValueError:
                raise
        except ValueError:
            return x * len(str(sys.exc_info()[1]))

    yield called_while_handling(f)

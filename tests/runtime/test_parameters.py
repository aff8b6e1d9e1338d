"""What functions take, read off their code, as `inspect.signature` has it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from eagerjit.runtime.parameters import Parameters, parameters


def plain(a, b, c=1, *, d=2, e):
    return a, b, c, d, e


def open_ended(a, *more, named=None, **options):
    return a, more, named, options


def nothing():
    return None


@functools.wraps(plain)
def wrapped(*args, **kwargs):
    return plain(*args, **kwargs)


@pytest.mark.parametrize("function", [plain, open_ended, nothing, wrapped, lambda x, y=(1, 2): (x, y)])
def test_as_inspect_has_them(function: Callable[..., Any]) -> None:
    given = inspect.signature(function).parameters.values()
    of = {kind: [p for p in given if p.kind is kind] for kind in inspect._ParameterKind}
    found = parameters(function)
    by_position = of[inspect.Parameter.POSITIONAL_OR_KEYWORD]
    assert found.names == tuple(p.name for p in by_position)
    assert found.defaults == tuple(p.default for p in by_position)
    assert found.required == tuple(p.name for p in by_position if p.default is inspect.Parameter.empty)
    assert found.more == "".join(p.name for p in of[inspect.Parameter.VAR_POSITIONAL])
    assert found.keywords == tuple(p.name for p in of[inspect.Parameter.KEYWORD_ONLY])


def test_functions_that_say_what_they_take() -> None:
    def called(*arguments: Any) -> None: ...

    called.takes = parameters(plain)  # type: ignore[attr-defined]
    assert parameters(called) is parameters(called) and parameters(called).names == ("a", "b", "c")


def test_any_number_as_one_more() -> None:
    empty = inspect.Parameter.empty
    assert parameters(open_ended).together() == Parameters(("a", "more"), (empty, empty))
    assert parameters(nothing).together() == Parameters((), ())

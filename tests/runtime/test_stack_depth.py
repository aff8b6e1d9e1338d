"""The stack of a running frame, read where the code says that it ends."""

from __future__ import annotations

import contextlib
import dis
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from eagerjit.runtime import frames


@contextlib.contextmanager
def manager(value: Any) -> Iterator[Any]:
    before = [value]
    try:
        yield before
    finally:
        before.append(None)


def numbers(count: int) -> Iterator[int]:
    for i in range(count):
        got = yield i
        assert got is None
    return


def with_statements(x: Any) -> Any:
    with manager(x) as a, manager(a) as b:
        return [x, a, b]


def loops(x: Any) -> Any:
    total = [x]
    for i in numbers(3):
        for j in (1, 2):
            if j > i:
                continue
            total.append(i * j)
        else:
            total.append(None)
    while len(total) < 9:
        total += [len(total)]
    return total


def exceptions(x: Any) -> Any:
    found = []
    try:
        try:
            with manager(x):
                raise KeyError(x)
        except ValueError:
            found.append("never")
        finally:
            found.append("finally")
    except KeyError as error:
        found.append(error.args)
    return (x, found)


def expressions(x: Any) -> Any:
    def inner(a: Any, *rest: Any, key: Any = 3, **others: Any) -> Any:
        return [a, rest, key, others]

    table = {**{"key": x}, "more": [y for y in (x, 1) if y is not None]}
    first, *rest = inner(x, *[1, 2], key=x), inner(x, **table)
    match rest:
        case [[a, *_]] if a is x:
            return first if x else f"{x!r:>5}"
    return rest


@pytest.mark.parametrize("function", [with_statements, loops, exceptions, expressions])
def test_what_is_returned_lies_on_top(function: Callable[[Any], Any]) -> None:
    assert frames.readable()
    tops: dict[FrameType, Any] = {}
    compared: list[str] = []

    def trace(frame: FrameType, event: str, value: Any) -> Any:
        if frame.f_code.co_filename != __file__:
            return None
        if event == "call":
            frame.f_trace, frame.f_trace_opcodes = trace, True
        name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
        if event == "opcode" and name == "RETURN_VALUE":
            tops[frame] = frames.stack(frame, 1)[0]
        if event == "return" and frame in tops:
            assert tops.pop(frame) is value
            compared.append(frame.f_code.co_name)
        return trace

    marker = object()
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function(marker)
    finally:
        sys.settrace(before)
    assert function.__name__ in compared

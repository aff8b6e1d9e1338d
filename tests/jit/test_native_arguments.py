"""Calls whose arguments are nestings or given by name, and what calls do to objects: Python has little to do."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

import eagerjit as torch
from eagerjit.jit import JitFunction


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Batch:
    x: Any
    scale: float = 1.0


class Meter:
    def __init__(self) -> None:
        self.total, self.count = torch.zeros(3), 0


def x(value: float = 1.0) -> torch.Tensor:
    return torch.full((3,), value)


CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
    "by name": (lambda x, scale=1.0: x * scale, (x(),), {"scale": 3.0}),
    "all by name": (lambda *, a, b: a - b, (), {"a": x(2), "b": x(5)}),
    "a list": (lambda xs: [a * 2 for a in xs], ([x(), x(2), x(3)],), {}),
    "a dictionary": (lambda d: {k: v + 1 for k, v in d.items()}, ({"a": x(), "b": 4.0},), {}),
    "a pair": (lambda p: Pair(p.second, p.first * 2), (Pair(x(), x(2)),), {}),
    "fields": (lambda b: {"x": b.x * b.scale}, (Batch(x(), 2.5),), {}),
    "nested": (lambda d, xs=(): d["a"][0] + xs[0]["b"], ({"a": [x(), 1]},), {"xs": ({"b": x(4)}, None)}),
    "nothing": (lambda a, more=(), named=None: a * 2, (x(), ()), {"named": {}}),
    "many": (lambda xs: sum(xs), ([x(i) for i in range(200)],), {}),
}


@contextlib.contextmanager
def in_native_code() -> Iterator[None]:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("Python was asked")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JitFunction, "_served_again", refuse)
        yield


def same(a: Any, b: Any) -> bool:
    (xs, shape), (ys, other) = torch.utils._pytree.tree_flatten(a), torch.utils._pytree.tree_flatten(b)
    both = zip(xs, ys, strict=True)
    return shape == other and all(torch.equal(p, q) if isinstance(p, torch.Tensor) else p == q for p, q in both)


@pytest.mark.parametrize("name", CALLS)
def test_native_code_takes_what_lies_in_arguments(name: str) -> None:
    function, args, kwargs = CALLS[name]
    fast = torch.jit(function)
    expected = function(*args, **kwargs)
    assert same(fast(*args, **kwargs), expected)
    with in_native_code():
        assert same(fast(*args, **kwargs), expected)


def test_what_is_not_as_before_is_another_version() -> None:
    def function(d: Any, **named: Any) -> Any:
        return [*d, *named], sum(v for v in [*d.values(), *named.values()] if isinstance(v, torch.Tensor))

    fast = torch.jit(function)
    calls: list[tuple[Any, dict[str, Any]]] = [
        ({"a": x(), "b": x(2)}, {"p": x(3), "q": x(4)}),
        ({"b": x(2), "a": x()}, {"p": x(3), "q": x(4)}),
        ({"a": x(), "b": x(2)}, {"q": x(4), "p": x(3)}),
        ({"a": x(), "b": x(2), "c": x(5)}, {"p": x(3), "q": x(4)}),
        ({"a": x()}, {"p": x(3), "q": x(4)}),
        (collections.OrderedDict(a=x(), b=x(2)), {"p": x(3), "q": x(4)}),
        ({"a": x(), 1: x(2)}, {"p": x(3)}),
        ({}, {"p": x(3)}),
    ]
    for _ in range(3):
        for d, named in calls:
            assert same(fast(d, **named), function(d, **named))


@pytest.mark.parametrize("other", [[x(), x(2)], (x(),), [x()], [x(), 2.0], Pair(x(), x(2)), [x(), [x(2)]]])
def test_other_containers_are_told_apart(other: Any) -> None:
    def function(xs: Any) -> Any:
        return type(xs).__name__, len(xs), xs[0] * 2

    fast = torch.jit(function)
    for _ in range(2):
        for xs in ((x(), x(2)), other):
            assert same(fast(xs), function(xs))


def test_a_tensor_in_two_places_is_one() -> None:
    def function(xs: list[torch.Tensor]) -> torch.Tensor:
        xs[0].add_(1)
        return xs[0] + xs[1]

    fast = torch.jit(function)
    for _ in range(3):
        a, b = x(), x()
        assert torch.equal(fast([a, b]), x(3)) and torch.equal(fast([a, a]), x(6))


def test_fields_that_were_added_or_are_missing_are_seen() -> None:
    def function(b: Batch) -> Any:
        return b.x * 2 if hasattr(b, "scale") else b.x, getattr(b, "more", None)

    fast = torch.jit(function)
    whole, more = Batch(x()), Batch(x())
    more.more = "here"  # type: ignore[attr-defined]
    for _ in range(3):
        for b in (whole, more):
            assert same(fast(b), function(b))


def test_what_calls_do_to_objects() -> None:
    def step(meter: Meter, items: list[Any], value: torch.Tensor) -> Any:
        meter.total = meter.total * 0.5 + value
        meter.count += 1
        items.append(value * 2)
        return value.sum().item()

    kept, plain = Meter(), Meter()
    found: list[Any] = []
    expected: list[Any] = []
    fast = torch.jit(lambda value: step(kept, found, value))
    for i in range(4):
        assert fast(x(i)) == step(plain, expected, x(i))
    assert kept.count == plain.count and torch.equal(kept.total, plain.total) and same(found, expected)

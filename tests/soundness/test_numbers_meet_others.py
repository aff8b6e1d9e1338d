"""Numbers of a call beside numbers of all kinds: they compare and calculate as Python's own."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import fractions
import operator
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerjit as torch


class Two(enum.IntEnum):
    TWO = 2


class Float(float):
    pass


class Int(int):
    pass


OTHERS = [
    2, 2.0, True, Two.TWO, Float(2.0), Int(2), 2 + 0j, fractions.Fraction(2), decimal.Decimal(2), None, "a", (1,),
    np.float32(2), 0, 2**53 + 1, 2**64, float("inf"), float("nan"),
]  # fmt: skip
OPERATORS = [
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, operator.add, operator.sub,
    operator.mul, operator.truediv, operator.floordiv, operator.mod,
]  # fmt: skip


def outcome(function: Callable[..., Any], *arguments: Any) -> str:
    """What a call gives or raises, with all types."""
    try:
        return repr(plain(function(*arguments)))
    except Exception as error:
        return type(error).__name__


def plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [*map(plain, value)]
    return value.tolist() if isinstance(value, torch.Tensor) else value


def agree(function: Callable[..., Any], *calls: tuple[Any, ...]) -> None:
    jitted = torch.jit(function)
    for arguments in calls:
        assert outcome(jitted, *arguments) == outcome(function, *arguments), arguments


@pytest.mark.parametrize("function", OPERATORS)
@pytest.mark.parametrize("other", OTHERS, ids=lambda other: f"{type(other).__name__} {other}")
def test_operators(other: Any, function: Callable[..., Any]) -> None:
    x = torch.ones(2)
    numbers = [(x, k) for k in (2, 2.5, 2**53 + 1)]
    agree(lambda x, k: (x * 1, function(k, other)), *numbers)
    agree(lambda x, k: (x * 1, function(other, k)), *numbers)
    agree(lambda x: (x * 1, function(x.shape[0], other)), (x,), (torch.ones(3),))


def test_tensors_and_arrays_compare_elementwise() -> None:
    integers = torch.arange(3)
    agree(lambda x, k: (k == x, k != x, k < x, k >= x), (integers, 2), (integers, 1), (integers, 1.0))
    agree(lambda x: x.shape[0] == x, (torch.tensor([2, 5]),), (torch.tensor([3, 5, 1]),))
    agree(lambda x, k: (x * 1, (k == np.arange(3)).tolist()), (integers, 2))


def test_membership_and_patterns() -> None:
    def matched(x: Any, k: Any) -> Any:
        match k:
            case 3:
                return x
            case Two.TWO:
                return x * 2
            case _:
                return x * 3

    x = torch.ones(1)
    calls = [(x, k) for k in (2, 2.0, 3, 4.5)]
    agree(matched, *calls)
    agree(lambda x, k: x * (3 if k in [Two.TWO] else 1), *calls)
    agree(lambda x, k: x * {2: 5}.get(k, 1), *calls)


def test_quotients_of_long_integers() -> None:
    calls = [(torch.ones(1), k) for k in (2**53 + 1, 7, 2**60 + 1)]
    agree(lambda x, k: (x, k / 3, 3 / k, k / k, k / (k - 1), k / True), *calls)


class Holder:
    """What C code asks for numbers of its own."""

    value: Any = 0

    def __float__(self) -> float:
        return self.value * 2.0

    def __index__(self) -> int:
        return self.value

    def __int__(self) -> int:
        return self.value

    def __len__(self) -> int:
        return self.value

    def __hash__(self) -> int:
        return self.value

    def __eq__(self, other: object) -> bool:
        return bool(self.value == other)


def caught(body: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def function(x: Any, k: Any) -> Any:
        try:
            return x * 1, body(x, k)
        except (TypeError, ValueError, AttributeError):
            return x - 100

    return function


HOLDER = Holder()


def held(ask: Callable[[Holder], Any]) -> Callable[[Any, Any], Any]:
    def body(x: Any, k: Any) -> Any:
        HOLDER.value = k
        return ask(HOLDER)

    return body


BODIES: dict[str, Callable[[Any, Any], Any]] = {
    "positive": lambda x, k: +k,
    "float": held(float),
    "int": held(int),
    "range": held(lambda h: [*range(h)]),
    "subscript": held(lambda h: [7, 8, 9][h]),
    "hash": held(lambda h: {h: 1}[h]),
    "len": held(len),
    "sizes": held(lambda h: torch.zeros(h).shape[0]),
    "pow of three": lambda x, k: pow(k, 2, 3),
    "complex": lambda x, k: (k + 1j, k * 1j, 1j - k, k / 1j),
    "deque": lambda x, k: collections.deque(range(9), maxlen=k),
    "Decimal": lambda x, k: decimal.Decimal(k),
    "timedelta": lambda x, k: datetime.timedelta(seconds=k),
    "mean": lambda x, k: statistics.mean((k, k + 1)),
    "mean of sizes": lambda x, k: statistics.mean(x.shape),
    "backwards": lambda x, k: x.numpy()[::-1].copy().tolist(),
    "is_integer": lambda x, k: k.is_integer(),
}


@pytest.mark.parametrize("name", BODIES)
def test_what_c_code_asks_raises_nothing_of_its_own(name: str) -> None:
    x = torch.arange(3.0)
    agree(caught(BODIES[name]), (x, 2), (x, 1), (x, 2.0), (x, 2.5))


def test_options_are_checked() -> None:
    x = torch.ones(1)
    agree(lambda x, k: torch.normal(0.0, k, (1,)).shape, (x, 1.0), (x, -1.0), (x, -2))
    agree(lambda x, k: torch.eye(k), (x, 2), (x, 2.0))
    agree(lambda x, k: torch.arange(3.0).kthvalue(k).values, (x, 1), (x, 2), (x, 3))

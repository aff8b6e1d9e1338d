"""`sum` of numbers of the call, and of lists that grow, is Python's, which since 3.12 adds what rounding lost."""

from __future__ import annotations

import functools
import math
import random
import struct
from typing import Any

import pytest

import eagerjit as torch
from eagerjit.recording import exact_sums

SPECIAL = (0.0, -0.0, 1e308, -1e308, 1.7e308, 1e16, -1e16, 1.0, 3, True, 2**40, 1e-320, math.inf, -math.inf, math.nan)


def bits(number: Any) -> Any:
    """What tells apart numbers that are not the same."""
    return (type(number), "nan" if number != number else struct.pack("d", number))


def lists(count: int) -> list[list[Any]]:
    """Lists of ints and floats, of which the next ones cancel many."""
    rng, found = random.Random(0), []
    for _ in range(count):
        values: list[Any] = [rng.choice((rng.uniform(-1, 1), rng.gauss(0, 1) * 10.0 ** rng.randrange(-20, 20)))]
        for _ in range(rng.randrange(8)):
            values.append(rng.choice((-values[-1], rng.gauss(0, 1), rng.choice(SPECIAL), rng.randrange(-9, 9))))
        found.append(values)
    return found


def compared_first(values: list[Any]) -> Any:
    """A sum of ints and floats as Python has it since 3.12, where the larger of two numbers loses nothing."""
    total, loss, in_floats = 0, 0.0, False
    for x in values:
        new = total + x
        if in_floats and (type(x) is float or exact_sums.ADDS_ALL_EXACTLY):
            loss += (total - new) + x if abs(total) >= abs(x) else (x - new) + total
        total, in_floats = new, in_floats or type(new) is float
    return total + loss if in_floats and loss and math.isfinite(loss) else total


def test_running_sums_lose_what_python_finds_lost():
    for values in lists(2000):
        running = exact_sums.RunningSum(0)
        for x in values:
            running.add(x)
        assert bits(running.result()) == bits(compared_first(values)), values
        half = len(values) // 2
        total = exact_sums.total(values[:half])
        rest = exact_sums.RunningSum(total, exact_sums.loss(values[:half]) if type(total) is float else 0.0)
        for x in values[half:]:
            rest.add(x)
        assert bits(rest.result()) == bits(compared_first(values)), values


@pytest.mark.parametrize("start", [0, 1, -0.0, 1e16])
def test_sums_of_arguments(start):
    def function(a, b, c, x):
        listed = sum([a, b, c, x.shape[0], a, -b], start)
        return listed, sum((y for y in (a, c, b)), start), sum((x.shape[0], c, True)), sum([]), sum([b, 2, 7.5])

    compiled = torch.jit(function, fullgraph=True)
    for values in lists(150):
        a, b, c = (values * 3)[:3]
        x = torch.ones(2 + len(values))
        expected = [bits(number) for number in function(a, b, c, x)]
        assert [bits(number) for number in compiled(a, b, c, x)] == expected, (a, b, c, len(x))


def test_sums_with_complex_numbers():
    compiled = torch.jit(lambda x, *numbers: [sum(numbers), sum(numbers, x.shape[0]), sum(numbers, 1e16j)])
    for values in lists(6):
        a, b, c = (values * 3)[:3]
        numbers = (float(a), 1e16 + 2j, b, c, 1 - 3j, -1e16, 1.0)
        found, expected = compiled(torch.ones(3), *numbers), [sum(numbers, start) for start in (0, 3, 1e16j)]
        assert [(bits(z.real), bits(z.imag)) for z in found] == [(bits(z.real), bits(z.imag)) for z in expected]


def test_sums_of_items():
    def function(x):
        return sum(y.item() for y in x) * x, sum([y.item() for y in x], 0.5)

    compiled = torch.jit(function, fullgraph=True)
    for values in lists(150):
        x = torch.tensor([float(v) for v in (values * 4)[:4]], dtype=torch.float64)
        for result, expected in zip(compiled(x), function(x), strict=True):
            assert torch.equal(torch.as_tensor(result).nan_to_num(7), torch.as_tensor(expected).nan_to_num(7)), x


def test_sums_of_lists_that_grow():
    def run(wrap):
        seen = []

        def step(x, number):
            seen.append(number)
            return sum(seen), x * len(seen)

        step = wrap(step)
        return [bits(step(torch.ones(3), number)[0]) for values in lists(40) for number in map(float, values)]

    assert run(torch.jit(fullgraph=True)) == run(lambda step: step)


def test_functions_that_add_elsewhere():
    functions = [
        lambda a, b, c: functools.partial(sum, start=0.5)([a, b, c]),
        lambda a, b, c: list(map(sum, [[a, b, c], [b, c, a]])),
        lambda a, b, c: sorted([[a, b, c], [c, a, b], [b]], key=sum)[0][0],
        lambda a, b, c: sum([a, b, c], start=b),
    ]
    if hasattr(math, "sumprod"):
        functions.append(lambda a, b, c: math.sumprod([a, b, c], [1.0, c, 2]))
    for function in functions:
        compiled = torch.jit(function)
        for values in ((1e16, 1.0, -1e16), (3e16, 1.0, -3e16), (0.1, 0.2, 0.3)):
            assert compiled(*values) == function(*values)


def test_what_cannot_be_added_is_refused_as_before():
    compiled = torch.jit(lambda a: sum("ab", a))
    with pytest.raises(TypeError, match="unsupported operand"):
        compiled(1.5)
    with pytest.raises(TypeError, match="strings"):
        torch.jit(lambda a: sum([a], ""))(1.5)

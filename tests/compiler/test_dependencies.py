"""What steps need, when they are made, added to and merged: as found by looking at all of them."""

from __future__ import annotations

import random

import pytest

from eagerjit.compiler.lower.dependencies import Dependencies
from eagerjit.compiler.lower.groups import Group


class Looked:
    """The same of a graph whose paths are walked."""

    def __init__(self) -> None:
        self.edges: dict[int, set[int]] = {}

    def needed(self, number: int) -> set[int]:
        found: set[int] = set()
        waiting = [number]
        while waiting:
            new = self.edges[waiting.pop()] - found
            found |= new
            waiting += new
        return found

    def lies_between(self, first: int, second: int) -> bool:
        return any(first in self.needed(k) for k in self.needed(second) - {first, second})

    def merge(self, host: int, other: int) -> None:
        self.edges[host] |= self.edges.pop(other)
        for needs in self.edges.values():
            if other in needs:
                needs.remove(other)
                needs.add(host)
        self.edges[host].discard(host)


def numbers(bits: int) -> set[int]:
    return {n for n in range(bits.bit_length()) if bits >> n & 1}


@pytest.mark.parametrize("seed", range(40))
def test_as_by_walking_all_paths(seed: int) -> None:
    draw = random.Random(seed)
    steps: dict[int, Group] = {}
    dependencies, looked = Dependencies(steps), Looked()  # type: ignore[arg-type]
    for number in range(40):
        origins = set(draw.sample(sorted(steps), min(len(steps), draw.randrange(4))))
        steps[number], looked.edges[number] = Group(number, ()), set(origins)
        dependencies.add(steps[number], origins)
        if len(steps) > 2 and draw.random() < 0.5:
            first, second = draw.sample(sorted(steps), 2)
            between = dependencies.lies_between(steps[first], steps[second])
            assert between == looked.lies_between(first, second)
            if not between and not dependencies.lies_between(steps[second], steps[first]):
                dependencies.merge(steps[first], steps[second])
                looked.merge(first, second)
        if len(steps) > 2 and draw.random() < 0.3:
            reader, other = draw.sample(sorted(steps), 2)
            if reader not in looked.needed(other):
                dependencies.add(steps[reader], [other])
                looked.edges[reader].add(other)
        assert {n: numbers(s.needs) for n, s in steps.items()} == {n: looked.needed(n) for n in steps}
        assert dependencies.of(steps) == sum(1 << n for n in steps)

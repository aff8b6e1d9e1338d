"""Which steps need which: who has to run before a step (`needs`, through others too), and who reads its results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from eagerjit.compiler.lower.groups import Step


class Dependencies:
    """The dependencies of a schedule's steps, which it may merge. Sets of steps are the bits of an int."""

    def __init__(self, steps: dict[int, Step]):
        self.steps = steps
        self._reads: dict[int, int] = defaultdict(int)
        self._readers: dict[int, int] = defaultdict(int)

    def of(self, numbers: Iterable[int]) -> int:
        """These steps and all that they need."""
        bits = 0
        for number in numbers:
            bits |= 1 << number | self.steps[number].needs
        return bits

    def add(self, step: Step, numbers: Iterable[int]) -> None:
        """A step, and so all that need it, needs these."""
        numbers = [number for number in numbers if number != step.number]
        mark = 1 << step.number
        for number in numbers:
            self._reads[step.number] |= 1 << number
            self._readers[number] |= mark
        bits = self.of(numbers) & ~mark
        if step.needs | bits == step.needs:
            return
        step.needs |= bits
        for other in self._dependents(step.number):
            self.steps[other].needs |= bits

    def lies_between(self, first: Step, second: Step) -> bool:
        """Whether a third step needs the first, and the second needs that one."""
        return bool(self._readers[first.number] & second.needs & ~(1 << second.number))

    def merge(self, host: Step, other: Step) -> None:
        """The other step is part of the host from now on."""
        old, new = 1 << other.number, 1 << host.number
        for tables in ((self._reads, self._readers), (self._readers, self._reads)):
            ends, starts = tables
            for number in _numbers(ends[other.number]):
                starts[number] = starts[number] & ~old | (new if number != host.number else 0)
            ends[host.number] = (ends[host.number] | ends.pop(other.number)) & ~(old | new)
        del self.steps[other.number]
        host.needs = (host.needs | other.needs) & ~(old | new)
        for number in self._dependents(host.number):
            step = self.steps[number]
            step.needs = step.needs & ~old | new | host.needs

    def _dependents(self, number: int) -> Iterator[int]:
        """The steps that need one, each once."""
        seen, waiting = 1 << number, self._readers[number]
        while waiting:
            step = (waiting & -waiting).bit_length() - 1
            seen |= waiting & -waiting
            yield step
            waiting = (waiting | self._readers[step]) & ~seen


def _numbers(bits: int) -> Iterator[int]:
    while bits:
        yield (bits & -bits).bit_length() - 1
        bits &= bits - 1

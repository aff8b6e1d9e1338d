"""The order in which the steps of a program run."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping

from eagerjit.compiler.ir import Node
from eagerjit.compiler.lower.groups import Group, Step


def ordered(steps: Mapping[int, Step], origins: Callable[[Node], set[int]]) -> list[Step]:
    """A topological order that stays close to the program's; `origins` gives the steps that a node reads."""
    waiting: dict[int, int] = {}
    dependents: dict[int, list[int]] = {number: [] for number in steps}
    for number, step in steps.items():
        nodes = step.nodes if isinstance(step, Group) else [step.node]
        direct = set().union(*map(origins, nodes)) - {number}
        waiting[number] = len(direct)
        for other in direct:
            dependents[other].append(number)
    order: list[Step] = []
    ready = [number for number, count in waiting.items() if not count]
    heapq.heapify(ready)
    while ready:
        number = heapq.heappop(ready)
        order.append(steps[number])
        for other in dependents[number]:
            waiting[other] -= 1
            if not waiting[other]:
                heapq.heappush(ready, other)
    return order

"""Kernels that may end a call in an error: they come before what is written to tensors from outside, if they can."""

from __future__ import annotations

from collections.abc import Iterable

from eagerjit.compiler.ir import Node
from eagerjit.compiler.lower.groups import Group, HostStep, Step
from eagerjit.compiler.lower.schedule import Scheduler
from eagerjit.compiler.passes.dead import may_raise


def checking(scheduler: Scheduler, steps: Iterable[Step]) -> int:
    """The bits of the steps that may fail, and of all that these need."""
    bits = 0
    for step in steps:
        if _may_fail(scheduler, step):
            bits |= step.needs | 1 << step.number
    return bits


def last_failing(scheduler: Scheduler, steps: list[Step]) -> int:
    """The position of the last step that may fail, -1 where none does."""
    return max((i for i, step in enumerate(steps) if _may_fail(scheduler, step)), default=-1)


def _may_fail(scheduler: Scheduler, step: Step) -> bool:
    if isinstance(step, HostStep):
        return True
    stack = list(step.nodes) if isinstance(step, Group) else [step.node]
    seen: set[Node] = set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if may_raise(node):
            return True
        stack += [i for i in node.inputs if i not in scheduler.step_of]
    return False

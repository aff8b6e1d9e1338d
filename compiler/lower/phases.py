"""Phases of a call: from when on sizes are known that were measured in it, and when its questions must be answered.

Question k ends phase k. A step that it depends on runs before that, so it must not need a size that a later phase
knows, nor another step that does. Everything else may wait, and so may join a kernel that has to wait.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from eagerjit.compiler.ir import Graph, Node
from eagerjit.compiler.lower.groups import Step
from eagerjit.compiler.partition import attribute_symbols


class Phases:
    """Of every node the phase from which on its sizes are known, and that in which it is due; the same of steps.

    Of steps there are bit sets, `late`, by phase: those that need a size known from then on or later.
    """

    def __init__(self, graph: Graph, known_from: Mapping[str, int], questions: Sequence[Node]):
        """`known_from` gives the phases of sizes that are measured, `questions` what is read at each phase's end."""
        self.known: dict[Node, int] = {}
        self.due: dict[Node, int] = {}
        self.late = dict.fromkeys(range(1, 1 + max(known_from.values(), default=0)), 0)
        self.due_of_step: dict[int, int] = {}
        if not known_from:
            return
        for node in (*graph.inputs, *graph.nodes):
            names = attribute_symbols((*node.type.shape, *node.attributes.values()))
            phase = max((known_from.get(n, 0) for n in names), default=0)
            self.known[node] = max((phase, *(self.known[i] for i in node.inputs)))
        for phase, question in enumerate(questions):
            stack = [question]
            while stack:
                node = stack.pop()
                if node not in self.due:
                    self.due[node] = phase
                    stack += node.inputs

    def note(self, number: int, nodes: Iterable[Node]) -> None:
        """A step computes these nodes."""
        for node in nodes if self.late else ():
            for phase in range(1, 1 + self.known.get(node, 0)):
                self.late[phase] |= 1 << number
            if node in self.due:
                self._is_due(number, self.due[node])

    def _is_due(self, number: int, phase: int) -> None:
        self.due_of_step[number] = min(phase, self.due_of_step.get(number, phase))

    def merge(self, old: int, new: int) -> None:
        """One step became part of another."""
        for phase, late in self.late.items():
            if late >> old & 1:
                self.late[phase] = late & ~(1 << old) | 1 << new
        if old in self.due_of_step:
            self._is_due(new, self.due_of_step.pop(old))

    def allow(self, nodes: Collection[Node], numbers: int, needs: int, steps: Mapping[int, Step]) -> bool:
        """Whether these nodes and steps may become one step, which then needs others; both are bit sets of steps."""
        known = [self.known.get(n, 0) for n in nodes]
        known += [phase for phase, late in self.late.items() if late & (numbers | needs)]
        if not any(known):
            return True
        due = [self.due[n] for n in nodes if n in self.due]
        due += [phase for n, phase in self.due_of_step.items() if (1 << n | steps[n].needs) & numbers]
        return max(known) <= min(due, default=max(known))

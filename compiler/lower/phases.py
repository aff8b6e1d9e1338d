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

    Of steps there are bit sets: `late` by phase, of those that need a size known from then on or later, and `early`, of
    those due before it.
    """

    def __init__(self, graph: Graph, known_from: Mapping[str, int], questions: Sequence[Node]):
        """`known_from` gives the phases of sizes that are measured, `questions` what is read at each phase's end."""
        self.known: dict[Node, int] = {}
        self.due: dict[Node, int] = {}
        self.late = dict.fromkeys(range(1, 1 + max(known_from.values(), default=0)), 0)
        self.early = dict(self.late)
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
        mark = 1 << number
        for node in nodes if self.late else ():
            for phase in self.late:
                if phase <= self.known.get(node, 0):
                    self.late[phase] |= mark
                if self.due.get(node, phase) < phase:
                    self.early[phase] |= mark

    def merge(self, old: int, new: int) -> None:
        """One step became part of another."""
        for bits in (self.late, self.early):
            for phase, of_phase in bits.items():
                if of_phase >> old & 1:
                    bits[phase] = of_phase & ~(1 << old) | 1 << new

    def allow(self, nodes: Collection[Node], numbers: int, needs: int, steps: Mapping[int, Step]) -> bool:
        """Whether these nodes and steps may become one step, which then needs others; both are bit sets of steps."""
        for phase, late in self.late.items():
            if not late & (numbers | needs) and all(self.known.get(n, 0) < phase for n in nodes):
                return True
            early = self.early[phase]
            if early & numbers or any(self.due.get(n, phase) < phase for n in nodes):
                return False
            if early and any(early >> s.number & 1 and s.needs & numbers for s in steps.values()):
                return False
        return True

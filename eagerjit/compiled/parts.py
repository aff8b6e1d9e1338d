"""Compiled gradients of some results of a call: programs of their own, cut out of a joint graph."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from eagerjit.autograd.saved import Saved
from eagerjit.compiled.compilation import executable_of
from eagerjit.compiled.late_reads import LateReads
from eagerjit.compiled.visits import Visit
from eagerjit.compiler.partition import GradientTrace
from eagerjit.runtime.execute import MISS
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.slots import Places


class Cut:
    """A part of a joint graph, compiled: what it takes of the call besides the gradients that come in."""

    def __init__(self, found: GradientTrace, kept: list[int], where: dict[int, Any]):
        self.executable, self.report = executable_of(found.trace, found.trace.graph, [])
        self.kept, self.read = kept, found.read
        self.leaves = *found.numbers, *found.tensors
        self.given = Places(where[leaf] for leaf in self.leaves)

    def run(self, values: Sequence[Tensor], kept: Sequence[Tensor], arguments: Sequence[Any]) -> Any:
        """Its results for incoming gradients, and what the call kept and was called with; MISS if it refuses them."""
        found = self.executable.run((*values, *[kept[i] for i in self.kept], *self.given.values(arguments)))
        return found if found is MISS or isinstance(found, tuple) else (found,)


@dataclass
class Part:
    """The compiled gradient of some results: what reaches the targets, alone or added to what reached them before.

    targets     what gets a gradient: leaves of the call, or keys of another kind
    repeated    those of them that are used more than once
    cut         compiles the same gradient added, use by use, to what reached some of these before: so its sums are
                those of the plain call
    saved       values that the plain call's gradient refuses to find overwritten
    visit       the operations that the walk goes through; of gradients of calls None
    late        what code of the program's has read that runs with the gradient, if there is any
    """

    targets: list[Hashable]
    repeated: list[Hashable]
    plain: Cut
    cut: Callable[[tuple[Hashable, ...]], Cut]
    saved: list[Saved]
    visit: Visit | None = None
    late: LateReads | None = None
    onto: dict[tuple[Hashable, ...], Cut] = field(default_factory=dict)

    def holds(self) -> bool:
        """Whether it is the gradient still: a walk may come to it when what its code reads has changed."""
        return self.late is None or self.late.hold()

    def summed(self, starts: dict[Hashable, Tensor | None]) -> tuple[Hashable, ...]:
        """The targets that gradients are added to use by use: something has reached them before."""
        return tuple([t for t in self.repeated if starts.get(t) is not None])

    def adding(self, summed: tuple[Hashable, ...]) -> Cut:
        """What computes the gradients, these added to what reached them before."""
        found = self.onto.get(summed) if summed else self.plain
        if found is None:
            found = self.onto[summed] = self.cut(summed)
        return found

    def totals(
        self,
        values: Sequence[Tensor],
        kept: Sequence[Tensor],
        arguments: Sequence[Any],
        starts: dict[Hashable, Tensor | None],
    ) -> dict[Hashable, Tensor]:
        """Every target's gradient added to its start, in the order in which the plain call adds."""
        summed = self.summed(starts)
        begun: list[Any] = [starts[t] for t in summed]
        found = self.adding(summed).run((*values, *[t.contiguous() for t in begun]), kept, arguments)
        if found is MISS:
            raise RuntimeError("the compiled gradient of a call does not take the gradients that reached it")
        totals = dict(zip(self.targets, found, strict=True))
        for target, start in starts.items():
            if start is not None and target in totals and target not in summed:
                totals[target] = start + totals[target]
        return totals

"""The gradient of a while loop inside of another loop or branch, where nobody outside can know how long it ran.

It runs the loop again, keeping every carry, and then the gradient of its body backwards over these, in one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eagerjit.autograd.node import GradNode
from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Graph
from eagerjit.control.body import BodyTracer
from eagerjit.control.scanning import Scan, ScanRunner
from eagerjit.control.structure import NoGradient, Runner, Structure, Types
from eagerjit.runtime import cache

if TYPE_CHECKING:
    from eagerjit.control.repetition import While, WhileRunner


class ReversalRunner(Runner):
    """(*gradients of last carries, *first carries, *captured tensors, *sizes of loop and scan) -> gradients.

    `used` says which of the loop's arguments the scan takes after what it carries: of carries it takes all, stacked.
    """

    made_of = ("loop", "scan", "used", "n_given")

    def __init__(self, loop: WhileRunner, scan: ScanRunner, used: Sequence[int], n_given: int):
        self.loop, self.scan, self.used, self.n_given = loop, scan, tuple(used), n_given
        self.key = "while_backward_" + cache.content_key(loop.key, scan.key, repr((self.used, n_given)))[:24]

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The loop's, and that of the way back."""
        return *self.loop.graphs, *self.scan.graphs

    def selecting(self, results: frozenset[int]) -> ReversalRunner:
        """All results: they come of one run."""
        return self

    def __call__(self, *arguments: Any) -> tuple[np.ndarray | None, ...]:
        """Run it."""
        given, rest = arguments[: self.n_given], arguments[self.n_given :]
        n_inputs, code = self.loop.step.n_inputs, self.scan.code
        n_numbers = len(self.loop.condition.symbols) + len(self.loop.step.symbols)
        numbers = rest[n_inputs + n_numbers :]
        kept: list[tuple[np.ndarray, ...]] = []
        self.loop.run(rest[: n_inputs + n_numbers], kept)
        length = len(kept)
        values: list[Any] = []
        for i in self.used:
            if i < self.loop.n_carry:
                stack = np.empty((length, *rest[i].shape), rest[i].dtype)
                for k, carry in enumerate(kept):
                    stack[k] = carry[i]
                values.append(stack)
            else:
                values.append(rest[i])
        known = dict(zip(code.symbols, numbers, strict=True))
        sums = [
            np.zeros([sizes.evaluate(d, known) for d in n.shape], n.dtype.numpy)
            for n in code.graph.inputs[self.n_given : self.scan.n_carry]
        ]
        return self.scan(*given, *sums, *values, length, *numbers)


@dataclass(eq=False)
class Reversal(Structure):
    """On the tape: (*gradients of last carries, *the loop's arguments) -> gradients of carries and captured tensors."""

    loop: While
    scan: Scan
    n_given: int
    tracer: BodyTracer
    name: str = "while_loop_backward"

    def lowered(self) -> tuple[ReversalRunner, list[sizes.Expr], list[int]]:
        """The loop forth and back, the sizes that it takes after the tensors, and which tensors it takes."""
        loop, numbers, _ = self.loop.lowered()
        scan, more, used = self.scan.lowered()
        arguments = [i - self.scan.n_carry for i in used if i >= self.scan.n_carry]
        every = list(range(self.n_given + len(self.loop.inputs)))
        return ReversalRunner(loop, scan, arguments, self.n_given), [*numbers, *more[1:]], every

    def types(self) -> Types:
        """Types of the gradients."""
        return [(n.dtype, n.shape) for n in self.scan.inputs[: self.scan.n_carry]]

    def connected(self, needs: Sequence[bool]) -> list[bool]:
        """All gradients depend on everything."""
        return [any(needs)] * self.scan.n_carry

    def backward(self, node: GradNode, grads: Sequence[Any], needs: tuple[bool, ...], create_graph: bool) -> Any:
        """There is none."""
        raise NoGradient(
            f"while_loop ({node.source}): there is no second derivative of a while_loop inside of another loop or "
            "branch; use a scan with a condition on its elements"
        )

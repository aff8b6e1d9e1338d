"""Gradients of ops as ops of their own, which eager calls run and record as one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from eagerjit.autograd.node import GradNode, positions_read
from eagerjit.autograd.reads import which_are_reached
from eagerjit.calling.dispatch import Op
from eagerjit.compiled.evaluated import computed
from eagerjit.runtime.entry import OpCall


class OpGradient(Op):
    """The gradient of an op as an op of its own, so that eager mode runs it as one fused Program.

    by_operations   the gradient as a function over ops
    pattern         which arguments of the op get a gradient
    reads_outputs   whether the rules read the op's results; None stands for them otherwise
    """

    aliases = True
    rules = None
    differentiable = fused_rules = absent_gradients = True

    def __init__(self, op: Op, needs: tuple[bool, ...], n_outputs: int):
        self.name, self.symbolic = f"{op.name}_backward", op.symbolic
        self.by_operations = op.gradient_body(needs, n_outputs)
        self.body = self._present(self.by_operations)
        rules = op.rules if op.rules is not None else (_unknown,) * len(needs)
        self.pattern = tuple(needed and rule is not None for needed, rule in zip(needs, rules, strict=True))
        read = [positions_read(r) for r, present in zip(rules, self.pattern, strict=True) if present and r is not None]
        self.reads_outputs = op.rules is not None and any(1 in positions for positions in read)
        self.single = self.pattern.index(True) if sum(self.pattern) == 1 else -1
        self.absent = (None,) * n_outputs
        self.before, self.after = (None,) * self.single, (None,) * (len(self.pattern) - self.single - 1)
        first = n_outputs * 2
        self.parameters = tuple(f"p{i}" for i in range(first + len(needs)))
        self.defaults = (inspect.Parameter.empty,) * len(self.parameters)
        self.numbers = frozenset(i + first for i in op.numbers)
        self.steady = frozenset(i + first for i in op.steady)
        self.shapes = frozenset(i + first for i in op.shapes)
        self.programs, self.gradients = {}, {}
        self.call = OpCall(
            self.name, self._gradient, self, self.parameters, (), self.numbers, record=False, shapes=self.shapes
        )
        self.entries = [self.call]

    def computed(self, arguments: tuple[Any, ...]) -> Any:
        """What the body gives: views of arguments where rules give such, results in the order of their operands."""
        return self.body(*arguments)

    def _gradient(self, *arguments: Any) -> Any:
        return computed(self, arguments)

    def backward(self, node: GradNode, grads: tuple[Any, ...], needs: tuple[bool, ...], create_graph: bool) -> Any:
        """Gradients of those gradients that got any; None for what they do not depend on."""
        found = super().backward(node, grads, needs, create_graph)
        reached = which_are_reached(self, node, grads, needs)
        return found if reached is None else tuple([g if r else None for g, r in zip(found, reached, strict=True)])

    def _present(self, gradient: Callable[..., Any]) -> Callable[..., Any]:
        """The gradients that there are, without the gaps."""

        def body(*arguments: Any) -> Any:
            found = tuple(g for g in gradient(*arguments) if g is not None)
            return found[0] if len(found) == 1 else found

        return body


def _unknown(g: Any, out: Any) -> Any:
    """Stands for the rules of an op whose gradient is derived."""

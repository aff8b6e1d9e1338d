"""A recording of one example computed for all examples: one operation on the tape, whose gradient is another.

Gradients are recorded on the tape that the recording keeps, by the rules of the operations that it called, and are
computed for all examples in turn. What all examples share gets the sum of their gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from eagerjit.autograd import engine
from eagerjit.autograd.node import GradNode, record
from eagerjit.compiler.batch import batch
from eagerjit.compiler.ir import Graph, Node, ancestors
from eagerjit.func.evaluate import run_graph
from eagerjit.recording.numbers import expression
from eagerjit.runtime import mode
from eagerjit.tensors.tensor import Tensor

if TYPE_CHECKING:
    from eagerjit.func.examples import Examples


class Mapped:
    """(*tensors) -> values of a recording, for all examples.

    inputs      what stands in the recording for the tensors; `batched` says which of them differ between examples
    outputs     tensors of the recording
    wanted      per output whether it has the batch dimension: True, False for the sum over the examples, None for as
                it comes
    alone       whether this is computed once, rather than for each example
    """

    rules = None
    derives = absent_gradients = True
    results_read = ()

    def __init__(
        self,
        examples: Examples,
        inputs: Sequence[Node],
        batched: Sequence[bool],
        outputs: Sequence[Tensor],
        wanted: Sequence[bool | None],
        alone: bool = False,
    ):
        self.name, self.examples, self.alone = examples.name, examples, alone
        self.inputs, self.batched, self.outputs = list(inputs), list(batched), list(outputs)
        nodes = [examples.value(t) for t in outputs]
        needed = ancestors(nodes)
        self.taken = [i for i, n in enumerate(inputs) if n in needed]
        kept = [n for n in examples.nodes if n in needed]
        graph = Graph(self.name, [self.inputs[i] for i in self.taken], kept, nodes)
        flags = [self.batched[i] for i in self.taken]
        self.graph, self.has_batch = batch(graph, flags, expression(examples.size), examples.randomness, wanted)
        reached = set().union(*map(examples.reached, outputs))
        self.reached = [n in reached for n in self.inputs]
        self._gradients: dict[Any, tuple[Mapped, list[int], list[Tensor]]] = {}

    def computed(self, arguments: Sequence[Tensor]) -> list[Tensor]:
        """The outputs, without a tape."""
        before = mode.set_grad_mode(False)
        try:
            return run_graph(self.graph, [arguments[i] for i in self.taken])
        finally:
            mode.set_grad_mode(before)

    def run(self, arguments: Sequence[Tensor]) -> list[Tensor]:
        """The outputs, each a tensor of its own, on the tape where gradients are recorded."""
        pairs = zip(arguments, self.reached, strict=True)
        arguments = [x if reached or x is None or not x._requires_grad else x.detach() for x, reached in pairs]
        results: list[Tensor] = []
        for value in self.computed(arguments):
            known = any(value is x for x in (*arguments, *results))
            results.append(value.detach().clone() if known else value)
        if mode.grad_mode() and results:
            record(self, tuple(arguments), tuple(results))
            for result, output in zip(results, self.outputs, strict=True):
                if not output._requires_grad:
                    result._node, result._requires_grad = None, False
        return results

    def backward(self, node: GradNode, grads: Sequence[Any], needs: tuple[bool, ...], create_graph: bool) -> Any:
        """Gradients of the arguments, by the operation that is its gradient."""
        present = tuple([i for i, g in enumerate(grads) if g is not None and self.outputs[i]._requires_grad])
        key = present, needs, create_graph
        given, arguments = [grads[i] for i in present], node.inputs or ()
        made = self._gradients.get(key)
        if made is None:
            with self.examples.holding(self.inputs, self.batched, arguments):
                made = self._gradient(*key, given)
        gradient, positions, captured = made
        found = dict(zip(positions, gradient.run([*given, *arguments, *captured]), strict=True))
        return tuple([found.get(i) for i in range(len(needs))])

    def _gradient(
        self, present: tuple[int, ...], needs: tuple[bool, ...], create_graph: bool, given: list[Tensor]
    ) -> tuple[Mapped, list[int], list[Tensor]]:
        """(gradient, the arguments that get one, tensors from outside that it takes besides)."""
        examples, has_batch, asked = self.examples, [self.has_batch[i] for i in present], self.examples.asked
        with examples.reopened(create_graph):
            roots = [self.outputs[i] for i in present]
            incoming = [examples.parameter(r._data.type) for r in roots]
            wanted = [i for i, needed in enumerate(needs) if needed]
            leaves = [examples.leaf_of_input(self.inputs[i]) for i in wanted]
            with examples.holding([g._data for g in incoming], has_batch, given):
                found = engine.run(roots, incoming, leaves, True, create_graph)
            pairs = [(i, g) for i, g in zip(wanted, found, strict=True) if g is not None]
            positions, outputs = [i for i, _ in pairs], examples.isolate([g for _, g in pairs])
            inputs = [g._data for g in incoming] + self.inputs
            batched = has_batch + self.batched
            more = examples.captured(outputs, inputs)
            shapes = [None if self.alone else self.batched[i] for i in positions]
            flags = batched + [examples.is_mapped(n) for n in more]
            gradient = Mapped(examples, inputs + list(more), flags, outputs, shapes, self.alone)
        captured = list(more.values())
        made = gradient, positions, captured
        if asked == examples.asked and not any(type(t._data) is Node for t in captured):
            self._gradients[present, needs, create_graph] = made
        return made

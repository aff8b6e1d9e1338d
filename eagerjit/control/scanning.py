"""Scans: a body run once per element, with values carried from one run to the next. Their gradients are scans too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from eagerjit.autograd.node import GradNode
from eagerjit.compiler import sizes
from eagerjit.compiler.batch import Batcher, Value
from eagerjit.compiler.ir import Graph, Node, ancestors
from eagerjit.compiler.partition import saved_values
from eagerjit.control import batching
from eagerjit.control.body import BodyTracer, inputs_read
from eagerjit.control.code import Code, code_of
from eagerjit.control.structure import NoGradient, Runner, Structure, Types, replayed
from eagerjit.recording.numbers import expression, wrap
from eagerjit.runtime import cache, mode
from eagerjit.state import state
from eagerjit.tensors.tensor import Tensor, new_tensor

Result = Tensor | Node
"""What a body computes: a tensor, or a node that is no start of gradients."""


class ScanRunner(Runner):
    """The loop: (*carries, *elements, *captured tensors, length, *sizes) -> last carries, stacked results."""

    made_of = ("code", "n_carry", "n_elements", "reverse")

    def __init__(self, code: Code, n_carry: int, n_elements: int, reverse: bool, wanted: frozenset[int] | None = None):
        self.code, self.n_carry, self.n_elements, self.reverse = code, n_carry, n_elements, reverse
        self.key = "scan_" + cache.content_key(code.key, repr((n_carry, n_elements, reverse)))[:24]
        self.wanted = frozenset(range(len(code.graph.outputs))) if wanted is None else wanted
        graph = code.graph
        carries = {n: i for i, n in enumerate(graph.inputs[:n_carry])}
        stacked = [k for k in range(n_carry, len(graph.outputs)) if k in self.wanted]
        # What is stacked twice is computed once; what a run is given, or gives to the next, is there already.
        first: dict[Node, int] = {}
        for k in stacked:
            first.setdefault(graph.outputs[k], k)
        self._again = [(k, first[graph.outputs[k]]) for k in stacked if first[graph.outputs[k]] != k]
        self._saved = [(k, carries[n]) for n, k in first.items() if n in carries]
        given = {n: i for i, n in reversed(list(enumerate(graph.outputs[:n_carry])))}
        made = [k for n, k in first.items() if n not in carries and n not in given]
        places = {k: n_carry + i for i, k in enumerate(made)}
        self._made = [(k, places.get(k, given.get(n, 0))) for n, k in first.items() if n not in carries]
        self._dtypes = [n.dtype.numpy for n in graph.outputs]
        self._step = code.selecting([*range(n_carry), *made])

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """What one run computes."""
        return (self.code.graph,)

    def selecting(self, results: frozenset[int]) -> ScanRunner:
        """The same for some of the results alone."""
        return ScanRunner(self.code, self.n_carry, self.n_elements, self.reverse, results)

    def batched(self, b: Batcher, arguments: Sequence[Any], inputs: Sequence[Value]) -> list[Value]:
        """A scan whose body works on all examples."""
        again = partial(ScanRunner, n_carry=self.n_carry, n_elements=self.n_elements, reverse=self.reverse)
        return batching.scan(b, self.code, self.n_carry, self.n_elements, arguments, inputs, again)

    def replayed(self, numbers: Sequence[sizes.Expr], tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """The scan with a tape."""
        length, *values = numbers
        tracer, inputs, outputs = replayed(self.code, values)
        name = self.code.graph.name
        scan = Scan(name, tracer, inputs, list(outputs), self.n_carry, self.n_elements, wrap(length), self.reverse)
        return scan.call(tensors)

    def __call__(self, *arguments: Any) -> tuple[np.ndarray | None, ...]:
        """Run it."""
        n_carry, n_inputs = self.n_carry, self.code.n_inputs
        first = n_carry + self.n_elements
        carry: tuple[Any, ...] = tuple(map(new_tensor, arguments[:n_carry]))
        elements = arguments[n_carry:first]
        length, *numbers = arguments[n_inputs:]
        fixed = (*map(new_tensor, arguments[first:n_inputs]), *numbers)
        shapes = self.code.shapes(numbers)
        stacks: list[Any] = [None] * len(shapes)
        for k, _ in (*self._made, *self._saved):
            stacks[k] = np.empty((length, *shapes[k]), self._dtypes[k])
        made = [(stacks[k], place) for k, place in self._made]
        saved = [(stacks[k], j) for k, j in self._saved]
        element = [new_tensor(None) for _ in elements]
        pairs = list(zip(element, elements, strict=True))
        run = self._step.run
        for i in range(length - 1, -1, -1) if self.reverse else range(length):
            for tensor, array in pairs:
                tensor._data = array[i, ...]
            for stack, j in saved:
                stack[i] = carry[j]._data
            results = run((*carry, *element, *fixed))
            carry = results[:n_carry]
            for stack, place in made:
                stack[i] = results[place]._data
        for k, same in self._again:
            stacks[k] = stacks[same].copy()
        last = [np.array(c._data) if length == 0 else c._data for c in carry]
        return (*last, *stacks[n_carry:])


@dataclass(eq=False)
class Scan(Structure):
    """A scan on the tape.

    inputs      the body's: carries, elements, then what it captured
    outputs     the body's: carries, then what is stacked
    length      the number of runs
    kept        how many of the last outputs are there for the gradient alone
    derived     whether it is itself a gradient
    """

    name: str
    tracer: BodyTracer
    inputs: list[Node]
    outputs: list[Result]
    n_carry: int
    n_elements: int
    length: Any
    reverse: bool
    kept: int = 0
    derived: bool = False

    def __post_init__(self) -> None:
        self._gradients: dict[Any, _Gradient] = {}
        self._reached: list[set[Node]] | None = None

    def lowered(self) -> tuple[ScanRunner, list[sizes.Expr], list[int]]:
        """The loop, the sizes that it takes after the tensors, and which of the tensors it takes."""
        nodes = [_node(o) for o in self.outputs]
        read = inputs_read(nodes, set(self.inputs))
        used = [i for i, n in enumerate(self.inputs) if i < self.n_carry or n in read]
        code, symbols = code_of(self.name, [self.inputs[i] for i in used], nodes, self.tracer.assumptions)
        n_elements = sum(self.n_carry <= i < self.n_carry + self.n_elements for i in used)
        return ScanRunner(code, self.n_carry, n_elements, self.reverse), [expression(self.length), *symbols], used

    def types(self) -> Types:
        """Types of the last carries and of the stacked results."""
        length = expression(self.length)
        out: Types = [(n.dtype, n.shape) for n in self.inputs[: self.n_carry]]
        for result in self.outputs[self.n_carry :]:
            node = _node(result)
            out.append((node.dtype, (length, *node.shape)))
        return out

    # -- gradients ----------------------------------------------------------------------------------------------------

    def reached(self) -> list[set[Node]]:
        """Per output the inputs of one run that its gradient flows to."""
        if self._reached is None:
            with self.tracer:
                self._reached = [self.tracer.reached(o) if isinstance(o, Tensor) else set() for o in self.outputs]
        return self._reached

    def connected(self, needs: Sequence[bool]) -> list[bool]:
        """Which results depend on arguments that need gradients."""
        active = {n for n, needed in zip(self.inputs, needs, strict=True) if needed}
        carries = self.inputs[: self.n_carry]
        while True:
            more = {c for c, reached in zip(carries, self.reached(), strict=False) if reached & active} - active
            if not more:
                break
            active |= more
        return [c in active for c in carries] + [bool(r & active) for r in self.reached()[self.n_carry :]]

    def call(self, arguments: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Run it; where gradients may be wanted, with results that are kept for them."""
        needs = tuple(a._requires_grad for a in arguments)
        if not mode.grad_mode() or not any(needs):
            return self.run(arguments)
        kept: list[Result] = []
        if self.derived and state.tracer is not None:
            # Nobody has asked for the gradient of this gradient yet: carries allow any, and cost nothing if unused.
            kept = [self.tracer.leaves.get(n, n) for n in self.inputs[: self.n_carry]]
        else:
            try:
                kept = self.gradient(tuple(self.connected(needs)), needs).keeps()
            except NoGradient:
                kept = []  # raised again where the gradient is asked for
        whole = replace(self, outputs=[*self.outputs, *kept], kept=len(kept))
        whole._gradients, whole._reached = self._gradients, None
        return whole.run(arguments)[: len(self.outputs)]

    def gradient(self, present: tuple[bool, ...], needs: tuple[bool, ...]) -> _Gradient:
        """The gradient for those of the results that have one."""
        key = tuple(i for i, p in enumerate(present) if p), needs
        found = self._gradients.get(key)
        if found is None:
            alone = replace(self)  # which knows of no gradients: what lives in no cycle is freed at once
            alone._reached = self.reached()
            found = self._gradients[key] = _Gradient(alone, key[0], needs)
        return found

    def backward(self, node: GradNode, grads: Sequence[Any], needs: tuple[bool, ...], create_graph: bool) -> Any:
        """A scan in the other direction, which carries gradients of carries and sums of those of captured tensors."""
        gradient = self.gradient(tuple(g is not None for g in grads), needs)
        assert node.inputs is not None
        return gradient.call(self, grads, node.outputs(), node.inputs)


class _Gradient:
    """The gradient of a scan: its body's, recorded."""

    def __init__(self, scan: Scan, present: tuple[int, ...], needs: tuple[bool, ...]):
        tracer, n_carry = scan.tracer, scan.n_carry
        self.scan, self.present, self.needs = scan, present, needs
        carries = scan.inputs[:n_carry]
        wanted = {n for n, needed in zip(scan.inputs, needs, strict=True) if needed}
        useful = set(wanted)
        reached = scan.reached()
        while True:
            more = {c for c, r in zip(carries, reached, strict=False) if r & useful} - useful
            if not more:
                break
            useful |= more
        self.carried = [i for i, c in enumerate(carries) if c in useful]
        self.stacked = [i for i in present if i >= n_carry]
        after = scan.inputs[n_carry:]
        self.elements = [n for n in after[: scan.n_elements] if n in wanted]
        self.captured = [n for n in after[scan.n_elements :] if n in wanted]
        with tracer.with_gradients():
            results = {i: scan.outputs[i] for i in (*self.carried, *self.stacked)}
            given = {i: tracer.parameter(_node(o).type) for i, o in results.items()}
            sums = [tracer.parameter(n.type) for n in self.captured]
            targets = [*(carries[i] for i in self.carried), *self.captured, *self.elements]
            pairs = [(o, given[i]) for i, o in results.items() if isinstance(o, Tensor)]
            found = tracer.pull(pairs, targets)
            first, last = len(self.carried), len(self.carried) + len(self.captured)
            totals = [s + g for s, g in zip(sums, found[first:last], strict=True)]
        self.outputs: list[Result] = [*found[:first], *totals, *found[last:]]
        self.starts = [given[i]._data for i in self.carried]
        self.sums = [s._data for s in sums]
        self.given = [given[i]._data for i in self.stacked]

    def keeps(self) -> list[Result]:
        """What the scan has to keep of each run, so that the gradient need not compute dear things again."""
        scan = self.scan
        with scan.tracer:
            forward = ancestors([_node(o) for o in scan.outputs])
            wanted = [_node(o) for o in self.outputs]
            kept = saved_values(forward - set(scan.inputs[scan.n_carry :]), wanted, set())
        needed = inputs_read(wanted, set(kept))
        carries = [n for n in scan.inputs[: scan.n_carry] if n in needed and n not in kept]
        return [scan.tracer.leaves.get(n, n) for n in (*carries, *(n for n in kept if n in needed))]

    def carried_gradients(self, grads: Sequence[Any]) -> list[Tensor]:
        """What the gradient carries at first: the gradients of the last carries, zeros for those that have none."""
        absent = [n for i, n in zip(self.carried, self.starts, strict=True) if grads[i] is None]
        zeros = iter(self._zeros(absent, grads))
        return [next(zeros) if grads[i] is None else grads[i] for i in self.carried]

    def _zeros(self, nodes: Sequence[Node], grads: Sequence[Any]) -> list[Tensor]:
        """Zeros like these, beside the gradients that there are."""
        pattern: Tensor = next(g for g in grads if g is not None)
        shapes = [tuple(wrap(self.scan.tracer.size(d)) for d in n.shape) for n in nodes]
        return [pattern.new_zeros(shape, dtype=n.dtype) for n, shape in zip(nodes, shapes, strict=True)]

    def scan_over(self, given: Sequence[Node], elements: Sequence[Node]) -> Scan:
        """The gradient as a scan in the other direction over these elements, the gradients of stacked results first."""
        scan = self.scan
        fixed = scan.inputs[scan.n_carry + scan.n_elements :]
        inputs = [*self.starts, *self.sums, *given, *elements, *fixed]
        count = len(self.starts) + len(self.sums)
        return Scan(
            f"{scan.name}_backward", scan.tracer, inputs, self.outputs, count, len(given) + len(elements), scan.length,
            not scan.reverse, derived=True,
        )  # fmt: skip

    def by_argument(self, found: Sequence[Tensor]) -> list[Any]:
        """Per argument of the scan its gradient, None where there is no need of one."""
        targets = [*(self.scan.inputs[i] for i in self.carried), *self.captured, *self.elements]
        by_input = dict(zip(targets, found, strict=True))
        return [by_input[n] if needed else None for n, needed in zip(self.scan.inputs, self.needs, strict=True)]

    def call(
        self, scan: Scan, grads: Sequence[Any], results: Sequence[Tensor], arguments: Sequence[Tensor]
    ) -> list[Any]:
        """The gradients of the scan's arguments; `scan` may keep more than the one that the gradient was made of."""
        first, count = scan.n_carry + scan.n_elements, len(scan.outputs) - scan.kept
        kept = scan.outputs[count:]
        saved = [r if isinstance(k, Tensor) else r.detach() for k, r in zip(kept, results[count:], strict=True)]
        gradient = self.scan_over(self.given, [*map(_node, kept), *scan.inputs[scan.n_carry : first]])
        found = gradient.call([
            *self.carried_gradients(grads),
            *self._zeros(self.sums, grads),
            *(grads[i] for i in self.stacked),
            *saved,
            *arguments[scan.n_carry :],
        ])  # fmt: skip
        return self.by_argument(found)


def _node(result: Result) -> Node:
    """The node that holds a result's value."""
    return result if isinstance(result, Node) else result._data

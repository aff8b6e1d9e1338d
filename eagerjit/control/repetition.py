"""`while_loop`: a body run as long as a condition on what it carries holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from eagerjit import pytree
from eagerjit.autograd.node import GradNode
from eagerjit.compiler import sizes
from eagerjit.compiler.batch import Batcher, Value
from eagerjit.compiler.ir import Graph, Node
from eagerjit.compiler.partition import replay
from eagerjit.control import batching
from eagerjit.control.body import BodyTracer, generators_drawn_from, record
from eagerjit.control.code import Code, code_of, specific
from eagerjit.control.loops import carried, check_carry
from eagerjit.control.reversal import Reversal
from eagerjit.control.scanning import Scan
from eagerjit.control.structure import Runner, Structure, Types, in_vmap, replayed
from eagerjit.func.evaluate import evaluate
from eagerjit.ops.counted import measured
from eagerjit.ops.pointwise import where
from eagerjit.runtime import cache, dtypes, mode
from eagerjit.state import state
from eagerjit.tensors.placement import NOWHERE, device_of
from eagerjit.tensors.tensor import Tensor, new_tensor


class WhileRunner(Runner):
    """The loop: (*carries, *captured tensors, *sizes of the condition, *sizes of the step) -> last carries.

    `step` also computes whether to go on. `counting`: the result is the number of runs instead.
    """

    made_of = ("condition", "step", "n_carry", "counting")

    def __init__(self, condition: Code, step: Code, n_carry: int, counting: bool):
        self.condition, self.step, self.n_carry, self.counting = condition, step, n_carry, counting
        self.key = "while_" + cache.content_key(condition.key, step.key, repr((n_carry, counting)))[:24]

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The condition, and a run followed by the condition."""
        return self.condition.graph, self.step.graph

    def selecting(self, results: frozenset[int]) -> WhileRunner:
        """All results: they decide how long it runs."""
        return self

    def batched(self, b: Batcher, arguments: Sequence[Any], inputs: Sequence[Value]) -> list[Value]:
        """A loop that goes on as long as any example does."""
        again = partial(WhileRunner, n_carry=self.n_carry, counting=self.counting)
        return batching.while_loop(b, self.condition, self.step, self.n_carry, arguments, inputs, again, self.counting)

    def replayed(self, numbers: Sequence[sizes.Expr], tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """The loop with a tape."""
        count = len(self.condition.symbols)
        tracer, inputs, outputs = replayed(self.step, numbers[count:])
        graph, _ = specific(self.condition, numbers[:count])
        with tracer:
            given = [tracer.leaf_of_input(n) for n in inputs]
            (going,) = tracer.isolate(evaluate(graph, tuple(given)))
        return While(tracer, inputs, outputs[:-1], going, self.counting).call(tensors)

    def __call__(self, *arguments: Any) -> tuple[np.ndarray | None, ...]:
        """Run it."""
        carry, count = self.run(arguments)
        if self.counting:
            return (np.array(count, np.int64),)
        return tuple([np.array(c._data) if count == 0 else c._data for c in carry])

    def run(self, arguments: Sequence[Any], kept: list[Any] | None = None) -> tuple[tuple[Any, ...], int]:
        """(last carries, number of runs); `kept` gets the carries before every run."""
        n_carry, n_inputs = self.n_carry, self.step.n_inputs
        carry: tuple[Any, ...] = tuple(map(new_tensor, arguments[:n_carry]))
        captured = tuple(map(new_tensor, arguments[n_carry:n_inputs]))
        middle = n_inputs + len(self.condition.symbols)
        (going,) = self.condition.run((*carry, *captured, *arguments[n_inputs:middle]))
        fixed = (*captured, *arguments[middle:])
        run, count = self.step.run, 0
        while going._data.item():
            if kept is not None:
                kept.append(tuple([c._data for c in carry]))
            results = run((*carry, *fixed))
            carry, going = results[:-1], results[-1]
            count += 1
        return carry, count


@dataclass(eq=False)
class While(Structure):
    """A while loop on the tape: (*carries, *captured tensors) -> last carries."""

    tracer: BodyTracer
    inputs: list[Node]
    outputs: list[Tensor]
    going: Tensor
    counting: bool = False
    name: str = "while_loop"

    def lowered(self) -> tuple[WhileRunner, list[sizes.Expr], list[int]]:
        """The loop, the sizes that it takes after the tensors, and that it takes all tensors."""
        n_carry, assumptions = len(self.outputs), self.tracer.assumptions
        nodes = [o._data for o in self.outputs]
        condition, symbols = code_of(self.name, self.inputs, [self.going._data], assumptions)
        after = dict(zip(self.inputs, [*nodes, *self.inputs[n_carry:]], strict=True))
        _, new = replay([self.going._data], after)
        step, more = code_of(self.name, self.inputs, [*nodes, new[self.going._data]], assumptions)
        return WhileRunner(condition, step, n_carry, self.counting), [*symbols, *more], list(range(len(self.inputs)))

    def types(self) -> Types:
        """Types of the last carries, or of the number of runs."""
        if self.counting:
            return [(dtypes.int64, ())]
        return [(n.dtype, n.shape) for n in self.inputs[: len(self.outputs)]]

    def scan(self, length: Any) -> Scan:
        """The same loop run a known number of times."""
        return Scan(self.name, self.tracer, self.inputs, list(self.outputs), len(self.outputs), 0, length, False)

    def connected(self, needs: Sequence[bool]) -> list[bool]:
        """Which results depend on arguments that need gradients."""
        return [False] if self.counting else self.scan(0).connected(needs)

    def call(self, arguments: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Run it; where gradients may be wanted, count the runs first, and run it as a scan of that length."""
        needs = [a._requires_grad for a in arguments]
        tracer = state.tracer
        within = tracer is not None and (isinstance(tracer, BodyTracer) or tracer.values_only)
        if not mode.grad_mode() or within or self.counting or not any(self.connected(needs)):
            return self.run(arguments)
        (count,) = replace(self, counting=True).run([a.detach() for a in arguments])
        nowhere = device_of(count) is NOWHERE  # types are the same after any number of runs
        length = 0 if nowhere else measured(count, "the number of a loop's runs depends on values")
        loop = self._standing() if in_vmap() else self
        return loop.scan(length).call(arguments)

    def _standing(self) -> While:
        """The loop with a step that changes nothing once the condition fails: examples may go on for longer."""
        with self.tracer:
            before = [self.tracer.leaf_of_input(n) for n in self.inputs[: len(self.outputs)]]
            going = self.going.reshape(())
            pairs = zip(self.outputs, before, strict=True)
            return replace(self, outputs=self.tracer.isolate([where.call(going, a, b) for a, b in pairs]))

    def backward(self, node: GradNode, grads: Sequence[Any], needs: tuple[bool, ...], create_graph: bool) -> Any:
        """The loop run again, then its body's gradient backwards; asked for inside of another loop or branch."""
        scan = self.scan(0)
        gradient = scan.gradient(tuple(g is not None for g in grads), needs)
        assert node.inputs is not None
        given = gradient.carried_gradients(grads)
        back = gradient.scan_over([], [*self.inputs[: len(self.outputs)]])
        found = Reversal(self, back, len(given), self.tracer).run([*given, *node.inputs])
        return gradient.by_argument(found)


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]) -> Any:
    """The carry after running `carry = body_fn(*carry)` as long as `cond_fn(*carry)` is true.

    carried_inputs is a tuple of tensors and nestings of tensors; numbers become tensors of no dimension. A carry keeps
    its nesting, shapes and dtypes. cond_fn returns a tensor of one element. Inside of another loop or branch it has
    first derivatives only. Raises RuntimeError for a body that returns another carry, or writes tensors from outside in
    place.
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(f"Expect carried_inputs to be a tuple of tensors and numbers, but got {carried_inputs}")
    starts, nesting = carried("while_loop", tuple(carried_inputs))
    tracer = BodyTracer("while_loop")
    with tracer:
        types = [tracer.type_outside(x) for x in starts]
        parts = [tracer.parameter(t) for t in types]
        going = _condition(tracer, lambda: cond_fn(*pytree.unflatten(nesting, parts)))
        found, outputs = record("while_loop", lambda: _as_tuple(body_fn(*pytree.unflatten(nesting, parts))))
        check_carry("while_loop", tracer, types, nesting, found, outputs)
        states = generators_drawn_from("while_loop", tracer)
        (going, *outputs) = tracer.isolate([going, *outputs])
        ends = [new_tensor(tracer.value(t)) for _, t in states]
    own = [n for n, _ in states]
    given = [n for n, _ in tracer.parameters]
    fixed = [n for n in tracer.inputs if n not in given and n not in own]
    lifted = dict(zip(tracer.inputs, tracer.lifted, strict=True))
    made = While(tracer, [*given, *own, *fixed], [*outputs, *ends], going)
    results = made.call([*starts, *(t.clone() for _, t in states), *(lifted[n] for n in fixed)])
    for (_, drawn), result in zip(states, results[len(starts) :], strict=True):
        drawn.copy_(result)
    return pytree.unflatten(nesting, results[: len(starts)])


def _condition(tracer: BodyTracer, function: Callable[[], Any]) -> Tensor:
    _, leaves = record("while_loop", function)
    if len(leaves) != 1 or leaves[0].numel() != 1:
        shapes = [list(x.shape) for x in leaves]
        raise RuntimeError(f"while_loop: cond_fn must return one tensor of one element, but got shapes {shapes}")
    if generators_drawn_from("while_loop", tracer):
        raise RuntimeError("while_loop: cond_fn draws random numbers; draw them in body_fn, and carry them")
    return leaves[0]


def _as_tuple(result: Any) -> Any:
    if isinstance(result, (tuple, list)):
        return tuple(result)
    return (result,)

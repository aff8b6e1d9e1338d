"""`cond`: one of two functions, chosen by a value. Its gradient is the cond of their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eagerjit import pytree
from eagerjit.autograd.node import GradNode
from eagerjit.compiler import sizes
from eagerjit.compiler.batch import Batcher, Value
from eagerjit.compiler.ir import Graph, Node
from eagerjit.control import batching
from eagerjit.control.body import BodyTracer, generators_drawn_from, inputs_read, record
from eagerjit.control.code import Code, code_of
from eagerjit.control.structure import Runner, Structure, Types, replayed
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.runtime import cache
from eagerjit.tensors.tensor import Tensor, new_tensor


class CondRunner(Runner):
    """The choice: (predicate, *tensors, *sizes of both branches) -> results of one of them.

    A branch is its code, the positions of its tensors, and the position of its sizes.
    """

    made_of = ("branches",)

    def __init__(self, branches: Sequence[tuple[Code, tuple[int, ...], slice]]):
        self.branches = tuple(branches)
        parts = [code.key + repr((positions, where)) for code, positions, where in branches]
        self.key = "cond_" + cache.content_key(*parts)[:24]

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """Both branches."""
        return tuple(code.graph for code, *_ in self.branches)

    def selecting(self, results: frozenset[int]) -> _SelectedCond:
        """The same for some of the results alone."""
        return _SelectedCond(self, sorted(results))

    def batched(self, b: Batcher, arguments: Sequence[Any], inputs: Sequence[Value]) -> list[Value]:
        """One branch for all examples, or both and a choice."""
        return batching.cond(b, self.branches, arguments, inputs, CondRunner)

    def replayed(self, numbers: Sequence[sizes.Expr], tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """The cond with a tape."""
        branches = []
        for code, positions, where in self.branches:
            first = where.start - len(tensors)
            tracer, inputs, outputs = replayed(code, numbers[first : first + len(code.symbols)])
            known = dict(zip(positions, inputs, strict=True))
            with tracer:
                others = [i for i in range(1, len(tensors)) if i not in known]
                known |= {i: tracer.parameter(tracer.type_outside(tensors[i]))._data for i in others}
            branches.append(Branch(tracer, known, outputs))
        return Cond((branches[0], branches[1])).run(tensors)

    def __call__(self, *arguments: Any) -> tuple[np.ndarray | None, ...]:
        """Run it."""
        code, positions, where = self.branches[0 if arguments[0].item() else 1]
        results = code.run((*[new_tensor(arguments[i]) for i in positions], *arguments[where]))
        return tuple([r._data for r in results])


class _SelectedCond(Runner):
    """A cond of which some results are wanted."""

    def __init__(self, whole: CondRunner, results: list[int]):
        self.results, self.count = results, len(whole.branches[0][0].graph.outputs)
        self.part = CondRunner([(code.selecting(results), p, w) for code, p, w in whole.branches])
        self.key = self.part.key

    def __call__(self, *arguments: Any) -> tuple[np.ndarray | None, ...]:
        found = dict(zip(self.results, self.part(*arguments), strict=True))
        return tuple(map(found.get, range(self.count)))


@dataclass(eq=False)
class Branch:
    """A recorded branch: its inputs with their positions among the arguments, and what it returns."""

    tracer: BodyTracer
    inputs: dict[int, Node]
    outputs: list[Tensor]

    def reached(self, needs: Sequence[bool]) -> list[bool]:
        """Which outputs depend on arguments that need gradients."""
        wanted = {n for i, n in self.inputs.items() if needs[i]}
        with self.tracer:
            return [bool(self.tracer.reached(o) & wanted) for o in self.outputs]

    def gradient(self, present: tuple[int, ...], needs: tuple[bool, ...], shift: int) -> Branch:
        """A branch that computes gradients: of the arguments that need one, from those of the results present.

        It is given the predicate, these, and from position `shift` on what this one is given.
        """
        tracer = self.tracer
        with tracer.with_gradients():
            given = [tracer.parameter(self.outputs[i]._data.type) for i in present]
            wanted = {i: n for i, n in self.inputs.items() if needs[i]}
            pairs = [(self.outputs[i], g) for i, g in zip(present, given, strict=True)]
            found = dict(zip(wanted, tracer.pull(pairs, list(wanted.values())), strict=True))
        inputs = {1 + i: g._data for i, g in enumerate(given)}
        inputs |= {shift + i: n for i, n in self.inputs.items()}
        return Branch(tracer, inputs, [found[i] for i, needed in enumerate(needs) if needed])


class Cond(Structure):
    """A cond on the tape: (predicate, *tensors) -> results."""

    name = "cond"

    def __init__(self, branches: tuple[Branch, Branch], name: str = "cond"):
        self.branches, self.name = branches, name
        self.tracer = branches[0].tracer
        self._gradients: dict[Any, Cond] = {}

    def lowered(self) -> tuple[CondRunner, list[sizes.Expr], list[int]]:
        """The choice, the sizes that it takes after the tensors, and which of the tensors it takes."""
        nodes = [[o._data for o in branch.outputs] for branch in self.branches]
        reads = [inputs_read(outputs) for outputs in nodes]
        inputs = [
            {i: n for i, n in b.inputs.items() if n in read} for b, read in zip(self.branches, reads, strict=True)
        ]
        used = [0, *sorted(set().union(*inputs))]
        parts = []
        numbers: list[sizes.Expr] = []
        for branch, outputs, given in zip(self.branches, nodes, inputs, strict=True):
            code, symbols = code_of(self.name, list(given.values()), outputs, branch.tracer.assumptions)
            first = len(used) + len(numbers)
            parts.append((code, tuple(map(used.index, given)), slice(first, first + len(symbols))))
            numbers += map(branch.tracer.size, symbols)
        return CondRunner(parts), numbers, used

    def types(self) -> Types:
        """The results' types, the same for both branches."""
        return [(o._data.type.dtype, o._data.type.shape) for o in self.branches[0].outputs]

    def connected(self, needs: Sequence[bool]) -> list[bool]:
        """Which results depend on arguments that need gradients, in either branch."""
        return [a or b for a, b in zip(*(branch.reached(needs) for branch in self.branches), strict=True)]

    def backward(self, node: GradNode, grads: Sequence[Any], needs: tuple[bool, ...], create_graph: bool) -> Any:
        """The gradients by the branch that was taken."""
        present = tuple(i for i, g in enumerate(grads) if g is not None)
        gradient = self._gradients.get((present, needs))
        if gradient is None:
            shift = len(present)
            wanted = [branch.gradient(present, needs, shift) for branch in self.branches]
            gradient = Cond((wanted[0], wanted[1]), "cond_backward")
            self._gradients[present, needs] = gradient
        assert node.inputs is not None
        predicate, *rest = node.inputs
        found = iter(gradient.run([predicate, *(grads[i] for i in present), *rest]))
        return [next(found) if needed else None for needed in needs]


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()) -> Any:
    """`true_fn(*operands)` where pred is true, else `false_fn(*operands)`.

    pred is a tensor of one element, or a Python number, which chooses at once. Both functions return the same nesting
    of tensors, of the same shapes and dtypes; only the one chosen runs. They may read any tensor, and write none from
    outside in place. Raises RuntimeError where they differ or write.
    """
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(f"Expect operands to be a tuple of possibly nested dict/list/tuple, but got {operands}.")
    if isinstance(pred, (bool, int, float, SymbolicInt, TracedFloat)):
        return true_fn(*operands) if pred else false_fn(*operands)
    if not isinstance(pred, Tensor):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got shape {list(pred.shape)}.")
    recorded = [_record(function, operands) for function in (true_fn, false_fn)]
    states = list({id(t): t for _, _, _, drawn in recorded for _, t in drawn}.values())
    lifted = {id(t): t for tracer, *_ in recorded for t in tracer.lifted}
    lifted |= {id(t): t for t in states}
    positions = {key: 1 + i for i, key in enumerate(lifted)}
    branches = []
    for tracer, _, leaves, _ in recorded:
        with tracer:
            ends = [new_tensor(tracer.value(t)) for t in states]
            for t in lifted.values():
                tracer.value(t)
        inputs = {positions[id(t)]: n for n, t in zip(tracer.inputs, tracer.lifted, strict=True)}
        branches.append(Branch(tracer, inputs, [*leaves, *ends]))
    structure = _agreed(recorded)
    made = Cond((branches[0], branches[1]))
    arguments = [t.clone() if "generator" in t.__dict__ else t for t in lifted.values()]
    results = made.run([pred.detach(), *arguments])
    for state, result in zip(states, results[len(results) - len(states) :], strict=True):
        state.copy_(result)
    return pytree.unflatten(structure, results[: len(results) - len(states)])


def _record(function: Callable[..., Any], operands: Sequence[Any]) -> tuple[BodyTracer, Any, list[Tensor], Any]:
    """The tracer of a branch, the nesting and leaves of its result, and the generators that it draws from."""
    tracer = BodyTracer("cond")
    with tracer:
        structure, leaves = record("cond", lambda: function(*operands))
        drawn = generators_drawn_from("cond", tracer)
        return tracer, structure, tracer.isolate(leaves), drawn


def _agreed(recorded: Sequence[tuple[BodyTracer, Any, list[Tensor], Any]]) -> Any:
    """The nesting of both branches' results; refuses those that differ."""
    (first, structure, leaves, _), (second, other, others, _) = recorded
    if structure != other:
        raise RuntimeError(
            f"cond: both branches must return the same nesting, but true_fn returns {len(leaves)} leaves and false_fn "
            f"{len(others)}, or nests them differently"
        )
    for position, (a, b) in enumerate(zip(leaves, others, strict=True)):
        left, right = a._data.type, b._data.type
        if not _same_type(first, left, second, right):
            raise RuntimeError(
                f"cond: both branches must return tensors of the same metadata, but result {position} is a "
                f"{left.dtype} of shape {first.shape(left.shape)} from true_fn and a {right.dtype} of shape "
                f"{second.shape(right.shape)} from false_fn"
            )
    return structure


def _same_type(first: BodyTracer, a: Any, second: BodyTracer, b: Any) -> bool:
    if a.dtype is not b.dtype or len(a.shape) != len(b.shape):
        return False
    if first.outer is None:
        return first.shape(a.shape) == second.shape(b.shape)
    return all(sizes.equal(x, y) for x, y in zip(a.shape, b.shape, strict=True))

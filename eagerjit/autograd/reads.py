"""Which values an operation's gradient reads, and what it depends on, found by recording that gradient."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from eagerjit.autograd.rules import derived_gradient
from eagerjit.compiled.compilation import describe, simplified
from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node, ancestors
from eagerjit.compiler.signature import Fresh, TensorLeaf
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.recording.trace import Tracer
from eagerjit.runtime import mode
from eagerjit.state import set_tracer
from eagerjit.tensors.tensor import Tensor, new_tensor
from eagerjit.watching.observation import TraceBreak, pause_observation, resume_observation

if TYPE_CHECKING:
    from eagerjit.autograd.node import GradNode

Known = dict[Any, "frozenset[int] | None"]
OUTPUT = 1
_NOT_RECORDED = (TraceBreak, RuntimeError, TypeError, ValueError)


class Reader:
    """A call of an op, without its tensors: what is known of it later, when a value turns out to be overwritten."""

    def __init__(self, op: Any, inputs: Sequence[Any], needs: tuple[bool, ...]):
        self.op, self.needs = op, needs
        self.inputs = [_kept(x) for x in inputs]

    def reads(self, position: int) -> bool:
        """Whether the gradient reads a value: of the op's result at 1, of its inputs from 2 on."""
        known: Known = self.op.__dict__.setdefault("values_read", {})
        key = self.needs, str(self.inputs)
        if key not in known:
            known[key] = self._found()
        found = known[key]
        return found is None or position in found

    def _found(self) -> frozenset[int] | None:
        """The positions read; None where the gradient cannot be recorded by itself."""
        try:
            with _recording(self.op.name, grad_mode=False) as tracer:
                inputs = [_stand_in(tracer, x) for x in self.inputs]
                tensors = {i + 2: x for i, x in enumerate(inputs) if isinstance(x, Tensor)}
                results, grads = _results(tracer, self.op, inputs)
                outputs = [_leaf(tracer, r.dtype.numpy, tracer.value(r).type.shape) for r in results]
                tensors |= {-1 - i: out for i, out in enumerate(outputs)}
                found = self.op.gradient_body(self.needs, len(results))(*grads, *outputs, *inputs)
                trace = describe(tracer, tracer.n_leaves, [g for g in found if isinstance(g, Tensor)])
                simplified(trace)
                used = ancestors([o.node for o in trace.outputs if isinstance(o, Fresh)])
                leaves = {b.leaf for b in trace.bindings if isinstance(b, TensorLeaf) and b.node in used}
                positions = {p for p, t in tensors.items() if tracer.leaf_of[id(t)] in leaves}
                return frozenset(OUTPUT if p < 0 else p for p in positions)
        except _NOT_RECORDED:
            return None


def reader_of(op: Any, inputs: Sequence[Any], edges: Sequence[Any]) -> Reader | None:
    """A reader for an op; None for what stands for a single call on the tape, and holds its tensors."""
    if not hasattr(op, "gradient_body") or not callable(getattr(op, "body", None)):
        return None
    return Reader(op, inputs, tuple([e is not None for e in edges]))


def without_false_histories(
    op: Any, node: GradNode, grads: Sequence[Tensor], needs: tuple[bool, ...], found: Any
) -> Any:
    """The gradient, or tuple of gradients, that is one operation on the tape; those that depend on nothing that has a
    gradient have no history, as where they are recorded operation by operation.
    """
    gradients = found if isinstance(found, tuple) else (found,)
    if not any(g._requires_grad for g in gradients):
        return found
    inputs = tuple([_kept(_any_number(x) if i in op.numbers else x) for i, x in enumerate(node.inputs or ())])
    given = tuple([None if g is None else g._requires_grad for g in grads])
    flags = given, tuple([_flags(x) for x in node.inputs or ()])
    known = op.__dict__.setdefault("gradients_depend", {})
    key = needs, flags, str(inputs)
    if key not in known:
        known[key] = _dependent(op, inputs, needs, *flags)
    depend = known[key] or (True,) * len(gradients)
    told = tuple([g if depends else g.detach() for g, depends in zip(gradients, depend, strict=True)])
    return told if isinstance(found, tuple) else told[0]


def which_are_reached(
    op: Any, node: GradNode, grads: Sequence[Any], needs: tuple[bool, ...]
) -> tuple[bool, ...] | None:
    """Which arguments those results of an op whose gradient is derived depend on that got one; None: not known."""
    present = tuple([g is not None for g in grads])
    inputs = tuple([_kept(_any_number(x) if i in op.numbers else x) for i, x in enumerate(node.inputs or ())])
    known = op.__dict__.setdefault("arguments_reached", {})
    key = needs, present, str(inputs)
    if key not in known:
        known[key] = _reached(op, inputs, needs, present)
    return known[key]


def _reached(
    op: Any, kept: tuple[Any, ...], needs: tuple[bool, ...], present: tuple[bool, ...]
) -> tuple[bool, ...] | None:
    """What `which_are_reached` says, from a recording; None where there can be none, too."""
    try:
        with _recording(op.name, grad_mode=False) as tracer:
            inputs = [_stand_in(tracer, x) for x in kept]
            results, grads = _results(tracer, op, inputs)
            given = [g if there else None for g, there in zip(grads, present, strict=True)]
            absent = (None,) * len(results)
            found = derived_gradient(op, needs, len(results), zeros=False)(*given, *absent, *inputs)
            return tuple([g is not None for g in found])
    except _NOT_RECORDED:
        return None


def _any_number(value: Any) -> Any:
    """A number for all those that nothing depends on: every one would be kept otherwise."""
    return 0.5 if type(value) is float and value not in (0.0, 1.0) else value


def _flags(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(map(_flags, value))
    return isinstance(value, Tensor) and value._requires_grad


def _dependent(
    op: Any, kept: tuple[Any, ...], needs: tuple[bool, ...], given: tuple[bool | None, ...], flags: tuple[Any, ...]
) -> tuple[bool, ...] | None:
    """Which of the gradients have gradients in turn; None where they cannot be recorded by themselves."""
    try:
        with _recording(op.name, grad_mode=True) as tracer:
            inputs = [_stand_in(tracer, x) for x in kept]
            before = mode.set_grad_mode(False)
            results, grads = _results(tracer, op, inputs)
            mode.set_grad_mode(before)
            _require(inputs, flags)
            _require(grads, given)
            received = [None if flag is None else g for g, flag in zip(grads, given, strict=True)]
            found = op.gradient_body(needs, len(results))(*received, *(None,) * len(results), *inputs)
            return tuple([g._requires_grad for g in found if g is not None])
    except _NOT_RECORDED:
        return None


def _require(values: Sequence[Any], flags: Sequence[Any]) -> None:
    for value, flag in zip(values, flags, strict=True):
        if isinstance(flag, tuple):
            _require(value, flag)
        elif flag:
            value._requires_grad = True


@contextmanager
def _recording(name: str, grad_mode: bool) -> Iterator[Tracer]:
    """A recording of its own, of which nothing is compiled."""
    tracer, before, observation = Tracer(name), set_tracer(None), pause_observation()
    tracer.values_only = True
    grad_mode = mode.set_grad_mode(grad_mode)
    try:
        with tracer:
            yield tracer
    finally:
        mode.set_grad_mode(grad_mode)
        set_tracer(before)
        resume_observation(observation)


def _results(tracer: Tracer, op: Any, inputs: Sequence[Any]) -> tuple[list[Tensor], list[Tensor]]:
    """The results of an op's body, and gradients to come for them."""
    from eagerjit.compiled.walks import cotangent

    made = op.body(*inputs)
    results = list(made) if isinstance(made, tuple) else [made]
    return results, [cotangent(tracer, r) for r in results]


class _Kind(tuple):
    """A tensor's dtype and sizes."""

    __slots__ = ()


def _kept(value: Any) -> Any:
    """What a gradient depends on besides values."""
    if isinstance(value, Tensor):
        data = value._data
        shape = data.type.shape if type(data) is Node else data.shape
        return _Kind((value.dtype.numpy, *map(sizes.hint, shape)))
    if isinstance(value, (tuple, list)):
        return tuple(map(_kept, value))
    if isinstance(value, SymbolicInt):
        return sizes.hint(value.expression)
    if isinstance(value, TracedFloat):
        return value.value if value.value is not None else 1.0
    return value


def _stand_in(tracer: Any, kept: Any) -> Any:
    if isinstance(kept, _Kind):
        return _leaf(tracer, kept[0], kept[1:])
    return tuple(_stand_in(tracer, x) for x in kept) if isinstance(kept, tuple) else kept


def _leaf(tracer: Any, dtype: np.dtype, shape: Sequence[Any]) -> Tensor:
    """A tensor from outside of a recording."""
    made = new_tensor(np.empty(tuple(map(sizes.hint, shape)), dtype))  # nobody looks at its elements
    tracer.tensor_leaf(made, tracer.new_leaf(), symbolic=False)
    return made

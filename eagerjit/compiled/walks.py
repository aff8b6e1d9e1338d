"""Gradients recorded in the trace of a call, on the way to a joint graph."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from eagerjit.autograd import engine, walk_graph
from eagerjit.autograd.saved import Saved, saved_by
from eagerjit.compiled.late_reads import LateReads
from eagerjit.compiler.ir import Node, TensorType
from eagerjit.compiler.ops import elementwise
from eagerjit.compiler.signature import TensorLeaf
from eagerjit.guards.surroundings import add_guards, inspect_code
from eagerjit.recording.trace import Tracer
from eagerjit.recording.varying import Varying
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import TraceBreak
from eagerjit.watching.observer import Observer


@dataclass
class Summary:
    """What gradients that were recorded are of: without a tensor of the recording. See `Part`."""

    targets: list[Hashable]
    repeated: list[Hashable]
    saved: list[Saved]
    late: LateReads | None


@dataclass
class Walk:
    """Gradients recorded in a trace, alone and added up from a start."""

    targets: list[Hashable]
    gradients: list[Tensor]
    repeated: list[Hashable]
    totals: list[Tensor]
    saved: list[Saved]
    late: LateReads | None

    def summary(self) -> Summary:
        """What outlives the recording."""
        return Summary(self.targets, self.repeated, self.saved, self.late)


def walk(
    tracer: Tracer,
    roots: list[Tensor],
    incoming: list[Tensor],
    targets: dict[Hashable, Tensor],
    results: Sequence[Any],
    wanted: Sequence[Hashable] | None = None,
) -> Walk:
    """Record the gradients of roots with respect to targets, or to those wanted, alone and added up from a start."""
    before, watched = tracer.source, tracer.observation
    trail: engine.Trail = {walk_graph.key_of(t): [] for t in targets.values()}
    observer, written = Observer(tracer, set(), Varying()), _written(tracer)
    observer.journal.paths = tracer.journal.paths  # what the call was given
    try:
        with observer:
            grads = engine.run(roots, incoming, list(targets.values()), True, False, trail)
    except RuntimeError as error:
        raise TraceBreak(f"it has no gradient: {error}", tracer.begins) from error
    finally:
        tracer.source, tracer.observation = before, watched
        observer.journal.undo()
    late = _check_backward(tracer, observer)
    if _written(tracer) != written:
        raise TraceBreak("a gradient changes tensors that live on, which compiled code would not do", tracer.begins)
    chosen = targets.keys() if wanted is None else set(wanted)
    order = {key: i for i, key in enumerate(trail)}
    reached = [(key, g) for key, g in zip(targets, grads, strict=True) if g is not None and key in chosen]
    reached.sort(key=lambda found: order[walk_graph.key_of(targets[found[0]])])
    uses = {key: trail[walk_graph.key_of(targets[key])] for key, _ in reached}
    repeated = [key for key, found in uses.items() if len(found) > 1]
    starts = [cotangent(tracer, targets[key]) for key in repeated]
    totals = {key: total(start, uses[key]) for key, start in zip(repeated, starts, strict=True)}
    return Walk(
        [key for key, _ in reached],
        [own(g) for _, g in reached],
        repeated,
        [own(totals.get(key, g)) for key, g in reached],
        saved_by(tracer, roots, targets.values(), [targets[key] for key, _ in reached], results),
        late,
    )


def _written(tracer: Tracer) -> dict[int, int]:
    """How often a recording has written to tensors from before it, by their ids."""
    return {key: tracer.writes_to(tensor) for key, tensor in tracer.written.items()}


def _check_backward(tracer: Tracer, observer: Observer) -> LateReads | None:
    """Guards for what hooks and gradients of the user's own read; what they change would be changed only once."""
    if not observer.ran:
        return None
    journal = observer.journal
    if tracer.broken is not None:
        raise tracer.broken
    journal.finished()
    if journal.operations:
        source = journal.operations[0].source
        raise TraceBreak("a gradient changes Python objects, which compiled code would not do", source)
    known = len(tracer.bindings)
    checks = add_guards(tracer, inspect_code(None, observer), journal)
    tracer.guards += checks
    return LateReads(tracer, known, checks)


def total(start: Tensor, uses: list[Tensor]) -> Tensor:
    """The gradients of a tensor's uses added one by one."""
    for grad in uses:
        start = start + grad
    return start


def own(grad: Tensor) -> Tensor:
    """A gradient as a contiguous value of the trace."""
    grad = grad.contiguous()
    return grad if type(grad._data) is Node else grad.clone()


def cotangent(tracer: Tracer, result: Tensor) -> Tensor:
    """A gradient to come, as an input of the joint graph: numbered, so that another recording's are known again."""
    type_ = tracer.value(result).type
    number = sum("cotangent" in n.attributes for n in tracer.inputs)
    node = Node(elementwise.argument, (), {"cotangent": number}, TensorType(type_.dtype, type_.shape))
    tracer.inputs.append(node)
    tracer.places[node] = tracer.place_of(tracer.value(result))
    return tracer.wrap(node)


def leaves_with_gradients(tracer: Tracer) -> dict[Hashable, Tensor]:
    """The outside tensors that gradients of a trace go to, by leaf."""
    bound = {b.leaf for b in tracer.bindings if isinstance(b, TensorLeaf)}
    return {leaf: t for t, leaf in tracer.outside() if leaf in bound and t._requires_grad}

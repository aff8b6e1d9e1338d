"""The arguments of a recorded call: inputs of its trace, or guards."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any

import numpy as np

from eagerjit import pytree
from eagerjit.compiler.signature import SameGuard
from eagerjit.guards.comparing import Unchanged, holds_containers
from eagerjit.guards.value_guards import guard_argument, guard_method
from eagerjit.recording import related
from eagerjit.recording.host_steps import HostSteps
from eagerjit.recording.host_work import HostWork
from eagerjit.recording.leaves import marks_of, places_of
from eagerjit.recording.traced_texts import given_text
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.containers import CONTAINERS
from eagerjit.watching.observation import TraceBreak

if TYPE_CHECKING:
    from eagerjit.recording.trace import Tracer


def arguments_of(
    tracer: Tracer, structure: Any, leaves: Sequence[Any], where: str, before: HostSteps | None = None
) -> list[Any]:
    """Make the arguments inputs or guards; one object in several places is one input.

    where       the line of the function
    before      see `HostWork`
    """
    inputs: list[Any] = []
    tracer.records = frozenset(pytree.records_in(structure))
    marks = list(marks_of(structure))
    places = list(places_of(structure)) if str in marks else []
    for mark, leaf in zip(marks, leaves, strict=False):
        if type(mark) is pytree.Again:
            tracer.bindings.append(SameGuard(tracer.new_leaf(), int(mark)))
            inputs.append(inputs[mark])
        elif mark is str:
            inputs.append(given_text(tracer, tracer.new_leaf(), leaf, places[len(inputs)]))
        elif type(mark) is related.ViewOf:
            tracer.new_leaf()
            inputs.append(None)
        else:
            inputs.append(_argument(tracer, leaf, where))
    end = len(marks) + related.additional(marks)
    more = [_argument(tracer, leaf, where) for leaf in leaves[len(marks) : end]]
    tracer.host = HostWork(tracer, leaves, before)
    related.relate(tracer, marks, leaves, inputs, more)
    for position, mark in enumerate(marks):
        inputs[position] = inputs[mark] if type(mark) is pytree.Again else inputs[position]
    for leaf, value in enumerate(inputs):
        if isinstance(value, MethodType):
            guard_method(tracer, leaf, value)
    return inputs


def _argument(tracer: Tracer, value: Any, where: str) -> Any:
    """Make an argument an input or a guard of the trace."""
    leaf = tracer.new_leaf()
    kind = type(value)
    if isinstance(value, Tensor) and not getattr(kind, "is_recorded", False):
        tracer.tensor_leaf(value, leaf, symbolic=True)
        return value
    if kind is float:
        return tracer.float_leaf(value, leaf)
    if kind is int and -(2**63) <= value < 2**63:
        return tracer.int_leaf(value, leaf)
    if isinstance(value, np.ndarray):
        raise TraceBreak("an argument is a NumPy array that no tensor can lie over", where)
    if (isinstance(value, (*CONTAINERS, array)) and kind is not list) or holds_containers(value):
        tracer.checks.append(Unchanged(value, frozenset()))
    guard_argument(tracer, leaf, value)
    return value

"""Tensors from outside that a recorded call reaches: what compiled calls compare of them; and those that it leaves."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np

from eagerjit.compiler.ir import Node
from eagerjit.compiler.signature import ObjectGuard
from eagerjit.runtime.own_attributes import own_attributes
from eagerjit.runtime.program import Op
from eagerjit.state import untraced
from eagerjit.tensors.tensor import Tensor, storage_of
from eagerjit.watching.containers import items_but
from eagerjit.watching.observation import TraceBreak
from eagerjit.watching.slots import GradientOf, Slot

if TYPE_CHECKING:
    from eagerjit.guards.structures import Structure
    from eagerjit.recording.trace import Tracer


class Memory:
    """That a captured view still lies in the memory of the tensor it was made from."""

    def __init__(self, tensor: Tensor):
        self.tensor = tensor

    def _jit_state(self, changing: Any) -> Any:
        """The arrays from the view to what it views, which keep each other alive."""
        out, tensor = [id(self.tensor._data)], self.tensor
        while tensor._view is not None:
            tensor = tensor._view.base
            out.append(id(tensor._data))
        return out


def lies_in_its_base(tensor: Tensor) -> bool:
    """Whether a view lies where it was made: it, or what it views, may have been given other memory since."""
    view, array = tensor._view, tensor._data
    assert view is not None
    try:
        made = view.op.view_eager(view.base._data, *view.arguments)
    except (IndexError, RuntimeError, TypeError, ValueError):
        return False
    if made.shape != array.shape or made.dtype != array.dtype:
        return False
    steps = zip(made.shape, made.strides, array.strides, strict=True)
    return not made.size or (
        made.ctypes.data == array.ctypes.data and all(n == 1 or step == other for n, step, other in steps)
    )


def keep_constant_arrays_apart(tracer: Tracer) -> None:
    """Guard that no array whose contents are constants of the recording lies in memory that the call writes.

    Raises TraceBreak where one does now: recorded again, the array is an input.
    """
    written = [t._data for t in tracer.written.values()]
    for array in tracer.constant_arrays.values() if written else ():
        if any(np.may_share_memory(array, memory) for memory in written):
            tracer.journal.arrays_written.append(array)
            raise TraceBreak("it writes an array whose contents it has read", tracer.begins)
        from eagerjit.recording.leaves import over_array  # which imports the tracer

        with untraced():
            tensor = over_array(array)
        if tensor is not None:
            leaf = tracer.new_leaf()
            tracer.load(leaf, Op.LOAD_OBJECT, tracer.object(tensor))
            tracer.tensor_leaf(tensor, leaf, symbolic=False)


def keep_arrays_shared(tracer: Tracer, results: Sequence[Any]) -> None:
    """Raise TraceBreak where a result lies in an outside array's memory: recorded again, the array is an input."""
    for result in results if tracer.shown_arrays else ():
        root = tracer.memory_of(result) if isinstance(result, Tensor) else None
        if id(root) in tracer.shown_arrays:
            _, array, source = tracer.shown_arrays[id(root)]
            tracer.journal.arrays_written.append(array)
            raise TraceBreak("a tensor over a NumPy array from outside is returned or kept", source)


def guard_known(tracer: Tracer, inputs: list[tuple[int, Any]], owners: list[Any], values: list[Any]) -> None:
    """Tie inputs that the function also reaches by itself to these very tensors: they are one input of the graph."""
    from eagerjit.guards.comparing import tensors_in

    outside = [*(o for o in owners if not isinstance(o, Tensor)), *values]
    journal = tracer.journal
    known = {id(t) for t in tensors_in(outside, journal.windows.histories.is_open, journal.changing())}
    known |= {id(tracer.objects[b.object]) for b in tracer.bindings if isinstance(b, ObjectGuard)}
    for leaf, value in inputs:
        if isinstance(value, Tensor) and id(value) in known:
            tracer.guard_object(leaf, Op.IS, value)


def tie_found(tracer: Tracer, values: list[Any], structure: Structure) -> None:
    """Tie tensors found in slots to these very ones where the function reaches them in other ways too.

    So also where several that it writes share memory, whose writes are counted together.
    """
    journal = tracer.journal
    if not journal.found:
        return
    reached = _kept_in([*values, *journal.handed_over.values()], journal.changing())
    reached |= _numbers_in(structure.states)
    guarded = Counter(id(tracer.objects[b.object]) for b in tracer.bindings if isinstance(b, ObjectGuard))
    shared = Counter(id(storage_of(t)) for t in tracer.written.values())
    for leaf, tensor in journal.found:
        slot = tracer.slots[leaf]
        counted = id(tensor) in tracer.written and shared[id(storage_of(tensor))] > 1
        if counted or id(tensor) in reached or guarded[id(tensor)] > _is_default(slot):
            tracer.guard_object(leaf, Op.IS, tensor)


def _is_default(slot: Slot | GradientOf) -> bool:
    """Whether an object has from its class what a slot holds, which is guarded there."""
    if type(slot) is not Slot or slot.kind != "attribute" or slot.key in own_attributes(slot.holder):
        return False
    return any(slot.key in vars(kind) for kind in type(slot.holder).__mro__)


def _kept_in(values: list[Any], changing: Set[tuple[int, Any]]) -> set[int]:
    """The ids of tensors that are values, or lie in containers but where these change."""
    found, seen, pending = set[int](), set[int](), list(values)
    while pending:
        value = pending.pop()
        if isinstance(value, Tensor):
            found.add(id(value))
        elif isinstance(value, (list, tuple, dict, set, frozenset)) and id(value) not in seen:
            seen.add(id(value))
            pending += items_but(value, changing)
    return found


def _numbers_in(state: Any) -> set[Any]:
    """What the states of Modules and optimizers are made of, ids of tensors among it."""
    found, seen, pending = set[Any](), set[int](), [state]
    while pending:
        part = pending.pop()
        if isinstance(part, (list, tuple, set, frozenset, dict)) and id(part) not in seen:
            seen.add(id(part))
            pending += [*part, *(part.values() if isinstance(part, dict) else ())]
        elif type(part) is int:
            found.add(part)
    return found


def check_leaks(tracer: Tracer) -> None:
    """Refuse a function that kept a traced tensor somewhere: the next call could not renew it."""
    tracer.journal = tracer.observation = None
    for generation in (0, 2):  # what is garbage was mostly made in the recording, so it is in the youngest one
        if tracer.leaked():
            gc.collect(generation)
    if leaked := tracer.leaked():
        source = leaked[0]._data.source if type(leaked[0]._data) is Node else tracer.begins
        raise TraceBreak("a tensor made in the function is kept outside of it", source)

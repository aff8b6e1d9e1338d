"""Which tensors of a compiled call have to be the same, and which different ones."""

from __future__ import annotations

from collections.abc import Callable

from eagerjit.compiler.signature import SameGuard, TensorLeaf
from eagerjit.recording.given_memory import leaves_given
from eagerjit.recording.trace import Tracer
from eagerjit.runtime.program import Op


def guard_identities(tracer: Tracer, n_arguments: int) -> None:
    """Where code asks which tensors are the same (`is`, keys of dictionaries), they must be other ones again.

    So must an argument and another tensor that both get gradients: those of one tensor are added in the order of its
    uses. And so must a tensor that is given other memory and others: the tensor itself shows it from there on.
    """
    if not tracer.compares_identities:
        replaced = leaves_given(tracer)
        _keep_apart(tracer, n_arguments, lambda a, b: a.grad > 0 < b.grad or not replaced.isdisjoint((a.leaf, b.leaf)))
        return
    for a, b in tracer.compared:
        given, other = (a, b) if id(a) in tracer.leaf_of else (b, a)
        found = tracer.leaf_of.get(id(given))
        if found is not None and id(other) not in tracer.leaf_of and tracer.is_found(found):
            leaf = tracer.new_leaf()
            tracer.load(leaf, Op.LOAD_OBJECT, tracer.object(other))
            tracer.bindings.append(SameGuard(found, leaf, False))
    _keep_apart(tracer, n_arguments, lambda a, b: True)


def _keep_apart(tracer: Tracer, n_arguments: int, matters: Callable[[TensorLeaf, TensorLeaf], bool]) -> None:
    """Guard that a tensor which calls find is no other one like it, where that matters.

    Arguments among themselves are told apart by the structure of the call, and by `Trace.distinct`.
    """
    leaves = [b for b in tracer.bindings if isinstance(b, TensorLeaf)]
    for position, a in enumerate(leaves):
        for b in leaves[:position]:
            types = a.node.type, b.node.type
            alike = types[0].dtype is types[1].dtype and len(types[0].shape) == len(types[1].shape)
            found = (tracer.is_found(a.leaf) or tracer.is_found(b.leaf)) and max(a.leaf, b.leaf) >= n_arguments
            if alike and a.grad == b.grad and found and matters(a, b):
                tracer.bindings.append(SameGuard(a.leaf, b.leaf, False))

"""Which tensors of a compiled call have to be the same, and which different ones."""

from __future__ import annotations

from eagerjit.compiler.signature import SameGuard, TensorLeaf
from eagerjit.recording.trace import Tracer
from eagerjit.runtime.program import Op


def guard_identities(tracer: Tracer, n_arguments: int) -> None:
    """Where code asks which tensors are the same (`is`, keys of dictionaries), they must be other ones again.

    So must an argument and another tensor that both get gradients: those of one tensor are added in the order of its
    uses.
    """
    if not tracer.compares_identities:
        _keep_apart(tracer, n_arguments, 1)
        return
    for a, b in tracer.compared:
        given, other = (a, b) if id(a) in tracer.leaf_of else (b, a)
        found = tracer.leaf_of.get(id(given))
        if found is not None and id(other) not in tracer.leaf_of and tracer.is_found(found):
            leaf = tracer.new_leaf()
            tracer.load(leaf, Op.LOAD_OBJECT, tracer.object(other))
            tracer.bindings.append(SameGuard(found, leaf, False))
    _keep_apart(tracer, n_arguments, 0)


def _keep_apart(tracer: Tracer, n_arguments: int, needed: int) -> None:
    """Guard that a tensor which calls find is no other one like it; only those that get gradients if `needed`.

    Arguments among themselves are told apart by the structure of the call, and by `Trace.distinct`.
    """
    leaves = [b for b in tracer.bindings if isinstance(b, TensorLeaf) and b.grad >= needed]
    for position, a in enumerate(leaves):
        for b in leaves[:position]:
            types = a.node.type, b.node.type
            alike = types[0].dtype is types[1].dtype and len(types[0].shape) == len(types[1].shape)
            found = (tracer.is_found(a.leaf) or tracer.is_found(b.leaf)) and max(a.leaf, b.leaf) >= n_arguments
            if alike and a.grad == b.grad and found:
                tracer.bindings.append(SameGuard(a.leaf, b.leaf, False))

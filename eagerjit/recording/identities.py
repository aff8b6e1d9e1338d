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
        argument, other = (a, b) if id(a) in tracer.leaf_of else (b, a)
        if tracer.leaf_of.get(id(argument), n_arguments) < n_arguments and id(other) not in tracer.leaf_of:
            leaf = tracer.new_leaf()
            tracer.load(leaf, Op.LOAD_OBJECT, tracer.object(other))
            tracer.bindings.append(SameGuard(tracer.leaf_of[id(argument)], leaf, False))
    _keep_apart(tracer, n_arguments, 0)


def _keep_apart(tracer: Tracer, n_arguments: int, needed: int) -> None:
    """Guard that an argument is no other tensor like it; only those that get gradients if `needed`.

    Arguments among themselves are told apart by the structure of the call, and by `Trace.distinct`.
    """
    leaves = [b for b in tracer.bindings if isinstance(b, TensorLeaf) and b.grad >= needed]
    for position, a in enumerate(leaves):
        for b in leaves[:position]:
            types = a.node.type, b.node.type
            alike = types[0].dtype is types[1].dtype and len(types[0].shape) == len(types[1].shape)
            if alike and a.grad == b.grad and (a.leaf < n_arguments) != (b.leaf < n_arguments):
                tracer.bindings.append(SameGuard(a.leaf, b.leaf, False))

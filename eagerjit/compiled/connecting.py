"""What native code does of a compiled call with gradients by itself: puts it on the tape, and walks through it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagerjit import pytree
from eagerjit.compiled.joint import Backward
from eagerjit.compiled.tape import CallOp
from eagerjit.runtime.connections import Connection, WholeGradient, connects
from eagerjit.runtime.execute import NativeExecutable
from eagerjit.runtime.native.context import MOST_CONNECTED

if TYPE_CHECKING:
    from eagerjit.compiled.variants import Variant


def connection_of(variant: Variant) -> Connection | None:
    """How native code puts a version's calls on the tape; None where Python has to, which does more than that."""
    backward = variant.backward
    if backward is None or backward.apart or not connects(CallOp):
        return None
    more: Any = variant.freed or variant.before or variant.after or variant.numbers or variant.notes or variant.calls
    inputs = backward.tensors.plain()
    if more or variant.commit or variant.slots or inputs is None or len(inputs) > MOST_CONNECTED:
        return None
    alone = variant.rebuild is None and variant.result == pytree.LEAF
    n_user = None if alone else variant.n_user
    whole = _whole_gradient(backward)
    return Connection(backward, whole, inputs, backward.roots, backward.kept, n_user, variant.rebuild)


def _whole_gradient(backward: Backward) -> WholeGradient | None:
    """The gradient when all results have one, for all inputs that need one; None where Python has to look."""
    present, wanted = backward.complete
    part = backward.parts[backward.complete]
    cut, visit, given = part.plain, part.visit, part.plain.given.plain()
    if part.late is not None or visit is None or given is None or not isinstance(cut.executable, NativeExecutable):
        return None
    if len(present) + len(cut.kept) + len(given) > MOST_CONNECTED or not {*wanted} <= {*part.targets}:
        return None
    targets = [part.targets.index(leaf) if leaf in wanted else -1 for leaf in backward.leaves]
    repeated = [leaf in part.repeated for leaf in backward.leaves]
    freed = visit.freed(frozenset())
    ends = visit.results <= freed and all(number in freed for number, _ in backward.hidden)
    return WholeGradient(
        cut.executable, len(present), cut.kept, given, targets, repeated, visit, (freed,), bool(visit.lasting), ends
    )

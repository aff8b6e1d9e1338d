"""What native code does of a compiled call with gradients by itself: puts it on the tape, and walks through it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagerjit import pytree
from eagerjit.compiled.gradient_tape import GradientOp
from eagerjit.compiled.tape import CallOp
from eagerjit.recording.rebuilt import rebuilt
from eagerjit.runtime.connections import Connection, connects
from eagerjit.runtime.native.context import MOST_CONNECTED

if TYPE_CHECKING:
    from eagerjit.compiled.variants import Variant


def connection_of(variant: Variant) -> Connection | None:
    """How native code puts a version's calls on the tape; None where Python has to, which does more than that."""
    backward = variant.backward
    if backward is None or backward.apart or not connects(CallOp, GradientOp):
        return None
    more: Any = variant.freed or variant.before or variant.after or variant.numbers or variant.notes or variant.calls
    inputs = backward.tensors.plain()
    if more or variant.commit or variant.slots or inputs is None or len(inputs) > MOST_CONNECTED:
        return None
    alone = variant.order is None and variant.result == pytree.LEAF
    n_user = None if alone else variant.n_user
    rebuild = None if variant.order is None else rebuilt(variant.result, variant.order)
    return Connection(backward, backward.known, inputs, backward.roots, backward.kept, n_user, rebuild)

"""Ops whose results lie in memory in the order of their arguments."""

from __future__ import annotations

from typing import Any

from eagerjit.calling.dispatch import Op
from eagerjit.calling.public import own_memory
from eagerjit.recording.memory_order import copied, in_memory_order, in_row_major_order, laid_out, result_order
from eagerjit.state import state


class ElementwiseOp(Op):
    """An op that computes every element from those at the same place of its arguments, which broadcast.

    apart       positions of tensors that are none of these
    promotion   how the operands are brought to one dtype, if they are
    """

    apart: tuple[int, ...] = ()
    promotion = ""

    def computed(self, arguments: tuple[Any, ...]) -> Any:
        """What the body gives, in memory of its own, in the order of the arguments."""
        tracer = state.tracer
        if tracer is None or tracer.row_major:
            return super().computed(arguments)
        return in_memory_order(tracer, super().computed, arguments, self.apart, self.promotion)


class KeepingOp(Op):
    """An op whose results have the shape of its first argument and lie in its order."""

    def computed(self, arguments: tuple[Any, ...]) -> Any:
        """What the body gives, in memory of its own, in that order."""
        tracer = state.tracer
        if tracer is None or tracer.row_major:
            return super().computed(arguments)
        order = result_order([laid_out(tracer, arguments[0])])
        result = in_row_major_order(tracer, self.body, arguments)
        if isinstance(result, tuple):
            return tuple([_in_order(tracer, part, order) for part in result])
        return _in_order(tracer, result, order)


def _in_order(tracer: Any, result: Any, order: Any) -> Any:
    """What a body has given, in memory of its own in an order: as it is where it lies so, which views never do."""
    node = tracer.value(result)
    if order is None and node.op.family not in ("view", "argument"):
        return result
    return tracer.wrap(copied(tracer, node, order))


class SteppedOp(Op):
    """An op whose results lie in memory as the last steps of its body, which are ops, lay them."""

    def computed(self, arguments: tuple[Any, ...]) -> Any:
        """What the body gives, in memory of its own."""
        return own_memory(self.body(*arguments), arguments)

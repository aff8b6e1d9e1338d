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
    """

    apart: tuple[int, ...] = ()

    def computed(self, arguments: tuple[Any, ...]) -> Any:
        """What the body gives, in memory of its own, in the order of the arguments."""
        tracer = state.tracer
        if tracer is None or tracer.row_major:
            return super().computed(arguments)
        return in_memory_order(tracer, super().computed, arguments, self.apart)


class KeepingOp(Op):
    """An op whose results have the shape of its first argument and lie in its order."""

    def computed(self, arguments: tuple[Any, ...]) -> Any:
        """What the body gives, in memory of its own, in that order."""
        tracer = state.tracer
        if tracer is None or tracer.row_major:
            return super().computed(arguments)
        order = result_order([laid_out(tracer, arguments[0])])
        if order is None:
            return in_row_major_order(tracer, super().computed, arguments)
        result = in_row_major_order(tracer, self.body, arguments)
        parts = result if isinstance(result, tuple) else (result,)
        made = tuple([tracer.wrap(copied(tracer, tracer.value(part), order)) for part in parts])
        return made if isinstance(result, tuple) else made[0]


class SteppedOp(Op):
    """An op whose results lie in memory as the last steps of its body, which are ops, lay them."""

    def computed(self, arguments: tuple[Any, ...]) -> Any:
        """What the body gives, in memory of its own."""
        return own_memory(self.body(*arguments), arguments)

"""Ops over (batch, channels, ...) whose results lie with channels last where their arguments do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerjit.calling.dispatch import Op
from eagerjit.recording.channels_last import RANKS, in_format_of, lies_last, put_last
from eagerjit.recording.memory_order import in_row_major_order
from eagerjit.state import state
from eagerjit.tensors.tensor import Tensor


class SpatialOp(Op):
    """An op whose results lie with channels last where one of its arguments does, as PyTorch's do.

    leading   positions of the arguments that are asked
    ranks     how many dimensions those may have that are
    lays_out  whether it does so for arguments like these
    follows   whether gradients of the leading arguments lie as these do, and not as what comes in
    """

    leading: tuple[int, ...] = (0,)
    ranks: tuple[int, ...] = RANKS
    lays_out: Callable[[tuple[Any, ...]], bool] | None = None
    follows = False

    def computed(self, arguments: tuple[Any, ...]) -> Any:
        """What the body gives, in memory of its own, with channels last if a leading argument has them so."""
        tracer = state.tracer
        if tracer is None or tracer.row_major or not self._is_last(arguments):
            return super().computed(arguments)
        return put_last(tracer, in_row_major_order(tracer, self.body, arguments), self.ranks)

    def _is_last(self, arguments: tuple[Any, ...]) -> bool:
        if self.lays_out is not None and not self.lays_out(arguments):
            return False
        leading = [arguments[i] for i in self.leading]
        return any(isinstance(x, Tensor) and lies_last(x, self.ranks) for x in leading)

    def gradient_body(self, needs: tuple[bool, ...], n_outputs: int) -> Callable[..., Any]:
        """The gradients, those of leading arguments laid out as these are if the op `follows` them."""
        gradient = super().gradient_body(needs, n_outputs)
        if not self.follows:
            return gradient
        ranks = self.ranks

        def followed(*arguments: Any) -> Any:
            inputs = arguments[2 * n_outputs :]
            asked = self.lays_out is None or self.lays_out(inputs)
            leading = [inputs[i] for i in self.leading] if asked else []
            found = gradient(*arguments)
            return tuple([in_format_of(g, leading, ranks) if i in self.leading else g for i, g in enumerate(found)])

        return followed


class JoiningOp(Op):
    """An op on a list of tensors whose result lies with channels last where all of them do."""

    def computed(self, arguments: tuple[Any, ...]) -> Any:
        """What the body gives, in memory of its own."""
        tracer, tensors = state.tracer, arguments[0]
        if tracer is None or tracer.row_major or not isinstance(tensors, (tuple, list)):
            return super().computed(arguments)
        if not all(isinstance(x, Tensor) and lies_last(x) for x in tensors):
            return super().computed(arguments)
        return put_last(tracer, in_row_major_order(tracer, self.body, arguments))

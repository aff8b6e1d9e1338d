"""Gradients that depend on arguments without varying with them. PyTorch's backward of `relu` is one operation of the
gradient and of what says where the input is positive: its own gradient for the latter is zeros, rather than none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagerjit.autograd.expansion import beginning, current
from eagerjit.autograd.node import GradNode, edge, record
from eagerjit.runtime import records
from eagerjit.tensors.tensor import Tensor


@records.record(frozen=True)
class Formal:
    """How the gradients of an op depend on its arguments beside their values.

    positions   the arguments that they depend on
    zeros       whether the gradient of a gradient for these is zeros; None otherwise: then gradients have a history
                because they are made together with others
    mode        the position of an argument and its values for which it is so; None: always
    """

    positions: tuple[int, ...]
    zeros: bool = True
    mode: tuple[int, tuple[str | None, ...]] | None = None

    def noted(self, node: GradNode, gradients: Sequence[Any]) -> Sequence[Any]:
        """The gradients of a node, which depend on its arguments on the tape."""
        inputs = node.inputs or ()
        if self.mode is not None and inputs[self.mode[0]] not in self.mode[1]:
            return gradients
        given = [inputs[p] for p in self.positions]
        sources = [edge(current(x, beginning()), node) for x in given if isinstance(x, Tensor) and x._requires_grad]
        if all(x is None for x in sources):
            return gradients
        return [self._tied(g, sources) if isinstance(g, Tensor) else g for g in gradients]

    def _tied(self, gradient: Tensor, sources: Sequence[Tensor | None]) -> Tensor:
        if gradient._requires_grad and not self.zeros:
            return gradient
        tied = gradient.detach()
        record(_Tie(self.zeros), (gradient, *sources), tied)
        return tied


@records.record(frozen=True)
class _Tie:
    """Stands on the tape for what hands on a gradient, and gives what that depends on zeros."""

    zeros: bool
    name = "tied"
    rules = saved_by = results_read = ()
    linear = True

    def __call__(self, gradient: Tensor, *sources: Tensor) -> Tensor:
        return gradient

    def backward(self, node: GradNode, grads: tuple[Any, ...], needs: tuple[bool, ...], create_graph: bool) -> Any:
        """The gradient as it is, and zeros."""
        rest = [
            x.detach().new_zeros(x.shape) if needed and self.zeros else None
            for x, needed in zip((node.inputs or ())[1:], needs[1:], strict=True)
        ]
        return grads[0], *rest


RELU_LIKE = Formal((0,))
"""Of ops that are piecewise linear in their first argument."""

TOGETHER = Formal((0, 1), zeros=False)
"""Of ops whose gradients for input, weight and bias PyTorch makes together."""

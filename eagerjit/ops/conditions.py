"""Conditions on values: where one does not hold, the call ends with an exception."""

from __future__ import annotations

from eagerjit.calling.dispatch import emit
from eagerjit.compiler.ops import conditions
from eagerjit.tensors.tensor import Tensor


def required(condition: Tensor, x: Tensor, error: str, message: str) -> Tensor:
    """x, in an op's body; whoever computes it finds out whether the condition holds."""
    return emit(conditions.require, condition, x, x, error=error, message=message)

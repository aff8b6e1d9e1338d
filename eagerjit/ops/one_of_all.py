"""Reductions that give one element of all, whose gradient goes to those equal to it."""

from __future__ import annotations

from typing import Any

from eagerjit.calling.dispatch import Op
from eagerjit.tensors.tensor import Tensor


def share(g: Any, out: Any, input: Any) -> Any:
    """The gradient of one element of all, shared by those equal to it: of NaN by each NaN."""
    hit = input == out
    if input.dtype.is_floating_point:
        hit = hit.logical_or(input.isnan().logical_and(out.isnan()))
    return (g / hit.to(g.dtype).sum()).where(hit, 0.0)


def of_all(extreme: Op) -> Op:
    """An extreme over all dimensions, of which each NaN is one where there is any."""

    def body(input: Tensor) -> Tensor:
        return extreme.body(input)

    body.__doc__ = extreme.body.__doc__
    return Op(f"{extreme.name[1:]}_of_all", body, (share,))

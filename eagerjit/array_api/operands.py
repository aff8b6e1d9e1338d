"""What the functions do with their arguments before eagerjit's do the work."""

from __future__ import annotations

from typing import Any

from eagerjit.tensors.promotion import promote_types
from eagerjit.tensors.tensor import Tensor


def check_array(name: str, x: Any) -> Tensor:
    """The argument if it is a tensor, else TypeError."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}(): expected a Tensor, not {type(x).__name__}")
    return x


def common(name: str, *operands: Any) -> tuple[Any, ...]:
    """Tensors in the dtype that the standard promotes them to, whatever their ranks; Python numbers as they are.

    Raises TypeError if there is no tensor among them.
    """
    known = [x.dtype for x in operands if isinstance(x, Tensor)]
    if not known:
        raise TypeError(f"{name}(): expected at least one Tensor, got {', '.join(type(x).__name__ for x in operands)}")
    dtype = known[0]
    for other in known[1:]:
        dtype = promote_types(dtype, other)
    return tuple(x.to(dtype) if isinstance(x, Tensor) else x for x in operands)

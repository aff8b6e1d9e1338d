"""What the operators of packages compute in: float32 at least, whatever autocast says."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from eagerjit.amp.autocast import autocast
from eagerjit.runtime import dtypes
from eagerjit.tensors.tensor import Tensor

_SHORT = (dtypes.float16, dtypes.bfloat16)


def in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of float32 tensors instead of shorter ones; floating-point results have the first one's dtype."""

    @functools.wraps(function)
    def called(first: Tensor, *args: Any) -> Any:
        values = [v.float() if isinstance(v, Tensor) and v.dtype in _SHORT else v for v in (first, *args)]
        with autocast(first.device.type, enabled=False):
            found = function(*values)
        if not isinstance(found, tuple):
            return _as(found, first)
        return tuple(_as(x, first) for x in found)

    return called


def _as(found: Tensor, first: Tensor) -> Tensor:
    return found.to(first.dtype) if found.dtype.is_floating_point else found

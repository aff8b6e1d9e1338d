"""Functions of single elements."""

from __future__ import annotations

from typing import Any

import eagerjit
from eagerjit.array_api.operands import common
from eagerjit.tensor import Tensor

__all__ = ["add"]


def add(x1: Any, x2: Any, /) -> Tensor:
    """x1 + x2."""
    return eagerjit.add(*common("add", x1, x2))

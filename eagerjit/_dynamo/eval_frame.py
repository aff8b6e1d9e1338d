"""Names of `torch._dynamo.eval_frame`: what `compile` makes of a Module, and whether it can."""

from __future__ import annotations

from eagerjit.nn.optimized import OptimizedModule

__all__ = ["OptimizedModule", "is_dynamo_supported"]


def is_dynamo_supported() -> bool:
    """True."""
    return True

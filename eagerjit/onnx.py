"""What programs ask of `torch.onnx` in passing: nothing is ever exported."""

from __future__ import annotations

__all__ = ["is_in_onnx_export"]


def is_in_onnx_export() -> bool:
    """False."""
    return False

"""Names of `torch._dynamo.utils`."""

from __future__ import annotations


def is_compile_supported(device_type: str) -> bool:
    """Whether functions are compiled for a kind of device."""
    return device_type in ("cpu", "cuda")

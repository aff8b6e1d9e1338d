"""What PyTorch asks before it warns that there is no CUDA device."""

from __future__ import annotations

from importlib.util import find_spec

from eagerjit import cuda

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    """Whether there is neither a CUDA device nor torch_xla."""
    return not (cuda.is_available() or find_spec("torch_xla"))

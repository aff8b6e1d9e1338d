"""What programs ask about Triton."""

from __future__ import annotations

from importlib.util import find_spec


def has_triton_package() -> bool:
    """Whether it is installed."""
    return find_spec("triton") is not None


def has_triton() -> bool:
    """Whether there is a device that runs its kernels too."""
    from eagerjit import cuda

    return has_triton_package() and cuda.is_available()

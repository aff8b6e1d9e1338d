"""The profiler under its older name."""

from __future__ import annotations

from typing import NoReturn

from eagerjit.profiler import Averages as EventList
from eagerjit.profiler import profile, record_function

__all__ = ["EventList", "emit_nvtx", "profile", "record_function"]


class emit_nvtx:
    """What marks ranges for NVIDIA's profilers in PyTorch. Raises RuntimeError where it is entered."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False):
        self.enabled = enabled

    def __enter__(self) -> NoReturn:
        raise RuntimeError("eagerjit marks no ranges for NVTX: use eagerjit.profiler")

    def __exit__(self, *exc: object) -> None:
        """It was never entered."""

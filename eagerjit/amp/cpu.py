"""What PyTorch has in `cpu.amp`."""

from __future__ import annotations

from typing import Any

from eagerjit import amp
from eagerjit.runtime import dtypes

__all__ = ["GradScaler", "autocast"]


class autocast(amp.autocast):
    """autocast for the CPU."""

    def __init__(self, enabled: bool = True, dtype: Any = dtypes.bfloat16, cache_enabled: bool = True):
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """The scaler for the CPU."""

    def __init__(
        self, init_scale: float = 65536.0, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000, enabled: bool = True,
    ):  # fmt: skip
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)

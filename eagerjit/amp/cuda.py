"""What PyTorch has in `cuda.amp`: the same for CUDA devices."""

from __future__ import annotations

import sys
from typing import Any

from eagerjit import amp
from eagerjit.amp import common
from eagerjit.amp.autocast import custom_bwd, custom_fwd
from eagerjit.runtime import dtypes

__all__ = ["GradScaler", "autocast", "common", "custom_bwd", "custom_fwd"]


class autocast(amp.autocast):
    """autocast for CUDA devices; off, with a warning, where there is none."""

    def __init__(self, enabled: bool = True, dtype: Any = dtypes.float16, cache_enabled: bool = True):
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """The scaler for CUDA devices; off, with a warning, where there is none."""

    def __init__(
        self, init_scale: float = 65536.0, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000, enabled: bool = True,
    ):  # fmt: skip
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


autocast_mode = grad_scaler = sys.modules[__name__]
"""The modules in which PyTorch has the two."""

"""Mixed precision: autocast, and the scaler of gradients that float16 needs."""

from __future__ import annotations

import importlib
from typing import Any

from eagerjit.amp.autocast import autocast, custom_bwd, custom_fwd, is_autocast_available

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]


def __getattr__(name: str) -> Any:
    if name == "GradScaler":
        return importlib.import_module("eagerjit.amp.grad_scaler").GradScaler
    if name in ("autocast_mode", "grad_scaler"):
        return importlib.import_module(f"eagerjit.amp.{name.removesuffix('_mode')}")
    raise AttributeError(f"module 'eagerjit.amp' has no attribute '{name}'")

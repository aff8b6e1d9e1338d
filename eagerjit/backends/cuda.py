"""CUDA libraries: not there. Their switches can be set."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

from eagerjit.runtime.gpu.precision import precision


class _Matmul:
    """`allow_tf32` is what `set_float32_matmul_precision` sets; sums of 16-bit factors are always of float32."""

    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True

    @property
    def allow_tf32(self) -> bool:
        """Whether factors of float32 may be rounded to TF32."""
        return precision.tf32

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        precision.name = "high" if allowed else "highest"


matmul = _Matmul()
cufft_plan_cache = SimpleNamespace(size=0, max_size=0, clear=lambda: None)

_kernels = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def is_built() -> bool:
    """False."""
    return False


def enable_flash_sdp(enabled: bool) -> None:
    """Noted: attention is one fused computation here, whichever is asked for."""
    _kernels["flash"] = bool(enabled)


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Noted."""
    _kernels["mem_efficient"] = bool(enabled)


def enable_math_sdp(enabled: bool) -> None:
    """Noted."""
    _kernels["math"] = bool(enabled)


def enable_cudnn_sdp(enabled: bool) -> None:
    """Noted."""
    _kernels["cudnn"] = bool(enabled)


def flash_sdp_enabled() -> bool:
    """What `enable_flash_sdp` was given."""
    return _kernels["flash"]


def mem_efficient_sdp_enabled() -> bool:
    """What `enable_mem_efficient_sdp` was given."""
    return _kernels["mem_efficient"]


def math_sdp_enabled() -> bool:
    """What `enable_math_sdp` was given."""
    return _kernels["math"]


def cudnn_sdp_enabled() -> bool:
    """What `enable_cudnn_sdp` was given."""
    return _kernels["cudnn"]


def sdp_kernel(*args: Any, **kwargs: Any) -> Any:
    """A context that changes nothing."""
    return contextlib.nullcontext()

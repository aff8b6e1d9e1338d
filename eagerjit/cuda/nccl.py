"""`torch.cuda.nccl`: not available, as in a PyTorch built without it."""

from __future__ import annotations

from typing import Any, NoReturn


def is_available(tensors: Any) -> bool:
    """False: nothing is exchanged among devices."""
    return False


def version() -> NoReturn:
    """Raises RuntimeError: there is no NCCL."""
    raise RuntimeError("eagerjit is built without NCCL")


def unique_id() -> NoReturn:
    """Raises RuntimeError: there is no NCCL."""
    raise RuntimeError("eagerjit is built without NCCL")

"""Names of PyTorch's core that its function transforms are made of."""

from __future__ import annotations

from typing import Any


def is_batchedtensor(tensor: Any) -> bool:
    """False: transforms record functions, and no tensor stands for a batch."""
    return False


is_legacy_batchedtensor = is_gradtrackingtensor = is_functorch_wrapped_tensor = is_batchedtensor


def _add_batch_dim(tensor: Any, dim: int, level: int) -> Any:
    raise NotImplementedError("x")


def _remove_batch_dim(tensor: Any, level: int, size: int, dim: int) -> Any:
    raise NotImplementedError("x")


def get_unwrapped(tensor: Any) -> Any:
    return tensor

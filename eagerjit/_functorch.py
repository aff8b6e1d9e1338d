"""Names of PyTorch's core that its function transforms are made of."""

from __future__ import annotations

from typing import Any

from eagerjit.func.holders import _add_batch_dim as _add_batch_dim
from eagerjit.func.holders import _remove_batch_dim as _remove_batch_dim


def is_batchedtensor(tensor: Any) -> bool:
    """False: transforms record functions, and no tensor stands for a batch."""
    return False


is_legacy_batchedtensor = is_gradtrackingtensor = is_functorch_wrapped_tensor = is_batchedtensor


def get_unwrapped(tensor: Any) -> Any:
    """The tensor itself: none wraps another one."""
    return tensor

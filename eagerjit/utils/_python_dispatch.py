"""Questions about classes that PyTorch's dispatcher would meet."""

from __future__ import annotations

from typing import Any

from eagerjit.tensors.tensor import Tensor


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Whether a tensor says by `__tensor_flatten__` and `__tensor_unflatten__` which tensors it consists of."""
    return isinstance(t, Tensor) and hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")

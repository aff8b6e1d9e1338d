"""What writers are given, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eagerjit.runtime import dtypes
from eagerjit.tensors.tensor import Tensor

__all__ = ["make_np"]


def make_np(x: Any) -> NDArray[Any]:
    """The array of a tensor on any device, of an array itself, or of one number. Others raise NotImplementedError."""
    if isinstance(x, np.ndarray):
        return x
    if np.isscalar(x):
        return np.array([x])
    if isinstance(x, Tensor):
        return _array(x)
    raise NotImplementedError(f"writers take tensors, arrays and numbers, and got {type(x)}")


def _array(x: Tensor) -> NDArray[Any]:
    x = x.detach()
    x = x.to_dense() if x.is_sparse else x
    narrow = x.dtype.is_floating_point and x.dtype not in (dtypes.float16, dtypes.float32, dtypes.float64)
    # NumPy's functions know nothing of bfloat16 and float8; float32 holds their values.
    return (x.to(dtypes.float32) if narrow else x).cpu().resolve_conj().numpy()

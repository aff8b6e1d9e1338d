"""Conversion to floats of 8 bits, which NumPy computes."""

from __future__ import annotations

import numpy as np

from eagerjit.runtime import dtypes


def to_float8(x: np.ndarray, dtype: dtypes.DType) -> np.ndarray:
    """What PyTorch makes of numbers that the formats lack: the largest for larger ones where there is no infinity."""
    x = x.astype(np.float32)
    if dtype.name == "float8_e4m3fn":
        x = np.clip(x, -448.0, 448.0)
    if dtype.name == "float8_e8m0fnu":
        x = np.maximum(np.abs(x), np.float32(2.0**-127))
    made = x.astype(dtype.numpy)
    if dtype.name == "float8_e5m2":
        bits = made.view(np.uint8)
        bits[(bits & 0x7F) > 0x7C] |= 0x7F
    return made

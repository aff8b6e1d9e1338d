"""Products of matrices, done by BLAS."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import TensorType
from eagerjit.compiler.ops.declare import Primitive, declare, same_dtype


def _matmul_type(a: TensorType, b: TensorType) -> TensorType:
    dtype = same_dtype("matmul", (a, b))
    if len(a.shape) < 2 or len(a.shape) != len(b.shape):
        raise ValueError(f"matmul: operands of {len(a.shape)} and {len(b.shape)} dimensions")
    if not sizes.equal(a.shape[-1], b.shape[-2]):
        left, right = ([sizes.hint(d) for d in t.shape] for t in (a, b))
        raise ValueError(
            f"matmul: mat1 and mat2 shapes cannot be multiplied "
            f"({'x'.join(map(str, left))} and {'x'.join(map(str, right))})"
        )
    for p, q in zip(a.shape[:-2], b.shape[:-2], strict=True):
        if not sizes.equal(p, q):
            raise ValueError(f"matmul: batch sizes {sizes.hint(p)} and {sizes.hint(q)} differ")
    return TensorType(dtype, (*a.shape[:-1], b.shape[-1]))


def _matmul_reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind in "fc" and a.dtype.itemsize >= 4:
        return np.matmul(a, b)
    wide = np.int64 if a.dtype.kind in "iub" else np.float32
    return np.matmul(a.astype(wide), b.astype(wide)).astype(a.dtype)


def _left(g: Any, out: Any, a: Any, b: Any) -> Any:
    return g.matmul(b.mT)


def _right(g: Any, out: Any, a: Any, b: Any) -> Any:
    return a.mT.matmul(g)


matmul = declare(
    Primitive(
        "matmul",
        "linear",
        _matmul_type,
        _matmul_reference,
        "Matrix product of the last two dimensions; batch dimensions are equal.",
        derivative=(_left, _right),
        scalar="matmul",
        cost=100,
    )
)

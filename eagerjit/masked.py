"""`torch.masked`: reductions and the like of the elements that a mask says are there. The class MaskedTensor is absent.

Each function takes `mask`, which is broadcast to the input, and counts what it hides as what changes nothing: 0 of
sums, the least number of maxima. Rows without elements give that, or NaN where there is no such number.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eagerjit import linalg
from eagerjit.nn import functional
from eagerjit.ops.positions import where
from eagerjit.runtime import dtypes
from eagerjit.runtime.dtypes import DType
from eagerjit.tensors.tensor import Tensor

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean", "median",
    "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip

_SMALL = (dtypes.bool_, dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32)


def _least(input: Tensor) -> float | int:
    return -math.inf if input.dtype.is_floating_point else int(np.iinfo(input.dtype.numpy).min)


def _most(input: Tensor) -> float | int:
    return math.inf if input.dtype.is_floating_point else int(np.iinfo(input.dtype.numpy).max)


def _flags(input: Tensor, mask: Tensor) -> Tensor:
    if mask.ndim > input.ndim:
        raise IndexError(
            "_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)"
        )
    return mask.bool().broadcast_to(input.shape)


def _shown(input: Tensor, mask: Tensor | None, hidden: float) -> Tensor:
    """The input with a number in place of what the mask hides."""
    return input if mask is None else where(_flags(input, mask), input, input.new_full((), hidden))


def _dims(dim: Any, rank: int) -> tuple[int, ...]:
    """The dimensions in order, all for None and for none."""
    if dim is None or dim == ():
        return tuple(range(rank))
    found = []
    for d in (dim,) if isinstance(dim, int) else dim:
        if not -max(rank, 1) <= d < max(rank, 1):
            limits = f"[{-max(rank, 1)}, {max(rank, 1) - 1}]"
            raise IndexError(f"Dimension out of range (expected to be in range of {limits}, but got {d})")
        if d in found:
            raise RuntimeError(f"dim={d} appears multiple times in the list of dims")
        found.append(d)
    return tuple(sorted(d % max(rank, 1) for d in found))


def _summed(input: Tensor, dtype: DType | None) -> DType:
    return dtype or (dtypes.int64 if input.dtype in _SMALL else input.dtype)


def sum(input: Tensor, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The sum of the elements that the mask shows, over `dim` (all without); 0 of none.

    int64 of bools and of integers of up to 32 bits, unless `dtype` says otherwise. Raises IndexError for a mask of more
    dimensions than the input.
    """
    dims = _dims(dim, input.ndim)
    return _shown(input, mask, 0).sum(dims, bool(keepdim), dtype=_summed(input, dtype))


def prod(
    input: Tensor, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The product of the elements that the mask shows, 1 of none; dtypes and errors are those of `sum`."""
    dims = _dims(dim, input.ndim)
    result = _shown(input, mask, 1).to(_summed(input, dtype))
    for d in reversed(dims):
        result = result.prod(d, keepdim=bool(keepdim))
    return result


def amax(
    input: Tensor, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The greatest of the elements that the mask shows; -inf, or the least integer, of none."""
    shown = _shown(input, mask, _least(input))
    return shown.amax(_dims(dim, input.ndim), bool(keepdim)).to(dtype or input.dtype)


def amin(
    input: Tensor, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The least of the elements that the mask shows; inf, or the greatest integer, of none."""
    shown = _shown(input, mask, _most(input))
    return shown.amin(_dims(dim, input.ndim), bool(keepdim)).to(dtype or input.dtype)


def argmax(
    input: Tensor, dim: int | None = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """Where the greatest element is; the dtype is the input's, as in PyTorch."""
    return _shown(input, mask, _least(input)).argmax(dim, bool(keepdim)).to(dtype or input.dtype)


def argmin(
    input: Tensor, dim: int | None = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """Where the least element is; the dtype is the input's, as in PyTorch."""
    return _shown(input, mask, _most(input)).argmin(dim, bool(keepdim)).to(dtype or input.dtype)


def mean(
    input: Tensor, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The mean of the elements that the mask shows, NaN of none. Raises ValueError for integers without a dtype."""
    wanted = dtype or input.dtype
    if not (wanted.is_floating_point or wanted.is_complex):
        source = "Input" if dtype is None else "Optional"
        raise ValueError(
            f"mean(): Could not infer output dtype. {source} dtype must be either a floating point or complex dtype. "
            f"Got: {wanted}"
        )
    count = _count(input, dim, keepdim, mask)
    return sum(input, dim, keepdim=keepdim, dtype=dtype, mask=mask) / count


def _count(input: Tensor, dim: Any, keepdim: bool | None, mask: Any) -> Tensor:
    flags = input.new_ones(input.shape, dtype=dtypes.bool_) if mask is None else _flags(input, mask)
    return flags.sum(_dims(dim, input.ndim), bool(keepdim))


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The lower median. Raises ValueError for integers of which a row has none."""
    floating = input.dtype.is_floating_point
    shown = _shown(input if floating else input.float(), mask, math.nan)
    result = shown.nanmedian(_dims(dim, input.ndim)[0], keepdim).values
    if floating:
        return result
    if bool(result.isnan().any()):
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return result.to(dtype or input.dtype)


def logsumexp(input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The logarithm of the sum of exponentials of the elements that the mask shows, -inf of none."""
    dims = _dims(dim, input.ndim)
    least = -math.inf if input.dtype.is_complex else _least(input)
    return _shown(input, mask, least).logsumexp(dims, keepdim).to(dtype or input.dtype)


def logaddexp(
    input: Tensor, other: Tensor, *, dtype: Any = None, input_mask: Any = None, other_mask: Any = None
) -> Tensor:
    """log(exp(input) + exp(other)), without what either mask hides."""
    shown = _shown(input, input_mask, _least(input))
    return shown.logaddexp(_shown(other, other_mask, _least(other))).to(dtype or input.dtype)


def norm(
    input: Tensor, ord: Any = 2.0, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The norm of order `ord` of the elements that the mask shows, over `dim` (all without)."""
    shown = _shown(input, mask, math.inf if ord == -math.inf else 0)
    return linalg.vector_norm(shown, ord, _dims(dim, input.ndim), bool(keepdim), dtype=dtype or input.dtype)


def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The input divided by its norms of order `ord` along `dim`, or by eps where they are less."""
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _shown(input, mask, 0) / length.maximum(length.new_full((), eps))


def var(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, *, correction: Any = None,
    keepdim: bool | None = False, dtype: Any = None, mask: Any = None,
) -> Tensor:  # fmt: skip
    """The variance. Raises AssertionError where `unbiased` and `correction` are both given."""
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    subtracted = correction if correction is not None else 0 if unbiased is False else 1
    wanted = dtype or (input.dtype if input.dtype.is_floating_point or input.dtype.is_complex else dtypes.float32)
    count = _count(input, dim, keepdim, mask)
    apart = input - sum(input, dim, keepdim=True, dtype=wanted, mask=mask) / _count(input, dim, True, mask)
    total = sum(apart * apart.conj(), dim, keepdim=keepdim, dtype=wanted, mask=mask)
    if subtracted:
        count = (count.to(total.real.dtype if wanted.is_complex else wanted) - subtracted).clamp(min=0)
    return (total / count).to(wanted)


def std(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, *, correction: Any = None,
    keepdim: bool | None = False, dtype: Any = None, mask: Any = None,
) -> Tensor:  # fmt: skip
    """The standard deviation. Raises AssertionError where `unbiased` and `correction` are both given."""
    return var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask).sqrt()


def cumsum(input: Tensor, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """The sums up to each element along `dim`; what the mask hides counts as 0."""
    return _shown(input, mask, 0).cumsum(_dims(dim, input.ndim)[0], dtype=dtype or input.dtype)


def cumprod(input: Tensor, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """The products up to each element along `dim`; what the mask hides counts as 1."""
    return _shown(input, mask, 1).cumprod(_dims(dim, input.ndim)[0], dtype=dtype or input.dtype)


def softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """exp(input) along `dim` divided by its sum over the elements that the mask shows; 0 for the others."""
    shown = _shown(input, mask, _least(input))
    return functional.softmax(shown, _dims(dim, input.ndim)[0], dtype=dtype or input.dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """The logarithm of `softmax`: -inf for what the mask hides."""
    shown = _shown(input, mask, _least(input))
    return functional.log_softmax(shown, _dims(dim, input.ndim)[0], dtype=dtype or input.dtype)


def softmin(input: Tensor, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """`softmax` of the negative input."""
    shown = _shown(input, mask, _most(input))
    return functional.softmin(shown, _dims(dim, input.ndim)[0], dtype=dtype or input.dtype)

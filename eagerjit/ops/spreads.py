"""Variances and standard deviations over dimensions, each one kernel."""

from __future__ import annotations

from typing import Any

from eagerjit.calling.dispatch import Op
from eagerjit.compiler.ops import reductions
from eagerjit.ops.pointwise import as_dtype
from eagerjit.ops.reduce import extent, kept, reduce
from eagerjit.recording.numbers import SymbolicInt
from eagerjit.runtime import dtypes
from eagerjit.runtime.planned import Plan
from eagerjit.tensors.mistakes import planned_of_ranks
from eagerjit.tensors.tensor import Tensor


def _var(input: Tensor, dim: Any = None, correction: Any = 1, keepdim: bool = False) -> Tensor:
    """Variance over dimensions: the sum of squared deviations from the mean / (count - correction, at least 0)."""
    if not input.dtype.is_floating_point:
        raise RuntimeError("std and var only support floating point and complex dtypes")
    wide = dtypes.float32 if input.dtype in (dtypes.float16, dtypes.bfloat16) else input.dtype
    x = as_dtype(input, wide)
    count = extent(x, dim)
    centered = x - reduce(reductions.sum_, x, dim, True) / count
    total = _about_mean(centered, count, dim, keepdim)
    return as_dtype(total / _degrees(count, correction), input.dtype)


def _degrees(count: Any, correction: Any) -> Any:
    """What squares are divided by. A count that is a symbol is 2 or more: Bessel's correction asks nothing of it."""
    left = count - correction
    return left if (isinstance(left, SymbolicInt) and correction <= 1) or left > 0 else 0


def _about_mean(centered: Tensor, count: Any, dim: Any, keepdim: bool) -> Tensor:
    """Sums of squared deviations, less what they have of the mean's rounding: it shifts all of them alike.

    Of an unrounded mean there is no such part, whatever the elements are: it has no gradient. An infinite sum stays so.
    """
    total = reduce(reductions.sum_, centered * centered, dim, keepdim)
    rest = reduce(reductions.sum_, centered, dim, keepdim).detach()
    shift = rest * (rest / count)
    return total - shift.where(shift.isfinite(), 0.0).minimum(total.detach())


variance = Op("var", _var)


def _std(input: Tensor, dim: Any = None, correction: Any = 1, keepdim: bool = False) -> Tensor:
    """Square root of the variance."""
    return _var(input, dim, correction, keepdim).sqrt()


def _std_rule(g: Any, out: Any, input: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
    """Zero where the deviation is."""
    g, out = kept(g, input, dim, keepdim), kept(out, input, dim, keepdim)
    divisor = _degrees(extent(input, dim), correction)
    return (g / out.where(out != 0.0, 1.0)).where(out != 0.0, 0.0) * (input - input.mean(dim, True)) / divisor


deviation = Op("std", _std, (_std_rule, None, None, None))


def _spread_arguments(dim: Any, unbiased: bool | None, correction: Any) -> tuple[Any, Any]:
    """PyTorch's two ways to say the correction: var(x, unbiased) and var(x, dim, correction=...)."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return dim, correction


@planned_of_ranks
def var(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = None
) -> Plan:
    """Variance over dimensions: the sum of squared deviations from the mean / max(0, N - correction).

    The correction is 1 (Bessel's) unless `unbiased=False` or another `correction` is given; dimensions are as in `sum`.
    Raises RuntimeError for other than floating point numbers.
    """
    dim, correction = _spread_arguments(dim, unbiased, correction)
    return variance.call, (input, dim, correction, keepdim)


@planned_of_ranks
def std(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = None
) -> Plan:
    """Standard deviation over dimensions: the root of `var`, whose options and errors it has."""
    dim, correction = _spread_arguments(dim, unbiased, correction)
    return deviation.call, (input, dim, correction, keepdim)

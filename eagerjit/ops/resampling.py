"""Images in other sizes: nearest points, linear and cubic interpolation, means of areas."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from eagerjit.calling.spatial import SpatialOp
from eagerjit.ops.activation import widened
from eagerjit.ops.pointwise import as_dtype, wide
from eagerjit.ops.taps import (
    cubic,
    in_columns,
    in_window,
    linear,
    nearest,
    places_of,
    smooth,
    step_and_most,
    taken,
    takers,
    transposed,
    weighted,
    weighted_bytes,
    weighted_window,
)  # fmt: skip
from eagerjit.ops.windows import window_sum
from eagerjit.recording.numbers import SymbolicInt, TracedFloat, plain, to_float
from eagerjit.recording.rounding import rounded
from eagerjit.runtime import dtypes
from eagerjit.runtime.planned import Plan
from eagerjit.state import state
from eagerjit.tensors.creation import arange, ones
from eagerjit.tensors.mistakes import planned
from eagerjit.tensors.tensor import Tensor

MODES = ("nearest", "linear", "bilinear", "bicubic", "trilinear", "area", "nearest-exact")
RANKS = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}
BYTES = ("nearest", "nearest-exact", "bilinear", "bicubic")
"""Modes for images of bytes."""
NEAREST = ("nearest", "nearest-exact")


def _resized_line(input: Tensor, d: int, wanted: Any, scale: float | None, align: bool, mode: str) -> Tensor:
    """Interpolation along one dimension."""
    n, dtype = input.shape[d], input.dtype
    if mode == "nearest" and scale is None and type(wanted) is not int and n is wanted:
        return input
    if mode in NEAREST:
        return taken(input, d, nearest(n, wanted, scale, mode == "nearest-exact", dtype))
    return weighted(input, d, (cubic if mode == "bicubic" else linear)(n, wanted, scale, align, dtype))


def _unresized_line(output: Tensor, d: int, size: Any, scale: float | None, align: bool, mode: str) -> Tensor:
    """The transpose of `resized_line`: what the few outputs around every place took from it."""
    y, wanted = widened(output)[0], output.shape[d]
    if mode in NEAREST:
        place = nearest(size, wanted, scale, mode == "nearest-exact", y.dtype)
        taps, most = [(place, ones(wanted, dtype=y.dtype))], takers(size, wanted, scale, False, 1) + 1
    else:
        taps = (cubic if mode == "bicubic" else linear)(size, wanted, scale, align, y.dtype)
        most = 2 * takers(size, wanted, scale, align, len(taps) // 2) + 1
    return as_dtype(weighted_window(y, d, *transposed(*in_window(taps), size, most)), output.dtype)


resized_line = SpatialOp(
    "resized_line",
    _resized_line,
    (lambda g, out, input, d, wanted, *how: unresized_line.call(g, d, input.shape[d], *how), *(None,) * 5),
    numbers=("wanted", "scale"),
)
unresized_line = SpatialOp(
    "unresized_line",
    _unresized_line,
    (lambda g, out, output, d, size, *how: resized_line.call(g, d, output.shape[d], *how), *(None,) * 5),
    numbers=("size", "scale"),
)
resized_line.linear = unresized_line.linear = True
resized_line.steady = unresized_line.steady = frozenset((3,))


def _smooth_line(input: Tensor, d: int, wanted: Any, each: Any, most: tuple[int, int], by_cubic: bool) -> Tensor:
    """Antialiased interpolation along one dimension."""
    whole = input.dtype is dtypes.uint8
    x = input if whole else widened(input)[0]
    n = x.shape[d]
    first, _, weights = smooth(n, wanted, each, most[0], dtypes.float64 if whole else x.dtype, by_cubic)
    total = (weighted_bytes if whole else weighted_window)(x, d, places_of(first, most[0], n), weights)
    return as_dtype(total, input.dtype)


def _unsmooth_line(output: Tensor, d: int, size: Any, each: Any, most: tuple[int, int], by_cubic: bool) -> Tensor:
    """The transpose of `smooth_line`: what the few outputs around every place took from it."""
    y = widened(output)[0]
    windows = smooth(size, y.shape[d], each, most[0], y.dtype, by_cubic)
    return as_dtype(weighted_window(y, d, *transposed(*windows, size, most[1])), output.dtype)


smooth_line = SpatialOp(
    "smooth_line",
    _smooth_line,
    (lambda g, out, input, d, wanted, *how: unsmooth_line.call(g, d, input.shape[d], *how), *(None,) * 5),
    numbers=("wanted", "each"),
)
unsmooth_line = SpatialOp(
    "unsmooth_line",
    _unsmooth_line,
    (lambda g, out, output, d, size, *how: smooth_line.call(g, d, output.shape[d], *how), *(None,) * 5),
    numbers=("size", "each"),
)
smooth_line.linear = unsmooth_line.linear = True


def _smooth(
    input: Tensor, size: Any, scales: tuple[float | None, ...], align: bool, by_cubic: bool
) -> Tensor:
    """Antialiased interpolation of images; bytes are rounded in between, in PyTorch's order."""
    x = input
    for axis in (1, 0) if input.dtype is dtypes.uint8 else _order(input.shape[2:], size):
        each, most = step_and_most(x.shape[axis + 2], size[axis], scales[axis], align, by_cubic)
        x = smooth_line.call(x, axis + 2, size[axis], each, most, by_cubic)
    return x


def _interpolated(
    input: Tensor, size: Any, mode: str, align: bool, first: Any, second: Any = None, third: Any = None
) -> Tensor:  # fmt: skip
    """(batch, channels, ...) with its spatial dimensions in other sizes, by a scale each; see `interpolate`."""
    scales = first, second, third
    if input.dtype is dtypes.uint8 and mode not in NEAREST:
        return _interpolated_bytes(input, size, scales, cubic if mode == "bicubic" else linear, align)
    x = input if mode in NEAREST else widened(input)[0]
    for axis in _order(input.shape[2:], size):
        x = resized_line.call(x, axis + 2, size[axis], scales[axis], align, mode)
    return as_dtype(x, input.dtype)


def _interpolated_gradient(
    g: Tensor, out: Tensor, input: Tensor, size: Any, mode: str, align: bool, *scales: Any
) -> Tensor:  # fmt: skip
    y = g.to(wide(g.dtype))
    for axis in reversed(_order(input.shape[2:], size)):
        y = unresized_line.call(y, axis + 2, input.shape[axis + 2], scales[axis], align, mode)
    return y.to(g.dtype)


def _order(old: Any, new: Any) -> Sequence[int]:
    """Sums along the last dimension read neighbours together: where the first one becomes shorter it is done first."""
    axes = range(len(new))
    return axes if new[0] < old[0] else axes[::-1]


def _interpolated_bytes(input: Tensor, size: Any, scales: tuple[float | None, ...], taps: Any, align: bool) -> Tensor:
    """The same of bytes, which are rounded in between."""
    x = input
    for axis in reversed(range(len(size))):
        d = axis + 2
        x = weighted_bytes(x, d, *in_columns(taps(x.shape[d], size[axis], scales[axis], align, dtypes.float64)))
    return x


interpolate_op = SpatialOp(
    "interpolate", _interpolated, (_interpolated_gradient, *(None,) * 6), ("first", "second", "third"), shapes=("size",)
)
interpolate_op.linear = True
interpolate_op.steady = interpolate_op.numbers


def _repeated(input: Tensor, factors: tuple[int, ...]) -> Tensor:
    """Every point of (batch, channels, ...) so many times along each dimension."""
    x = input
    for axis, factor in enumerate(factors):
        d = axis + 2
        if factor > 1:
            x = taken(x, d, arange(x.shape[d] * factor) // factor)
    return x if any(f > 1 for f in factors) else x.clone()


repeated = SpatialOp(
    "repeated_points",
    _repeated,
    (
        lambda g, out, input, factors: window_sum.call(
            g, tuple(input.shape[2:]), factors, factors, (0,) * len(factors)
        ),
        None,
    ),
)
WHOLE = (1.0, 2.0, 3.0, 4.0, 8.0)
"""Scales by which the nearest point is found by integer division, as PyTorch's product of floats finds it too."""


# -- arguments --------------------------------------------------------------------------------------------------------


def _check(input: Tensor, size: Any, mode: str, align_corners: Any, antialias: bool) -> None:
    if mode.startswith("nearest") or mode == "area":
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | "
                "trilinear"
            )
    if input.ndim not in (3, 4, 5) or mode not in MODES:
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.ndim}D) for the modes: "
            f"{' | '.join(MODES)} (got {mode})"
        )
    if antialias and not (mode in ("bilinear", "bicubic") and input.ndim == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input"
        )
    if mode in RANKS and input.ndim - 2 != RANKS[mode]:
        raise NotImplementedError(f"Got {input.ndim}D input, but {mode} mode needs {RANKS[mode] + 2}D input")
    if not input.dtype.is_floating_point and (input.dtype is not dtypes.uint8 or mode not in BYTES):
        raise NotImplementedError(f'"upsample_{mode}{input.ndim - 2}d" not implemented for \'{input.dtype}\'')
    if input.shape[1] == 0 and mode != "area":
        raise RuntimeError(
            f"Non-empty {input.ndim}D data tensor expected but got a tensor with sizes {list(input.shape)}"
        )
    if any(n <= 0 for n in size) or any(n == 0 for n in input.shape[2:]):
        raise RuntimeError(
            f"interpolate: Input and output sizes should be greater than 0, but got input {list(input.shape[2:])} and "
            f"output {list(size)}"
        )


def _each(name: str, value: Any, input: Tensor) -> tuple[Any, ...]:
    """One value per spatial dimension."""
    rank = input.ndim - 2
    if not isinstance(value, (tuple, list)):
        return (value,) * rank
    if len(value) != rank:
        raise ValueError(
            f"Input and {name} must have the same number of spatial dimensions, but got input with spatial dimensions "
            f"of {list(input.shape[2:])} and {name} of {tuple(value)}"
        )
    return tuple(value)


def _factor(value: Any) -> Any:
    """A scale as a float; where other calls have others, one of the trace."""
    factor = to_float(value)
    known = type(factor) is TracedFloat and factor.value is not None and not state.tracer.varies(factor)  # type: ignore[union-attr]
    return plain(factor) if known else factor


def _scaled(n: Any, factor: Any) -> Any:
    """The largest int in n * factor; without a look at n where that is exact."""
    if type(factor) is TracedFloat:
        return rounded(math.floor, to_float(n) * factor)
    if factor.is_integer():
        return n * int(factor)
    above, below = factor.as_integer_ratio()
    if type(n) is int or below > _EXACT or above > _EXACT or n > _LONGEST:
        return math.floor(float(n) * factor)
    return n * above // below


_EXACT, _LONGEST = 1 << 20, 1 << 31


@planned
def interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> Plan:  # fmt: skip
    """(batch, channels, ...) with its spatial dimensions in other sizes: `size`, or the old ones times `scale_factor`.

    `mode` is nearest, nearest-exact, linear, bilinear, bicubic, trilinear or area. Raises ValueError or
    NotImplementedError for arguments that do not go together.
    """
    if (size is None) == (scale_factor is None):
        which = "only one of" if size is not None else "either"
        raise ValueError(f"{which} size or scale_factor should be defined")
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if input.ndim < 3:
        given = size if size is not None else scale_factor
        if isinstance(given, (tuple, list)) and len(given) != max(input.ndim - 2, 0):
            raise ValueError(
                f"Input and output must have the same number of spatial dimensions, but got input with spatial "
                f"dimensions of {list(input.shape[2:])} and {list(given)}"
            )
        _check(input, (), mode, align_corners, antialias)
    rank = input.ndim - 2
    scales: tuple[float | None, ...] = (None,) * rank
    if size is not None:
        wanted = tuple(
            n if isinstance(n, (int, SymbolicInt)) else operator.index(n) for n in _each("output size", size, input)
        )
    else:
        factors = tuple(map(_factor, _each("scale_factor", scale_factor, input)))
        wanted = tuple(_scaled(n, f) for n, f in zip(input.shape[2:], factors, strict=True))
        if not recompute_scale_factor and not align_corners:
            scales = factors
    _check(input, wanted, mode, align_corners, antialias)
    if mode == "area":
        from eagerjit.ops import adaptive

        return getattr(adaptive, f"adaptive_avg_pool{rank}d"), (input, wanted)
    if mode == "nearest" and all(s in WHOLE for s in scales):
        return repeated.call, (input, tuple(int(s) for s in scales if s is not None))
    if antialias:
        return _smooth, (input, wanted, scales, bool(align_corners), mode == "bicubic")
    return interpolate_op.call, (input, wanted, mode, bool(align_corners), *scales)


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Tensor:
    """`interpolate` under its old name."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with the nearest points."""
    return interpolate(input, size, scale_factor)


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Bilinear `interpolate` with aligned corners."""
    return interpolate(input, size, scale_factor, "bilinear", True)

"""Images in other sizes: nearest points, linear and cubic interpolation, means of areas."""

from __future__ import annotations

import math
import operator
from typing import Any

from eagerjit.dispatch import Op
from eagerjit.ops.activation import widened
from eagerjit.ops.pointwise import as_dtype
from eagerjit.ops.windows import window_sum
from eagerjit.recording.numbers import SymbolicInt
from eagerjit.runtime import dtypes
from eagerjit.runtime.planned import Plan
from eagerjit.tensors.creation import arange
from eagerjit.tensors.mistakes import planned
from eagerjit.tensors.tensor import Tensor

MODES = ("nearest", "linear", "bilinear", "bicubic", "trilinear", "area", "nearest-exact")
RANKS = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}
MOST_SPREAD = 8.0
"""Scales up to which the gradient of linear interpolation gathers; it takes twice as many terms."""
CUBIC = -0.75
"""The free parameter of the cubic kernel (Keys 1981), as PyTorch and OpenCV choose it."""
CUBIC_SMOOTH = -0.5
"""The same with antialiasing, as Pillow chooses it."""


def along(vector: Tensor, d: int, rank: int) -> Tensor:
    """A vector along one dimension of many."""
    return vector.reshape([-1 if a == d else 1 for a in range(rank)])


def taken(x: Tensor, d: int, place: Tensor) -> Tensor:
    """x at these places along a dimension."""
    shape = tuple(place.shape[0] if a == d else n for a, n in enumerate(x.shape))
    return x.gather(d, along(place, d, x.ndim).expand(shape))


def _ratio(n: Any, wanted: Any, scale: float | None) -> Any:
    """Input places per output place."""
    return n / wanted if scale is None else 1.0 / scale


def _positions(n: Any, wanted: Any, scale: float | None, align: bool, dtype: Any) -> Tensor:
    """Where the outputs lie among the inputs, as fractions of places."""
    each = as_dtype(arange(wanted), dtype)
    if align:
        return each * ((n - 1) / (wanted - 1) if wanted > 1 else 0.0)
    return (each + 0.5) * _ratio(n, wanted, scale) - 0.5


def _nearest(x: Tensor, d: int, wanted: Any, scale: float | None, exact: bool) -> Tensor:
    n = x.shape[d]
    if not exact and scale is None and type(wanted) is not int and n is wanted:
        return x
    computed = dtypes.float64 if x.dtype is dtypes.float64 else dtypes.float32
    each = as_dtype(arange(wanted), computed)
    ratio = arange(1).to(computed) + _ratio(n, wanted, scale)  # rounded as PyTorch's is, before it multiplies
    place = ((each + 0.5) * ratio if exact else each * ratio).floor().long().clamp(max=n - 1)
    return taken(x, d, place)


def _linear(x: Tensor, d: int, wanted: Any, scale: float | None, align: bool) -> Tensor:
    n = x.shape[d]
    at = _positions(n, wanted, scale, align, x.dtype)
    at = at if align else at.clamp(min=0.0)
    first, beyond = _neighbours(at, n)
    weight = along(beyond, d, x.ndim)
    return taken(x, d, first) * (1 - weight) + taken(x, d, (first + 1).clamp(max=n - 1)) * weight


def _neighbours(at: Tensor, n: Any) -> tuple[Tensor, Tensor]:
    """The place before each position, and how far beyond it the position is."""
    low = at.floor().clamp(max=as_dtype(arange(1) + (n - 1), at.dtype))
    return low.long(), (at - low).clamp(max=1.0)


def _scaled_line(input: Tensor, d: int, wanted: Any, scale: float) -> Tensor:
    """Linear interpolation along one dimension, enlarged by a known factor."""
    return _linear(input, d, wanted, scale, False)


def _spread_line(output: Tensor, d: int, size: Any, scale: float) -> Tensor:
    """The transpose of `scaled_line`: what the few outputs around every place took from it."""
    wanted = output.shape[d]
    each = arange(size)
    first = ((as_dtype(each, output.dtype) - 0.5) * scale - 0.5).floor().long()
    total: Any = None
    for t in range(math.ceil(2 * scale) + 2):
        place = first + t
        at = ((as_dtype(place, output.dtype) + 0.5) * _ratio(size, wanted, scale) - 0.5).clamp(min=0.0)
        low, beyond = _neighbours(at, size)
        weight = (1 - beyond).where(low == each, 0.0) + beyond.where((low + 1).clamp(max=size - 1) == each, 0.0)
        weight = weight.where((place >= 0).logical_and(place < wanted), 0.0)
        part = taken(output, d, place.clamp(min=0, max=wanted - 1)) * along(weight, d, output.ndim)
        total = part if total is None else total + part
    return total


scaled_line = Op(
    "scaled_line",
    _scaled_line,
    (lambda g, out, input, d, wanted, scale: spread_line.call(g, d, input.shape[d], scale), None, None, None),
    numbers=("wanted",),
)
spread_line = Op(
    "spread_line",
    _spread_line,
    (lambda g, out, y, d, size, scale: scaled_line.call(g, d, y.shape[d], scale), None, None, None),
    numbers=("size",),
)


def near(t: Any, a: float) -> Any:
    """The cubic kernel within a distance of 1."""
    return ((a + 2) * t - (a + 3)) * t * t + 1


def far(t: Any, a: float) -> Any:
    """The cubic kernel at distances from 1 to 2."""
    return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a


def _cubic(x: Tensor, d: int, wanted: Any, scale: float | None, align: bool) -> Tensor:
    n = x.shape[d]
    at = _positions(n, wanted, scale, align, x.dtype)
    low = at.floor()
    t, first = at - low, low.long()
    weights = (far(t + 1, CUBIC), near(t, CUBIC), near(1 - t, CUBIC), far(2 - t, CUBIC))
    out: Any = None
    for offset, weight in zip((-1, 0, 1, 2), weights, strict=True):
        part = taken(x, d, (first + offset).clamp(min=0, max=n - 1)) * along(weight, d, x.ndim)
        out = part if out is None else out + part
    return out


def _smooth(x: Tensor, d: int, wanted: Any, scale: float | None, align: bool, cubic: bool) -> Tensor:
    """Antialiased: the kernel is as wide as an output place, its weights sum to 1."""
    n = x.shape[d]
    ratio = float((n - 1) / (wanted - 1) if wanted > 1 else 0.0) if align else float(_ratio(n, wanted, scale))
    width = max(ratio, 1.0)
    support = (2.0 if cubic else 1.0) * width
    center = (as_dtype(arange(wanted), x.dtype) + 0.5) * ratio
    first = (center - support + 0.5).long().clamp(min=0)
    last = (center + support + 0.5).long().clamp(max=n)
    total: Any = None
    parts = []
    for j in range(math.ceil(support) * 2 + 1):
        t = ((as_dtype(first, x.dtype) + (j + 0.5) - center) / width).abs()
        weight = (1.0 - t).clamp(min=0.0)
        if cubic:
            weight = near(t, CUBIC_SMOOTH).where(t < 1.0, far(t, CUBIC_SMOOTH).where(t < 2.0, 0.0))
        weight = weight.where(first + j < last, 0.0)
        total = weight if total is None else total + weight
        parts.append((weight, (first + j).clamp(max=n - 1)))
    out: Any = None
    for weight, place in parts:
        part = taken(x, d, place) * along(weight / total, d, x.ndim)
        out = part if out is None else out + part
    return out


def _interpolated(
    input: Tensor, size: Any, scales: tuple[float | None, ...], mode: str, align: bool, antialias: bool
) -> Tensor:
    """(batch, channels, ...) with its spatial dimensions in other sizes; see `interpolate`."""
    x = input
    if not mode.startswith("nearest"):
        (x,) = widened(input)
    for axis in reversed(range(len(size))):
        wanted, scale, d = size[axis], scales[axis], axis + 2
        if mode.startswith("nearest"):
            x = _nearest(x, d, wanted, scale, mode == "nearest-exact")
        elif antialias:
            x = _smooth(x, d, wanted, scale, align, mode == "bicubic")
        elif mode != "bicubic" and not align and scale is not None and 1.0 <= scale <= MOST_SPREAD:
            x = scaled_line.call(x, d, wanted, scale)
        else:
            x = (_cubic if mode == "bicubic" else _linear)(x, d, wanted, scale, align)
    return as_dtype(x, input.dtype)


interpolate_op = Op("interpolate", _interpolated, shapes=("size",))
interpolate_op.linear = True


def _repeated(input: Tensor, factors: tuple[int, ...]) -> Tensor:
    """Every point of (batch, channels, ...) so many times along each dimension."""
    x = input
    for axis, factor in enumerate(factors):
        d = axis + 2
        if factor > 1:
            x = taken(x, d, arange(x.shape[d] * factor) // factor)
    return x if any(f > 1 for f in factors) else x.clone()


repeated = Op(
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
    if not input.dtype.is_floating_point and (not mode.startswith("nearest") or input.dtype is not dtypes.uint8):
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


def _scaled(n: Any, factor: float) -> Any:
    """The largest int in n * factor; without a look at n where that is exact."""
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
        factors = tuple(map(float, _each("scale_factor", scale_factor, input)))
        wanted = tuple(
            n * int(f) if f.is_integer() else _scaled(n, f)
            for n, f in zip(input.shape[2:], factors, strict=True)
        )
        if not recompute_scale_factor:
            scales = factors
    _check(input, wanted, mode, align_corners, antialias)
    if mode == "area":
        from eagerjit.ops import adaptive

        return getattr(adaptive, f"adaptive_avg_pool{rank}d"), (input, wanted)
    if mode == "nearest" and all(s in WHOLE for s in scales):
        return repeated.call, (input, tuple(int(s) for s in scales if s is not None))
    return interpolate_op.call, (input, wanted, scales, mode, bool(align_corners), bool(antialias))


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

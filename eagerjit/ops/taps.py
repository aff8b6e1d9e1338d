"""Lines of images in other sizes: which places an output is made of, by which weights, and their sums."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from eagerjit.ops.index import stack
from eagerjit.ops.pointwise import as_dtype
from eagerjit.ops.searching import searchsorted
from eagerjit.runtime import dtypes
from eagerjit.tensors.creation import arange
from eagerjit.tensors.tensor import Tensor

CUBIC = -0.75
"""The free parameter of the cubic kernel (Keys 1981), as PyTorch and OpenCV choose it."""
CUBIC_SMOOTH = -0.5
"""The same with antialiasing, as Pillow chooses it."""
FEW = 36
"""Places in a window whose sums are taken for many outputs at once."""
MOST_BITS = 22
"""Of the fraction of a weight that is a whole number."""

Taps = list[tuple[Tensor, Tensor]]
"""Places in ascending order and their weights, each a vector with an element per output."""


def along(vector: Tensor, d: int, rank: int) -> Tensor:
    """A vector along one dimension of many."""
    return vector.reshape([-1 if a == d else 1 for a in range(rank)])


def taken(x: Tensor, d: int, place: Tensor) -> Tensor:
    """x at these places along a dimension."""
    shape = tuple(place.shape[0] if a == d else n for a, n in enumerate(x.shape))
    return x.gather(d, along(place, d, x.ndim).expand(shape))


def ratio(n: Any, wanted: Any, scale: float | None) -> Any:
    """Input places per output place."""
    return n / wanted if scale is None else 1.0 / scale


def _positions(n: Any, wanted: Any, scale: float | None, align: bool, dtype: Any) -> Tensor:
    """Where the outputs lie among the inputs, as fractions of places."""
    each = as_dtype(arange(wanted), dtype)
    if align:
        return each * ((n - 1) / (wanted - 1) if wanted > 1 else 0.0)
    return (each + 0.5) * ratio(n, wanted, scale) - 0.5


def neighbours(at: Tensor, n: Any) -> tuple[Tensor, Tensor]:
    """The place before each position, and how far beyond it the position is."""
    low = at.floor().clamp(max=as_dtype(arange(1) + (n - 1), at.dtype))
    return low.long(), (at - low).clamp(max=1.0)


def linear(n: Any, wanted: Any, scale: float | None, align: bool, dtype: Any) -> Taps:
    """Two places by their distances."""
    at = _positions(n, wanted, scale, align, dtype)
    first, beyond = neighbours(at if align else at.clamp(min=0.0), n)
    return [(first, 1 - beyond), ((first + 1).clamp(max=n - 1), beyond)]


def nearest(n: Any, wanted: Any, scale: float | None, exact: bool, dtype: Any) -> Tensor:
    """The place that holds each output's start, or its `exact` middle."""
    computed = dtypes.float64 if dtype is dtypes.float64 else dtypes.float32
    each = as_dtype(arange(wanted), computed)
    step = arange(1).to(computed) + ratio(n, wanted, scale)  # rounded as PyTorch's is, before it multiplies
    return ((each + 0.5) * step if exact else each * step).floor().long().clamp(max=n - 1)


def near(t: Any, a: float) -> Any:
    """The cubic kernel within a distance of 1."""
    return ((a + 2) * t - (a + 3)) * t * t + 1


def far(t: Any, a: float) -> Any:
    """The cubic kernel at distances from 1 to 2."""
    return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a


def cubic(n: Any, wanted: Any, scale: float | None, align: bool, dtype: Any) -> Taps:
    """Four places by the cubic kernel."""
    at = _positions(n, wanted, scale, align, dtype)
    low = at.floor()
    t, first = at - low, low.long()
    weights = (far(t + 1, CUBIC), near(t, CUBIC), near(1 - t, CUBIC), far(2 - t, CUBIC))
    return [((first + o).clamp(min=0, max=n - 1), w) for o, w in zip((-1, 0, 1, 2), weights, strict=True)]


def step_and_most(
    n: Any, wanted: Any, scale: float | None, align: bool, by_cubic: bool
) -> tuple[Any, tuple[int, int]]:
    """For `smooth`: input places per output place, how many places an output takes from, and the reverse, at most."""
    inputs, outputs = _distances(n, wanted, scale, align)
    reach = 2 if by_cubic else 1
    taken_from = _reached(reach, lambda most: reach * inputs <= most * outputs)
    return inputs / outputs, (2 * taken_from + 1, 2 * takers(n, wanted, scale, align, reach) + 1)


def takers(n: Any, wanted: Any, scale: float | None, align: bool, reach: int) -> int:
    """How many outputs see a place within so many input places to one side, at most."""
    if scale is not None and not align:
        return _reached(reach, lambda most: scale <= most / reach)
    inputs, outputs = _distances(n, wanted, scale, align)
    if inputs <= 0:
        inputs, outputs = 1, wanted
    return _reached(reach, lambda most: reach * outputs <= most * inputs)


def _distances(n: Any, wanted: Any, scale: float | None, align: bool) -> tuple[Any, Any]:
    """How far inputs reach, and as far as how many outputs."""
    if align:
        return (n - 1, wanted - 1) if wanted > 1 else (0, 1)
    return (n, wanted) if scale is None else (1.0 / scale, 1)


def _reached(reach: int, suffices: Callable[[int], bool]) -> int:
    """How many are within reach, or a few more: one of few numbers, so that few programs do for all."""
    most = reach
    while not suffices(most):
        most += most // 2 + 1
    return most


def smooth(
    n: Any, wanted: Any, each: Any, most: int, dtype: Any, by_cubic: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Antialiased: the first place of every output, the one behind its last, and weights in a column that sum to 1.

    The kernel is as wide as an output place, `each` input places.
    """
    step = as_dtype(arange(1), dtype) + each
    width = step.clamp(min=1.0)
    support = width * (2.0 if by_cubic else 1.0)
    center = (as_dtype(arange(wanted), dtype) + 0.5) * step
    first = (center - support + 0.5).long().clamp(min=0)
    last = (center + support + 0.5).long().clamp(max=n)
    place = first + arange(most).unsqueeze(1)
    t = ((as_dtype(place, dtype) - center + 0.5) * (1.0 / width)).abs()
    weight = (1.0 - t).clamp(min=0.0)
    if by_cubic:
        weight = near(t, CUBIC_SMOOTH).where(t < 1.0, far(t, CUBIC_SMOOTH).where(t < 2.0, 0.0))
    weight = weight.where(place < last, 0.0)
    return first, last, weight / weight.sum(0)


def places_of(first: Tensor, most: int, n: Any) -> Tensor:
    """The places of every output in a column."""
    return (first + arange(most).unsqueeze(1)).clamp(max=n - 1)


def in_window(taps: Taps) -> tuple[Tensor, Tensor, Tensor]:
    """The first place of every output, the one behind its last, and weights of all from the first on in a column."""
    first, last = taps[0][0], taps[-1][0] + 1
    columns = [[weight.where(place == first + j, 0.0) for place, weight in taps] for j in range(len(taps))]
    weights = stack([functools.reduce(operator.add, column) for column in columns])
    if len(taps) == 2:  # all outputs before the first place lie on it, and take nothing from the second
        last = last.where(weights[1] != 0, first + 1)
    return first, last, weights


def transposed(first: Tensor, last: Tensor, weights: Tensor, n: Any, most: int) -> tuple[Tensor, Tensor]:
    """The outputs that take from each of n places, at most so many, and by which weights, in a column.

    Windows begin and end in ascending order.
    """
    longest, wanted = weights.shape
    place = arange(n)
    output = searchsorted.call(last, place, True) + arange(most).unsqueeze(1)
    known = output.clamp(max=wanted - 1)
    nth = place - first[known]
    taken_from = (output < wanted).logical_and(nth >= 0)
    weight = weights.reshape(-1)[nth.clamp(min=0, max=longest - 1) * wanted + known]
    return known, weight.where(taken_from, 0.0)


def weighted(x: Tensor, d: int, taps: Taps) -> Tensor:
    """The sum of what lies at the places along a dimension, times the weights."""
    parts = (taken(x, d, place) * along(weight, d, x.ndim) for place, weight in taps)
    return functools.reduce(operator.add, parts)


def weighted_window(x: Tensor, d: int, places: Tensor, weights: Tensor) -> Tensor:
    """The same with the places and weights of an output in a column; what lies at a place of no weight doesn't matter.

    Sums of few are written out, and taken for many outputs at once; sums of many are taken one output at a time.
    """
    most, wanted = places.shape
    if most <= FEW:
        columns = zip(places.unbind(), weights.unbind(), strict=True)
        return functools.reduce(
            operator.add, (_times(taken(x, d, place), along(weight, d, x.ndim)) for place, weight in columns)
        )
    at = d + 1
    shape = [wanted if a == d else n for a, n in enumerate(x.shape)]
    alone = [wanted if a == d else 1 for a in range(x.ndim)]
    shape.insert(at, most)
    alone.insert(at, most)
    wide = x.unsqueeze(at).expand([most if a == at else -1 for a in range(x.ndim + 1)])
    window = wide.gather(d, places.t().reshape(alone).expand(shape))
    return _times(window, weights.t().reshape(alone)).sum(at)


def _times(x: Tensor, weight: Tensor) -> Tensor:
    """Products, 0 where the weight is: of infinities too."""
    return (x * weight).where(weight != 0, 0)


def weighted_bytes(x: Tensor, d: int, places: Tensor, weights: Tensor) -> Tensor:
    """The same of bytes, rounded to bytes: weights are whole numbers of 16 bits, as Pillow's are."""
    powers = 2.0 ** as_dtype(arange(1, MOST_BITS + 1), dtypes.float64)
    bits = ((weights.amax() * powers + 0.5).floor() < 1 << 15).sum()
    one = (arange(1) + 1) << bits
    whole = weights * one
    whole = (whole + 0.5).where(whole >= 0, whole - 0.5).trunc().int()
    total = weighted_window(x.int(), d, places, whole)
    return as_dtype(((total + (one >> 1)) >> bits).clamp(0, 255), x.dtype)


def in_columns(taps: Taps) -> tuple[Tensor, Tensor]:
    """Places and weights with an output's in a column; of several at one place the first has the weights of all."""
    places = stack([place for place, _ in taps])
    weights = []
    for j, (place, _) in enumerate(taps):
        total = functools.reduce(operator.add, [weight.where(place == other, 0.0) for other, weight in taps])
        weights.append(total if j == 0 else total.where(place != taps[j - 1][0], 0.0))
    return places, stack(weights)

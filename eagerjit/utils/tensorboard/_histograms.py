"""Counts of values between limits, as TensorBoard draws them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tensorboard.compat.proto.summary_pb2 import HistogramProto


def default_limits() -> list[float]:
    """Limits that grow by a tenth from 1e-12 to 1e20, for both signs, and 0: what TensorFlow counts between."""
    positive = []
    limit = 1e-12
    while limit < 1e20:
        positive.append(limit)
        limit *= 1.1
    return [-limit for limit in reversed(positive)] + [0.0] + positive


def make_histogram(values: NDArray[Any], bins: Any, max_bins: int | None = None) -> HistogramProto:
    """The values' counts between limits, in at most about `max_bins` buckets. Raises ValueError without any value."""
    if values.size == 0:
        raise ValueError("The input has no element.")
    values = values.reshape(-1)
    counts, limits = np.histogram(values, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        counts, limits = _merged(counts, limits, len(counts) // max_bins)
    filled = np.flatnonzero(counts)
    if len(filled) == 0:
        raise ValueError("No value lies between the limits of the histogram.")
    first, last = filled[0], filled[-1]
    return HistogramProto(
        min=values.min(),
        max=values.max(),
        num=len(values),
        sum=values.sum(),
        sum_squares=values.dot(values),
        # A bucket is told by its upper limit: an empty one in front gives the first one its lower limit.
        bucket_limit=limits[first : last + 2].tolist(),
        bucket=[0, *counts[first : last + 1].tolist()],
    )


def _merged(counts: NDArray[Any], limits: NDArray[Any], by: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Neighbouring buckets as one; the last one may be of fewer."""
    return np.add.reduceat(counts, np.arange(0, len(counts), by)), np.append(limits[:-1:by], limits[-1])

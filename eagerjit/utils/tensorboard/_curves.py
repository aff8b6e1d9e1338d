"""Precision and recall by thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eagerjit.tensors.tensor import Tensor
from eagerjit.utils.tensorboard._convert_np import make_np

MOST_THRESHOLDS = 127
"""More of them TensorBoard's page does not show."""
_LEAST_COUNT = 1e-7


def compute_curve(labels: Any, predictions: Any, num_thresholds: int = MOST_THRESHOLDS, weights: Any = None) -> Any:
    """An array [6, num_thresholds]: true and false positives, true and false negatives, precision, recall.

    Thresholds divide [0, 1] evenly; predictions outside of it are not counted.
    """
    truth, weight = labels.astype(float), _weight(weights)
    places = np.floor(predictions * (num_thresholds - 1)).astype(np.int64)
    positive = _at_least(places, num_thresholds, truth * weight)
    wrong = _at_least(places, num_thresholds, (1.0 - truth) * weight)
    missed, refused = positive[0] - positive, wrong[0] - wrong
    precision = positive / np.maximum(_LEAST_COUNT, positive + wrong)
    recall = positive / np.maximum(_LEAST_COUNT, positive + missed)
    return np.stack((positive, wrong, refused, missed, precision, recall))


def _weight(weights: Any) -> Any:
    if weights is None:
        return 1.0
    return make_np(weights) if isinstance(weights, Tensor) else np.asarray(weights)


def _at_least(places: NDArray[Any], count: int, weights: NDArray[Any]) -> NDArray[Any]:
    """For each threshold the weights of what lies at it or above."""
    # With one threshold there is no width to divide: NumPy then takes half a place to each side.
    sums, _ = np.histogram(places, bins=count, range=(0, count - 1), weights=weights)
    return np.cumsum(sums[::-1])[::-1]

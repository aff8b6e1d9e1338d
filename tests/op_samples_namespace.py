"""Sample arguments of the ops behind functions that are used now and then."""

from __future__ import annotations

from typing import Any

import numpy as np

import eagerjit as torch

PLACES = torch.tensor(np.array([[0, 2], [1, 1]], np.int64))
WHOLE = torch.tensor(np.array([[6, -4, 9], [8, 12, 5]], np.int64))
FEW = torch.tensor(np.array([[1, 2, 3], [2, 1, 4]], np.int64))


def namespace_samples(make: Any, draw: Any, elementwise: Any, reductions: Any) -> dict[str, list[Any]]:
    """The samples by the op's name."""
    matrix, vector, values = draw("m", (2, 3)), draw("v", (3,)), draw("s", (2, 2))
    edges = torch.tensor([0.5, 1.0, 1.5]).double()
    found: dict[str, list[Any]] = {
        **{name: elementwise(2) for name in ("logaddexp", "logaddexp2", "hypot", "xlog1py")},
        **{name: elementwise(1) for name in ("entr", "lgamma", "digamma", "i0", "i0e", "i1", "i1e", "frexp")},
        **{name: [make((WHOLE, FEW))] for name in ("gcd", "lcm", "bitwise_left_shift", "bitwise_right_shift")},
        **{name: reductions() for name in ("cummax", "cummin", "logcumsumexp")},
        **{name: [make((matrix, matrix + 0.5), (0,))] for name in ("igamma", "igammac")},
        "erfinv": elementwise(1, low=-0.9, high=0.9),
        "polygamma": [make((1, matrix)), make((2, matrix))],
        "zeta": [make((vector + 1.0, matrix), (0,))],
        "nextafter": elementwise(2),
        "count_nonzero": [make((matrix,)), make((matrix, 1))],
        "mode": [make((matrix, 1)), make((vector, 0))],
        "pick": [make((matrix, 1, PLACES))],
        "scatter": [make((matrix, 1, torch.tensor(np.array([[0, 2], [1, 0]])), values))],
        "scatter_combine": [make((matrix, 1, PLACES, values, c)) for c in ("mul", "maximum", "minimum")],
        "searchsorted": [make((edges, matrix, False)), make((edges, vector, True))],
        "histc": [make((matrix, 4, 0.0, 2.0)), make((matrix, 3, 0.0, 0.0))],
        "histogram": [make((matrix, 4, (0.0, 2.0), None, False)), make((matrix, edges, None, matrix, True))],
        "bincount": [make((FEW.reshape(-1), None, 5)), make((FEW.reshape(-1), draw("w", (6,)), 5))],
        "nonzero": [make((WHOLE, 6)), make((vector, 3))],
        "repeated_positions": [make((FEW[0], 6))],
        "unique": [make((FEW, None, 4)), make((FEW, 1, 3))],
        "unique_count": [make((FEW, None)), make((FEW, 0))],
        "isin": [make((WHOLE, FEW, False)), make((matrix, vector, True))],
        "unique_consecutive": [make((FEW, None, 6)), make((FEW, 1, 3))],
        "unique_consecutive_count": [make((FEW, None)), make((FEW, 0))],
    }
    return found

"""Results of one function of a library, compared between this one and PyTorch."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

import eagerjit

warnings.filterwarnings("ignore", "Sparse")


def taken_apart(value: Any) -> Any:
    """What a result consists of: layouts, dtypes, shapes, counts, and arrays."""
    if isinstance(value, (torch.Tensor, eagerjit.Tensor)):
        value = value.detach()
        facts = [str(value.layout), str(value.dtype), tuple(value.shape)]
        if str(value.layout) != "torch.strided":
            value = value.to_dense()
        value = value.float() if str(value.dtype) in ("torch.bfloat16", "torch.float16") else value
        return facts, value.numpy()
    if isinstance(value, (tuple, list)):
        return [taken_apart(v) for v in value]
    return value


def outcome(library: Any, function: Any) -> Any:
    """The result taken apart, or the class of the exception."""
    try:
        return taken_apart(function(library))
    except Exception as error:
        return type(error)


def same(found: Any, expected: Any) -> None:
    """Arrays are close, all else is equal."""
    if isinstance(expected, np.ndarray):
        tolerance = 1e-2 if expected.dtype == np.float32 and expected.size and np.abs(expected).max() > 1e3 else 2e-5
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    elif isinstance(expected, (list, tuple)) and isinstance(found, (list, tuple)):
        assert len(found) == len(expected)
        for f, e in zip(found, expected, strict=True):
            same(f, e)
    else:
        assert found == expected


def compare(function: Any) -> None:
    """Both libraries do the same."""
    same(outcome(eagerjit, function), outcome(torch, function))


def both_texts(function: Any) -> None:
    """Both libraries' results print the same."""
    assert repr(function(eagerjit)) == repr(function(torch))

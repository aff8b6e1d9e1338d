"""Arguments that PyTorch refuses by their kind or their range: the same classes here, eager and jitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit as ej

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "start beyond the end": lambda t, x: x.narrow(0, 5, 1),
    "start before the beginning": lambda t, x: x.narrow(0, -5, 1),
    "negative length": lambda t, x: x.narrow(0, 1, -1),
    "too long": lambda t, x: x.narrow(0, 2, 5),
    "median of bools": lambda t, x: (x > 1).median(),
    "median of bools along a dimension": lambda t, x: (x > 1).median(0),
    "a number that is subtracted from": lambda t, x: t.rsub(2, x),
    "negative relative tolerance": lambda t, x: t.isclose(x, x, rtol=-0.5),
    "negative absolute tolerance": lambda t, x: t.isclose(x, x, atol=-0.5),
    "tolerance that is no number": lambda t, x: t.allclose(x, x, float("nan")),
    "extremes written in another dtype": lambda t, x: t.aminmax(x, out=(t.ones((), dtype=t.float64), t.ones(()))),
    "a part written in another dtype": lambda t, x: t.slice_scatter(x, x[:1], 0, 0, 1, out=t.ones(3, dtype=t.int64)),
    "pooled without channels": lambda t, x: t.nn.functional.adaptive_max_pool2d(x[None], (1, 1)),
    "margins of no classes": lambda t, x: t.nn.functional.multilabel_margin_loss(x[:0], x[:0].long()),
    "sparse window": lambda t, x: t.signal.windows.hann(3, layout=t.sparse_coo),
    "window without coefficients": lambda t, x: t.signal.windows.general_cosine(3, a=None),
    "degrees that are complex": lambda t, x: t.deg2rad(t.complex(x, x)),
    "negative count": lambda t, x: t.nonzero_static(x, size=-1),
    "count that is no integer": lambda t, x: t.nonzero_static(x, size=2.5),
}


@pytest.mark.parametrize("jit", [lambda f: f, ej.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", CALLS)
def test_as_pytorch_refuses(name: str, jit: Callable[..., Any]) -> None:
    with pytest.raises(Exception) as expected:
        CALLS[name](torch, torch.arange(3.0))
    for _ in range(2):
        with pytest.raises(expected.type):
            jit(lambda x: CALLS[name](ej, x))(ej.arange(3.0))


FOUND: dict[str, Callable[[Any], Any]] = {
    "fewer": lambda t: t.nonzero_static(t.tensor([[1.0, 0, 2], [0, 0, 3]]), size=2),
    "more": lambda t: t.nonzero_static(t.tensor([[1.0, 0, 2], [0, 0, 3]]), size=5, fill_value=-7),
    "none": lambda t: t.nonzero_static(t.tensor([[1.0, 0, 2], [0, 0, 3]]), size=0),
    "bools": lambda t: t.tensor([True, False, True]).nonzero_static(size=4),
    "of no dimensions": lambda t: t.nonzero_static(t.tensor(3.0), size=2),
    "empty": lambda t: t.nonzero_static(t.zeros(0, 3), size=1),
    "cube": lambda t: t.nonzero_static(t.arange(24).reshape(2, 3, 4).transpose(0, 2) % 5, size=9),
    "polygamma": lambda t: t.polygamma(1, t.tensor([float("inf"), 2.0])),
    "polygamma of order 3": lambda t: t.polygamma(3, t.tensor([float("inf"), 0.25])),
    "start in a tensor": lambda t: t.arange(6).narrow(0, t.tensor(2), 3),
    "dropout of a vector, not in training": lambda t: t.nn.functional.feature_alpha_dropout(t.arange(3.0), 0.5, False),
    "normalised elsewhere": lambda t: t.nn.functional.normalize(t.ones(2, 3), out=t.empty(0, dtype=t.float64)),
    "a part replaced elsewhere": lambda t: t.slice_scatter(t.zeros(3), t.ones(2), 0, 0, 2, out=t.empty(0)),
    "middle of a range": lambda t: t.arange(6).narrow(0, 6, 0),
}


@pytest.mark.parametrize("jit", [lambda f: f, ej.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", FOUND)
def test_values_as_in_pytorch(name: str, jit: Callable[..., Any]) -> None:
    expected, found = FOUND[name](torch), jit(lambda: FOUND[name](ej))()
    assert tuple(found.shape) == tuple(expected.shape)
    assert str(found.dtype).rpartition(".")[2] == str(expected.dtype).rpartition(".")[2]
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)

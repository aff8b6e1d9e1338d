"""Arguments that might be broadcast or converted, and that PyTorch refuses: by the same classes here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import eagerjit as ej

CALLS: dict[str, Callable[[Any], Any]] = {
    "layer_norm, one weight": lambda t: t.nn.functional.layer_norm(t.ones(2, 3), (3,), t.ones(1)),
    "layer_norm, a weight of no dimensions": lambda t: t.nn.functional.layer_norm(t.ones(2, 3), (3,), t.tensor(1.0)),
    "layer_norm, a bias as the input": lambda t: t.nn.functional.layer_norm(t.ones(2, 3), (3,), bias=t.ones(2, 3)),
    "rms_norm, one weight": lambda t: t.nn.functional.rms_norm(t.ones(2, 3), (3,), t.ones(1)),
    "group_norm, one weight": lambda t: t.nn.functional.group_norm(t.ones(2, 4, 3), 2, t.ones(1)),
    "group_norm, a bias of two dimensions": lambda t: t.nn.functional.group_norm(t.ones(2, 4), 2, None, t.ones(4, 1)),
    "instance_norm, one weight": lambda t: t.nn.functional.instance_norm(t.ones(2, 4, 3), weight=t.ones(1)),
    "instance_norm, one mean": lambda t: t.nn.functional.instance_norm(t.ones(2, 4, 3), t.ones(1), t.ones(1)),
    "batch_norm, no mean": lambda t: t.nn.functional.batch_norm(t.ones(2, 4, 3), None, t.ones(4), training=True),
    "bilinear, one bias": lambda t: t.nn.functional.bilinear(t.ones(2, 2), t.ones(2, 2), t.ones(3, 2, 2), t.ones(1)),
    "soft_margin_loss, a larger target": lambda t: t.nn.functional.soft_margin_loss(t.ones(2), t.ones(2, 2)),
    "vecdot of two lengths": lambda t: t.linalg.vecdot(t.ones(1), t.ones(3)),
    "ormqr, a batch on one side": lambda t: t.ormqr(t.ones(3, 2), t.ones(2), t.ones(2, 3, 2)),
    "cholesky_solve of two dtypes": lambda t: t.cholesky_solve(t.ones(2, 2), t.eye(2).double()),
    "isclose of complex and real": lambda t: t.isclose(t.complex(t.ones(2), t.ones(2)), t.ones(2)),
    "histogram of integers": lambda t: t.histogram(t.ones(3, dtype=t.int64)),
    "tensor_split at floats": lambda t: t.tensor_split(t.ones(4), t.tensor([1.0])),
    "linspace to None": lambda t: t.linspace(0, None, 3),
    "logspace to a text": lambda t: t.logspace(0, "a", 3),
    "dist without a power": lambda t: t.dist(t.ones(2), t.ones(2), None),
    "isin of a list": lambda t: t.isin(t.ones(2), [1, 2]),
    "isin of a text": lambda t: t.isin("a", t.ones(2)),
    "isin of a bool": lambda t: t.isin(t.ones(2), True),
    "vander of half a power": lambda t: t.linalg.vander(t.ones(2), N=1.5),
    "div, a number for how to round": lambda t: t.div(t.ones(3), 2, rounding_mode=3),
    "as_strided of a text": lambda t: t.as_strided(t.ones(3), "t", (1,)),
    "segment_reduce of a number": lambda t: t.segment_reduce(t.ones(3), "sum", lengths=3),
    **{
        f"tensordot over {dims}": lambda t, dims=dims: t.tensordot(t.ones(2, 2), t.ones(2, 2), dims=dims)
        for dims in (([5], [0]), ([-3], [0]), ([0], [0, 1]), ([0, 0], [0, 1]), -1, None, 1.5)
    },
}


@pytest.mark.parametrize("jitted", [False, True], ids=["plain", "compiled"])
@pytest.mark.parametrize("name", CALLS)
def test_refused(name: str, jitted: bool) -> None:
    with pytest.raises(Exception) as expected:
        CALLS[name](torch)
    call = ej.jit(CALLS[name]) if jitted else CALLS[name]
    with pytest.raises(expected.type) as found:
        call(ej)
    assert type(found.value) is expected.type

"""Numbers among a jitted function's arguments that choose how an op computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import eagerjit as ej

F = ej.nn.functional
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "one window": (lambda x, size: F.adaptive_avg_pool1d(x, size), ((3, 8, 100), (1,))),
    "one window of a plane": (lambda x, size: F.adaptive_avg_pool2d(x, size), ((2, 3, 17, 9), 1)),
    "groups": (lambda x, groups: F.conv1d(x, ej.ones(6, 2, 3), groups=groups), ((1, 6, 9), 3)),
    "one group": (lambda x, groups: F.conv1d(x, ej.ones(6, 6, 3), groups=groups), ((1, 6, 9), 1)),
    "groups of a transposed convolution": (
        lambda x, groups: F.conv_transpose1d(x, ej.ones(6, 2, 3), groups=groups), ((1, 6, 9), 2)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_jitted_is_eager(name: str) -> None:
    function, (shape, choice) = CASES[name]
    ej.manual_seed(3)
    x = ej.randn(shape)
    assert (ej.jit(function)(x, choice) == function(x, choice)).all()

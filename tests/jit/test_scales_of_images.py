"""How many programs and versions there are of images in sizes by a scale that is another one in every call."""

from __future__ import annotations

import random
from typing import Any

import pytest
from test_numbers_of_plain_calls import one_for_all

import eagerjit as ej
import eagerjit.nn.functional as F

SCALES = (1.13, 1.21, 1.34, 1.47, 1.58, 1.91)
BY_SCALE: tuple[dict[str, Any], ...] = (
    {"mode": "nearest"}, {"mode": "nearest-exact"}, {"mode": "bilinear"}, {"mode": "bicubic"},
)  # fmt: skip
BY_SIZE: tuple[dict[str, Any], ...] = (
    {"mode": "bilinear", "align_corners": True}, {"mode": "bilinear", "recompute_scale_factor": True},
    {"mode": "bicubic", "antialias": True},
)  # fmt: skip


@pytest.mark.parametrize("how", BY_SCALE, ids=str)
def test_plain_calls_have_one_program(how: dict[str, Any]) -> None:
    one_for_all(lambda x, scale: F.interpolate(x.view(1, 1, 4, 6), scale_factor=scale, **how), SCALES)


@pytest.mark.parametrize("how", BY_SCALE + BY_SIZE, ids=str)
def test_compiled_calls_have_few_versions(how: dict[str, Any]) -> None:
    """Gradients ask how many outputs take from a place, whole scales find the nearest places by division."""

    def resized(x: Any, scale: float) -> Any:
        return F.interpolate(x, scale_factor=(scale, 2.5 - scale), **how)

    jitted, x = ej.jit(resized), ej.randn(1, 2, 7, 9)
    for scale in (1.1, *SCALES, 0.7, 0.8, 2.0, 0.9):
        found, expected = [], []
        for function, out in ((jitted, found), (resized, expected)):
            leaf = x.clone().requires_grad_()
            out.append(function(leaf, scale))
            out[0].square().sum().backward()
            out.append(leaf.grad)
        assert str([t.tolist() for t in found]) == str([t.tolist() for t in expected])
    assert jitted.cache_info().compiles <= 7 and not jitted.cache_info().eager_calls


def test_scales_that_are_drawn() -> None:
    def drawn(x: Any) -> Any:
        return F.interpolate(x, scale_factor=random.uniform(0.5, 2.0), mode="bilinear", align_corners=False)

    jitted, x = ej.jit(drawn), ej.randn(1, 2, 8, 8)
    for seed in range(8):
        results = []
        for function in (drawn, jitted):
            random.seed(seed)
            results.append(function(x))
        assert results[0].tolist() == results[1].tolist()
    assert jitted.cache_info().compiles <= 3

"""Blocks whose elements do not follow each other in memory: a warp reads along a row, and a thread one at a time."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import triton

import eagerjit as ej
from eagerjit.compiled import gpu_kernels
from eagerjit.jit import jit

F = ej.nn.functional
RANDOM = np.random.default_rng(10)
PLACES = ej.tensor(RANDOM.integers(0, 64, (48, 32)))

CASES: dict[str, Callable[[Any], Any]] = {
    "every second": lambda x: x[:, :, ::2] * 2,
    "every second of odd ones": lambda x: x[:, :, 1::2] * 2,
    "from the end": lambda x: x.flip(2) * 2,
    "largest of windows": lambda x: F.max_pool2d(x.unsqueeze(0), 2),
    "means of windows": lambda x: F.avg_pool2d(x.unsqueeze(0), 2),
    "picked in rows": lambda x: x.reshape(48, 64).gather(1, PLACES) * 2,
    "turned halves": lambda x: ej.cat([-x[:, :, 1::2], x[:, :, ::2]], -1),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_warps_read_rows(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 64, so that even places are known to be even, and still no two are taken for neighbours."""
    x = ej.tensor(RANDOM.normal(size=(3, 16, 64))).to(getattr(ej, dtype))
    call = CASES[name]
    expected = call(x)
    with gpu_kernels.interpreted() as made:
        found = jit(call, fullgraph=True)(x)
    assert found._data.tobytes() == expected._data.tobytes()

    stages: list[dict[str, str]] = []
    original = triton.compile

    def compile(*given: Any, **options: Any) -> Any:
        result = original(*given, **options)
        stages.append(result.asm)
        return result

    monkeypatch.setattr(triton, "compile", compile)
    hinted = [launch for m in made for launch in m.launched if "read_along(" in launch.source.text]
    assert hinted
    for launch in hinted:
        gpu_kernels.binary(launch, 90)
        text = stages[-1]["ttgir"]
        rows = dict(re.findall(r"(#blocked\d*) = #ttg.blocked<\{.*order = \[(\d), \d\]", text))
        accesses = re.findall(r"tt\.(?:load|store) .*tensor<\d{2,}x\d{2,}x!tt\.ptr<b?f\d+>, (#blocked\d*)>", text)
        assert accesses and all(rows[layout] == "1" for layout in accesses)
        assert name == "picked in rows" or not re.search(r"ld\.global\.v", stages[-1]["ptx"])

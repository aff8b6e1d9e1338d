"""Few long rows on a GPU: several programs share a row, and the last of them combines their results in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import triton

import eagerjit as torch
from eagerjit.compiled import gpu_kernels
from eagerjit.compiler.codegen.triton import source
from eagerjit.jit import jit
from eagerjit.ops.depthwise import depthwise_weight

RANDOM = np.random.default_rng(9)
X = torch.tensor(RANDOM.normal(size=(3, 500))).float()
CASES: dict[str, Any] = {
    "sums": lambda x: x.sum(1),
    "means of squares": lambda x: (x * x).mean(1) + 1.0,
    "largest": lambda x: x.where(x < 2.0, float("nan")).amax(1),
    "products": lambda x: (x * 0.01 + 1.0).prod(1),
    "several": lambda x: (x.sum(1), x.amin(1), (x * 2.0).amax(1)),
    "bfloat16": lambda x: x.bfloat16().sum(1),
    "double": lambda x: (x.double() * x).sum(1),
    "counts": lambda x: (x > 0.5).sum(1),
    "flags": lambda x: ((x > 2.9).any(1), (x < 9.0).all(1)),
    "integers": lambda x: (x * 100.0).to(torch.int32).amax(1),
    "bytes": lambda x: (x.abs() * 50.0).to(torch.uint8).amin(1),
    "bfloat16's largest": lambda x: x.bfloat16().amax(1),
    "places": lambda x: (x.argmax(1), x.argmin(1)),
    "places of equals": lambda x: (x.round().argmax(1), (x > 9.0).int().argmax(1)),
    "places of NaN": lambda x: x.where(x < 2.0, float("nan")).argmin(1),
    "largest with places": lambda x: x.max(1),
    "checked": lambda x: x.gather(1, x.argmin(1, keepdim=True) // 2) * x.argmax(1, keepdim=True),
    "places of all": lambda x: ((x[0] * x[1] * x[2]).argmax(), x[1].argmin()),
}


def flat(result: Any) -> list[np.ndarray]:
    return [r._data for r in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
@pytest.mark.parametrize("name", CASES)
def test_a_row_is_shared(name: str, far: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "WHOLE", 16)
    monkeypatch.setattr(source, "STEP", 8)
    monkeypatch.setattr(source, "PART", 32)
    if far:
        monkeypatch.setattr(source, "INT32", 0)
    expected = flat(CASES[name](X))
    with gpu_kernels.interpreted() as made:
        results = [flat(jit(CASES[name], fullgraph=True)(X)) for _ in range(2)]
    for actual, again, e in zip(*results, expected, strict=True):
        assert actual.tobytes() == again.tobytes()
        limit = 1e-2 if name == "bfloat16" else 1e-12 if name == "double" else 2e-6
        assert actual.dtype == e.dtype and (actual.dtype.kind != "i" or np.array_equal(actual, e))
        a, e = actual.astype(np.float64), e.astype(np.float64)
        assert np.array_equal(np.isnan(a), np.isnan(e))
        assert np.nanmax(np.abs(a - e), initial=0.0) <= limit * np.nanmax(np.abs(e), initial=1.0)
    shared = [launch for m in made for launch in m.launched if launch.counters]
    assert shared and {launch.programs for launch in shared} == ({16} if name == "places of all" else {3 * 16})


def test_many_rows_and_short_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "FULL", 8)
    for x in (torch.ones(8, 40000), torch.ones(2, 30000)):
        with gpu_kernels.interpreted() as made:
            jit(lambda x: x.sum(1), fullgraph=True)(x)
        (launch,) = [launch for m in made for launch in m.launched]
        assert not launch.counters


@pytest.mark.parametrize("name", ["sums", "double", "flags", "bfloat16's largest", "checked", "places of all"])
def test_machine_code(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "WHOLE", 16)
    monkeypatch.setattr(source, "STEP", 16)
    monkeypatch.setattr(source, "PART", 128)
    with gpu_kernels.interpreted() as made:
        jit(CASES[name], fullgraph=True)(X)
    launch = next(launch for m in made for launch in m.launched if launch.counters)
    for architecture in (80, 90):
        found = gpu_kernels.binary(launch, architecture)
        assert "atom.global.gpu.acq_rel.add" in found.ptx and found.spilled == 0


def test_many_sums_of_a_row_stay_in_registers() -> None:
    """Nine products of a plane with what lies around it, as the weight of a convolution per channel needs them."""
    x, y = torch.ones(2, 1, 112, 112), torch.ones(2, 1, 112, 112)
    with gpu_kernels.interpreted() as made:
        call = jit(lambda y, x: depthwise_weight.call(y, x, (3, 3), (1, 1), (1, 1), (1, 1)), fullgraph=True)
        assert call(y, x).flatten().tolist() == [2.0 * a * b for a in (111, 112, 111) for b in (111, 112, 111)]
    (sums,) = [launch for m in made for launch in m.launched if launch.source.text.count("= add_f32_in_order(") == 9]
    assert sums.constants["LANES"] == 16384
    aside = 32 if triton.__version__.startswith("3.7.") else 0  # bytes: its assembler puts eight registers aside
    assert all(gpu_kernels.binary(sums, architecture).spilled <= aside for architecture in (80, 90))

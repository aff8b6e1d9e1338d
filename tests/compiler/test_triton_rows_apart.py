"""Long rows whose elements are looked up in tables, on a GPU: each row has blocks of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.compiled import gpu_kernels
from eagerjit.compiler.codegen.triton import source
from eagerjit.jit import jit

F = torch.nn.functional
RANDOM = np.random.default_rng(4)


def gelu(x: Any, bias: Any) -> Any:
    return F.gelu(x + bias, approximate="tanh")


def launches(function: Any, *args: Any) -> tuple[Any, list[Any]]:
    with gpu_kernels.interpreted() as made:
        result = jit(function, fullgraph=True)(*args)
    return result, [launch for m in made for launch in m.launched]


@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("columns", [1023, 1024, 1500])
def test_rows_have_blocks_of_their_own(columns: int, dtype: str, far: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if far:
        monkeypatch.setattr(source, "INT32", 0)
    x = torch.tensor(RANDOM.normal(0.0, 3.0, (5, columns))).to(getattr(torch, dtype))
    bias = torch.tensor(RANDOM.normal(size=columns)).to(getattr(torch, dtype))
    actual, (launch,) = launches(gelu, x, bias)
    assert actual._data.tobytes() == jit(gelu)(x, bias)._data.tobytes()
    if columns < 1024:
        assert launch.constants["TASKS"] > 1
    else:
        assert "TASKS" not in launch.constants and launch.programs == 5 * -(-columns // 1024) and launch.warps == 2


def test_rows_that_look_nothing_up_and_transposed_ones_share_blocks() -> None:
    x, bias = torch.ones(5, 2000), torch.ones(2000)
    (launch,) = launches(lambda x, bias: x + bias, x, bias)[1]
    assert launch.constants["TASKS"] > 1
    (launch,) = launches(lambda x, bias: gelu(x, bias).contiguous(), torch.ones(2000, 40).t(), bias)[1]
    assert launch.constants["TASKS"] > 1


@pytest.mark.parametrize("architecture", [80, 90])
def test_machine_code_waits_for_no_other_thread(architecture: int) -> None:
    (launch,) = launches(gelu, torch.ones(5, 2048).bfloat16(), torch.ones(2048).bfloat16())[1]
    found = gpu_kernels.binary(launch, architecture)
    assert "bar.sync" not in found.ptx and found.shared == 0

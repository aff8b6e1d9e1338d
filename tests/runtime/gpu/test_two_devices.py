"""Tensors on two devices of one machine, a fake one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_driver import FakeLibrary
from machines import interpreted

import eagerjit as ej
from eagerjit import nn
from eagerjit.cuda import execution
from eagerjit.runtime.gpu.devices import using


@pytest.fixture(autouse=True)
def library() -> Iterator[FakeLibrary]:
    made = FakeLibrary(devices=2)
    with using(made.driver()):
        before, execution.compile = execution.compile, interpreted(made)
        try:
            yield made
            made.finish()
        finally:
            execution.compile = before


AT_THE_END = """
import sys
sys.path.insert(0, sys.argv[1])
from fake_driver import FakeLibrary
from machines import interpreted
import eagerjit as ej
from eagerjit.cuda import execution
from eagerjit.runtime.gpu import direct
from eagerjit.runtime.gpu.devices import platform, using
from eagerjit.runtime.gpu.memory import DeviceMemory

library = FakeLibrary(devices=2)
with using(library.driver()):
    execution.compile = interpreted(library)
    call = ej.jit(lambda x: x * 2 + 1)
    kept = [call(ej.ones(3, device=f"cuda:{index % 2}")) for index in range(6)]
    kept += [DeviceMemory(1 << k, platform().device(0).streams.new()) for k in range(20)]
    assert direct._alive and all(x.tolist() == [3.0] * 3 for x in kept[:6])
    vars(direct).clear()
    kept.clear()
    library.finish()
"""


def test_memory_that_outlives_a_module() -> None:
    """As a process ends, modules are emptied before the last objects go: native code finds what it was told of."""
    command = [sys.executable, "-c", AT_THE_END, str(Path(__file__).parent)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_each_computes_what_lies_on_it() -> None:
    a, b = (ej.ones(3, device=f"cuda:{index}") for index in range(2))
    assert (b * 2).device == ej.device("cuda:1") and ej.randn(2, device="cuda:1").get_device() == 1
    with pytest.raises(RuntimeError, match="found at least two devices, cuda:0 and cuda:1!"):
        a + b
    call = ej.jit(lambda x: x * 2 + 1, fullgraph=True)
    assert [call(x).get_device() for x in (a, b, a, b)] == [0, 1, 0, 1] and call.cache_info().compiles == 2
    with ej.cuda.device(1):
        assert ej.zeros(2, device="cuda").get_device() == 1
    model = nn.Linear(3, 2).to("cuda:1")
    model(b).sum().backward()
    assert model.weight.grad is not None and model.weight.grad.get_device() == 1


def test_copies_between_them() -> None:
    x = ej.arange(6.0, device="cuda:0").reshape(2, 3).t()
    there = x.cuda(1)
    assert there.get_device() == 1 and there.tolist() == x.tolist()
    x.copy_(there * 5)
    assert x.get_device() == 0 and x.tolist() == [[0, 15], [5, 20], [10, 25]]


def test_a_compiled_call_starts_all_streams() -> None:
    def draws(x: object) -> object:
        ej.manual_seed(7)
        return ej.rand(4, device=x.device) + x, ej.rand(2)  # type: ignore[attr-defined]

    def seeds(x: object) -> object:
        ej.rand(3, device="cuda:1")
        ej.manual_seed(3)
        ej.cuda.manual_seed_all(5)
        return x + 1  # type: ignore[operator]

    for function in (draws, seeds):
        call = ej.jit(function, fullgraph=True)
        for place in ("cuda:0", "cuda:1") if function is draws else ("cuda:1", "cuda:1"):
            x = ej.zeros(4, device=place)
            found = []
            for either in (function, call, call):
                ej.rand(1, device="cuda:0"), ej.rand(1, device="cuda:1"), ej.rand(1)
                result = either(x)
                parts = result if isinstance(result, tuple) else (result,)
                after = [ej.rand(2, device=where).tolist() for where in ("cuda:0", "cuda:1", "cpu")]
                found.append(([part.tolist() for part in parts], after))
            assert found[0] == found[1] == found[2]
    on_host = ej.jit(lambda: (ej.manual_seed(1), ej.rand(3))[1], fullgraph=True)
    values = on_host().tolist()
    assert on_host().tolist() == values and not on_host().is_cuda
    after = ej.rand(2, device="cuda:1").tolist()
    ej.manual_seed(1)
    assert ej.rand(2, device="cuda:1").tolist() == after

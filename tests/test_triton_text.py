"""Triton files: kept as text, explained without a GPU, and compiled for two generations of GPUs.

`EAGERJIT_UPDATE_GOLDEN=1 pytest tests/test_triton_text.py` writes the texts in `golden` anew; read the difference.
"""

from __future__ import annotations

import os
import re
import threading
from typing import Any

import pytest
from golden_calls import CALLS, GOLDEN

import eagerjit as torch
from eagerjit.compiled import gpu_kernels
from eagerjit.cuda.execution import layouts
from eagerjit.jit import jit
from eagerjit.runtime.gpu.launch import added

Function = torch.nn.functional


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EAGERJIT_TARGET", "cuda:90")


@pytest.mark.parametrize("name", CALLS)
def test_files_are_those_kept_as_text(name: str, target: None) -> None:
    function, arguments = CALLS[name]
    found = jit(function, fullgraph=True).explain(*arguments)
    text = "\n\n".join(k.triton for k in found.gpu)
    path = GOLDEN / f"{name}.triton.txt"
    if os.environ.get("EAGERJIT_UPDATE_GOLDEN") == "1":
        path.write_text(text)
    assert text == path.read_text()


def test_explain_shows_triton_and_ptx(target: None) -> None:
    function, arguments = CALLS["probabilities"]
    found = jit(function).explain(*arguments)
    (kernel,) = found.gpu
    assert f"{kernel.name}: 1 programs of 1 warps, LANES 8, TASKS 4; {kernel.path}" in str(found)
    assert "tl.store(m1 + (t * s2 + i)" in str(found)
    assert kernel.path.read_text() == kernel.triton
    assert [".target sm_90" in kernel.ptx, "tt.func" in kernel.ttir] == [True, True]
    assert "return (x * 0.5).softmax(-1)" in kernel.triton


def test_a_target_is_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    function, arguments = CALLS["chain"]
    assert not jit(function).explain(*arguments).gpu
    monkeypatch.setenv("EAGERJIT_TARGET", "tpu")
    with pytest.raises(ValueError, match="EAGERJIT_TARGET is 'tpu'"):
        jit(function).explain(*arguments)


def normalized(x: Any, w: Any) -> Any:
    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
    out = Function.layer_norm(x, (x.shape[-1],), w)
    out.square().sum().backward()
    return out.detach(), x.grad, w.grad


def drawn(x: Any) -> Any:
    return torch.randn(8) * x.cos() + Function.dropout(x, 0.5)


def placed(x: Any, at: Any) -> Any:
    return x.scatter_add(1, at, x), x.gather(0, at), x.argmax(1), x.argmin(0), x[at[:, 0]]


def divided(a: Any, b: Any) -> Any:
    return a // b, a % b, a**2, (a > b).any(1), a << 1


NUMBERS = torch.ones(4, 8, dtype=torch.int64)
COMPILED: dict[str, tuple[Any, tuple[Any, ...]]] = {
    **CALLS,
    "normalized": (normalized, (torch.ones(4, 8), torch.ones(8))),
    "drawn": (drawn, (torch.ones(8),)),
    "placed": (placed, (torch.ones(4, 8), torch.zeros(4, 8, dtype=torch.int64))),
    "divided": (divided, (NUMBERS, NUMBERS)),
    "product": (lambda x, y: (x @ y.mT).exp(), (torch.ones(2, 40, 24), torch.ones(2, 40, 24))),
    "brain product": (
        lambda x, w, b: Function.gelu(Function.linear(x, w, b)),
        tuple(torch.ones(*shape, dtype=torch.bfloat16) for shape in ((40, 24), (24, 24), (24,))),
    ),
    "conv": (lambda x, w: Function.conv2d(x, w, stride=2), (torch.ones(2, 3, 9, 9), torch.ones(4, 3, 3, 3))),
    "ordered": (lambda x: (*x.sort(-1), x.cumsum(0), x.topk(2)[1]), (torch.ones(4, 8),)),
    "brain": (lambda x: (x.exp().softmax(-1), x.erf() ** 1.5, x % 0.3), (torch.ones(4, 8, dtype=torch.bfloat16),)),
    "double": (lambda x: (x.tan(), x.erfinv(), x.log1p(), x.float()), (torch.ones(4, 8, dtype=torch.float64) / 2,)),
    "long": (lambda x: (x.softmax(-1), x.argmax(-1), x.sum()), (torch.ones(2, 20000),)),
}


@pytest.mark.parametrize("name", COMPILED)
def test_machine_code_for_two_generations(name: str) -> None:
    function, arguments = COMPILED[name]
    with gpu_kernels.interpreted() as made:
        jit(function, fullgraph=True)(*arguments)
    launches = {(launch.source.text, tuple(launch.constants.items())): launch for m in made for launch in m.launched}
    assert launches
    for launch in launches.values():
        for architecture in (80, 90):
            binary = gpu_kernels.binary(launch, architecture)
            # Texts this long are no operands of an assert: where it fails, pytest compares them for minutes.
            is_right = binary.cubin[:4] == b"\x7fELF" and f".target sm_{architecture}" in binary.ptx
            assert is_right and binary.name == re.sub(r"^k\d+_", "k_", launch.source.name)
            assert added(binary.name, layouts(launch), binary.parameters) == 2  # Triton's two scratch buffers


def test_products_and_sums_are_rounded_each_unless_asked(target: None) -> None:
    def call(x: Any, y: Any) -> Any:
        return x * y + x

    arguments = torch.ones(8), torch.ones(8)
    (exact,), (fast,) = (jit(call, fastmath=on).explain(*arguments).gpu for on in (False, True))
    assert [("fma.rn.f32" in k.ptx, k.launch.source.contract) for k in (exact, fast)] == [(False, False), (True, True)]


def test_kernels_of_a_call_are_compiled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By several threads, before the first one is launched; what fails does so where it is launched."""
    calls: list[gpu_kernels.GpuCall] = []

    class Noted(gpu_kernels.GpuCall):
        def __init__(self, trace: Any):
            super().__init__(trace)
            calls.append(self)

    monkeypatch.setattr(gpu_kernels, "GpuCall", Noted)
    x = torch.ones(40, 24)
    with gpu_kernels.interpreted():
        jit(lambda x: ((x @ x.T).relu(), x.sum(0), torch.softmax(x, -1)), fullgraph=True)(x)
    (call,) = calls
    launches = [call.launch(position, 90) for position in range(len(call.launches))]
    names = {launch.source.name for launch in launches}
    assert len(names) > 2

    compiled: list[tuple[str, str]] = []
    original = gpu_kernels.compiler.compile

    def compile(text: str, name: str, *rest: Any, **more: Any) -> Any:
        compiled.append((name, threading.current_thread().name))
        return original(text, name, *rest, **more)

    monkeypatch.setattr(gpu_kernels.compiler, "compile", compile)
    gpu_kernels._binary.cache_clear()
    gpu_kernels.compile_ahead(call, 90)
    assert len(compiled) == len(names) and "MainThread" not in {thread for _, thread in compiled}
    binaries = [gpu_kernels.binary(launch, 90) for launch in launches]
    assert len(compiled) == len(names)
    gpu_kernels._binary.cache_clear()
    assert [gpu_kernels.binary(launch, 90).cubin for launch in launches] == [b.cubin for b in binaries]

    def fail(*given: Any, **more: Any) -> Any:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(gpu_kernels.compiler, "compile", fail)
    gpu_kernels._binary.cache_clear()
    gpu_kernels.compile_ahead(call, 90)
    with pytest.raises(RuntimeError, match="no compiler"):
        gpu_kernels.binary(launches[0], 90)

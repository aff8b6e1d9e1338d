"""Attention on a GPU: forward and gradients by kernels that keep no matrix of weights, run by Triton's interpreter."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.autograd.check import gradcheck, gradgradcheck
from eagerjit.calling.dispatch import OPS
from eagerjit.compiled import gpu_kernels
from eagerjit.compiler.codegen.triton import attention
from eagerjit.jit import jit
from eagerjit.runtime.gpu import descriptors

RANDOM = np.random.default_rng(4)
attend = torch.nn.functional.scaled_dot_product_attention
KERNELS = ["forward", "query", "key_value"]


def real(*shape: int, dtype: str = "float32") -> Any:
    return torch.tensor(RANDOM.normal(size=shape)).to(getattr(torch, dtype))


def heads(*lengths: int, features: int = 8, dtype: str = "float32") -> list[Any]:
    """Query, key and value of two times three heads."""
    return [real(2, 3, n, features, dtype=dtype) for n in (lengths[0], lengths[-1], lengths[-1])]


def hidden(*shape: int) -> Any:
    """A mask that hides all of some rows."""
    mask = RANDOM.integers(0, 3, shape) > 0
    mask[..., 3, :] = False
    return torch.tensor(mask)


def with_gradients(call: Any) -> Any:
    def run(*given: Any) -> Any:
        tensors = [x.detach().clone().requires_grad_() if x.dtype.is_floating_point else x for x in given]
        value = call(*tensors)
        (value * value).sum().backward()
        return [value.detach(), *(x.grad for x in tensors if x.dtype.is_floating_point)]

    return run


def causal(q: Any, k: Any, v: Any) -> Any:
    return attend(q, k, v, is_causal=True)


def merged(q: Any, k: Any, v: Any) -> Any:
    """Heads as features, as modules have them."""
    return attend(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=True).transpose(1, 2).flatten(2)


def shifted(q: Any, k: Any, v: Any) -> Any:
    bias = torch.zeros(20, 40).masked_fill(SEEN.logical_not(), float("-inf")) + torch.arange(40) * 0.1
    return attend(q, k, v, bias)


SEEN = hidden(20, 40)
CASES: dict[str, tuple[Any, list[Any]]] = {
    "plain": (attend, heads(20, 40)),
    "in whole blocks": (attend, heads(32, 64, features=16)),
    "causal": (causal, heads(50)),
    "causal, few keys": (causal, heads(50, 20)),
    "causal, few rows": (causal, heads(20, 50)),
    "mask": (attend, [*heads(20, 40), SEEN]),
    "mask of heads": (attend, [*heads(20, 40), hidden(3, 20, 40)]),
    "mask of rows": (attend, [*heads(20, 40), hidden(20, 1).expand(20, 40)]),
    "added": (shifted, heads(20, 40)),
    "heads as features": (merged, [real(2, n, 3, 8) for n in (20, 20, 20)]),
    "other features": (causal, [real(2, 30, 20), real(2, 30, 20), real(2, 30, 5)]),
    "without heads": (lambda q, k, v: attend(q, k, v, scale=0.3), [real(20, 4), real(30, 4), real(30, 4)]),
    "one row": (attend, heads(1, 2)),
    "float16": (causal, heads(20, dtype="float16")),
    "bfloat16": (causal, heads(20, dtype="bfloat16")),
    "groups": (
        lambda q, k, v: attend(q, k, v, is_causal=True, enable_gqa=True), [real(2, 6, 20, 8), *heads(20)[1:]]
    ),
    "groups and mask": (
        lambda q, k, v, m: attend(q, k, v, m, enable_gqa=True), [real(2, 6, 20, 8), *heads(20)[1:], hidden(6, 20, 20)]
    ),
}  # fmt: skip


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small blocks, so that there are several."""
    monkeypatch.setattr(attention, "blocks", lambda *described: (16, 16, 4, 3))


def close(actual: Any, expected: Any) -> bool:
    limit = {"float32": 2e-6, "float16": 4e-3, "bfloat16": 3e-2}[expected._data.dtype.name]
    a, e = (np.asarray(x.contiguous()._data, np.float64) for x in (actual, expected))
    return a.shape == e.shape and bool(np.all(np.abs(a - e) <= limit * (np.abs(e) + np.abs(e).max(initial=0.0))))


def kernels(made: list[Any]) -> list[str]:
    """The kinds of attention's kernels that were launched."""
    names = [launch.source.name for m in made for launch in m.launched]
    return [n.partition("_attention_")[2] for n in names if "_attention_" in n]


@pytest.mark.parametrize("name", CASES)
def test_jitted(name: str, blocks: None) -> None:
    call, arguments = CASES[name]
    run = with_gradients(call)
    expected = run(*arguments)
    with gpu_kernels.interpreted() as made:
        actual = jit(run, fullgraph=True)(*arguments)
    assert [close(a, e) for a, e in zip(actual, expected, strict=True)] == [True] * len(expected)
    assert kernels(made) == KERNELS
    assert not any(m.program.calls for m in made)


def apart(x: Any) -> Any:
    return attend(*(part.view(2, 20, 3, 8).transpose(1, 2) for part in x.split(24, 2))).transpose(1, 2)


def reshaped(x: Any, w: Any) -> Any:
    return apart(x).reshape(2, 20, 24) @ w


def made_contiguous(x: Any, w: Any) -> Any:
    return apart(x).contiguous().view(2, 20, 24) @ w


@pytest.mark.parametrize("call", [reshaped, made_contiguous])
def test_results_lie_in_the_order_in_which_they_are_used(call: Any, blocks: None) -> None:
    """Heads side by side again, of the result and of gradients, without a copy."""
    arguments = [real(2, 20, 72), real(24, 7)]
    run = with_gradients(call)
    with gpu_kernels.interpreted() as made:
        actual = jit(run, fullgraph=True)(*arguments)
    assert [close(a, e) for a, e in zip(actual, run(*arguments), strict=True)] == [True] * 3
    names = [launch.source.name for m in made for launch in m.launched]
    assert not [name for name in names if "copy" in name] and kernels(made) == KERNELS


def changed(q: Any, k: Any, v: Any) -> Any:
    out = attend(q, k, v)
    rows = out.transpose(1, 2).flatten(2)
    out[:, 1] = 3.0
    return rows, out


def in_two_orders(q: Any, k: Any, v: Any) -> Any:
    out = attend(q, k, v)
    return out.transpose(1, 2).flatten(2) * 2.0, out.permute(1, 0, 2, 3).flatten(1), out.exp().sum(-1), out[:, 0] + 1.0


@pytest.mark.parametrize(
    "call", [changed, in_two_orders, lambda q, k, v: (out := attend(q, k, v), out.transpose(1, 2).flatten(2) + 1.0)]
)
def test_results_that_are_used_in_other_orders_too(call: Any, blocks: None) -> None:
    arguments = heads(20)
    with gpu_kernels.interpreted():
        actual = jit(call, fullgraph=True)(*arguments)
    assert all(close(a, e) for a, e in zip(actual, call(*arguments), strict=True))


def test_indices_of_64_bits(blocks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "INT32", 0)
    test_jitted("mask of heads", blocks)


def test_eager_calls_and_cut_gradients() -> None:
    """One kernel forward and two backward, whoever calls backward; what they keep has no matrix of weights."""
    arguments = heads(20)
    expected = with_gradients(causal)(*arguments)
    for call in (causal, jit(lambda q, k, v: attend(q, k, v, is_causal=True), fullgraph=True)):
        with gpu_kernels.interpreted() as made:
            actual = with_gradients(call)(*arguments)
        assert all(close(a, e) for a, e in zip(actual, expected, strict=True))
        assert sorted(kernels(made)) == sorted(KERNELS)
        assert not any("matmul" in launch.source.name for m in made for launch in m.launched)


def test_gradients_of_gradients() -> None:
    def penalty(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
        grads = torch.autograd.grad((causal(q, k, v) ** 3).sum(), (q, k, v), create_graph=True)
        sum((g * g).sum() for g in grads).backward()
        return q.grad, k.grad, v.grad

    arguments = heads(12)
    expected = penalty(*arguments)
    with gpu_kernels.interpreted() as made:
        actual = jit(penalty, fullgraph=True)(*arguments)
    assert "query" in kernels(made) and all(close(a, e) for a, e in zip(actual, expected, strict=True))


def test_rules_without_a_gpu() -> None:
    """The op that NumPy computes: its rules against finite differences."""
    flash = OPS["flash_attention"].call
    arguments = [real(3, 2, dtype="float64").requires_grad_() for _ in range(3)]
    for mask, hides in ((None, True), (hidden(4, 3)[:3], False)):

        def call(q: Any, k: Any, v: Any, mask: Any = mask, hides: bool = hides) -> Any:
            return flash(q, k, v, mask, hides, 0.7)[0]

        assert gradcheck(call, arguments) and gradgradcheck(call, arguments)


def test_what_kernels_do_not_compute() -> None:
    """float64, wide heads, masks with gradients, single examples: attention with its weights in memory."""
    bias = real(20, 20).requires_grad_()
    cases = [
        (causal, heads(20, dtype="float64")),
        (causal, heads(4, features=300)),
        (lambda q, k, v: attend(q, k, v, bias), heads(20)),
        (lambda q, k, v: torch.func.vmap(causal)(q, k, v), heads(20)),
    ]
    for call, arguments in cases:
        expected = call(*arguments)
        with gpu_kernels.interpreted() as made:
            actual = call(*arguments)
        assert not kernels(made)
        assert np.allclose(actual.detach()._data, expected.detach()._data, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("features", "architecture", "product"), [(64, 80, "mma.sync"), (128, 90, "wgmma.mma_async")])
def test_machine_code(features: int, architecture: int, product: str) -> None:
    """Tensor cores of both generations, exponentials in hardware, memory read ahead in wide pieces."""
    x = [real(1, 1, 128, features, dtype="bfloat16") for _ in range(3)]
    with gpu_kernels.interpreted() as made:
        jit(with_gradients(causal), fullgraph=True)(*x)
    launches = [launch for m in made for launch in m.launched if "_attention_" in launch.source.name]
    assert len(launches) == 3
    for launch in launches:
        found = gpu_kernels.binary(launch, architecture)
        present = [word in found.ptx for word in (product, "ex2.approx", "cp.async.cg.shared.global")]
        assert present == [True] * 3
        assert found.shared <= (166912 if architecture == 80 else 232448)


def split_up(x: Any) -> Any:
    """Heads of one product's result, as language models have them."""
    parts = (part.view(1, 256, 2, 64).transpose(1, 2) for part in x.split(128, dim=2))
    return attend(*parts, is_causal=True).transpose(1, 2).reshape(1, 256, 128)


@pytest.mark.parametrize(("call", "shape"), [(split_up, (1, 256, 384)), (causal, (1, 1, 256, 128))])
def test_products_do_not_wait_for_each_other(call: Any, shape: tuple[int, ...]) -> None:
    """Where registers are short, the assembler makes each product of a step wait for the one before."""
    import triton

    disassembler = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
    if not disassembler.exists():
        pytest.skip("needs nvdisasm")
    x = [real(*shape, dtype="bfloat16") for _ in range(3 if call is causal else 1)]
    with gpu_kernels.interpreted() as made:
        jit(with_gradients(call), fullgraph=True)(*x)
    for launch in (launch for m in made for launch in m.launched if "_attention_" in launch.source.name):
        found = gpu_kernels.binary(launch, 90)
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(found.cubin)
            file.flush()
            code = subprocess.run([disassembler, file.name], capture_output=True, text=True, check=True).stdout
        assert found.spilled == 0 and code.count("HGMMA.") >= 16
        assert 3 * code.count("WARPGROUP.DEPBAR") < code.count("HGMMA.")


@pytest.mark.parametrize(("features", "architecture", "shared"), [(256, 80, 166912), (128, 89, 101376)])
def test_blocks_fit_into_shared_memory(features: int, architecture: int, shared: int) -> None:
    """Of every generation: fewer steps are loaded ahead where there is less of it."""
    with gpu_kernels.interpreted() as made:
        jit(with_gradients(attend), fullgraph=True)(*(real(1, 1, 2, features, dtype="float16") for _ in range(3)))
    for kernel in (k for m in made for k in m.kernels if "attention" in k.kernel.name):
        known = {p.name: 512 for p in kernel.kernel.params if p.kind == "size"}
        launch = kernel.launch(8, known, architecture)
        assert gpu_kernels.binary(launch, architecture).shared <= shared


@pytest.mark.parametrize("name", ["plain", "causal", "mask of heads", "heads as features", "other features", "groups"])
def test_blocks_that_the_gpu_loads_have_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU whose programs compute addresses."""
    monkeypatch.setattr(descriptors, "LEAST_BYTES", 0)
    call, arguments = CASES[name]
    arguments = [x.to(torch.bfloat16) if x.dtype is torch.float32 else x for x in arguments]
    found = []
    for on in (True, False):
        monkeypatch.setattr(attention, "wanted", lambda architecture, on=on: on)
        monkeypatch.setattr(attention, "blocks", lambda *described: (16, 16, 4, 3))
        with gpu_kernels.interpreted() as made:
            results = jit(with_gradients(call), fullgraph=True)(*arguments)
        counts = [len(launch.descriptors) for m in made for launch in m.launched if "_attention_" in launch.source.name]
        found.append([x.contiguous()._data.tobytes() for x in results])
        assert counts == ([3, 4, 4] if on and name != "other features" else [0, 0, 0])
    assert found[0] == found[1]


@pytest.mark.parametrize("features", [64, 128, 256])
def test_machine_code_of_blocks_that_the_gpu_loads(features: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "LEAST_BYTES", 0)
    with gpu_kernels.interpreted() as made:
        x = [real(1, 1, 2, features, dtype="bfloat16") for _ in range(3)]
        jit(with_gradients(causal), fullgraph=True)(*x)
    for kernel in (k for m in made for k in m.kernels if "attention" in k.kernel.name):
        known, sizes = {p.name: 512 for p in kernel.kernel.params}, kernel.statement.sizes
        known |= {name: features for name in sizes[2:] if isinstance(name, str)}
        launch = kernel.launch(8, known)
        binary = gpu_kernels.binary(launch, 90)
        assert all(word in binary.ptx for word in ("cp.async.bulk.tensor", "wgmma.mma_async"))
        assert binary.shared <= 232448 and binary.spilled <= (64 if features == 256 else 0)


def test_masks_that_do_not_fit_are_refused() -> None:
    query = torch.ones(2, 3, 7, 4)
    with gpu_kernels.interpreted():
        for mask in (torch.ones(7, 1, 7), torch.ones(6, 7), torch.ones(5, 3, 7, 7)):
            for call in (attend, jit(attend)):
                with pytest.raises(RuntimeError):
                    call(query, query, query, mask)

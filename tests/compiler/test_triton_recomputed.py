"""Kernels for a GPU compute again what they would read, where that moves fewer bytes; results keep their bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import arrays_for, random_graph
from test_random_programs import computed_only, run

import eagerjit as torch
from eagerjit.compiled import gpu_kernels
from eagerjit.compiler import loops
from eagerjit.compiler.lower.emit import Pointer
from eagerjit.compiler.signature import Trace
from eagerjit.jit import jit
from eagerjit.runtime.records import replace

RANDOM = np.random.default_rng(5)
Function = torch.nn.functional
LARGE = 2000
"""Elements of a matrix."""
PLAIN = replace(gpu_kernels.GPU, again=False)


def tensor(*shape: int) -> Any:
    return torch.tensor(RANDOM.normal(size=shape)).float()


X, Y, W, B = tensor(40, 300), tensor(40, 300), tensor(300), tensor(300)
BF16, WEIGHT = X.bfloat16(), (tensor(64, 300) * 0.1).bfloat16()
AT = torch.tensor(RANDOM.integers(0, 300, 40))


def gradients(call: Any) -> Any:
    """What a function returns, and its gradients of what it is given."""

    def step(*given: Any) -> Any:
        leaves = [g.detach().requires_grad_() if g.is_floating_point() else g for g in given]
        result = call(*leaves)
        result.backward(torch.ones_like(result))
        return result.detach(), *(leaf.grad for leaf in leaves if leaf.is_floating_point())

    return step


def stores(call: gpu_kernels.GpuCall, elements: int) -> Iterator[str]:
    """The dtypes of what kernels store that has this many elements at least."""
    for built in call.built:
        body = built.kernel.body
        written = {s.param for s in loops.walk(body) if isinstance(s, loops.Store)}
        written |= {s.out for s in body if isinstance(s, loops.Product)}
        for p, a in zip(built.kernel.params, built.arguments, strict=True):
            if p.name in written and isinstance(a, Pointer) and call._known(a.root.type.numel) >= elements:
                yield a.root.dtype.short


def compiled(call: Any, *arguments: Any) -> tuple[list[np.ndarray], list[str]]:
    """Results, and the dtypes of the large values that kernels store."""
    calls: list[gpu_kernels.GpuCall] = []

    class Recorded(gpu_kernels.GpuCall):
        def __init__(self, trace: Trace):
            super().__init__(trace)
            calls.append(self)

    with gpu_kernels.interpreted(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_kernels, "GpuCall", Recorded)
        results = jit(call, fullgraph=True)(*arguments)
    results = results if isinstance(results, tuple) else (results,)
    found = sorted(dtype for c in calls for dtype in stores(c, LARGE))
    return [np.array(r.float()._data) for r in results], found


def both(call: Any, *arguments: Any) -> tuple[list[np.ndarray], list[str], list[str]]:
    """Results, the same bits as without this and nearly the eager ones, and the matrices stored with and without."""
    eager = call(*arguments)
    actual, found = compiled(call, *arguments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_kernels, "GPU", PLAIN)
        expected, before = compiled(call, *arguments)
    for a, e, r in zip(actual, expected, eager if isinstance(eager, tuple) else (eager,), strict=True):
        assert a.tobytes() == e.tobytes()
        assert np.allclose(a, np.array(r.float()._data), rtol=2e-2, atol=2e-2)
    return actual, found, before


def test_cross_entropy_stores_no_matrix_but_the_gradient() -> None:
    loss = gradients(lambda x, at: Function.cross_entropy(x, at))
    _, found, before = both(loss, BF16, AT)
    assert (found, before) == (["bf16"], ["bf16", "f32"])


def test_an_activation_is_kept_as_it_came() -> None:
    """The factor of its gradient is computed of what the product gave, which has half the bytes."""
    layer = gradients(lambda x, w, b, v: (Function.gelu(x @ w.mT + b, approximate="tanh") @ v).tanh())
    bias, second = tensor(64).bfloat16(), (tensor(64, 100) * 0.1).bfloat16()
    _, found, before = both(layer, BF16, WEIGHT, bias, second)
    assert "f32" in before and "f32" not in found and len(found) == len(before)


def test_normalized_rows_are_not_stored() -> None:
    layer = gradients(lambda x, w, b, v: (Function.layer_norm(x, (300,), w, b) @ v).tanh())
    _, found, before = both(layer, X, W, B, tensor(300, 20))
    assert len(found) < len(before)


CASES: dict[str, tuple[Any, list[Any]]] = {
    "softmax": (gradients(lambda x: torch.softmax(x, 1) ** 2), [X]),
    "over everything": (lambda x: x.exp() / x.exp().sum(), [X]),
    "through views": (lambda x: (x.exp() / x.exp().sum()).mT.contiguous(), [X]),
    "in parts": (lambda x: (x.exp()[:, 10:] / x.exp().sum()), [X]),
    "one of another": (lambda x, y: ((z := (x * y).tanh()) / z.sum(), (z + 1.0).exp() / (z + 1.0).exp().sum()), [X, Y]),
    "of several": (lambda x, y: (x * y + x).tanh() / (x * y + x).tanh().sum(), [X, Y]),
    "joined dimensions": (lambda x: (x.reshape(40, 3, 100).mT.exp() / x.exp().sum()).reshape(-1), [X]),
    "reduced afterwards": (lambda x: ((e := x.exp()) / e.sum()).sum(0) + (e * 2.0).sum(1)[0], [X]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_bits_stay_the_same(name: str) -> None:
    call, arguments = CASES[name]
    both(call, *arguments)


def test_what_is_read_twice_is_stored() -> None:
    """Two operands of a sum are more to read than the sum."""
    _, found, before = both(lambda x, y, z: (s := x + y + z).exp() / s.exp().sum(1).sum(), X, Y, X * Y)
    assert found == before


def test_what_is_overwritten_is_read_before() -> None:
    """A tensor that the call changes gets its new value where it lies."""

    def step(x: Any) -> Any:
        y = x.exp()
        total = y.sum()
        x.mul_(0.5)
        return (y / total).sum(1)

    given = X.clone()
    expected = X.clone()
    wanted = step(expected)
    with gpu_kernels.interpreted():
        found = jit(step, fullgraph=True)(given)
    assert given._data.tobytes() == expected._data.tobytes()
    assert np.allclose(found._data, wanted._data, rtol=1e-5)


def test_errors_and_dear_operations_are_not_repeated() -> None:
    a, b = torch.arange(12000).reshape(40, 300), torch.ones(40, 300, dtype=torch.int64) * 3
    both(lambda a, b: (a // b) - (a // b).sum(), a, b)
    _, found, before = both(lambda x: torch.lgamma(x) / torch.lgamma(x).abs().sum(), X)
    assert found == before == ["f32", "f32"]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(({"s0": 3, "s1": 4}, {"s0": 33, "s1": 70})))
def test_random_graphs_keep_their_bits(seed: int, hints: dict[str, int]) -> None:
    graph = computed_only(random_graph(seed))
    arrays = arrays_for(graph, seed, hints)
    with gpu_kernels.interpreted(), pytest.MonkeyPatch.context() as patch:
        actual = run(graph, arrays)
        patch.setattr(gpu_kernels, "GPU", PLAIN)
        expected = run(graph, arrays)
    for node, a, e in zip(graph.outputs, actual, expected, strict=True):
        assert a.tobytes() == e.tobytes(), f"{node}\n{graph}"

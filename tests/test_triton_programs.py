"""Functions whose kernels run as on a GPU, by Triton's interpreter: every shape of kernel, against eager calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.compiled import gpu_kernels
from eagerjit.compiler.codegen.triton import along, convolution, product, source
from eagerjit.jit import jit

Function = torch.nn.functional
RANDOM = np.random.default_rng(3)


def real(*shape: int, dtype: str = "float32") -> Any:
    return torch.tensor(RANDOM.normal(size=shape)).to(getattr(torch, dtype))


def whole(high: int, *shape: int) -> Any:
    return torch.tensor(RANDOM.integers(0, high, shape))


def with_gradients(call: Any) -> Any:
    """The function's value and its gradients with respect to every real tensor."""

    def run(*given: Any) -> Any:
        tensors = [x.detach().clone().requires_grad_() if x.dtype.is_floating_point else x for x in given]
        value = call(*tensors)
        (value * value).sum().backward()
        return [value.detach(), *(x.grad for x in tensors if x.dtype.is_floating_point)]

    return run


def masked_mean(x: Any, keep: Any) -> Any:
    return x.where(keep, 0.0).sum(0) / keep.sum(0)


def statistics(x: Any) -> Any:
    return x.mean(0), x.var(1), x.amax(0), x.argmax(1), (x > 0).any(1), x.prod(1), x.argmin(1), x.amin()


CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "chain": (lambda x, y: (x * y + 1.5).tanh() - y.exp(), (real(7, 33), real(33))),
    "flat": (lambda x, y: x * y + x, (real(3000), real(3000))),
    "transposed": (lambda x: x.T + x, (real(37, 37),)),
    "strided": (lambda x: x[::2, 1:-1].permute(1, 0) * 2.0, (real(9, 14),)),
    "flipped": (lambda x: x.flip(0, 1) + x, (real(5, 6),)),
    "outer": (lambda x, y: x[:, None, :] * y[None, :, :], (real(4, 5), real(3, 5))),
    "softmax": (with_gradients(lambda x: x.softmax(-1)), (real(6, 41),)),
    "layer_norm": (
        with_gradients(lambda x, w, b: Function.layer_norm(x, (19,), w, b)), (real(3, 21, 19), real(19), real(19))
    ),
    "batch_norm": (
        # Times x: the squares of what is normalized have a gradient of rounding errors alone.
        with_gradients(lambda x, w, b: x * Function.batch_norm(x, None, None, w, b, training=True)),
        (real(5, 4, 7), real(4), real(4)),
    ),
    "cross_entropy": (with_gradients(lambda x, at: Function.cross_entropy(x, at)), (real(12, 23), whole(23, 12))),
    "statistics": (statistics, (real(17, 29),)),
    "middle": (lambda x: x.sum(1) + x.amax(1), (real(4, 50, 6),)),
    "total": (lambda x: (x * x).sum() + x.amax() * x.mean(), (real(9000),)),
    "masked": (masked_mean, (real(40, 5), whole(2, 40, 5) > 0)),
    "embedding": (with_gradients(lambda at, w: Function.embedding(at, w)), (whole(11, 4, 6), real(11, 10))),
    "gather": (lambda x, at: x.gather(1, at), (real(6, 9), whole(9, 6, 4))),
    "gather of complex numbers": (
        lambda z: z.imag.gather(1, z.real.argsort(1)) - z.real.gather(1, z.imag.argsort(1)),
        (torch.complex(real(6, 9), real(6, 9)),),
    ),
    "scatter": (
        lambda x, at, y: (x.scatter_add(1, at, y), x.scatter_add(0, at, y)), (real(9, 9), whole(9, 6, 4), real(6, 4))
    ),
    "parts": (lambda x, y: torch.cat([x, y.T, x[:, :2]], 1), (real(5, 7), real(3, 5))),
    "attention": (
        with_gradients(lambda q, k, v: Function.scaled_dot_product_attention(q, k, v, is_causal=True)),
        (real(2, 3, 8, 4), real(2, 3, 8, 4), real(2, 3, 8, 4)),
    ),
    "product": (with_gradients(lambda x, w, b: Function.gelu(Function.linear(x, w, b))), (
        real(20, 33), real(17, 33), real(17))),
    "batched product": (lambda x, y: (x @ y.mT).tanh() + x[..., :1], (real(2, 3, 9, 5), real(2, 3, 7, 5))),
    "product in order": (lambda x, y: (x @ y).relu(), (real(40, 20), real(20, 35))),
    "half product": (
        lambda x, w, b: Function.linear(x, w, b).relu(),
        tuple(real(*shape, dtype="float16") for shape in ((5, 40), (6, 40), (6,))),
    ),
    "brain product": (lambda x, y: (x @ y) * 0.5, (real(9, 18, dtype="bfloat16"), real(18, 20, dtype="bfloat16"))),
    "conv": (
        with_gradients(lambda x, w: Function.conv2d(x, w, padding=1).relu()), (real(2, 3, 6, 5), real(4, 3, 3, 3))
    ),
    "grouped conv": (
        with_gradients(lambda x, w: Function.conv2d(x, w, stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2)),
        (real(2, 4, 9, 8), real(6, 2, 3, 2)),
    ),
    "transposed conv": (
        with_gradients(lambda x, w: Function.conv_transpose1d(x, w, stride=2, padding=1)),
        (real(2, 4, 5), real(4, 3, 3)),
    ),
    "pool": (with_gradients(lambda x: Function.max_pool2d(x, 2)), (real(2, 3, 6, 8),)),
    "sorted": (
        lambda x, at: (*x.sort(0), x.argsort(-1, descending=True), *at.topk(3), at.sort(0, stable=True)[1]),
        (real(7, 40) * torch.tensor([1.0, float("nan"), *[1.0] * 38]), whole(4, 5, 9)),
    ),
    "scanned": (lambda x, n: (x.cumsum(0), x.cumprod(1), n.cumsum(1)), (real(6, 40), whole(9, 3, 20))),
    "half": (lambda x: (x.exp() * x).softmax(-1) + x.sum(-1, keepdim=True), (real(5, 12, dtype="float16"),)),
    "brain": (lambda x: (x.exp() * x).softmax(-1) + x.sum(-1, keepdim=True), (real(5, 12, dtype="bfloat16"),)),
    "integers": (lambda a, b: (a // (b + 1), a % (b + 1), a << b, (a - 5) >> 1, a.sum(), a.amax(0)), (
        whole(99, 6, 7), whole(9, 6, 7))),
    "flags": (lambda a: (a.all(0), a.any(1), a.sum(), ~a, a ^ a[0]), (whole(2, 6, 7) > 0,)),
}  # fmt: skip


@pytest.fixture(params=["as they are", "small and far"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Blocks as they are; and small ones, so that rows take steps and grids are large, with indices of 64 bits."""
    if request.param == "small and far":
        for module in (along, convolution, product, source):
            monkeypatch.setattr(module, "INT32", 0)
        for name, size in (("WHOLE", 8), ("STEP", 8), ("TILE", 32)):
            monkeypatch.setattr(source, name, size)
    yield


def flat(result: Any) -> list[np.ndarray]:
    results = result if isinstance(result, (tuple, list)) else (result,)
    return [r.detach().contiguous()._data for r in results]


def close(actual: np.ndarray, expected: np.ndarray) -> bool:
    """Equal, or within the rounding errors of a sum in another order."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return False
    if actual.dtype.kind in "biu":
        return np.array_equal(actual, expected)
    limit = {"float32": 2e-6, "float16": 4e-3, "bfloat16": 3e-2}[actual.dtype.name]
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    fine = np.abs(a - b) <= limit * (np.abs(b) + np.nanmax(np.abs(b), initial=0.0))
    return bool(np.all(fine | (np.isnan(a) & np.isnan(b))))


@pytest.mark.parametrize("name", CASES)
def test_programs(name: str, blocks: None) -> None:
    call, arguments = CASES[name]
    expected = flat(call(*arguments))
    with gpu_kernels.interpreted() as made:
        actual = flat(jit(call, fullgraph=True)(*arguments))
    assert sum(len(m.launched) for m in made)
    assert [close(a, e) for a, e in zip(actual, expected, strict=True)] == [True] * len(expected)


def test_all_shapes_are_among_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the cases above launch covers every way in which loops become programs."""
    monkeypatch.setattr(source, "WHOLE", 8)
    seen = set()
    for name in ("chain", "flat", "softmax", "layer_norm", "total", "embedding", "masked", "scatter"):
        call, arguments = CASES[name]
        with gpu_kernels.interpreted() as made:
            jit(call, fullgraph=True)(*arguments)
        seen |= {(s.tiled, s.vectors, bool(s.kept)) for m in made for s in (x.source.shape for x in m.launched)}
    assert {(True, "grid", False), (False, "whole", False), (True, "loop", False), (False, "loop", False)} <= seen
    assert {(False, "grid", True), (True, "whole", False)} <= seen


def test_a_product_is_one_kernel_with_what_follows() -> None:
    """16-bit factors are read as they are; a product that something else reads has memory of its own."""

    def layer(x: Any, w: Any, b: Any) -> Any:
        return Function.linear(x, w, b).relu() + 1.0

    def twice(x: Any, w: Any) -> Any:
        y = x @ w
        return y.relu(), y.sum()

    def in_place(x: Any, w: Any) -> Any:
        x += x @ w
        return x

    halves = [real(*shape, dtype="bfloat16") for shape in ((5, 7), (6, 7), (6,))]
    x, w = real(6, 6), real(6, 6)
    for call, arguments, alone in ((layer, halves, False), (twice, (x, w), True), (in_place, (x, w), True)):
        expected = flat(call(*(a.clone() for a in arguments)))
        with gpu_kernels.interpreted() as made:
            actual = flat(jit(call, fullgraph=True)(*(a.clone() for a in arguments)))
        assert all(close(a, e) for a, e in zip(actual, expected, strict=True))
        names = [launch.source.name for m in made for launch in m.launched]
        assert ("k0_matmul" in names) == alone and (alone or len(names) == 1)


def test_random_numbers_are_those_of_the_cpu() -> None:
    def draw() -> Any:
        return torch.rand(5, 7), torch.randn(11), torch.randint(0, 9, (4,)), torch.rand(3, dtype=torch.float64)

    torch.manual_seed(5)
    expected = flat(draw())
    torch.manual_seed(5)
    with gpu_kernels.interpreted():
        actual = flat(jit(draw, fullgraph=True)())
    assert [a.tobytes() for a in actual] == [e.tobytes() for e in expected]


def test_a_failed_check_is_the_cpus_error() -> None:
    table, good, bad = real(5, 3), whole(5, 4), torch.tensor([1, 7])
    with gpu_kernels.interpreted():
        lookup = jit(lambda at: Function.embedding(at, table) * 2.0)
        assert flat(lookup(good))[0].tobytes() == (table[good] * 2.0)._data.tobytes()
        with pytest.raises(IndexError, match=r"out of range.*size 5"):
            lookup(bad)
        divide = jit(lambda a, b: a // b)
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            divide(good, torch.tensor([1, 0, 2, 3]))


def test_written_inputs() -> None:
    """A training step whose parameter and optimizer's state are written in place."""

    def trained(run: Any) -> list[np.ndarray]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.Linear(8, 3))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        x, at = torch.randn(16, 6), torch.randint(0, 3, (16,))

        def step() -> Any:
            optimizer.zero_grad()
            loss = Function.cross_entropy(model(x), at)
            loss.backward()
            optimizer.step()
            return loss.detach()

        losses = [run(step)() for _ in range(2)]
        return flat([*losses, *model.parameters()])

    expected = trained(lambda step: step)
    with gpu_kernels.interpreted() as made:
        actual = trained(lambda step: jit(step, fullgraph=True))
    assert made and all(close(a, e) for a, e in zip(actual, expected, strict=True))

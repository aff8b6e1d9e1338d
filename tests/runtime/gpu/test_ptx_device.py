"""Kernels as they are compiled for GPUs, which a fake device executes: what Triton's interpreter cannot tell.

That is what the compiler makes of them: which thread has which elements, in which order they are added, what is read
together. `EAGERJIT_TESTS_PTX=sm_90 python -m pytest -m gpu tests/runtime/gpu` runs all that otherwise needs a GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2]))

import device_programs
import device_table

import eagerjit as ej

F = ej.nn.functional
RANDOM = np.random.default_rng(3)
OLDER = "matmul cumsum sort scatter_add".split()
NEWER = "softmax matmul interpolate unique adam_step".split()


@pytest.mark.parametrize(("kind", "name"), [*(("sm_80", n) for n in OLDER), *(("sm_90", n) for n in NEWER)])
def test_an_op(kind: str, name: str) -> None:
    assert device_table.problems(kind, name) == []


@pytest.mark.parametrize("name", ["torch.nn.functional.scaled_dot_product_attention", "torch.nn.Conv2d"])
def test_a_name(name: str) -> None:
    assert device_programs.name_problems("sm_90", name) == []


def normal(*shape: int) -> Any:
    return ej.tensor(RANDOM.normal(size=shape).astype(np.float32))


FACTORS = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5}


@pytest.mark.parametrize("dtype", FACTORS)
@pytest.mark.parametrize("kind", ["sm_80", "sm_90"])
def test_products(kind: str, dtype: str) -> None:
    """Of mma and wgmma, with what is fused, of blocks that are whole and that are not; transposed ones too."""
    x, w, b = (t.to(getattr(ej, dtype)) for t in (normal(72, 64), normal(64, 136), normal(136)))
    expected = F.relu(x.double() @ w.double() + b.double()).numpy()

    def product(x: Any, w: Any, b: Any) -> Any:
        return F.relu(x @ w + b)

    with device_programs.devices(kind):
        given = [t.cuda() for t in (x, w, b)]
        turned = given[0], w.mT.contiguous().cuda().mT, given[2]
        plain, jitted = product(*given), ej.jit(product, fullgraph=True)(*given)
        other = ej.jit(product, fullgraph=True)(*turned)
        assert same(plain, jitted) and same(product(*turned), other)
        for found in (plain, other):
            assert np.allclose(found.cpu().double().numpy(), expected, rtol=FACTORS[dtype], atol=8 * FACTORS[dtype])


def same(a: Any, b: Any) -> bool:
    return a.dtype is b.dtype and a.cpu()._data.tobytes() == b.cpu()._data.tobytes()


class Layer(ej.nn.Module):
    """A layer of a transformer, small."""

    def __init__(self, width: int):
        super().__init__()
        self.norm, self.last = ej.nn.LayerNorm(width), ej.nn.LayerNorm(width)
        self.into, self.out = ej.nn.Linear(width, 3 * width), ej.nn.Linear(width, width)
        self.feed = ej.nn.Sequential(ej.nn.Linear(width, 2 * width), ej.nn.GELU(), ej.nn.Linear(2 * width, width))

    def forward(self, x: Any) -> Any:
        q, k, v = (p.unflatten(-1, (2, -1)).transpose(1, 2) for p in self.into(self.norm(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.feed(self.last(x))


def trained(decorated: Callable[[Any], Any]) -> list[Any]:
    """The loss and the parameters after two steps."""
    ej.manual_seed(0)
    embedding, layer, head = ej.nn.Embedding(11, 32).cuda(), Layer(32).cuda(), ej.nn.Linear(32, 11).cuda()
    parameters = [p for m in (embedding, layer, head) for p in m.parameters()]
    optimizer = ej.optim.AdamW(parameters, lr=1e-2)

    @decorated
    def step(tokens: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(head(layer(embedding(tokens[:, :-1]))).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        return loss

    tokens = ej.tensor(np.arange(2 * 17).reshape(2, 17) % 11).cuda()
    losses = [step(tokens) for _ in range(2)]
    return [*losses, *parameters]


def test_training_has_the_same_bits_compiled() -> None:
    """All sums of a step add up in one order, whatever else a kernel reads."""
    with device_programs.devices("sm_90"):
        plain, jitted = trained(lambda function: function), trained(ej.jit)
        assert all(same(a, b) for a, b in zip(plain, jitted, strict=True))
        assert plain[1].item() < plain[0].item()

"""Copies of factors whose sums do not run along neighbours, for TF32: which there are, and the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import eagerjit as ej
from eagerjit.compiled import gpu_kernels
from eagerjit.compiler.lower import turned
from eagerjit.jit import jit

RANDOM = np.random.default_rng(5)


def numbers(*shape: int) -> Any:
    return ej.tensor(RANDOM.normal(size=shape).astype(np.float32))


CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], int]] = {
    "weights turned": (lambda x, w: x @ w.T, [(24, 40), (32, 40)], 0),
    "as they lie": (lambda x, w: x @ w, [(24, 40), (40, 32)], 1),
    "both turned": (lambda x, w: x.T @ w.T, [(40, 24), (32, 40)], 1),
    "neither's sums along neighbours": (lambda x, w: x.T @ w, [(40, 24), (40, 32)], 2),
    "steps of two": (lambda x, w: x[:, ::2] @ w.T[::2], [(24, 80), (32, 80)], 2),
    "batched": (lambda x, w: x.mT @ w, [(3, 40, 24), (3, 40, 32)], 2),
    "one for all": (lambda x, w: x @ w.expand(3, 40, 32), [(3, 24, 40), (40, 32)], 0),
    "written so at once": (lambda x, w: (x * 2) @ w.exp(), [(24, 40), (40, 32)], 0),
    "nothing": (lambda x, w: x.T @ w, [(0, 24), (0, 32)], 2),
}


def run(call: Callable[..., Any], *given: Any) -> tuple[list[str], bytes]:
    """The names of the kernels that a call launches, and the bits of its result."""
    with gpu_kernels.interpreted() as made:
        result = jit(call, fullgraph=True)(*given)
    return [launch.source.name for m in made for launch in m.launched], result._data.tobytes()


@pytest.fixture
def tf32(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    ej.set_float32_matmul_precision("high")
    monkeypatch.setattr(turned, "WORK", 0)
    monkeypatch.setattr(turned, "LEAST", (1, 1))
    yield
    ej.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("name", CASES)
def test_the_bits_are_those_without_copies(name: str, tf32: None, monkeypatch: pytest.MonkeyPatch) -> None:
    call, shapes, copies = CASES[name]
    given = [numbers(*shape) for shape in shapes]
    names, bits = run(call, *given)
    monkeypatch.setattr(turned, "LEAST", (1 << 62, 1 << 62))
    plain, expected = run(call, *given)
    assert bits == expected
    assert len(names) - len(plain) == copies


def test_gradients_of_linear_layers_have_them(tf32: None) -> None:
    def step(x: Any, w: Any) -> Any:
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        y = ej.nn.functional.linear(x, w)
        return ej.cat(ej.autograd.grad((y * y).sum(), (x, w)))

    given = numbers(24, 40), numbers(40, 40)
    names, bits = run(step, *given)
    assert sum("copy" in kernel for kernel in names) >= 2
    expected = step(*given)
    assert np.allclose(np.frombuffer(bits, np.float32), expected._data.ravel(), rtol=2e-2, atol=2e-1)


def test_none_where_they_cost_more_than_they_save(monkeypatch: pytest.MonkeyPatch) -> None:
    call, shapes, _ = CASES["as they lie"]
    given = [numbers(*shape) for shape in shapes]
    monkeypatch.setattr(turned, "WORK", 0)
    monkeypatch.setattr(turned, "LEAST", (1, 1))
    assert run(call, *given)[0] == ["k0_matmul"]  # exact products have no use for them
    ej.set_float32_matmul_precision("high")
    try:
        halves = [x.bfloat16() for x in given]
        assert run(call, *halves)[0] == ["k0_matmul"]
        for limit, value in (("LEAST", (33, 25)), ("WORK", 24 * 40 * 32 + 1)):
            monkeypatch.setattr(turned, limit, value)
            assert run(call, *given)[0] == ["k0_matmul"]
            monkeypatch.setattr(turned, "LEAST", (1, 1))
    finally:
        ej.set_float32_matmul_precision("highest")

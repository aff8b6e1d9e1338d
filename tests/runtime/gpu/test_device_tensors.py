"""Tensors that lie on a device: PyTorch programs with device="cuda", on a fake device."""

from __future__ import annotations

import pytest

import eagerjit as ej
from eagerjit import nn
from eagerjit.cuda import execution
from eagerjit.nn import functional as F

pytestmark = pytest.mark.usefixtures("cuda")


def test_a_training_program() -> None:
    ej.manual_seed(0)
    x = ej.randn(4, 3, device="cuda")
    model = nn.Linear(3, 2).cuda()
    optimizer = ej.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        assert all(p.grad is not None and p.grad.is_cuda for p in model.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[2] < losses[1] < losses[0]


def test_attention_keeps_no_weights() -> None:
    """Its kernels run for eager calls on tensors of the device, and for compiled ones."""
    q, k, v = (ej.randn(2, 5, 4, device="cuda", requires_grad=True) for _ in range(3))
    host = [x.detach().cpu().requires_grad_() for x in (q, k, v)]
    for call in (F.scaled_dot_product_attention, ej.jit(F.scaled_dot_product_attention)):
        found = [call(*given, is_causal=True) for given in ((q, k, v), host)]
        for out in found:
            out.square().sum().backward()
        assert ej.allclose(found[0].cpu(), found[1], atol=1e-5)
        assert all(ej.allclose(a.grad.cpu(), b.grad, atol=1e-5) for a, b in zip((q, k, v), host, strict=True))
    assert F.scaled_dot_product_attention(q, k, v).grad_fn.name == "flash_attention"


def test_a_long_sum_of_few_results_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that share a tile count themselves in memory that every launch clears."""
    filled: list[int] = []
    clear = execution.fill_words
    monkeypatch.setattr(execution, "fill_words", lambda *what: (filled.append(what[2]), clear(*what)))
    x, w = ej.randn(5, 3000, device="cuda"), ej.randn(3000, 7, device="cuda")
    first, second = x @ w, x @ w
    assert filled == [1, 1] and ej.equal(first, second)
    assert ej.allclose(first.cpu(), x.cpu() @ w.cpu(), atol=1e-3)

"""Tensors that lie on a device: PyTorch programs with device="cuda", on a fake device."""

from __future__ import annotations

import pytest

import eagerjit as ej
from eagerjit import nn

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

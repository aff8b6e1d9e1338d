"""The networks of the GPU's training benchmark train alike in every library, compiled or not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

import eagerjit

sys.path.append(str(Path(__file__).resolve().parent.parent))

from benchmarks import gpu_models
from benchmarks.gpu_networks import BUILD, SIZES, Sizes, make_step

THIN = {
    "AlexNet": Sizes(2, 64, 10, 16),
    "VGG-19": Sizes(2, 32, 10, 32),
    "ResNet-50": Sizes(4, 64, 10, 16),
    "MobileNet": Sizes(4, 64, 10, 16),
    "GNMT": Sizes(2, width=64, length=5, layers=4, vocabulary=40),
    "NCF": Sizes(64, width=8, vocabulary=30, layers=20),
    "GPT-2": Sizes(2, width=16, length=8, layers=2, vocabulary=40),
}
PARAMETERS = {"AlexNet": 61.1e6, "VGG-19": 143.7e6, "ResNet-50": 25.6e6, "MobileNet": 4.23e6, "GPT-2": 124.5e6}
"""What the papers' networks have, to three digits."""


def losses(name: str, library: object, compiler: object, count: int = 3) -> list[float]:
    step, batch = make_step(name, library, THIN[name], "cpu", compiler, whole=True)
    return [step(*batch).item() for _ in range(count)]


@pytest.mark.parametrize("name", THIN)
def test_losses(name: str) -> None:
    eager = losses(name, eagerjit, None)
    assert losses(name, eagerjit, eagerjit.jit) == eager
    # Norms over few elements make of a rounding a different step: of such networks only the first loss is comparable.
    count = 1 if name in ("ResNet-50", "MobileNet") else 3
    assert eager[:count] == pytest.approx(losses(name, torch, None, count), rel=1e-3)


@pytest.mark.parametrize("name", PARAMETERS)
def test_sizes_are_those_of_the_papers(name: str) -> None:
    with torch.device("meta"):
        network = BUILD[name](torch, SIZES[name])
    assert sum(p.numel() for p in network.parameters()) == pytest.approx(PARAMETERS[name], rel=5e-3)


@pytest.mark.parametrize("peer", ["eagerjit", "eagerjit eager", "torch"])
def test_measured_rows(monkeypatch: pytest.MonkeyPatch, peer: str) -> None:
    monkeypatch.setattr(gpu_models, "MOST_SECONDS", 0.01)
    monkeypatch.setattr(gpu_models, "SIZES", THIN)
    rows = gpu_models.measure(peer, "NCF", "cpu")
    assert {*rows.numbers} == {*rows.check} == {"NCF"} and not rows.failed
    lines = gpu_models.footer({"eagerjit": {"NCF": 0.5}, "torch": {}})
    assert lines[1] == "NCF, samples per second: eagerjit 128"

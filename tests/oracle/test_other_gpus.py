"""`torch.mps` where there is no GPU of Apple, and its like: what they answer, and the errors of the rest."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import eagerjit
from eagerjit import cuda

ARGUMENTS: dict[str, tuple[Any, ...]] = {"manual_seed": (1,), "set_per_process_memory_fraction": (0.5,)}


@pytest.mark.parametrize("name", eagerjit.mps.__all__)
def test_functions(name: str) -> None:
    def outcome(t: Any) -> Any:
        state = (t.zeros(16, dtype=t.uint8),)
        try:
            return getattr(t.mps, name)(*(state if name == "set_rng_state" else ARGUMENTS.get(name, ())))
        except RuntimeError as error:
            return type(error), str(error)

    assert outcome(eagerjit) == outcome(torch)


def test_gpus_of_others_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda.device_count, "__code__", (lambda: 2).__code__)
    monkeypatch.setattr(cuda.is_available, "__code__", (lambda: True).__code__)
    assert cuda.is_available() and cuda.device_count() == 2
    for module in (eagerjit.mps, eagerjit.xpu, eagerjit.mtia):
        assert not module.is_available() and module.device_count() == 0

"""`ModuleTracker`, compared with PyTorch's: what it says at every place of a program."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.utils.module_tracker as theirs

import eagerjit as ej
import eagerjit.utils.module_tracker as ours


def seen(t: Any) -> list[Any]:
    """What is running where a program asks."""
    found = []

    class Block(t.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = t.nn.Linear(3, 3), t.nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            note("in a block")
            return {"y": x + self.second(self.first(x).relu())}

    class Network(t.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.blocks, self.head = t.nn.ModuleList([Block(), Block()]), t.nn.Linear(3, 2)

        def forward(self, x: Any) -> Any:
            for block in self.blocks:
                x = block(x)["y"]
                x.register_hook(lambda grad: note("gradient of a block's result"))
            return self.head(x)

    def note(where: str) -> None:
        found.append((where, sorted(tracker.parents), tracker.is_bw))

    tracker = (ours if t is ej else theirs).ModuleTracker()
    model, x = Network(), t.ones(2, 3, requires_grad=True)
    with tracker:
        model.blocks[1](x)
        for _ in range(2):
            model(x).sum().backward()
            note("after a walk")
        with pytest.raises(RuntimeError):
            model(t.ones(2, 4))
        note("after an error")
    model(x).sum().backward()
    note("outside")
    return found


def test_what_is_running() -> None:
    assert seen(ej) == seen(torch)

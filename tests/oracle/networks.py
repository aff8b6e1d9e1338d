"""A network written once and built with both libraries."""

from __future__ import annotations

from typing import Any

import torch

import eagerjit as ej


class Network:
    """The same user-written network for both libraries."""

    @staticmethod
    def build(library: Any) -> Any:
        nn = library.nn

        class Inner(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.scale = nn.Parameter(library.ones(3))
                self.register_buffer("count", library.zeros(1))
                self.register_buffer("scratch", library.zeros(2), persistent=False)
                self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
                self.table = nn.ModuleDict({"act": nn.Tanh()})
                self.extra = nn.ParameterList([nn.Parameter(library.zeros(3))])

            def forward(self, x: Any) -> Any:
                self.count += 1
                for layer in self.layers:
                    x = self.table["act"](layer(x)) * self.scale + self.extra[0]
                return x

        class Outer(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = Inner()
                self.shared = self.inner.layers[0]
                self.head = nn.Linear(3, 2, bias=False)

            def forward(self, x: Any) -> Any:
                return self.head(self.inner(x))

        return Outer()


def networks() -> tuple[Any, Any]:
    ours, theirs = Network.build(ej), Network.build(torch)
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})
    return ours, theirs

"""A function that is recorded again gives the same graph: what the disk has of the first one serves all."""

from __future__ import annotations

import eagerjit as torch


def _residual(x: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
    """Sums, whose gradients pass on what they get."""
    for weight in weights:
        x = x + (x + 1).tanh() * weight
    x.sum().backward()
    return x.detach()


def test_gradients_are_copied_only_where_something_else_holds_them() -> None:
    for _ in range(4):
        weights = [torch.ones(3, requires_grad=True) for _ in range(6)]
        graph = torch.jit(_residual).explain(torch.ones(3), weights).graph
        assert sum(node.op.name == "cast" for node in graph.nodes) <= 1

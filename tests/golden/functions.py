"""Small functions whose graphs and kernels are kept as text beside this file."""

from __future__ import annotations

from typing import Any

import eagerjit as torch

Function = torch.nn.functional


def chain(x: Any, w: Any, scale: float) -> Any:
    """An elementwise chain with a broadcast row and a run-time number: one kernel."""
    return (x * w + scale).tanh()


def probabilities(x: Any) -> Any:
    """Two reductions with their producers and the consumer: one kernel."""
    return (x * 0.5).softmax(-1)


def layer(x: Any, w: Any, b: Any) -> Any:
    """A matrix product, then one kernel for what follows it."""
    return Function.linear(x, w, b).relu()


def step(w: Any, x: Any, y: Any) -> Any:
    """A loss, its gradient, and a parameter written in place."""
    loss = ((x * w - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
        w.grad = None
    return loss.detach()


def lookup(table: Any, at: Any) -> Any:
    """Rows by number, with the check that each number is in range."""
    return Function.embedding(at, table).sum(-1)


def spectrum(z: Any, w: Any) -> Any:
    """Complex numbers: kernels read, compute and write their parts."""
    product = z * w.conj()
    return product, product.abs().sum(-1)


CALLS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "chain": (chain, (torch.ones(4, 6), torch.ones(6), 2.0)),
    "probabilities": (probabilities, (torch.ones(4, 6),)),
    "layer": (layer, (torch.ones(4, 6), torch.ones(3, 6), torch.ones(3))),
    "step": (step, (torch.ones(6, requires_grad=True), torch.ones(4, 6), torch.zeros(4, 6))),
    "lookup": (lookup, (torch.ones(5, 6), torch.tensor([0, 4, 2]))),
    "spectrum": (spectrum, (torch.ones(4, 6, dtype=torch.complex64), torch.ones(6, dtype=torch.complex64))),
}

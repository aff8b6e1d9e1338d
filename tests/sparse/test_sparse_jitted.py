"""Compiled functions that read sparse tensors: never on what once was, and eagerly where they make some."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import eagerjit as torch


class Holder:
    """An object with a matrix."""

    matrix: Any = None


def matrix(scale: float = 1.0) -> Any:
    return torch.eye(3).to_sparse() * scale


HOLDER = Holder()
MATRIX: Any = None
FUNCTIONS = {
    "global": lambda x: torch.sparse.mm(MATRIX, x),
    "attribute": lambda x: HOLDER.matrix @ x,
    "shape": lambda x: x * HOLDER.matrix.shape[0],
    "count": lambda x: x * MATRIX._nnz(),
    "values": lambda x: x + MATRIX.values().sum(),
    "raw values": lambda x: x + MATRIX._values().sum(),
    "requires_grad": lambda x: x * 2 if MATRIX.requires_grad else x,
    "argument": lambda x, graph: torch.sparse.mm(graph, x).relu(),
    "dense": lambda x: (x.t() @ MATRIX).t().sum() + (torch.ones(3, 3) + MATRIX),
    "to_dense": lambda x: MATRIX.to_dense() @ x,
    "returned": lambda x: (x * 2, MATRIX)[0],
    "scaled": lambda x: (MATRIX * 2) @ x,
    "written": lambda x: (MATRIX.mul_(2), x + 1)[1],
    "replaced": lambda x: (MATRIX.add_(torch.sparse_coo_tensor((3, 3))), x + 1)[1],
    "made inside": lambda x: torch.sparse_coo_tensor(torch.tensor([[0, 1], [0, 1]]), x[:2, 0], (3, 3)) @ x,
    "of a traced tensor": lambda x: x.to_sparse().coalesce().values(),
}


EAGER = ("made inside", "of a traced tensor", "scaled", "replaced")
"""Functions that make sparse tensors, or replace what one consists of."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_never_stale(name: str) -> None:
    global MATRIX
    MATRIX = HOLDER.matrix = matrix()
    x = torch.arange(6.0).reshape(3, 2)
    compiled = torch.jit(FUNCTIONS[name], fullgraph=name not in EAGER)
    changes = [
        lambda: None,
        lambda: MATRIX.mul_(3),
        lambda: MATRIX.add_(torch.ones(3, 3).to_sparse()),
        lambda: MATRIX._indices().fill_(1),
        lambda: MATRIX.requires_grad_(),
        lambda: (globals().update(MATRIX=matrix(5.0)), setattr(HOLDER, "matrix", matrix(7.0))),
    ]
    with warnings.catch_warnings(record=True) as said, torch.set_grad_enabled(name not in ("written", "replaced")):
        warnings.simplefilter("always")
        for change in changes:
            change()
            given = (x, MATRIX) if name == "argument" else (x,)
            before = MATRIX.detach().clone()
            found, left = compiled(*given), MATRIX.to_dense()
            if name in ("written", "replaced"):
                MATRIX = before
            assert torch.equal(found, FUNCTIONS[name](*given))
            assert torch.equal(left, MATRIX.to_dense())
    assert sum("sparse" in str(w.message) for w in said) == (name in EAGER)


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_training_steps(layout: str, learned: bool) -> None:
    rng = torch.Generator().manual_seed(0)
    dense = (torch.rand(30, 30, generator=rng) < 0.2) * torch.rand(30, 30, generator=rng)
    graph = dense.to_sparse() if layout == "coo" else dense.to_sparse_csr()
    x, target = torch.randn(30, 6, generator=rng), torch.randn(30, 3, generator=rng)

    def trained(how: Any) -> Any:
        torch.manual_seed(0)
        network = torch.nn.ModuleList([torch.nn.Linear(6, 8), torch.nn.Linear(8, 3)])
        weights = graph.detach().clone().requires_grad_(learned)
        optimizer = torch.optim.Adam(network.parameters(), lr=0.1)

        def step(graph: Any) -> Any:
            optimizer.zero_grad()
            hidden = torch.sparse.mm(graph, network[0](x)).relu()
            loss = (torch.sparse.mm(weights, network[1](hidden)) - target).pow(2).mean()
            loss.backward()
            optimizer.step()
            return loss

        step = how(step)
        losses = [step(graph) for _ in range(4)]
        return [*losses, *network.parameters(), *([weights.grad.to_dense()] if learned else [])]

    plain, compiled = trained(lambda f: f), trained(lambda f: torch.jit(f, fullgraph=True))
    assert all(torch.equal(a, b) for a, b in zip(plain, compiled, strict=True))


def test_modules() -> None:
    linear = torch.nn.Linear(2, 2)
    module = torch.nn.Module()
    module.register_buffer("graph", matrix(2.0))
    module.forward = lambda x: torch.sparse.mm(module.graph, linear(x)).relu()
    x = torch.arange(6.0).reshape(3, 2)
    compiled = torch.jit(module, fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled(x), module(x))
        module.graph = matrix(3.0)

"""Compiled functions that meet sparse tensors: they run eagerly after one warning, and never on what once was."""

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
    "made inside": lambda x: torch.sparse_coo_tensor(torch.tensor([[0, 1], [0, 1]]), x[:2, 0], (3, 3)) @ x,
    "of a traced tensor": lambda x: x.to_sparse().coalesce().values(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_never_stale(name: str) -> None:
    global MATRIX
    MATRIX = HOLDER.matrix = matrix()
    x = torch.arange(6.0).reshape(3, 2)
    compiled = torch.jit(FUNCTIONS[name])
    changes = [
        lambda: None,
        lambda: MATRIX.mul_(3),
        lambda: MATRIX.add_(torch.ones(3, 3).to_sparse()),
        lambda: MATRIX._indices().fill_(1),
        lambda: MATRIX.requires_grad_(),
        lambda: (globals().update(MATRIX=matrix(5.0)), setattr(HOLDER, "matrix", matrix(7.0))),
    ]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for change in changes:
            change()
            assert torch.equal(compiled(x), FUNCTIONS[name](x))
    assert sum("sparse" in str(w.message) for w in said) == 1


def test_arguments_and_modules() -> None:
    linear = torch.nn.Linear(2, 2)

    def layer(graph: Any, x: Any) -> Any:
        return torch.sparse.mm(graph, linear(x)).relu()

    x = torch.arange(6.0).reshape(3, 2)
    with pytest.warns(UserWarning, match="sparse"):
        found = torch.jit(layer)(matrix(2.0), x)
    assert torch.equal(found, layer(matrix(2.0), x))
    module = torch.nn.Module()
    module.register_buffer("graph", matrix(2.0))
    module.forward = lambda x: layer(module.graph, x)
    with pytest.warns(UserWarning, match="sparse"):
        found = torch.jit(module)(x)
    assert torch.equal(found, layer(matrix(2.0), x))

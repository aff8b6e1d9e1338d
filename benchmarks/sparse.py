"""Sparse matrices: products with dense ones, their gradients, a graph convolution's step, sparse embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.harness import Rows, seconds_per_call

TITLE = "Sparse matrices and gradients"
UNIT = "s"
PEERS = ("eagerjit", "eagerjit eager", "torch")
ROUNDS = 3
PHASES = ("calls",)

GRAPHS = ((2708, 10556), (20000, 200000), (70000, 1600000))  # nodes, edges
WIDTHS = (1, 16, 64)
TABLE = (100000, 64)  # rows of an embedding and their width
BATCH = 1024


def measure(peer: str, phase: str) -> Rows:
    import numpy as np

    rows = Rows()
    torch, compiled = library(peer)

    def add(key: str, step: Callable[[], Any], values: Callable[[], Any]) -> None:
        step()
        rows.check[key] = [float(v.detach().double().sum()) for v in values()]
        rows.numbers[key] = seconds_per_call(step)

    def products(nodes: int, edges: int, layout: str) -> None:
        matrix = graph(np, torch, nodes, edges)
        matrix = matrix.to_sparse_csr() if layout == "csr" else matrix
        for width in WIDTHS:
            x = torch.tensor(np.random.default_rng(1).random((nodes, width)).astype(np.float32))
            product = compiled(lambda x, matrix=matrix: torch.sparse.mm(matrix, x))
            add(row("product", layout, nodes, width), lambda f=product, x=x: f(x), lambda f=product, x=x: [f(x)])
            leaf = x.clone().requires_grad_()

            def both(f: Any = product, leaf: Any = leaf) -> None:
                leaf.grad = None
                f(leaf).sum().backward()

            add(row("with its gradient", layout, nodes, width), both, lambda leaf=leaf: [leaf.grad])

    for nodes, edges in GRAPHS:
        for layout in ("coo", "csr"):
            products(nodes, edges, layout)
    add("graph convolution's step, 2708 nodes, 1433 features", *convolution(np, torch, compiled))
    for optimizer in ("SGD", "SparseAdam"):
        add(f"sparse embedding's step, {BATCH} of {TABLE[0]} rows, {optimizer}", *embedding(np, torch, optimizer))
    return rows


def row(what: str, layout: str, nodes: int, width: int) -> str:
    return f"{what}, {layout}, {nodes} nodes, {width} wide"


def library(peer: str) -> tuple[Any, Callable[[Any], Any]]:
    """The library and what compiles in it: nothing, but for eagerjit's compiled run."""
    if peer == "torch":
        import torch

        return torch, lambda function: function
    import eagerjit as torch

    return torch, torch.jit if peer == "eagerjit" else lambda function: function


def graph(np: Any, torch: Any, nodes: int, edges: int) -> Any:
    """A random graph, every weight of which is that of a mean."""
    found = np.unique(np.random.default_rng(0).integers(0, nodes, size=(edges, 2)), axis=0).T
    weights = np.full(found.shape[1], nodes / edges, np.float32)
    return torch.sparse_coo_tensor(torch.tensor(found), torch.tensor(weights), (nodes, nodes)).coalesce()


def convolution(np: Any, torch: Any, compiled: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A step of a graph convolution of two layers on a graph of the size of Cora."""
    nodes, features, classes = 2708, 1433, 7
    matrix = graph(np, torch, nodes, 13264)
    rng = np.random.default_rng(2)
    x = torch.tensor((rng.random((nodes, features)) < 0.01).astype(np.float32))
    labels = torch.tensor(rng.integers(0, classes, nodes))
    layers = torch.nn.ModuleList([torch.nn.Linear(features, 16), torch.nn.Linear(16, classes)])
    with torch.no_grad():
        for p in layers.parameters():
            p.copy_((torch.arange(float(p.numel())).reshape(p.shape) * 0.37).sin() / 10)
    optimizer = torch.optim.Adam(layers.parameters(), lr=0.0)

    @compiled
    def step() -> Any:
        optimizer.zero_grad()
        hidden = torch.sparse.mm(matrix, layers[0](x)).relu()
        loss = torch.nn.functional.cross_entropy(torch.sparse.mm(matrix, layers[1](hidden)), labels)
        loss.backward()
        optimizer.step()
        return loss

    return step, lambda: [step()]


def embedding(np: Any, torch: Any, optimizer: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A step of a table of which few rows are read."""
    table = torch.nn.Embedding(*TABLE, sparse=True)
    with torch.no_grad():
        table.weight.fill_(0.5)
    numbers = torch.tensor(np.random.default_rng(3).integers(0, TABLE[0], BATCH))
    found = getattr(torch.optim, optimizer)(table.parameters(), lr=1e-6)

    def step() -> Any:
        found.zero_grad()
        table(numbers).pow(2).sum().backward()
        found.step()

    return step, lambda: [table.weight[:10]]

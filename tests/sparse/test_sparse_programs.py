"""Programs with sparse tensors, number by number: graph convolutions, recommenders, factorisations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as scipy
import torch

import eagerjit


def graph(nodes: int, edges: int, seed: int = 0) -> Any:
    """A symmetric adjacency matrix with loops, each row divided by its sum, as SciPy has it."""
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(0, nodes, size=(2, edges))
    found = scipy.coo_matrix((np.ones(edges, np.float32), (rows, columns)), (nodes, nodes))
    found = found + found.T + scipy.eye(nodes, dtype=np.float32)
    found.data[:] = 1
    return (scipy.diags(1 / np.asarray(found.sum(1)).ravel()) @ found).tocoo().astype(np.float32)


def from_scipy(t: Any, matrix: Any) -> Any:
    """The conversion that graph convolutions come with."""
    indices = t.from_numpy(np.vstack((matrix.row, matrix.col)).astype(np.int64))
    return t.sparse.FloatTensor(indices, t.from_numpy(matrix.data), t.Size(matrix.shape))


def filled(t: Any, *shape: int, seed: int) -> Any:
    return t.tensor(np.random.default_rng(seed).normal(size=shape).astype(np.float32) * 0.3)


def graph_convolution(t: Any, layout: str) -> list[float]:
    """Two layers, dropped out by a mask that is given, trained by Adam."""
    adjacency = from_scipy(t, graph(60, 200))
    adjacency = adjacency.coalesce() if layout == "coo" else adjacency.to_sparse_csr()

    class Layer(t.nn.Module):
        def __init__(self, inputs: int, outputs: int, seed: int):
            super().__init__()
            self.weight = t.nn.Parameter(filled(t, inputs, outputs, seed=seed))
            self.bias = t.nn.Parameter(t.zeros(outputs))

        def forward(self, x: Any, adj: Any) -> Any:
            return t.spmm(adj, t.mm(x, self.weight)) + self.bias

    class Network(t.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Layer(12, 8, 1), Layer(8, 4, 2)

        def forward(self, x: Any, adj: Any) -> Any:
            hidden = t.nn.functional.relu(self.first(x, adj)) * mask
            return t.nn.functional.log_softmax(self.second(hidden, adj), dim=1)

    mask = t.tensor((np.random.default_rng(5).random((60, 8)) < 0.5).astype(np.float32) * 2)
    x, labels = filled(t, 60, 12, seed=3), t.tensor(np.random.default_rng(4).integers(0, 4, 60))
    network = Network()
    optimizer = t.optim.Adam(network.parameters(), lr=0.01, weight_decay=5e-4)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = t.nn.functional.nll_loss(network(x, adjacency)[:40], labels[:40])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def light_graph_convolution(t: Any, layout: str) -> list[float]:
    """Users and items smoothed over a bipartite graph, trained on triples by the ranking loss."""
    users, items = 20, 30
    rng = np.random.default_rng(0)
    known = np.unique(rng.integers(0, (users, items), size=(150, 2)), axis=0)
    pairs = t.tensor(known)
    rows, columns = pairs[:, 0], pairs[:, 1] + users
    indices = t.stack([t.cat([rows, columns]), t.cat([columns, rows])])
    adjacency = t.sparse_coo_tensor(indices, t.ones(indices.shape[1]), (users + items, users + items)).coalesce()
    degrees = t.sparse.sum(adjacency, dim=1).to_dense().clamp(min=1)
    scale = degrees.pow(-0.5)
    at = adjacency.indices()
    adjacency = t.sparse_coo_tensor(at, adjacency.values() * scale[at[0]] * scale[at[1]], adjacency.size())
    adjacency = adjacency.coalesce() if layout == "coo" else adjacency.to_sparse_csr()
    table = t.nn.Embedding(users + items, 6)
    with t.no_grad():
        table.weight.copy_(filled(t, users + items, 6, seed=1))
    optimizer = t.optim.Adam(table.parameters(), lr=0.05)
    losses = []
    for step in range(8):
        chosen = t.tensor(np.random.default_rng(step).integers(0, len(known), 32))
        wrong = t.tensor(np.random.default_rng(100 + step).integers(0, items, 32)) + users
        layers = [table.weight]
        for _ in range(3):
            layers.append(t.sparse.mm(adjacency, layers[-1]))
        smooth = t.stack(layers, dim=1).mean(dim=1)
        user, right, other = smooth[pairs[chosen, 0]], smooth[pairs[chosen, 1] + users], smooth[wrong]
        gap = (user * right).sum(1) - (user * other).sum(1)
        loss = t.nn.functional.softplus(-gap).mean() + 1e-4 * table.weight[pairs[chosen, 0]].pow(2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def factorisation(t: Any, optimizer: str) -> list[float]:
    """Ratings as products of rows of two tables, whose gradients are sparse."""
    tables = [t.nn.Embedding(n, 5, sparse=True) for n in (30, 40)]
    biases = [t.nn.Embedding(n, 1, sparse=True) for n in (30, 40)]
    with t.no_grad():
        for seed, table in enumerate((*tables, *biases)):
            table.weight.copy_(filled(t, *table.weight.shape, seed=seed))
    parameters = [table.weight for table in (*tables, *biases)]
    options = {"SparseAdam": {"lr": 0.05}, "SGD": {"lr": 0.5}, "Adagrad": {"lr": 0.1}}[optimizer]
    found = getattr(t.optim, optimizer)(parameters, **options)
    losses = []
    for step in range(10):
        rng = np.random.default_rng(step)
        numbers = [t.tensor(rng.integers(0, n, 16)) for n in (30, 40)]
        ratings = t.tensor(rng.integers(1, 6, 16).astype(np.float32))
        rows = [table(n) for table, n in zip(tables, numbers, strict=True)]
        shift = sum(bias(n).squeeze(1) for bias, n in zip(biases, numbers, strict=True))
        loss = t.nn.functional.mse_loss((rows[0] * rows[1]).sum(1) + shift, ratings)
        found.zero_grad()
        loss.backward()
        found.step()
        losses.append(loss.item())
    return [*losses, *(p.detach().sum().item() for p in parameters)]


def learned_edges(t: Any, layout: str) -> list[float]:
    """A graph's weights are parameters, softmaxed row by row."""
    matrix = graph(15, 40)
    indices = t.from_numpy(np.vstack((matrix.row, matrix.col)).astype(np.int64))
    weights = t.nn.Parameter(filled(t, matrix.nnz, seed=0))
    x, target = filled(t, 15, 4, seed=1), filled(t, 15, 4, seed=2)
    optimizer = t.optim.SGD([weights], lr=1.0)
    losses = []
    for _ in range(5):
        attention = t.sparse.softmax(t.sparse_coo_tensor(indices, weights, (15, 15)), dim=1)
        loss = (t.sparse.mm(attention, x) - target).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


PROGRAMS = [
    (graph_convolution, "coo"), (graph_convolution, "csr"), (light_graph_convolution, "coo"),
    (light_graph_convolution, "csr"), (factorisation, "SparseAdam"), (factorisation, "SGD"), (factorisation, "Adagrad"),
    (learned_edges, "coo"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "how"), PROGRAMS, ids=lambda p: getattr(p, "__name__", p))
def test_program(program: Any, how: str) -> None:
    assert program(eagerjit, how) == pytest.approx(program(torch, how), rel=2e-4)


def test_laplacian_and_scipy() -> None:
    matrix = graph(20, 50)
    adjacency = from_scipy(eagerjit, matrix).coalesce()
    degrees = eagerjit.sparse.sum(adjacency, 1).to_dense()
    ahead = eagerjit.sparse.spdiags(degrees, eagerjit.tensor([0]), (20, 20)) - adjacency
    expected = scipy.diags(np.asarray(matrix.sum(1)).ravel()) - matrix
    np.testing.assert_allclose(ahead.to_dense().numpy(), expected.toarray(), atol=1e-6)
    csr = ahead.to_sparse_csr()
    parts = (csr.values().numpy(), csr.col_indices().numpy(), csr.crow_indices().numpy())
    back = scipy.csr_matrix(parts, (20, 20))
    np.testing.assert_allclose((back @ back).toarray(), (csr @ csr).to_dense().numpy(), atol=1e-5)


def test_ranges_are_one_version_where_classes_are_asked() -> None:
    """A sparse tensor in the process lets all functions ask the classes of what they are given."""
    assert eagerjit.eye(2).to_sparse().is_sparse
    values = eagerjit.arange(20.0)

    @eagerjit.jit(fullgraph=True)
    def ranges(values: Any, n: int) -> Any:
        made = eagerjit.as_tensor(range(n)) + eagerjit.tensor(range(1, n + 1))
        return values[range(n)] + values[list(range(n))] + made

    for n in range(2, 12):
        expected = [4.0 * i + 1 for i in range(n)]
        assert ranges(values, n).tolist() == expected
    assert ranges.cache_info().compiles == 1

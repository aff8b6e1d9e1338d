"""torch_geometric: layers on a random graph, a batch of graphs, and nodes of two kinds."""

import torch
from common import filled, numbers, train
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as graphs
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

nodes, labels, edges = numbers(20, 6), numbers(20, below=3), numbers(2, 60, below=20)
LAYERS = {
    "GCN": graphs.GCNConv, "GAT": graphs.GATConv, "GATv2": graphs.GATv2Conv, "SAGE": graphs.SAGEConv,
    "transformer": graphs.TransformerConv, "GIN": lambda i, o: graphs.GINConv(nn.Linear(i, o)),
    "Chebyshev": lambda i, o: graphs.ChebConv(i, o, 2), "ARMA": graphs.ARMAConv,
}  # fmt: skip


class Network(nn.Module):
    """Two layers of a kind."""

    def __init__(self, layer):
        super().__init__()
        self.first, self.second = layer(6, 8), layer(8, 3)

    def forward(self, x, edges):
        return self.second(self.first(x, edges).relu(), edges)


for name, layer in LAYERS.items():
    model = filled(Network(layer))
    train(name, model, lambda model=model: F.cross_entropy(model(nodes, edges), labels))

several = [
    Data(x=numbers(5 + i, 6, seed=i), edge_index=numbers(2, 10, below=5, seed=i), y=torch.tensor([i % 2]))
    for i in range(6)
]
layer, last = filled(graphs.GraphConv(6, 8)), filled(nn.Linear(8, 2))
for batch in DataLoader(several, batch_size=3):
    hidden = layer(batch.x, batch.edge_index).relu()
    for pool in (graphs.global_mean_pool, graphs.global_max_pool, graphs.global_add_pool):
        print(pool.__name__, F.cross_entropy(last(pool(hidden, batch.batch)), batch.y).item())

of_two_kinds = filled(graphs.HeteroConv({("author", "writes", "paper"): graphs.SAGEConv((6, 6), 4)}))
written = torch.stack([numbers(9, below=20), numbers(9, below=7)])
papers = of_two_kinds({"author": nodes, "paper": numbers(7, 6)}, {("author", "writes", "paper"): written})["paper"]
print("papers", *papers.flatten().tolist())

"""Differential equations, metrics, sparse softmaxes, optimizers and transformers of other packages."""

import torch
import torch_optimizer
import torchmetrics
from common import filled, numbers, train
from entmax import entmax15, sparsemax
from torch import nn
from torchdiffeq import odeint, odeint_adjoint
from x_transformers import Decoder, TransformerWrapper


class Flow(nn.Module):
    """The right side of an ordinary differential equation."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))

    def forward(self, t, y):
        return self.layers(y**3)


flow, start, times = filled(Flow()), numbers(4, 2), torch.linspace(0.0, 1.0, 5)
for method in ("dopri5", "rk4"):
    train(f"odeint {method}", flow, lambda method=method: odeint(flow, start, times, method=method).square().mean())
train("odeint_adjoint", flow, lambda: odeint_adjoint(flow, start, times).square().mean())

chances, classes = numbers(20, 5).softmax(-1), numbers(20, below=5)
for metric in (torchmetrics.Accuracy, torchmetrics.F1Score, torchmetrics.AUROC):
    measured = metric(task="multiclass", num_classes=5)
    measured.update(chances, classes)
    print(metric.__name__, measured.compute().item())

x = numbers(4, 6).requires_grad_()
for function in (sparsemax, entmax15):
    (gradient,) = torch.autograd.grad(function(x, dim=1).square().sum(), x)
    print(function.__name__, *gradient.flatten().tolist())

for name in ("Lamb", "DiffGrad", "Yogi", "Ranger", "Shampoo", "NovoGrad"):
    model, batch = filled(nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1))), numbers(8, 5)
    chosen = getattr(torch_optimizer, name)(model.parameters(), lr=1e-2)
    train(name, model, lambda model=model, batch=batch: model(batch).square().mean(), chosen)

layers = Decoder(dim=32, depth=2, heads=4, rotary_pos_emb=True, ff_glu=True)
model, tokens = filled(TransformerWrapper(num_tokens=50, max_seq_len=32, attn_layers=layers)), numbers(2, 16, below=50)
train("x-transformers", model, lambda: nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()))

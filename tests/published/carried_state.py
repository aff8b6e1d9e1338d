"""Programs that carry what they have computed from step to step: states, parameters, averages."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from inputs import fx
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.nn.utils import clip_grad_norm_


class CharRNN(nn.Module):
    def __init__(self, n, hidden=16, layers=2):
        super().__init__()
        self.hidden, self.layers = hidden, layers
        self.encoder = nn.Embedding(n, hidden)
        self.rnn = nn.LSTM(hidden, hidden, layers, batch_first=True)
        self.decoder = nn.Linear(hidden, n)

    def forward(self, x, state):
        out, state = self.rnn(self.encoder(x), state)
        return self.decoder(out.contiguous().view(-1, self.hidden)), state

    def init_hidden(self, batch):
        return (torch.zeros(self.layers, batch, self.hidden), torch.zeros(self.layers, batch, self.hidden))


def char_rnn():
    text = "the quick brown fox jumps over the lazy dog. " * 4
    index = {c: i for i, c in enumerate(sorted(set(text)))}
    data = torch.tensor([index[c] for c in text])
    batch, length = 4, 8
    data = data[: len(data) // batch * batch].view(batch, -1)
    model = CharRNN(len(index))
    opt = optim.Adam(model.parameters(), lr=5e-3)
    criterion = nn.CrossEntropyLoss()
    carried = {"hidden": model.init_hidden(batch)}

    def step(i):
        model.train()
        start = (i * length) % (data.size(1) - length - 1)
        x, y = data[:, start : start + length], data[:, start + 1 : start + length + 1]
        hidden = tuple(h.detach() for h in carried["hidden"])
        model.zero_grad()
        out, carried["hidden"] = model(x, hidden)
        loss = criterion(out, y.reshape(-1))
        loss.backward()
        clip_grad_norm_(model.parameters(), 0.5)
        opt.step()
        return loss.item()

    return [model], step


class Quantiles(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 12), nn.SiLU(), nn.Linear(12, 3))

    def forward(self, x):
        return self.net(x)


def quantile_ensemble():
    models = [Quantiles() for _ in range(3)]
    base = copy.deepcopy(models[0]).to("meta")
    x, y = fx(20, 3), fx(20, 1, seed=1)
    quantiles = torch.tensor([0.1, 0.5, 0.9])
    carried = {}

    def pinball(params, buffers, x, y):
        error = y - functional_call(base, (params, buffers), (x,))
        return torch.maximum(quantiles * error, (quantiles - 1) * error).mean()

    def update():
        params, buffers = carried["params"], carried["buffers"]
        losses = vmap(pinball, in_dims=(0, 0, None, None))(params, buffers, x, y)
        grads = vmap(grad(pinball), in_dims=(0, 0, None, None))(params, buffers, x, y)
        carried["params"] = {k: params[k] - 0.05 * g for k, g in grads.items()}
        return losses.sum().item()

    def step(i):
        if "params" not in carried:
            params, carried["buffers"] = stack_module_state(models)
            carried["params"] = {k: v.detach() for k, v in params.items()}
        return update()

    return models, step


class Codebook(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.register_buffer("embedding", fx(n, d, seed=9))
        self.register_buffer("count", torch.zeros(n))
        self.register_buffer("average", self.embedding.clone())

    def forward(self, z):
        e = self.embedding
        distance = z.pow(2).sum(1, keepdim=True) - 2 * z @ e.t() + e.pow(2).sum(1)
        nearest = distance.argmin(1)
        hot = F.one_hot(nearest, e.shape[0]).type(z.dtype)
        q = F.embedding(nearest, e)
        if self.training:
            with torch.no_grad():
                self.count.mul_(0.9).add_(hot.sum(0), alpha=0.1)
                self.average.mul_(0.9).add_(hot.t() @ z, alpha=0.1)
                n = self.count.sum()
                size = (self.count + 1e-5) / (n + e.shape[0] * 1e-5) * n
                self.embedding.copy_(self.average / size.unsqueeze(1))
        share = hot.mean(0)
        perplexity = torch.exp(-torch.sum(share * torch.log(share + 1e-10)))
        return z + (q - z).detach(), F.mse_loss(z, q.detach()), perplexity


class RoundedSteps(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return torch.clamp(torch.round(x / scale), -8, 7) * scale

    @staticmethod
    def backward(ctx, g):
        x, scale = ctx.saved_tensors
        q = x / scale
        inside = (q >= -8) & (q <= 7)
        along = torch.where(inside, torch.round(q) - q, torch.clamp(q, -8, 7))
        return g * inside, (g * along).sum().reshape(1)


def vqvae():
    encoder, decoder = nn.Conv1d(1, 8, 4, 2, 1), nn.ConvTranspose1d(8, 1, 4, 2, 1)
    codebook = Codebook(16, 8)
    scale = nn.ParameterList([nn.Parameter(torch.tensor([0.1]))])
    opt = optim.Adamax([*encoder.parameters(), *decoder.parameters(), *scale.parameters()], lr=5e-3)
    x = fx(8, 1, 16)

    def step(i):
        z = encoder(RoundedSteps.apply(x, scale[0]))
        q, commitment, perplexity = codebook(z.permute(0, 2, 1).reshape(-1, 8))
        out = decoder(q.view(8, -1, 8).permute(0, 2, 1))
        loss = F.mse_loss(out, x) + 0.25 * commitment
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.item() + perplexity.item()

    return [encoder, decoder, codebook, scale], step

"""Models of sequences: attention through a window with rotated positions, and tags that a random field scores."""

import functools
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from inputs import fx, ints
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def precompute_freqs_cis(dim, end, theta=10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: dim // 2].float() / dim))
    return torch.polar(torch.ones(end, dim // 2), torch.outer(torch.arange(end).float(), freqs))


def apply_rotary_emb(x, freqs_cis):
    x_ = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(x_ * freqs_cis[None, : x.size(1), None]).flatten(3).type_as(x)


@functools.lru_cache(maxsize=8)
def window_mask(n, window):
    positions = torch.arange(n)
    distance = positions[:, None] - positions[None]
    return (distance >= 0) & (distance < window)


class WindowAttention(nn.Module):
    def __init__(self, dim=16, heads=4, kv_heads=2):
        super().__init__()
        self.heads, self.kv_heads, self.repeats = heads, kv_heads, heads // kv_heads
        self.norm = nn.RMSNorm(dim)
        self.q, self.o = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(dim, 2 * dim // self.repeats, bias=False)
        self.register_buffer("freqs_cis", precompute_freqs_cis(dim // heads, 32), persistent=False)

    def forward(self, x):
        B, T, _ = x.shape
        y = self.norm(x)
        q = self.q(y).view(B, T, self.heads, -1)
        k, v = (t.view(B, T, self.kv_heads, -1) for t in self.kv(y).chunk(2, -1))
        q, k = apply_rotary_emb(q, self.freqs_cis), apply_rotary_emb(k, self.freqs_cis)
        k, v = (t.repeat_interleave(self.repeats, 2) for t in (k, v))
        a = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), attn_mask=window_mask(T, 4))
        return x + self.o(a.transpose(1, 2).reshape(B, T, -1))


def windowed_decoder():
    model = nn.Sequential(nn.Embedding(30, 16), WindowAttention(), WindowAttention(), nn.Linear(16, 30))
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95))

    def get_lr(it, warmup=2, most=3e-3, least=3e-4):
        if it < warmup:
            return most * (it + 1) / warmup
        return least + 0.5 * (1 + math.cos(math.pi * (it - warmup) / 5)) * (most - least)

    def step(i):
        for group in optimizer.param_groups:
            group["lr"] = get_lr(i)
        tokens = ints(30, 2, 10 + i % 2, seed=i)
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, logits.size(-1)), tokens[:, 1:].reshape(-1), ignore_index=-1)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return [model], step


class CRF(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.trans, self.start = nn.Parameter(torch.randn(n, n) * 0.1), nn.Parameter(torch.zeros(n))

    def forward(self, emissions, tags, mask):
        batch = torch.arange(emissions.size(0))
        alpha = self.start + emissions[:, 0]
        score = self.start[tags[:, 0]] + emissions[:, 0].gather(1, tags[:, :1]).squeeze(1)
        for t in range(1, emissions.size(1)):
            following = torch.logsumexp(alpha[:, :, None] + self.trans + emissions[:, t, None], 1)
            alpha = torch.where(mask[:, t, None], following, alpha)
            score = score + (self.trans[tags[:, t - 1], tags[:, t]] + emissions[batch, t, tags[:, t]]) * mask[:, t]
        return (alpha.logsumexp(1) - score).mean()

    @torch.no_grad()
    def decode(self, emissions, mask):
        score, history = self.start + emissions[:, 0], []
        for t in range(1, emissions.size(1)):
            best, index = (score[:, :, None] + self.trans + emissions[:, t, None]).max(1)
            score = torch.where(mask[:, t, None], best, score)
            history.append(index)
        paths = []
        for b in range(emissions.size(0)):
            path = [score[b].argmax().item()]
            for index in reversed(history[: int(mask[b].sum()) - 1]):
                path.append(index[b][path[-1]].item())
            paths.append(path[::-1])
        return paths


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(30, 8, padding_idx=0)
        self.lstm = nn.LSTM(8, 8, bidirectional=True, batch_first=True)
        self.fc, self.crf = nn.Linear(16, 5), CRF(5)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.embedding(x), lengths, batch_first=True, enforce_sorted=False)
        return self.fc(pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.size(1))[0])


def crf_tagger():
    model = Tagger()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    x, tags, lengths = ints(29, 3, 6) + 1, ints(5, 3, 6, seed=1), torch.tensor([6, 4, 2])
    mask = torch.arange(6)[None] < lengths[:, None]
    shift = fx(3, 6, 5, seed=2) * 0.1

    def step(i):
        optimizer.zero_grad()
        emissions = model(x, lengths) + shift * i
        loss = model.crf(emissions, tags, mask)
        loss.backward()
        optimizer.step()
        paths = model.crf.decode(emissions.detach(), mask)
        return loss.item() + sum(map(sum, paths))

    return [model], step

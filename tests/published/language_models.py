"""A decoder as libraries of models have them: results that are dictionaries, caches that grow, adapters."""

import math
from collections import OrderedDict

import torch
import torch.nn as nn
import torch.nn.functional as F
from inputs import ints


class ModelOutput(OrderedDict):
    def __getitem__(self, k):
        return dict(self.items())[k] if isinstance(k, str) else self.to_tuple()[k]

    def __setattr__(self, name, value):
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def to_tuple(self):
        return tuple(self[k] for k in self.keys())


class DynamicCache:
    def __init__(self):
        self.key_cache, self.value_cache = [], []

    def get_seq_length(self):
        return self.key_cache[0].shape[-2] if self.key_cache else 0

    def update(self, key, value, layer):
        if len(self.key_cache) <= layer:
            self.key_cache.append(key)
            self.value_cache.append(value)
        else:
            self.key_cache[layer] = torch.cat([self.key_cache[layer], key], dim=-2)
            self.value_cache[layer] = torch.cat([self.value_cache[layer], value], dim=-2)
        return self.key_cache[layer], self.value_cache[layer]


class RMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        input_dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        return self.weight * (hidden_states * torch.rsqrt(variance + self.variance_epsilon)).to(input_dtype)


def rotate_half(x):
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


class Attention(nn.Module):
    def __init__(self, dim, heads, groups, layer):
        super().__init__()
        self.heads, self.groups, self.head_dim, self.layer = heads, groups, dim // heads, layer
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, groups * self.head_dim, bias=False)
        self.v_proj = nn.Linear(dim, groups * self.head_dim, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)
        inv_freq = 1.0 / (10000.0 ** (torch.arange(0, self.head_dim, 2).float() / self.head_dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def forward(self, x, positions, mask, cache=None):
        b, n, _ = x.size()
        q, k, v = (p(x).view(b, n, -1, self.head_dim).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        angles = positions[:, :, None].float() * self.inv_freq[None, None, :]
        emb = torch.cat((angles, angles), dim=-1).unsqueeze(1)
        cos, sin = emb.cos(), emb.sin()
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        if cache is not None:
            k, v = cache.update(k, v, self.layer)
        k, v = (t.repeat_interleave(self.heads // self.groups, dim=1) for t in (k, v))
        weights = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.head_dim) + mask
        weights = F.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)
        return self.o_proj(torch.matmul(weights, v).transpose(1, 2).reshape(b, n, -1))


class Layer(nn.Module):
    def __init__(self, dim, index):
        super().__init__()
        self.norm1, self.norm2, self.attention = RMSNorm(dim), RMSNorm(dim), Attention(dim, 4, 2, index)
        self.gate, self.up, self.down = nn.Linear(dim, 24), nn.Linear(dim, 24), nn.Linear(24, dim)

    def forward(self, x, **kwargs):
        x = x + self.attention(self.norm1(x), **kwargs)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class CausalLM(nn.Module):
    def __init__(self, vocabulary=24, dim=16, layers=2):
        super().__init__()
        self.vocabulary = vocabulary
        self.embed_tokens = nn.Embedding(vocabulary, dim, padding_idx=0)
        self.layers = nn.ModuleList([Layer(dim, i) for i in range(layers)])
        self.norm, self.lm_head = RMSNorm(dim), nn.Linear(dim, vocabulary, bias=False)
        self.lm_head.weight = self.embed_tokens.weight

    def forward(self, input_ids, attention_mask, labels=None, past_key_values=None):
        n = input_ids.shape[1]
        past = past_key_values.get_seq_length() if past_key_values is not None else 0
        positions = (attention_mask.cumsum(-1) - 1).masked_fill(attention_mask == 0, 1)[:, -n:]
        mask = torch.full((n, past + n), torch.finfo(torch.float32).min).triu(diagonal=past + 1)[None, None]
        mask = mask.masked_fill(attention_mask[:, None, None, :] == 0, torch.finfo(torch.float32).min)
        x = self.embed_tokens(input_ids)
        for layer in self.layers:
            x = layer(x, positions=positions, mask=mask, cache=past_key_values)
        out = ModelOutput()
        out["logits"] = self.lm_head(self.norm(x)).float()
        if labels is not None:
            shifted = out.logits[..., :-1, :].contiguous().view(-1, self.vocabulary)
            out["loss"] = nn.CrossEntropyLoss()(shifted, labels[..., 1:].contiguous().view(-1))
        out["past_key_values"] = past_key_values
        return out


class RepetitionPenalty:
    def __init__(self, penalty):
        self.penalty = penalty

    def __call__(self, input_ids, scores):
        score = torch.gather(scores, 1, input_ids)
        score = torch.where(score < 0, score * self.penalty, score / self.penalty)
        return scores.scatter(1, input_ids, score)


class TopP:
    def __init__(self, top_p):
        self.top_p = top_p

    def __call__(self, input_ids, scores):
        ordered, indices = torch.sort(scores, descending=False)
        remove = ordered.softmax(dim=-1).cumsum(dim=-1) <= (1 - self.top_p)
        remove[..., -1:] = 0
        return scores.masked_fill(remove.scatter(1, indices, remove), -float("inf"))


class LogitsProcessorList(list):
    def __call__(self, input_ids, scores):
        for processor in self:
            scores = processor(input_ids, scores)
        return scores


@torch.no_grad()
def generate(model, input_ids, attention_mask, processors, max_new_tokens):
    cache, current = DynamicCache(), input_ids
    for _ in range(max_new_tokens):
        out = model(current, attention_mask, past_key_values=cache)
        current = processors(input_ids, out["logits"][:, -1, :]).argmax(-1, keepdim=True)
        input_ids = torch.cat([input_ids, current], dim=-1)
        attention_mask = torch.cat([attention_mask, attention_mask.new_ones((attention_mask.shape[0], 1))], dim=-1)
    return input_ids


class LoraLinear(nn.Module):
    def __init__(self, base_layer, r=2, lora_alpha=4, adapter_name="default"):
        super().__init__()
        self.base_layer, self.scaling, self.merged = base_layer, {adapter_name: lora_alpha / r}, False
        self.lora_A = nn.ModuleDict({adapter_name: nn.Linear(base_layer.in_features, r, bias=False)})
        self.lora_B = nn.ModuleDict({adapter_name: nn.Linear(r, base_layer.out_features, bias=False)})
        nn.init.zeros_(self.lora_B[adapter_name].weight)
        self.active_adapters = [adapter_name]

    def change(self, sign):
        for a in self.active_adapters:
            delta = (self.lora_B[a].weight @ self.lora_A[a].weight) * self.scaling[a]
            self.base_layer.weight.data += sign * delta
        self.merged = sign > 0

    def forward(self, x):
        result = self.base_layer(x)
        for a in self.active_adapters:
            if not self.merged:
                result = result + self.lora_B[a](self.lora_A[a](x)) * self.scaling[a]
        return result


def adapted_decoder():
    model = CausalLM()
    for p in model.parameters():
        p.requires_grad = False
    for key in [name for name, _ in model.named_modules() if name.endswith(("q_proj", "v_proj"))]:
        parent, _, name = key.rpartition(".")
        parent = model.get_submodule(parent)
        setattr(parent, name, LoraLinear(getattr(parent, name)))
    opt = torch.optim.AdamW(filter(lambda p: p.requires_grad, model.parameters()), lr=1e-2)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=2e-2, total_steps=20)
    processors = LogitsProcessorList([RepetitionPenalty(1.3), TopP(0.9)])
    ids, mask = ints(23, 3, 8) + 1, torch.ones(3, 8, dtype=torch.long)
    mask[1, :2], ids[1, :2] = 0, 0

    def step(i):
        loss = model(ids, mask, labels=ids.masked_fill(mask == 0, -100)).loss
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        adapters = [m for m in model.modules() if isinstance(m, LoraLinear)]
        with torch.no_grad():
            for adapter in adapters:
                adapter.change(1)
            written = generate(model, ids[:, :5], mask[:, :5], processors, 3)
            for adapter in adapters:
                adapter.change(-1)
        return loss.item() + written.sum().item()

    return [model], step

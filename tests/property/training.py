# ruff: noqa: E501
"""Random programs that train models, as people write them: with any of their functions jitted they do what they do plain.

A program has a model of random layers, a loss, an optimizer, what else a training loop has, and changes of all of that
between its steps. After every call all that can be seen is compared: parameters, gradients, buffers, states of
optimizers and schedules, losses, what hooks have noted, random states, errors.

    python -m tests.property.training --seed 0 --seconds 60
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import linecache
import os
import random
import re
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import eagerjit as torch
from eagerjit.jit import CacheInfo
from eagerjit.runtime import cpu
from tests.property.programs import hasty_machine
from tests.property.scripts import reduced
from tests.property.seen import Showing, parting

PRELUDE = '''\
import copy, io, pickle, random, types
import numpy
nn, F, optim, schedules, P = torch.nn, torch.nn.functional, torch.optim, torch.optim.lr_scheduler, torch.nn.utils.parametrizations
from eagerjit.optim import swa_utils
from eagerjit.utils.checkpoint import checkpoint, checkpoint_sequential
log = []
def made(k, n):
    return (((torch.arange(n * 4) * 7 + k * 3) % 11 - 4) / 4.0).reshape(n, 4)
def first(out):
    return out[0] if isinstance(out, tuple) else out
class Shaped(nn.Module):
    """A layer that takes rows in another shape."""
    def __init__(self, inner, *shape):
        super().__init__()
        self.inner, self.shape = inner, shape
    def forward(self, x):
        return first(self.inner(x.reshape(x.shape[0], *self.shape))).reshape(x.shape[0], -1)[:, :4]
class Tokens(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.table = nn.Embedding(7, 4, **options)
    def forward(self, x):
        return x + self.table((x.detach().float().nan_to_num(0, 0, 0).abs() * 3).long()[:, 0].clamp(max=90) % 7)
class Bag(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.bag = nn.EmbeddingBag(5, 4, mode=mode)
    def forward(self, x):
        return x + self.bag(torch.arange(2 * x.shape[0], device=x.device).reshape(-1, 2) % 5).to(x.dtype)
class Attention(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.attention = nn.MultiheadAttention(2, 1, batch_first=True, **options)
    def forward(self, x):
        x = x.reshape(-1, 2, 2)
        return self.attention(x, x, x)[0].flatten(1)
class Dotted(nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.qkv, self.causal = nn.Linear(2, 6), causal
    def forward(self, x):
        q, k, v = self.qkv(x.reshape(-1, 1, 2, 2)).chunk(3, -1)
        return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).flatten(1)
class Tracked(nn.Module):
    """Buffers and numbers of its own that change in training."""
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("count", torch.tensor(0))
        self.register_buffer("last", None, persistent=False)
        self.scale = nn.Parameter(torch.ones(4))
        self.calls = 0
    def forward(self, x):
        self.calls += 1
        if self.training and x.shape[0]:
            with torch.no_grad():
                self.mean.lerp_(x.mean(0).to(self.mean.dtype), 0.1)
                self.count += x.shape[0]
            self.last = x.detach()[:1]
        return (x - self.mean.to(x.dtype)) * self.scale
class Replaced(nn.Module):
    """A buffer that each call replaces."""
    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.ones(4))
    def forward(self, x):
        out = x * self.state
        if self.training:
            self.state = 0.5 * self.state + out.detach().mean() if len(x) else self.state.clone()
        return out
class Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.eye(4) * k) for k in (1.0, 0.5)])
        self.named = nn.ParameterDict({"bias": nn.Parameter(torch.zeros(4))})
    def forward(self, x):
        for weight in self.weights:
            x = x @ weight
        return x + self.named["bias"]
class Twice(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
    def forward(self, x):
        return self.inner(torch.tanh(self.inner(x)))
class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
    def forward(self, x):
        return x + self.inner(x)
class Dropped(Residual):
    """Stochastic depth, decided by Python's random numbers or by a tensor's."""
    def __init__(self, inner, how):
        super().__init__(inner)
        self.how = how
    def forward(self, x):
        if self.training and (random.random() if self.how else torch.rand(())) < 0.3:
            return x
        return super().forward(x)
class Kept(nn.Module):
    def __init__(self, inner, **options):
        super().__init__()
        self.inner, self.options = inner, options
    def forward(self, x):
        return checkpoint(self.inner, x, **self.options)
class Chosen(nn.Module):
    def __init__(self):
        super().__init__()
        self.ways = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Tanh()})
        self.way = "a"
    def forward(self, x):
        return self.ways[self.way](x)
class Noise(nn.Module):
    def forward(self, x):
        return x + 0.1 * torch.randn_like(x) if self.training else x
class Recurrent(nn.Module):
    """A hidden state that is carried from step to step."""
    def __init__(self):
        super().__init__()
        self.cell, self.hidden = nn.GRUCell(4, 4), None
    def forward(self, x):
        if self.hidden is None or self.hidden.shape != x.shape:
            self.hidden = torch.zeros_like(x)
        self.hidden = self.cell(x, self.hidden.detach().to(x.dtype))
        return self.hidden
class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.round()
    @staticmethod
    def backward(ctx, g):
        return g * (ctx.saved_tensors[0].abs() < 1)
class Quantized(nn.Module):
    def forward(self, x):
        return Straight.apply(x)
class Crossed(nn.Module):
    def __init__(self):
        super().__init__()
        self.both = nn.Bilinear(4, 4, 4)
    def forward(self, x):
        return self.both(x, torch.tanh(x))
class Decoder(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(2, 1, 4, batch_first=True, **options)
    def forward(self, x):
        x = x.reshape(-1, 2, 2)
        return self.layer(x, x.tanh(), tgt_is_causal=True, tgt_mask=nn.Transformer.generate_square_subsequent_mask(2).to(x.dtype)).flatten(1)
class Weighted(nn.Module):
    """Bags of rows that are weighted, of a table whose rows are kept short."""
    def __init__(self, **options):
        super().__init__()
        self.bag = nn.EmbeddingBag(5, 4, mode="sum", **options)
    def forward(self, x):
        places = torch.arange(2 * x.shape[0]).reshape(-1, 2) % 5
        return x + self.bag(places, per_sample_weights=x[:, :2].to(self.bag.weight.dtype)).to(x.dtype)
class Carried(nn.Module):
    """A recurrent layer whose states are carried from step to step, cut off from the step before or only now and then."""
    def __init__(self, kind, **options):
        super().__init__()
        self.layer, self.state, self.calls = getattr(nn, kind)(4, 4, **options), None, 0
    def forward(self, x):
        out, state = self.layer(x.unsqueeze(1), self.state)
        self.state = tuple(h.detach() for h in state) if isinstance(state, tuple) else state.detach()
        self.calls += 1
        return out.flatten(1)[:, :4]
class Written(nn.Module):
    """What a layer gives is overwritten, whole or in part."""
    def __init__(self, inner, how):
        super().__init__()
        self.inner, self.how = inner, how
    def forward(self, x):
        out = self.inner(x)
        if self.how == "scaled":
            out.mul_(0.5)
        elif self.how == "row":
            out[:1] = 0.25
        elif self.how == "column":
            out[:, 0].mul_(2).add_(x[:, 0].to(out.dtype))
        elif self.how == "halves":
            a, b = out[:, :2], out[:, 2:]
            a += b
        elif self.how == "masked":
            out.masked_fill_(out < 0, 0.1)
        elif self.how == "filled":
            kept = out * out
            out.zero_()
            out += kept.detach()
        return out
class Given(nn.Module):
    """A layer that overwrites what it is given."""
    def forward(self, x):
        x = x * 1
        y = x.sigmoid_()
        x[:, 1] += y[:, 0]
        return y
class Ensemble(nn.Module):
    def __init__(self):
        super().__init__()
        self.models = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
    def forward(self, x):
        values, buffers = torch.func.stack_module_state(list(self.models))
        if self.training:
            values = {name: torch.stack([dict(m.named_parameters())[name] for m in self.models]) for name in values}
        return torch.func.vmap(lambda v, b: torch.func.functional_call(self.models[0], (v, b), (x,)))(values, buffers).mean(0)
class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(x, low):
        return x.clamp(min=low), (x < low).sum()
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.low = inputs[1]
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
    @staticmethod
    def backward(ctx, g, _):
        x, = ctx.saved_tensors
        return (None if g is None else torch.where(x < ctx.low, 0.1 * g, g)), None
class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)
    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        return g.mul(2) if ctx.needs_input_grad[0] else None
class Custom(nn.Module):
    def __init__(self, dirty):
        super().__init__()
        self.dirty, self.low = dirty, None
    def forward(self, x):
        if self.dirty:
            return Doubled.apply(x + 0)
        out, self.low = Clipped.apply(x, -0.5)
        return out
class Raising(nn.Module):
    """A layer that now and then refuses its batch."""
    def __init__(self):
        super().__init__()
        self.calls = 0
    def forward(self, x):
        self.calls += 1
        if self.calls % 4 == 3:
            raise ValueError(f"call {self.calls} of {tuple(x.shape)}")
        return x + self.calls
class Norms(nn.Module):
    """Layers that are taken in turns."""
    def __init__(self):
        super().__init__()
        self.norms, self.turn = nn.ModuleList([nn.BatchNorm1d(4), nn.LayerNorm(4), nn.BatchNorm1d(4, momentum=0.5)]), 0
    def forward(self, x):
        self.turn = (self.turn + 1) % 3
        return self.norms[self.turn](x)
class Half(nn.Module):
    def forward(self, x):
        return x * 0.5
class Net(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(4, 4)
        self.kept = {}
    def forward(self, x):
        x = x.to(self.head.weight.dtype)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)
def row_major(g):
    """A gradient without the strides of what `autograd.grad` gives, in which compiled calls differ."""
    return g.clone(memory_format=torch.contiguous_format)
def noted(name):
    def hook(module, *values):
        log.append((name, module.training, len(values)))
    return hook
def hooked_gradient(name, factor):
    def hook(g):
        log.append((name, tuple(g.shape)))
        return g * factor
    return hook
'''
SIMPLE = (
    "nn.Linear(4, 4)|nn.Linear(4, 4, bias=False)|nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 4))|nn.ReLU()|nn.GELU()|nn.Tanh()|nn.SiLU(inplace=True)|nn.LeakyReLU(0.1)|nn.PReLU()|nn.PReLU(4)|nn.Softmax(-1)|nn.LayerNorm(4)|nn.LayerNorm(4, elementwise_affine=False)|nn.RMSNorm(4)|nn.GroupNorm(2, 4)|"
    "nn.BatchNorm1d(4)|nn.BatchNorm1d(4)|nn.BatchNorm1d(4, momentum=None)|nn.BatchNorm1d(4, track_running_stats=False)|nn.BatchNorm1d(4, affine=False)|nn.Dropout(0.3)|nn.Dropout(0.3)|nn.AlphaDropout(0.2)|Shaped(nn.Dropout1d(0.5), 2, 2)|"
    "Shaped(nn.Conv2d(1, 1, 3, padding=1), 1, 2, 2)|Shaped(nn.Conv2d(1, 2, 1, bias=False), 1, 2, 2)|Shaped(nn.Conv1d(2, 2, 3, padding=1), 2, 2)|Shaped(nn.ConvTranspose1d(2, 2, 2), 2, 2)|Shaped(nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU()), 1, 2, 2)|Shaped(nn.BatchNorm2d(1), 1, 2, 2)|Shaped(nn.InstanceNorm1d(2, affine=True, track_running_stats=True), 2, 2)|"
    "Shaped(nn.LSTM(2, 2, batch_first=True), 2, 2)|Shaped(nn.GRU(2, 2, 2, batch_first=True, dropout=0.2), 2, 2)|Shaped(nn.RNN(2, 2, batch_first=True), 2, 2)|Shaped(nn.LSTM(2, 1, bidirectional=True, batch_first=True), 2, 2)|Attention()|Attention(dropout=0.2)|Dotted(True)|Dotted(False)|Shaped(nn.TransformerEncoderLayer(2, 1, 4, batch_first=True), 2, 2)|Shaped(nn.TransformerEncoderLayer(2, 1, 4, 0.0, batch_first=True, norm_first=True), 2, 2)|"
    "Tokens()|Tokens(padding_idx=1)|Tokens(max_norm=1.0)|Tokens(sparse=True)|Bag('mean')|Bag('sum')|Tracked()|Tracked()|Replaced()|Listed()|Chosen()|Noise()|Recurrent()|Quantized()|nn.LazyLinear(4)|nn.LazyBatchNorm1d()|Shaped(nn.LazyConv1d(2, 1), 2, 2)|P.weight_norm(nn.Linear(4, 4))|P.spectral_norm(nn.Linear(4, 4))|P.orthogonal(nn.Linear(4, 4))|nn.utils.weight_norm(nn.Linear(4, 4))|nn.utils.spectral_norm(nn.Linear(4, 4))|"
    "Carried('LSTM')|Carried('GRU')|Carried('RNN', nonlinearity='relu')|Carried('LSTM', num_layers=2, dropout=0.2)|Carried('GRU', bidirectional=True)|Crossed()|Decoder()|Decoder(dropout=0.0, norm_first=True)|Weighted()|Weighted(max_norm=1.0)|Bag('max')|Given()|Ensemble()|Custom(True)|Custom(False)|Raising()|Norms()|nn.RReLU()|nn.RReLU(inplace=True)|nn.Hardswish()|nn.Mish()|nn.CELU()|nn.Softplus(2.0)|nn.Softshrink(0.1)|nn.LogSoftmax(-1)|nn.Sequential(nn.Linear(4, 8), nn.GLU())|Shaped(nn.PReLU(2), 2, 2)|Shaped(nn.AdaptiveAvgPool1d(3), 2, 2)|Shaped(nn.AdaptiveMaxPool2d((2, 2)), 1, 2, 2)|Shaped(nn.MaxPool2d(2, 1, 1), 1, 2, 2)|Shaped(nn.AvgPool2d(2, 1, 1, count_include_pad=False), 1, 2, 2)|Shaped(nn.LPPool1d(2, 1), 2, 2)|Shaped(nn.Sequential(nn.Unfold(2, padding=1), nn.Fold((2, 2), 2, padding=1)), 1, 2, 2)|Shaped(nn.Upsample(scale_factor=2, mode='bilinear'), 1, 2, 2)|Shaped(nn.Upsample(size=3, mode='linear', align_corners=True), 2, 2)|Shaped(nn.PixelShuffle(2), 4, 1, 1)|Shaped(nn.InstanceNorm2d(1), 1, 2, 2)|Shaped(nn.GroupNorm(1, 2), 2, 2)|Shaped(nn.LocalResponseNorm(2), 2, 2)|Shaped(nn.Dropout2d(0.5), 2, 2, 1)|Shaped(nn.FeatureAlphaDropout(0.3), 2, 2)|Shaped(nn.ConvTranspose2d(1, 1, 2, stride=2, output_padding=1), 1, 2, 2)|Shaped(nn.Conv1d(2, 4, 2, groups=2, padding='same', padding_mode='circular'), 2, 2)|Shaped(nn.Conv3d(1, 1, 1), 1, 1, 2, 2)|Shaped(P.weight_norm(nn.Conv1d(2, 2, 1)), 2, 2)|Shaped(P.spectral_norm(nn.Conv2d(1, 2, 1)), 1, 2, 2)|Shaped(nn.TransformerEncoder(nn.TransformerEncoderLayer(2, 1, 4, 0.0, batch_first=True), 2), 2, 2)|Shaped(nn.LSTM(2, 2, 2, bidirectional=True, dropout=0.3), 2, 2)|nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d(), nn.LazyLinear(4))|nn.utils.parametrize.register_parametrization(P.weight_norm(nn.Linear(4, 4)), 'bias', Half())|"
    "nn.utils.parametrize.register_parametrization(nn.Linear(4, 4), 'weight', Half()) or nn.Identity()|nn.Identity()"
).replace(" or nn.Identity()", "").split("|")
AROUND = (
    "Twice({})|Residual({})|Residual({})|nn.Sequential({}, {})|nn.Sequential({}, nn.ReLU())|Dropped({}, True)|Dropped({}, False)|Kept({}, use_reentrant=False)|Kept({}, use_reentrant=False)|Kept({}, use_reentrant=True)|Kept({}, use_reentrant=False, preserve_rng_state=False)|Residual(nn.Sequential(nn.LayerNorm(4), {}))|"
    "nn.Sequential({}, nn.ReLU(inplace=True))|nn.Sequential({}, nn.ELU(inplace=True))|nn.Sequential({}, nn.Hardtanh(inplace=True))|nn.Sequential({}, nn.LeakyReLU(0.1, inplace=True))|nn.Sequential({}, nn.Dropout(0.3, inplace=True))|nn.Sequential({}, nn.Threshold(0.0, 0.1, inplace=True))|nn.Sequential({}, nn.RReLU(inplace=True))|Written({}, 'scaled')|Written({}, 'row')|Written({}, 'column')|Written({}, 'halves')|Written({}, 'masked')|Written({}, 'filled')"
).split("|")
SETUP = (
    "s.net.layers[?].register_forward_hook(noted('forward'))|s.net.register_forward_pre_hook(noted('before'))|s.net.head.register_forward_hook(lambda m, x, y: y * 2)|s.net.head.register_full_backward_hook(noted('backward'))|s.net.layers[?].register_full_backward_hook(lambda m, gi, go: tuple(g if g is None else g * 0.5 for g in gi))|s.net.head.register_forward_hook(lambda m, x, y: s.net.kept.__setitem__('out', y.detach()))|"
    "s.net.head.weight.register_hook(hooked_gradient('weight', 2.0))|s.net.head.bias.register_hook(lambda g: g.clamp(-0.1, 0.1))|s.net.head.weight.register_post_accumulate_grad_hook(lambda p: log.append(('grad', tuple(p.grad.shape))))|s.net.head.weight.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(0.5))|s.opt.register_step_post_hook(lambda o, args, kwargs: log.append('stepped'))|s.opt.register_step_pre_hook(lambda o, args, kwargs: log.append(len(o.state)))|"
    "s.net.requires_grad_(False); s.net.head.requires_grad_()|s.net.head.bias.requires_grad_(False)|s.net.layers[?].requires_grad_(False)|s.net.layers[?].eval()|s.net.double()|s.net.to(torch.bfloat16)|s.net.apply(lambda m: nn.init.ones_(m.weight) if isinstance(m, nn.Linear) and m.weight.numel() else None)|s.net.layers.append(s.net.layers[?])|s.net.layers.append(nn.Linear(4, 4)); s.net.layers[-1].weight = s.net.head.weight|"
    "nn.utils.parametrize.register_parametrization(s.net.head, 'weight', Half())|P.weight_norm(s.net.head)|s.net(made(1, 3))|s.net.head.weight.grad = torch.ones(4, 4)|s.net.load_state_dict(copy.deepcopy(s.net.state_dict()))|s.net.share_memory()|nn.utils.prune.l1_unstructured(s.net.head, 'weight', 0.5)|s.old = copy.deepcopy(s.net)|s.net.layers[?].weight = nn.Parameter(torch.ones(4, 4))|"
    "s.net.head.register_full_backward_pre_hook(lambda m, go: tuple(g if g is None else g * 2 for g in go))|s.net.layers[?].register_forward_pre_hook(lambda m, args: (args[0] * 0.5,))|s.net.layers[?].register_full_backward_hook(lambda m, gi, go: log.append([None if g is None else float(g.sum()) for g in gi]))|s.net.layers[?].register_forward_hook(lambda m, x, y: y.mul_(0.5) if isinstance(y, torch.Tensor) else None)|s.net.layers[?].register_forward_hook(lambda m, x, y: y.register_hook(lambda g: g * 0.5) and None)|s.net.register_forward_hook(lambda m, args, kwargs, y: log.append(sorted(kwargs)), with_kwargs=True)|s.net.register_forward_hook(lambda m, x, y: log.append('always'), always_call=True)|s.net.head.weight.register_hook(lambda g: g.mul_(2))|s.net.head.weight.register_hook(lambda g: log.append(float(g.sum())))|s.net.head.bias.register_hook(lambda g: torch.full_like(g, float('inf')))|s.net.head.bias.register_post_accumulate_grad_hook(lambda p: setattr(p, 'grad', None))|s.net.head.bias.register_post_accumulate_grad_hook(lambda p: setattr(p, 'data', p.data - 0.1 * p.grad))|s.net.register_state_dict_post_hook(lambda m, state, prefix, local: log.append(len(state)))|torch.autograd.set_detect_anomaly(False)|s.net.head.weight.requires_grad_(False); s.net.head.weight = nn.Parameter(s.net.head.weight.clone())|s.net.head.bias = nn.Parameter(s.net.head.weight[0].detach())|s.net.register_buffer('seen', torch.zeros(4)); s.net.register_forward_hook(lambda m, x, y: s.net.seen.add_(y.detach().sum(0).float()) * 0 + y)|nn.utils.parametrize.register_parametrization(s.net.head, 'bias', Half())"
).split("|")
OPTIMIZERS = (
    "optim.SGD({}, lr=0.1)|optim.SGD({}, lr=0.1, momentum=0.9)|optim.SGD({}, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)|optim.SGD({}, lr=0.1, momentum=0.5, dampening=0.1, maximize=True)|optim.SGD({}, lr=0.1, foreach=True)|optim.SGD({}, lr=0.1, momentum=0.9, fused=True)|optim.SGD({}, lr=torch.tensor(0.1))|optim.Adam({}, lr=0.05)|optim.Adam({}, lr=0.05, amsgrad=True)|optim.Adam({}, lr=0.05, foreach=True, weight_decay=0.1)|optim.Adam({}, lr=0.05, fused=True)|optim.Adam({}, lr=torch.tensor(0.05))|optim.Adam({}, lr=0.05, maximize=True, foreach=False)|optim.Adam({}, lr=0.05, betas=(torch.tensor(0.9), torch.tensor(0.99)))|"
    "optim.AdamW({}, lr=0.05)|optim.AdamW({}, lr=0.05, amsgrad=True, fused=True)|optim.AdamW({}, lr=0.05, weight_decay=0.1, foreach=True)|optim.RMSprop({}, lr=0.01)|optim.RMSprop({}, lr=0.01, momentum=0.9, centered=True)|optim.Adagrad({}, lr=0.1)|optim.Adagrad({}, lr=0.1, lr_decay=0.1, initial_accumulator_value=0.5)|optim.Adadelta({})|optim.Adamax({})|optim.NAdam({})|optim.RAdam({})|optim.ASGD({})|optim.Rprop({})|optim.Adafactor({})|optim.LBFGS({}, lr=0.1, max_iter=3)|optim.LBFGS({}, max_iter=2, line_search_fn='strong_wolfe')|"
    "optim.SGD({}, lr=0.1, momentum=0.9, weight_decay=0.1, foreach=False)|optim.SGD({}, lr=0.1, differentiable=True)|optim.Adam({}, lr=0.05, capturable=True)|optim.Adam({}, lr=0.05, differentiable=True)|optim.Adam({}, lr=0.05, decoupled_weight_decay=True, weight_decay=0.1)|optim.AdamW({}, lr=torch.tensor(0.05), fused=True)|optim.AdamW({}, lr=0.05, maximize=True, amsgrad=True)|optim.Adagrad({}, lr=0.1, fused=True)|optim.Adagrad({}, lr=0.1, foreach=True, maximize=True)|optim.Adadelta({}, foreach=True, weight_decay=0.1)|optim.Adamax({}, foreach=True, maximize=True)|optim.NAdam({}, decoupled_weight_decay=True, weight_decay=0.1)|optim.RAdam({}, foreach=True, decoupled_weight_decay=True, weight_decay=0.1)|optim.ASGD({}, t0=2.0, foreach=True)|optim.Rprop({}, etas=(0.4, 1.3), foreach=True)|optim.RMSprop({}, lr=0.01, foreach=True, maximize=True, weight_decay=0.1)|optim.LBFGS({}, lr=0.5, max_iter=2, history_size=2, tolerance_grad=1e-3)|optim.SparseAdam({})"
).split("|")
PARAMETERS = (
    "s.net.parameters()|s.net.parameters()|s.net.parameters()|[p for p in s.net.parameters() if p.requires_grad]|[{'params': s.net.layers.parameters(), 'lr': 0.01}, {'params': s.net.head.parameters()}]|[{'params': [p for p in s.net.parameters() if p.dim() > 1], 'weight_decay': 0.1}, {'params': [p for p in s.net.parameters() if p.dim() < 2]}]|s.net.named_parameters()|s.net.head.parameters()"
).split("|")
SCHEDULES = (
    "schedules.StepLR(s.opt, 2, 0.5)|schedules.ExponentialLR(s.opt, 0.9)|schedules.CosineAnnealingLR(s.opt, 5)|schedules.LambdaLR(s.opt, lambda n: 1 / (n + 1))|schedules.OneCycleLR(s.opt, 0.1, total_steps=40)|schedules.LinearLR(s.opt, total_iters=4)|schedules.CyclicLR(s.opt, 0.01, 0.1, 3, cycle_momentum=False)|schedules.MultiStepLR(s.opt, [2, 4])|schedules.SequentialLR(s.opt, [schedules.ConstantLR(s.opt, 0.1, 2), schedules.ExponentialLR(s.opt, 0.9)], [2])|schedules.PolynomialLR(s.opt, 6)|swa_utils.SWALR(s.opt, 0.05, 3)|schedules.CosineAnnealingWarmRestarts(s.opt, 3)|schedules.ReduceLROnPlateau(s.opt, patience=1)|"
    "schedules.MultiplicativeLR(s.opt, lambda n: 0.95)|schedules.ChainedScheduler([schedules.ConstantLR(s.opt, 0.1, 2), schedules.ExponentialLR(s.opt, 0.9)])|schedules.OneCycleLR(s.opt, 0.1, epochs=4, steps_per_epoch=3, anneal_strategy='linear', three_phase=True)|schedules.CyclicLR(s.opt, 0.01, 0.1, 2, mode='exp_range', gamma=0.9, cycle_momentum=False)|schedules.CyclicLR(s.opt, 0.01, 0.1, 2, mode='triangular2')|schedules.ReduceLROnPlateau(s.opt, mode='max', factor=0.5, patience=0, cooldown=1)|schedules.LambdaLR(s.opt, [lambda n: 0.9 ** n] * len(s.opt.param_groups))"
).split("|")
AVERAGES = (
    "swa_utils.AveragedModel(s.net)|swa_utils.AveragedModel(s.net, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9), use_buffers=True)|swa_utils.AveragedModel(s.net, avg_fn=lambda a, p, n: 0.5 * a + 0.5 * p)"
).split("|")
LOSSES = (
    "F.mse_loss(out.float(), x[:, :4].tanh())|F.cross_entropy(out, y)|F.cross_entropy(out, y, label_smoothing=0.1)|F.cross_entropy(out, y, ignore_index=1, reduction='sum')|F.nll_loss(F.log_softmax(out, -1), y)|F.smooth_l1_loss(out, x.to(out.dtype))|(out ** 2).mean()|out.logsumexp(-1).sum()|F.binary_cross_entropy_with_logits(out[:, 0], (y > 1).to(out.dtype))|out[y > 0].sum()|F.kl_div(F.log_softmax(out, -1), F.softmax(x.to(out.dtype), -1), reduction='batchmean')|(out * F.one_hot(y, 4)).sum() / (len(x) + 1)|"
    "F.mse_loss(out, x.to(out.dtype)) + 0.01 * sum(p.square().sum() for p in s.net.parameters())|nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5, 1.0], dtype=out.dtype))(out, y)|F.cosine_embedding_loss(out, x.to(out.dtype), y.sign() * 2 - 1)|F.huber_loss(out, x.to(out.dtype)) + out.std()|"
    "F.ctc_loss(out.float().log_softmax(-1).unsqueeze(1), torch.tensor([[1, 2]]), (len(x),), (2,), zero_infinity=True)|F.triplet_margin_loss(out, x.to(out.dtype), x.roll(1, 0).to(out.dtype), margin=2.0)|F.nll_loss(out.log_softmax(-1), y, weight=torch.tensor([1.0, 2.0, 0.5, 1.0], dtype=out.dtype), ignore_index=2)|F.binary_cross_entropy_with_logits(out, F.one_hot(y, 4).to(out.dtype), pos_weight=torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=out.dtype))|F.kl_div(out.log_softmax(-1), x.to(out.dtype).log_softmax(-1), log_target=True, reduction='none').sum(-1).mean()|F.cross_entropy(out, out.detach().softmax(-1).roll(1, -1))|F.cross_entropy(out, y, reduction='none').topk(min(2, len(x)))[0].sum()|F.multi_margin_loss(out, y)|F.multilabel_soft_margin_loss(out, F.one_hot(y, 4).to(out.dtype))|F.gaussian_nll_loss(out[:, :2], x[:, :2].to(out.dtype), out[:, 2:].exp())|F.poisson_nll_loss(out, x.abs().to(out.dtype))|F.margin_ranking_loss(out[:, 0], out[:, 1], y.sign().to(out.dtype) * 2 - 1)|F.hinge_embedding_loss(out, F.one_hot(y, 4) * 2 - 1)|torch.cdist(out.float(), out.float()).sum()|(1 - F.cosine_similarity(out, x.to(out.dtype))).mean() + F.pairwise_distance(out, x.to(out.dtype)).sum()|F.soft_margin_loss(out, F.one_hot(y, 4).to(out.dtype) * 2 - 1) + out.var(0).sum()|out.square().mean().log()|out.sort(-1)[0][:, -1].sum() + out.norm()|F.normalize(out, dim=-1).abs().mean() + out.std(0).sum()"
).split("|")
GRADIENTS = {
    "plain": ["out = forward(x)", "loss = loss_of(out, x, y)", "loss.backward()"],
    "autocast": ["with torch.autocast('cpu', dtype=torch.bfloat16):", "    out = forward(x)", "    loss = loss_of(out, x, y)", "loss.backward()"],
    "scaled": ["with torch.autocast('cpu', dtype=torch.bfloat16):", "    loss = loss_of(forward(x), x, y)", "s.scaler.scale(loss).backward()", "s.scaler.unscale_(s.opt)"],
    "accumulated": ["loss = loss_of(forward(x), x, y) / 2", "loss.backward()"],
    "two": ["half = (len(x) + 1) // 2", "loss = 0", "for a, b in zip(x.split(half), y.split(half)):", "    part = loss_of(forward(a), a, b)", "    part.backward()", "    loss += part.detach()"],
    "retained": ["out = forward(x)", "loss = loss_of(out, x, y)", "loss.backward(retain_graph=True)", "(out * 0.1).sum().backward()"],
    "taken": ["loss = loss_of(forward(x), x, y)", "taken = [p for p in s.net.parameters() if p.requires_grad]", "for p, g in zip(taken, torch.autograd.grad(loss, taken, allow_unused=True)):", "    p.grad = None if g is None else row_major(g)"],
    "penalized": ["x = x.detach().requires_grad_()", "out = forward(x)", "g, = torch.autograd.grad(out.sum(), x, create_graph=True)", "loss = loss_of(out, x, y) + g.square().sum()", "loss.backward()"],
    "functional": ["values = dict(s.net.named_parameters())", "gradients = torch.func.grad(lambda p: loss_of(torch.func.functional_call(s.net, p, (x,)), x, y))(values)", "for name, p in values.items():", "    p.grad = row_major(gradients[name].detach())", "loss = sum(g.square().sum() for g in gradients.values())"],
    "distilled": ["with torch.no_grad():", "    target = s.old(x).softmax(-1)", "out = forward(x)", "loss = F.mse_loss(out.softmax(-1), target.to(out.dtype)) + loss_of(out, x, y)", "loss.backward()"],
    "squared gradients": ["loss = loss_of(forward(x), x, y)", "taken = [p for p in s.net.parameters() if p.requires_grad]", "found = torch.autograd.grad(loss, taken, create_graph=True, allow_unused=True)", "loss = loss + 0.1 * sum(g.square().sum() for g in found if g is not None)", "loss.backward()"],
    "curvature": ["loss = loss_of(forward(x), x, y)", "taken = [p for p in s.net.parameters() if p.requires_grad]", "found = torch.autograd.grad(loss, taken, create_graph=True, allow_unused=True)", "along = sum((g * g.detach()).sum() for g in found if g is not None)", "along.backward()"],
    "hooked": ["out = forward(x)", "out.retain_grad()", "out.register_hook(lambda g: g * 0.5)", "loss = loss_of(out, x, y)", "loss.register_hook(lambda g: log.append(float(g)))", "loss.backward()", "s.out_grad = row_major(out.grad)"],
    "inner step": ["values = {k: p for k, p in s.net.named_parameters() if p.requires_grad}", "loss = loss_of(torch.func.functional_call(s.net, values, (x,)), x, y)", "found = torch.autograd.grad(loss, list(values.values()), create_graph=True, allow_unused=True)", "moved = {k: p if g is None else p - 0.1 * g for (k, p), g in zip(values.items(), found)}", "loss = loss_of(torch.func.functional_call(s.net, moved, (x,)), x, y)", "loss.backward()"],
    "sharpness": ["loss = loss_of(forward(x), x, y)", "loss.backward()", "moves = [(p, 0.05 * p.grad / (p.grad.norm() + 1e-3)) for p in s.net.parameters() if p.grad is not None]", "with torch.no_grad():", "    for p, m in moves: p.add_(m)", "s.opt.zero_grad()", "loss = loss_of(forward(x), x, y)", "loss.backward()", "with torch.no_grad():", "    for p, m in moves: p.sub_(m)"],
    "adversarial": ["x = x.detach().requires_grad_()", "loss_of(forward(x), x, y).backward()", "x = (x + 0.1 * x.grad.sign()).detach()", "s.opt.zero_grad()", "loss = loss_of(forward(x), x, y)", "loss.backward()"],
    "refused": ["try:", "    loss = loss_of(forward(x), x, y)", "    if not loss.isfinite() or s.n % 3 == 2: raise FloatingPointError(s.n)", "    loss.backward()", "except (FloatingPointError, RuntimeError) as error:", "    log.append(type(error).__name__)", "    s.net.zero_grad()", "    loss = torch.zeros(())", "s.n += 1"],
    "only the head's": ["loss = loss_of(forward(x), x, y)", "loss.backward(inputs=list(s.net.head.parameters()))"],
    "per sample": ["values = {k: p.detach() for k, p in s.net.named_parameters()}", "found = torch.func.vmap(torch.func.grad(lambda p, a, b: loss_of(torch.func.functional_call(s.net, p, (a[None],)), a[None], b[None])), (None, 0, 0), randomness='different')(values, x, y)", "for name, p in s.net.named_parameters():", "    p.grad = row_major(found[name].mean(0))", "loss = sum(g.square().sum() for g in found.values())"],
    "packed": ["with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach() * 1, lambda t: t):", "    loss = loss_of(forward(x), x, y)", "loss.backward()"],
    "tangent": ["out, t = torch.func.jvp(lambda a: loss_of(forward(a), a, y), (x,), (torch.ones_like(x),))", "loss = out + t.square()", "loss.backward()"],
    "truncated": ["out = forward(x)", "loss = loss_of(out, x, y) + (0 if s.saved is None or not isinstance(s.saved, torch.Tensor) else s.saved)", "s.saved = out.detach().mean()", "loss.backward()"],
    "averaged": ["loss = torch.stack([loss_of(forward(x + k), x, y) for k in range(2)]).mean()", "loss.backward()"],
    "contrastive": ["a, b = forward(x), forward(x * 0.5)", "a, b = F.normalize(a, dim=-1), F.normalize(b, dim=-1)", "loss = F.cross_entropy(a @ b.t() / 0.1, torch.arange(len(x))) + loss_of(a, x, y)", "loss.backward()"],
}  # fmt: skip
BEFORE_UPDATE = (
    "s.norm = nn.utils.clip_grad_norm_(s.net.parameters(), 1.0)|s.norm = nn.utils.clip_grad_norm_(s.net.parameters(), 0.1, foreach=True)|nn.utils.clip_grad_value_(s.net.parameters(), 0.2)|log.append(float(nn.utils.clip_grad_norm_(s.net.parameters(), 1.0, norm_type=1)))|for p in s.net.parameters(): p.grad is None or p.grad.add_(0.01 * p.detach())|for p in s.net.parameters(): p.grad is None or p.grad.mul_(0.5)|if any(p.grad is not None and not p.grad.isfinite().all() for p in s.net.parameters()): return loss|for g in s.opt.param_groups: g['lr'] = 0.1 / (s.n + 1)|"
    "s.norm = nn.utils.get_total_norm([p.grad for p in s.net.parameters() if p.grad is not None])|s.norm = nn.utils.clip_grad_norm_(s.net.parameters(), 0.5, error_if_nonfinite=True)|for p in s.net.parameters(): p.grad is None or p.grad.nan_to_num_(0.0, 1.0, -1.0)|for p in s.net.parameters(): p.grad = None if p.grad is None else p.grad + 0.01 * torch.randn_like(p.grad)|s.net.head.weight.grad = None|log.append([n for n, p in s.net.named_parameters() if p.grad is not None])|if s.n % 2: s.opt.zero_grad()|s.grads = [None if p.grad is None else p.grad.clone() for p in s.net.parameters()]|torch._foreach_mul_([p.grad for p in s.net.parameters() if p.grad is not None], 0.5)"
).split("|")
AFTER_UPDATE = (
    "s.average.update_parameters(s.net)|s.average.update_parameters(s.net)|s.n += 1|log.append(s.n)|log.append(loss.item())|s.total = s.total + loss.detach()|s.losses.append(loss.detach())|s.best = min(s.best, float(loss.detach()))|log.append(f'{loss.item():.4f}')|"
    "with torch.no_grad(): s.net.head.weight.clamp_(-1, 1)|s.net.head.weight.data.clamp_(-0.5, 0.5)|for p, q in zip(s.net.parameters(), s.old.parameters()): q.data.mul_(0.9).add_(p.data, alpha=0.1)|for p, q in zip(s.net.parameters(), s.old.parameters()): q.data = p.data.clone()|s.old.load_state_dict(s.net.state_dict())|s.net.zero_grad()|s.opt.zero_grad(set_to_none=False)|"
    "if s.n > 2: s.net.head.requires_grad_(False)|if s.n == 2: s.net.layers[?].eval()|s.net.train(s.n % 2 == 0)|evaluate(x)|log.append(s.opt.param_groups[0]['lr'])|s.correct += int((forward(x).argmax(-1) == y).sum())|if loss < s.best: s.best = loss.item()|s.saved = {k: v.clone() for k, v in s.net.state_dict().items()}|nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(s.net.parameters()) * 0.99, s.net.parameters())|"
    "with torch.no_grad(): torch._foreach_lerp_(list(s.old.parameters()), list(s.net.parameters()), 0.1)|if s.n % 2: s.net.layers[?].requires_grad_(s.n % 4 == 1)|s.opt.param_groups[0]['lr'] = s.opt.param_groups[0]['lr'] * 0.9|s.saved = copy.deepcopy(s.net.state_dict())|s.net.load_state_dict(s.old.state_dict())|if loss.isnan(): s.net.load_state_dict(s.old.state_dict())|with torch.inference_mode(): s.seen = forward(x).argmax(-1)|s.losses.append(loss)|s.losses[:] = s.losses[-2:]|s.net.head.weight = nn.Parameter(s.net.head.weight.detach() * 0.99)|log.append(torch.tensor(s.losses).mean().item())|for p in s.net.parameters(): p.grad is None or p.grad.detach_().zero_()"
).split("|")
BETWEEN = (
    "s.net.eval()|s.net.train()|s.net.train()|s.net.layers[?].eval()|for g in s.opt.param_groups: g['lr'] *= 0.5|s.opt.param_groups[0]['lr'] = 0.3|s.opt.param_groups[-1]['weight_decay'] = 0.1|s.opt.add_param_group({'params': [s.extra], 'lr': 0.2})|s.opt.load_state_dict(s.opt.state_dict())|s.opt.load_state_dict(copy.deepcopy(s.opt.state_dict()))|s.saved = copy.deepcopy(s.net.state_dict()); s.saved_opt = copy.deepcopy(s.opt.state_dict())|s.net.load_state_dict(s.saved)|s.opt.load_state_dict(s.saved_opt)|s.net.load_state_dict(s.saved, assign=True)|"
    "s.net = copy.deepcopy(s.net)|s.net, s.opt = copy.deepcopy((s.net, s.opt))|s.opt = optim.SGD(s.net.parameters(), lr=0.1, momentum=0.9)|s.opt.state.clear()|s.net.layers[?] = nn.Linear(4, 4)|s.net.layers[?] = nn.Tanh()|s.net.layers.append(nn.Linear(4, 4))|del s.net.layers[?]|s.net.head = nn.Linear(4, 4)|s.net.head.weight = nn.Parameter(torch.eye(4))|s.net.head.bias = None|s.net.head.weight.data = torch.eye(4)|s.net.head.weight.data.mul_(0.5)|s.net.head.weight.data[0] = 0.5|s.net.head.weight.grad = None|s.net.head.weight.grad = torch.ones_like(s.net.head.weight)|s.net.head.weight.grad.zero_()|"
    "s.net.requires_grad_(False)|s.net.requires_grad_()|s.net.head.requires_grad_(False)|s.net.layers[?].requires_grad_(False)|s.net.layers[?].requires_grad_()|s.net.double()|s.net.float()|s.net.to(torch.bfloat16)|s.net.zero_grad(set_to_none=False)|s.net.zero_grad()|torch.manual_seed(?)|random.seed(?)|evaluate(x)|evaluate(x)|evaluate(made(3, 2))|with torch.no_grad(): s.net(x)|with torch.no_grad(): s.net.head.weight.add_(0.1)|"
    "s.net.head.register_forward_hook(noted('late'))|s.net.head.weight.register_hook(hooked_gradient('late', 0.5))|s.net.head._forward_hooks.clear()|s.net.head.weight.register_post_accumulate_grad_hook(lambda p: log.append('late'))|s.old = copy.deepcopy(s.net)|s.average.update_parameters(s.net)|swa_utils.update_bn([made(4, 4), made(5, 3)], s.average)|torch.set_default_dtype(torch.float64)|torch.set_default_dtype(torch.float32)|s.n = 0|s.net.kept = {}|P.weight_norm(s.net.head)|nn.utils.parametrize.remove_parametrizations(s.net.head, 'weight')|"
    "s.net.head.forward = lambda x: F.linear(x, s.net.head.weight) + 1|s.net.layers.append(s.net.head)|for m in s.net.modules(): m.momentum = 0.5|for m in s.net.modules(): m.p = 0.1|for m in s.net.modules(): m.way = 'b'|for p in s.net.parameters(): p.grad = None|(s.net(x) ** 2).sum().backward()|(s.net(x) ** 2).mean().backward(); s.opt.step(); s.opt.zero_grad()|s.scaler.update(4.0)|s.scaler.load_state_dict(s.scaler.state_dict())|s.opt.step()|s.net.share_memory()|torch.set_rng_state(s.rng)|s.rng = torch.get_rng_state()|x = x * float('nan')|x = x.double()|x = x.t().contiguous().t()|s.net(x).sum().backward(create_graph=True)|s.opt.param_groups[0]['params'].pop()|s.net.head.weight.requires_grad_(not s.net.head.weight.requires_grad)|s.opt.param_groups[0]['lr'] = torch.tensor(0.2)|"
    "s.net = pickle.loads(pickle.dumps(s.net))|s.net, s.opt = pickle.loads(pickle.dumps((s.net, s.opt)))|file = io.BytesIO(); torch.save([s.net.state_dict(), s.opt.state_dict()], file); file.seek(0); a, b = torch.load(file); s.net.load_state_dict(a); s.opt.load_state_dict(b)|s.net.layers[?].register_full_backward_hook(lambda m, gi, go: log.append('walked'))|s.net.layers[?].register_forward_pre_hook(lambda m, args: (args[0] + 1,))|s.net.layers[?].register_full_backward_pre_hook(lambda m, go: tuple(g if g is None else g * 3 for g in go))|s.hook = s.net.register_forward_hook(lambda m, x, y: y.mul_(0.5))|s.hook.remove()|s.hook = s.net.head.bias.register_hook(lambda g: g.neg())|s.hook = s.net.head.bias.register_hook(lambda g: float('x'))|s.hook = s.net.head.register_forward_hook(lambda m, x, y: 1 / 0)|s.net.half()|s.net.head.weight.data = s.net.head.weight.data.t()|s.net.head.weight = s.net.head.weight|s.net.layers[?] = s.net.layers[?]|s.net.head = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True))|s.net.head.weight, s.old.head.weight = s.old.head.weight, s.net.head.weight|nn.init.normal_(s.net.head.weight)|s.net.head.weight.grad = torch.full((4, 4), float('inf'))|s.net.head.weight.grad = s.net.head.weight.grad.t()|s.net.head.weight.grad.requires_grad_()|s.opt.param_groups[0]['maximize'] = True|s.opt.param_groups[0]['momentum'] = 0.5|s.opt.param_groups[0]['foreach'] = True|s.opt.param_groups[0]['betas'] = (0.5, 0.9)|s.opt.param_groups[0]['params'].append(s.extra)|s.opt.zero_grad(); s.extra.grad = torch.ones(2)|s.opt.state[s.net.head.weight].clear()|s.opt.state.pop(s.net.head.weight)|s.opt.register_step_post_hook(lambda o, args, kwargs: log.append('late step'))|s.schedule.load_state_dict(s.schedule.state_dict())|s.schedule = schedules.StepLR(s.opt, 1, 0.9)|s.schedule.step()|s.net.register_module('more', nn.Linear(4, 4)); s.opt.add_param_group({'params': s.net.more.parameters()})|for m in s.net.modules(): m.inplace = True|for m in s.net.modules(): m.eps = 0.1|for m in s.net.modules(): m.state = None|for m in s.net.modules(): m.track_running_stats = False|for m in s.net.modules(): hasattr(m, 'reset_running_stats') and m.reset_running_stats()|for m in s.net.modules(): hasattr(m, 'reset_parameters') and m.reset_parameters()|for m in s.net.modules(): m._buffers.update({k: None if v is None else v.clone() for k, v in m._buffers.items()})|torch.autograd.set_grad_enabled(False)|torch.autograd.set_grad_enabled(True)|x = x.requires_grad_()|x = x[::2]; y = y[::2]|x = x.expand(len(x), 4) * float('inf')|x = made(2, 8)[::2]; y = torch.arange(4)|x = made(0, 1).expand(4, 4); y = torch.arange(4)"
).split("|")
SIZES = (4, 4, 4, 4, 4, 3, 5, 2, 1, 0, 6)
FUNCTIONS = ("forward", "loss_of", "gradients", "update", "step", "evaluate")
STYLES = ("global", "argument", "method")


@dataclasses.dataclass
class Program:
    """A program in parts, any of which can be left out."""

    style: str
    jitted: list[str]
    layers: list[str]
    setup: list[str]
    loss: str
    gradients: list[list[str]]
    before: list[str]
    update: list[list[str]]
    after: list[str]
    calls: list[list[str]]
    optimizer: str
    extras: list[str]

    def without(self) -> Iterator[Program]:
        """Programs with one thing less, or with none of a kind."""
        for part in ("after", "setup", "layers", "before", "extras"):
            if len(getattr(self, part)) > 1:
                yield dataclasses.replace(self, **{part: []})
        for i in range(2, len(self.calls), 2):
            yield dataclasses.replace(self, calls=self.calls[:-i])
        for part in ("calls", "after", "setup", "layers", "before", "extras", "update", "gradients", "jitted"):
            for i in reversed(range(len(getattr(self, part)))):
                if part != "jitted" or len(self.jitted) > 1:
                    kept = list(getattr(self, part))
                    del kept[i]
                    yield dataclasses.replace(self, **{part: kept})
        for i, call in enumerate(self.calls):
            for j in range(len(call) - 1):
                yield dataclasses.replace(self, calls=[*self.calls[:i], call[:j] + call[j + 1 :], *self.calls[i + 1 :]])
        for i, layer in enumerate(self.layers):
            for simpler in re.findall(r"nn\.\w+\([^()]*\)", layer)[:1]:
                if simpler != layer:
                    yield dataclasses.replace(self, layers=[*self.layers[:i], simpler, *self.layers[i + 1 :]])
        if self.optimizer != "optim.SGD(s.net.parameters(), lr=0.1)":
            yield dataclasses.replace(self, optimizer="optim.SGD(s.net.parameters(), lr=0.1)")
        if self.loss != "(out ** 2).mean()":
            yield dataclasses.replace(self, loss="(out ** 2).mean()")
        if self.style != "global":
            yield dataclasses.replace(self, style="global")

    @property
    def body(self) -> dict[str, tuple[str, list[str]]]:
        gradients = [line for group in self.gradients for line in group]
        return {
            "forward": ("x", ["return s.net(x)"]),
            "loss_of": ("out, x, y", [f"return {self.loss}"]),
            "gradients": ("x, y", [*gradients, "return loss"]),
            "update": ("loss", [*self.before, *(line for group in self.update for line in group), "pass"]),
            "step": ("x, y", ["loss = gradients(x, y)", "update(loss)", *self.after, "return loss.detach()"]),
            "evaluate": ("x", ["with torch.no_grad():", "    out = forward(x)", "    s.seen = out.argmax(-1)", "return out"]),
        }

    @property
    def source(self) -> str:
        text = "\n".join(self.lines())
        if self.style != "global":
            called = r"s.\1(" if self.style == "method" else r"\1(s, "
            text = re.sub(rf"(?<!def )(?<![\w.])({'|'.join(FUNCTIONS)})\(", called, text)
        return PRELUDE + text + "\n"

    def lines(self) -> list[str]:
        first = "" if self.style == "global" else "s, "
        functions = []
        for name, (arguments, body) in self.body.items():
            functions += [*(["@jit"] if name in self.jitted else []), f"def {name}({first}{arguments}):", *(f"    {line}" for line in body)]
        if self.style == "method":
            functions = ["class Trainer:", *(f"    {line}" for line in functions), "s = Trainer()"]
        else:
            functions = ["s = types.SimpleNamespace()", *functions]
        lines = [*functions, "def script(show):", "    global log", "    torch.manual_seed(7); random.seed(7)"]
        attributes = "n=0, total=torch.zeros(()), losses=[], best=1e9, correct=0, scaler=torch.amp.GradScaler('cpu', init_scale=8.0, growth_interval=3), extra=nn.Parameter(torch.ones(2)), saved=None, saved_opt=None, rng=torch.get_rng_state()"
        made = [f"s.__dict__.update({attributes})", f"s.net = Net({', '.join(self.layers)})", "with torch.no_grad(): s.net(made(0, 3))", "s.old = copy.deepcopy(s.net)", f"s.opt = {self.optimizer}"]
        lines += [f"    {line}" for line in made]
        for line in (*self.extras, *self.setup):
            lines += ["    try:", f"        {line}", "    except Exception as e: yield show(e)"]
        for name in self.jitted:
            if name not in FUNCTIONS:
                lines += ["    try:", f"        {name} = jit({name})", "    except Exception as e: yield show(e)"]
        for call in self.calls:
            *changes, (x, called) = [*call[:-1], call[-1].split(" ; ")]
            lines += [f"    {x}", "    y = (torch.arange(len(x)) * 5 + s.n) % 4"]
            for change in changes:
                lines += ["    try:", f"        {change}", "    except Exception as e: yield show(e)"]
            lines += ["    r = None", "    try:", f"        r = {called}", "    except Exception as e: yield show(e)"]
            lines += ["    yield show([r, x, y, s, log])"]
        return lines


class Generator:
    """Draws one program."""

    def __init__(self, seed: int):
        self.random = draw = random.Random(seed)
        layers = [self.layer(1) for _ in range(draw.randint(1, 3))]
        setup = [self.filled(draw.choice(SETUP), len(layers)) for _ in range(draw.choice((0, 0, 1, 1, 2)))]
        kind = draw.choice(["plain"] * 5 + list(GRADIENTS))
        optimizer = draw.choice(OPTIMIZERS).format(draw.choice(PARAMETERS))
        cleared = draw.choice(("s.opt.zero_grad()", "s.opt.zero_grad()", "s.net.zero_grad()", "s.opt.zero_grad(set_to_none=False)", "for p in s.net.parameters(): p.grad = None"))
        update, gradients, extras = [["s.opt.step()"]], [[cleared], GRADIENTS[kind]], []
        if "LBFGS" in optimizer or draw.random() < 0.05:
            update = [["def closure():", f"    {cleared}", "    loss = loss_of(forward(s.x), s.x, s.y)", "    loss.backward()", "    return loss", "s.opt.step(closure)"]]
            gradients = [["s.x, s.y = x, y", "loss = loss_of(forward(x), x, y)"]]
        elif kind == "scaled":
            update = [["s.scaler.step(s.opt)"], ["s.scaler.update()"]]
        elif kind == "accumulated":
            update, gradients = [["if s.n % 2 == 1:", "    s.opt.step()", f"    {cleared}"], ["s.n += 1"]], gradients[1:]
        elif draw.random() < 0.05:
            update = [["with torch.no_grad():", "    for p in s.net.parameters():", f"        {draw.choice(('p -= 0.1 * p.grad', 'p.data.sub_(p.grad, alpha=0.1)', 'p.data = p.data - 0.1 * p.grad', 'p.copy_(p - 0.1 * p.grad)'))}"]]
        after = [self.filled(draw.choice(AFTER_UPDATE), len(layers)) for _ in range(draw.choice((0, 0, 1, 1, 2, 3)))]
        if draw.random() < 0.4:
            extras.append(f"s.schedule = {draw.choice(SCHEDULES)}")
            update.append(["s.schedule.step(float(loss))" if "Plateau" in extras[-1] else "s.schedule.step()"])
        often = draw.choice((0.1, 0.1, 0.4))
        calls = [self.call(len(layers), often) for _ in range(draw.randint(6, 12))]
        if any("s.average" in line for line in (*after, *(line for call in calls for line in call))):
            extras.append(f"s.average = {draw.choice(AVERAGES)}")
        before = [draw.choice(BEFORE_UPDATE) for _ in range(draw.choice((0, 0, 0, 1, 1, 2)))]
        places = ["step"] * 5 + ["forward", "loss_of", "gradients", "update", "evaluate", "s.net.forward", f"s.net.layers[{draw.randrange(len(layers))}].forward", "s.net.head.forward", "s.opt.step"]
        jitted = list(dict.fromkeys(draw.choices(places, k=draw.choice((1, 1, 1, 2, 3)))))
        self.program = Program(draw.choice(STYLES), jitted, layers, setup, draw.choice(LOSSES), gradients, before, update, after, calls, optimizer, extras)

    def layer(self, depth: int) -> str:
        if depth and self.random.random() < 0.3:
            text = self.random.choice(AROUND)
            return text.format(*(self.layer(depth - 1) for _ in range(text.count("{}"))))
        return self.random.choice(SIMPLE)

    def call(self, layers: int, often: float) -> list[str]:
        """Lines that change something, and the batch of a call."""
        draw = self.random
        changes = [self.filled(draw.choice(BETWEEN), layers) for _ in range(2) if draw.random() < often]
        called = "evaluate(x)" if draw.random() < 0.1 else "step(x, y)"
        return [*changes, f"x = made({draw.randrange(5)}, {draw.choice(SIZES)}) ; {called}"]

    def filled(self, text: str, layers: int) -> str:
        while "?" in text:
            text = text.replace("?", str(self.random.randrange(layers)), 1)
        return text


class Shown(Showing):
    """What is shown of Modules and optimizers: what they hold and the class of the rest."""

    def __call__(self, value: Any) -> Any:
        if isinstance(value, torch.nn.Module):
            own = {k: v for k, v in vars(value).items() if isinstance(v, (int, float, str, torch.Tensor, dict)) and k[0] != "_"}
            held = {**dict(value.named_parameters()), **dict(value.named_buffers())}
            return ["module", type(value).__name__, [type(m).__name__ for m in value.modules()], self(held), self(own)]
        if isinstance(value, torch.optim.Optimizer):
            return ["optimizer", type(value).__name__, self(value.state_dict()), self([g["params"] for g in value.param_groups])]
        if isinstance(value, torch.utils.hooks.RemovableHandle):
            return ["handle"]  # of a number that the process counts
        if hasattr(value, "state_dict"):
            return [type(value).__name__, self({k: v for k, v in value.state_dict().items() if not callable(v)})]
        return super().__call__(value)


def outcome(program: Program, jit: Callable[[Any], Any]) -> list[Any]:
    """What a program shows, and the random states at its end."""
    text, name = program.source, "training_drawn"
    linecache.cache[f"{name}.py"] = (len(text), None, text.splitlines(True), f"{name}.py")
    module = sys.modules[name] = types.ModuleType(name)
    scope = vars(module)
    scope.update(torch=torch, jit=jit)
    seen: list[Any] = []
    shown = Shown()
    random.seed(5)
    torch.manual_seed(5)
    try:
        exec(compile(text, f"{name}.py", "exec"), scope)
        seen.extend(scope["script"](shown))
    except Exception as error:
        seen.append(["ended", type(error).__name__, str(error)])
    finally:
        del sys.modules[name]
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
    return [*seen, random.random(), torch.rand(2).tolist()]


@dataclasses.dataclass
class Found:
    """What running programs has shown: of functions, and by what was warned of and why versions were new, in which seeds."""

    infos: list[CacheInfo] = dataclasses.field(default_factory=list)
    warned: dict[str, list[int]] = dataclasses.field(default_factory=lambda: collections.defaultdict(list))
    renewed: dict[str, list[int]] = dataclasses.field(default_factory=lambda: collections.defaultdict(list))

    def note(self, seed: int, functions: list[Any], warned: list[Any]) -> None:
        """Note what became of a program's functions; `renewed` are those for which calls rarely find a version."""
        for info in (f.cache_info() for f in functions):
            self.infos.append(info)
            if info.compiles > 4 and info.compiles > 2 * info.hits:
                for reason in info.reasons[-3:]:
                    self.renewed[re.sub(r"\d+", "N", f"{reason.what}: {reason.old} -> {reason.new}")[:150]].append(seed)
        for one in warned:
            if "Jit" in one.category.__name__:
                self.warned[re.sub(r"^.*?\.py:\d+: ", "", str(one.message)).split("\n")[0][:160]].append(seed)


def difference(program: Program, found: Found | None = None, seed: int = 0) -> str | None:
    """Where the plain run parts from the one with jitted functions."""
    made: list[Any] = []

    def jit(function: Any) -> Any:
        made.append(torch.jit(function))
        return made[-1]

    with warnings.catch_warnings(record=True):
        warnings.simplefilter("ignore")
        plain = outcome(program, lambda f: f)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        jitted = outcome(program, jit)
    if found is not None:
        found.note(seed, made, given)
    return parting(plain, jitted)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    os.environ.setdefault("EAGERJIT_CACHE", "0")
    cpu._target_machine = hasty_machine
    ends, seed, differing, found = time.time() + options.seconds, options.seed, 0, Found()
    while time.time() < ends:
        program = Generator(seed).program
        if difference(program, found, seed) is not None:
            differing += 1
            small = reduced(program, difference, 60)
            print(f"seed {seed}: {difference(small)}\n{small.source[len(PRELUDE) :]}", flush=True)
        seed += 1
    infos = found.infos
    print(f"{seed - options.seed} programs, {differing} differ; {sum(i.compiles for i in infos)} compiled, {sum(i.hits for i in infos)} served, {sum(i.eager_calls for i in infos)} run eagerly")
    for title, seeds in (("run eagerly", found.warned), ("compiled anew", found.renewed)):
        print(f"{title}:")
        for text, which in sorted(seeds.items(), key=lambda item: -len(item[1]))[:25]:
            print(f"{len(which):4} {text} (seeds {sorted(set(which))[:4]})")
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main())

# ruff: noqa: E501
"""Random statements over tensors of all kinds and the state around them: jitted as the plain call, and as PyTorch.

A program has inputs of several dtypes and layouts, statements over ops, views, writes, gradients and Python objects, and
is called with other sizes, layouts and numbers. A statement is kept if it runs where the program is drawn, so that most
calls go all the way; one that raises is kept now and then, in a `try`.

    python -m tests.property.statements compiled --seed 0 --seconds 60
    python -m tests.property.statements compiled --seed 0 --seconds 60 --transforms
    python -m tests.property.statements compiled --seed 0 --seconds 60 --objects
    python -m tests.property.statements compiled --seed 0 --seconds 60 --idioms
    python -m tests.property.statements torch --seed 0 --seconds 60
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import io
import linecache
import os
import random
import re
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import eagerjit
from eagerjit.runtime import cpu
from tests.property import idioms, objects
from tests.property.programs import hasty_machine
from tests.property.seen import Showing, parting, parting_from_torch

PRELUDE = """\
import types
F = torch.nn.functional
def make(k, *sizes, dtype=torch.float32):
    n = 1
    for size in sizes: n *= size
    values = ((torch.arange(n) * 7 + k * 3) % 11 - 4)
    if dtype is torch.complex64: return torch.complex(values / 4., (values * 2 % 5) / 4.).reshape(sizes)
    if dtype is torch.bool: return (values > 0).reshape(sizes)
    return (values / 4 if dtype.is_floating_point else values).to(dtype).reshape(sizes)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", make(1, 4))
        self.weight = torch.nn.Parameter(make(2, 4, 4))
        self.steps = 0
    def forward(self, x):
        if self.training:
            self.steps += 1
            self.mean.mul_(0.5).add_(x.detach().reshape(-1)[:4].real.float().sum())
        return x.float().reshape(-1)[:4] @ self.weight + self.mean
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, n):
        ctx.save_for_backward(x)
        ctx.n = n
        return x * x * n
    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0] * 2 * ctx.n, None
def parts(x):
    for part in x.unbind():
        state.n += 1
        yield part
def changed(x, by=1):
    x.add_(by)
    return x
def changed_loss(p, q):
    state.n += 1
    state.log.append(p.shape)
    return (p * q).sum()
def step(state, x, kind="sgd", momentum=0.5):
    if kind not in state.d:
        make_one = torch.optim.Adam if kind == "adam" else lambda p, lr: torch.optim.SGD(p, lr, momentum=float(momentum))
        state.d[kind] = make_one(state.net.parameters(), 0.1)
    state.d[kind].zero_grad()
    loss = (state.net(x) ** 2).sum()
    loss.backward()
    state.d[kind].step()
    state.d[kind].param_groups[0]["lr"] *= 0.9
    return loss.detach()
def norm(state, x):
    if "norm" not in state.d: state.d["norm"] = torch.nn.BatchNorm1d(x.shape[-1])
    return state.d["norm"](x)
G = 2
state = types.SimpleNamespace(n=2, k=0.5, t=make(3, 3, 4), leaf=make(4, 4).requires_grad_(), l=[make(1, 4), 3], d={"t": make(2, 4), "n": 1}, log=[], net=Net())
"""

UNARY = (
    "abs acos angle asin atan bool ceil conj contiguous clone cos cosh cummax[0] cumprod:0 cumsum:0 cumsum:-1 deg2rad detach digamma double erf exp expm1 fix flatten float floor frac "
    "half imag int isfinite isnan isreal lgamma log log1p log2 logcumsumexp:0 logical_not long bfloat16 neg positive ravel real reciprocal relu resolve_conj round rsqrt sgn sigmoid sign signbit sin "
    "sinc softmax:-1 log_softmax:0 sqrt square tan tanh trunc adjoint nonzero argsort:-1 sort[0] sort[1] unique msort nan_to_num cov corrcoef count_nonzero:0 std:0 var:-1 mean:0 mean sum sum:0 "
    "sum:-1 prod prod:0 amax:0 amin:-1 max min argmax argmin:0 all any:0 any logsumexp:0 norm median:0[0] mode:0[0] nansum nanmean:0 aminmax[1] cummin:0[0] cummax:-1[1] "
    "diag diagonal tril triu trace flipud fliplr rot90 inverse det pinverse isneginf i0 erfinv logit exp2 arctan logdet view_as_real tolist numel dim item"
).split()
EXPRESSIONS = (
    "@ + @|@ - @|@ * @|@ / @|@ ** 2|2 ** @|@ // @|@ % @|@ == @|@ < @|@ >= @|@ & @|@ | @|~@|@ @ @|@ @ @.mT|@.T @ @|-@|@ + #|# - @|# * @|@ / #|@ // #|@ % #|@ ** #|@ > #|@ != #|abs(@)|"
    "torch.maximum(@, @)|torch.minimum(@, @)|torch.fmax(@, @)|torch.atan2(@, @)|torch.hypot(@, @)|torch.copysign(@, @)|torch.remainder(@, #)|torch.fmod(@, @)|torch.where(@ > #, @, @)|"
    "torch.where(@, @, #)|torch.where(@ > #, #, @)|torch.cat([@, @])|torch.cat([@, @], -1)|torch.stack([@, @], %)|torch.stack([@, @, @])|torch.hstack([@, @])|torch.vstack([@, @])|torch.add(@, @, alpha=#)|torch.lerp(@, @, 0.5)|"
    "torch.addmm(@, @, @)|torch.outer(@.flatten(), @.flatten())|torch.dot(@.flatten(), @.flatten())|torch.einsum('...i,...i->...', @, @)|torch.einsum('ij,kj->ki', @, @)|torch.einsum('ij->j', @)|torch.tensordot(@, @, 1)|torch.mv(@, @)|torch.kron(@, @)|torch.cross(@, @)|"
    "torch.bmm(@[None], @[None])|torch.baddbmm(@, @[None], @[None])|torch.cdist(@, @)|F.linear(@, @)|F.gelu(@)|F.softplus(@)|F.layer_norm(@, @.shape[-1:])|F.normalize(@, dim=%)|F.one_hot(@.abs().long())|F.pad(@, (1, 1))|F.pad(@, (1, -1), value=#)|F.mse_loss(@, @)|"
    "F.embedding(@.abs().long() % 3, @)|F.cross_entropy(@, @.argmax(-1))|F.leaky_relu(@, 0.2)|F.elu(@)|F.silu(@)|F.hardtanh(@)|F.dropout(@, 0.5)|F.cosine_similarity(@, @, %)|F.max_pool1d(@, 2)|F.avg_pool1d(@, 2)|F.conv1d(@[None], @[None])|F.interpolate(@[None], scale_factor=2)|"
    "@.gather(%, @.long().abs() % 2)|@.scatter(%, @.long().abs() % 2, @)|@.scatter(%, @.long().abs() % 2, #)|@.scatter_add(%, @.long().abs() % 2, @)|@.index_select(%, torch.tensor([1, 0]))|@.index_add(%, torch.tensor([0, 0]), @)|@.masked_fill(@ > #, #)|@.masked_select(@ > #)|"
    "@.scatter_reduce(%, @.long().abs() % 2, @, 'amax')|@.take(torch.tensor([0, 1, 0]))|@.take_along_dim(@.argsort(%), %)|@.topk(2, %)[0]|@.topk(1)[1]|@.kthvalue(1, %)[0]|@.sort(%, descending=True)[0]|@.sort(stable=True)[1]|@.quantile(0.5)|@.clamp(#, 2)|@.clamp(min=@)|@.clip(max=#)|"
    "@[@ > #]|@[@.bool()]|@[torch.tensor([1, 0])]|@[[0, 1]]|@[..., torch.tensor([0, 0, 1])]|@[:, [1, 0]]|@[torch.tensor([0, 1]), torch.tensor([1, 0])]|@[None, ..., 0]|@[k]|@[:k]|@[k:]|@[-1, ::2]|@[#]|@[@.argmax()]|"
    "@.sum(%, keepdim=True)|@.mean(%, keepdim=True)|@.sum((0, -1))|@.sum(dtype=&)|@.max(%)[0]|@.max(%, keepdim=True)[1]|@.min(%).values|@.argmax(%, keepdim=True)|@.std(%, correction=0)|@.var()|@.norm(2, %)|@.norm(dim=%, p=1)|torch.linalg.vector_norm(@, 3)|@.all(%)|@.cumsum(%)|@.diff()|@.diff(dim=%)|@.renorm(2, 0, 1.0)|"
    "@.to(&)|@.to(&).to(&)|@.type_as(@)|@.to(@)|@.new_zeros(3)|@.new_tensor([1, 2])|@.new_full(@.shape, #)|torch.zeros_like(@)|torch.ones_like(@, dtype=&)|torch.full_like(@, #)|torch.empty_like(@).fill_(#)|torch.arange(@.shape[0])|torch.linspace(0, 1, @.numel())|torch.eye(@.shape[-1])|torch.tensor([#, #])|torch.tensor(#)|torch.as_tensor(@)|torch.full((2,), #)|"
    "torch.rand(@.shape)|torch.randn_like(@)|torch.randint(0, 5, @.shape)|torch.randperm(4)|torch.bernoulli(@.sigmoid())|torch.complex(@, @)|torch.polar(@, @)|torch.view_as_complex(@)|torch.tensor(@.tolist())|torch.tensor(@.shape)|"
    "@.repeat(2, 1)|@.repeat_interleave(2, %)|@.tile(2)|@.roll(1, %)|@.flip(%)|@.logical_and(@)|@.logical_xor(@)|torch.bucketize(@, @.flatten().sort()[0])|torch.searchsorted(@.sort()[0], @)|torch.histc(@, 4)|torch.bincount(@.flatten().abs())|torch.isin(@, @)|torch.isclose(@, @)|torch.meshgrid(@, @, indexing='ij')[1]|torch.block_diag(@, @)|torch.tril_indices(3, 3)|"
    "torch.broadcast_tensors(@, @)[0]|torch.heaviside(@, @)|torch.addcmul(@, @, @, value=#)|torch.logaddexp(@, @)|torch.nextafter(@, @)|torch.ldexp(@, @)|torch.float_power(@, 2)|torch.floor_divide(@, @)|torch.div(@, @, rounding_mode='trunc')|torch.true_divide(@, #)|torch.bitwise_xor(@, @)|torch.gcd(@, @)|@ << 1|@ >> 1|@.bitwise_not()|torch.rsub(@, #)|torch.xlogy(@, @)|"
    "Square.apply(@, #)|state.net(@)|sum(parts(@))|sum(p * i for i, p in enumerate(parts(@)))|state.t|state.leaf|state.l[0]|state.d['t']|state.t + @|state.leaf * @|state.d.get('v', @)|max(@, key=lambda p: p.sum())|(lambda p, q=k: p * q)(@)|[p * 2 for p in @][0]|dict(a=@)['a']|torch.unbind(@)[0]|changed(@.clone(), #)|changed(@)|"
    "torch.autograd.grad(@.sum(), @, allow_unused=True)[0]|torch.autograd.grad((@ * @).sum(), @)[0]|torch.autograd.grad((@ * @ * @).sum(), @, create_graph=True)[0]|@.grad|@.detach()|@.data|@.detach() * 1|@.detach().requires_grad_()|@.clone().requires_grad_()|torch.utils.checkpoint.checkpoint(lambda p: p.sin() * p, @, use_reentrant=False)|"
    "torch.vmap(lambda p: p * 2 + 1)(@)|torch.vmap(lambda p, q: (p * q).sum())(@, @)|torch.func.grad(lambda p: (p * p).sum())(@)|torch.func.vjp(lambda p: p.sin(), @)[0]|torch.func.jvp(lambda p: p * p, (@,), (@,))[1]|torch.vmap(torch.func.grad(lambda p: p.sin().sum()))(@)|torch.func.functional_call(state.net, {'weight': torch.eye(4)}, (@,))"
).split("|")
VIEWS = (
    "@[0]|@[-1]|@[1:]|@[:2]|@[::2]|@[..., 0]|@[..., 1:]|@[:, 1]|@[None]|@[..., None]|@[:, ::2]|@.t()|@.T|@.mT|@.H|@.view(-1)|@.reshape(-1)|@.flatten()|@.reshape(2, -1)|@.unsqueeze(%)|@.squeeze()|@.squeeze(%)|@.expand(2, *@.shape)|@.expand(-1, 4)|@.expand_as(@)|@.diagonal()|@.diagonal(1)|@.narrow(%, 0, 1)|@.select(%, 1)|"
    "@.unfold(%, 2, 1)|@.detach()|@.chunk(2)[0]|@.chunk(2, %)[1]|@.split(2)[-1]|@.split([1, 2])[1]|@.unbind(%)[1]|@.transpose(0, -1)|@.permute(1, 0)|@.movedim(0, -1)|@.data|@.view_as(@)|@.broadcast_to(2, *@.shape)|@.tensor_split(2)[1]|@.view(&)|@.unflatten(0, (-1, 1))|@.real|@.imag|@.conj()|@.conj().T|@.contiguous()|@.to(@.dtype)|@.as_strided((2,), (1,))|@.hsplit(2)[0]|torch.view_as_real(@)"
).split("|")
WRITES = (
    "$.add_(#)|$.mul_(#)|$.add_(@)|$.sub_(@)|$.mul_(@)|$.div_(#)|$.copy_(@)|$.zero_()|$.fill_(#)|$[0] = #|$[0] = @|$[1:] = @[1:]|$[..., 0] += #|$ += @|$ *= #|$ -= @|$ **= 2|$[:] = @|$[...] = @|$[1:] += $[:-1]|$[:-1] = $[1:]|$[k] = #|$[:k] += #|$.masked_fill_($ > #, #)|"
    "$.neg_()|$.abs_()|$.exp_()|$.sin_()|$.relu_()|$.sigmoid_()|$.round_()|$.logical_not_()|$.bitwise_not_()|$.clamp_(#, 2)|$.lerp_(@, 0.5)|$.addcmul_(@, @)|$.square_()|$.pow_(2)|$.floor_()|$.sign_()|$.conj_physical_()|$.tril_()|$.cumsum_(%)|$.eq_(@)|$.gt_(#)|$.remainder_(#)|$.fmod_(2)|$.nan_to_num_()|$.sqrt_()|"
    "$.index_add_(%, torch.tensor([0, 1]), @)|$.index_fill_(%, torch.tensor([1]), #)|$.index_copy_(%, torch.tensor([1]), @)|$.scatter_(%, @.long().abs() % 2, #)|$.scatter_(%, @.long().abs() % 2, @)|$.scatter_add_(%, @.long().abs() % 2, @)|$.scatter_reduce_(%, @.long().abs() % 2, @, 'sum')|$.index_put_((torch.tensor([0, 0]),), @, accumulate=True)|$.index_put_((torch.tensor([0, 1]),), @)|$.put_(torch.tensor([0, 1]), @)|$.masked_scatter_($ > #, @)|$.fill_diagonal_(#)|"
    "$[$ > #] = #|$[@ > #] = #|$[@.bool()] = @|$[$ > #] += #|$[torch.tensor([0, 1])] = #|$[torch.tensor([0, 1])] += @|$[[1, 0]] = @|$[..., [0, 0]] = #|$[0, 0] = @.sum()|$[@.argmax() % 2] = #|$[:, 0], $[:, 1] = $[:, 1], $[:, 0]|"
    "torch.add(@, #, out=$)|torch.mul(@, @, out=$)|torch.sin(@, out=$)|torch.sum(@, %, out=$)|torch.cat([@, @], out=$)|torch.matmul(@, @, out=$)|torch.cumsum(@, 0, out=$)|torch.where(@ > #, @, @, out=$)|torch.gt(@, #, out=$)|torch.stack([@, @], out=$)|torch.arange(4, out=$)|"
    "$.data.add_(#)|$.detach().mul_(#)|$.requires_grad_()|$.requires_grad_(False)|$.grad = None|$.grad = @|$.grad.add_(#)|$.grad.zero_()|$.grad = $.detach() * 2|$.register_hook(lambda g: g * 2)|$.uniform_()|$.normal_()|$.random_(5)|$.bernoulli_(0.5)|$.view(-1)[1] = #|$.T[0] = #|$.T.add_(@)|$.real.mul_(#)|$.imag = @|$.diagonal().fill_(#)|"
    "$.unbind()[0].add_(#)|$.view(&).add_(1)|$.flatten()[0] = #|$.expand(2, *$.shape)[0].add_(1)|torch._foreach_add_([$, @], 1)|torch.nn.init.ones_($)|F.relu($, inplace=True)|F.dropout($, 0.5, inplace=True)|F.hardtanh_($)"
).split("|")
EFFECTS = (
    "$.sum().backward()|($ * @).sum().backward()|($ * $).sum().backward(retain_graph=True)|$.backward(torch.ones_like($))|$.abs().sum().backward(inputs=[$])|torch.autograd.backward([$.sum(), @.sum()])|"
    "state.t = $|state.t = $.detach()|state.t.add_(#)|state.t = state.t * 2|state.l.append($)|state.l[0] = $|state.l[0] += 1|state.l[1] += 1|state.l.pop() if len(state.l) > 2 else None|state.d['t'] = $|state.d['v'] = @ * 2|state.d.pop('v', None)|state.d['n'] += 1|state.n += 1|state.n = #|state.k = #|state.k *= 2|G += 1|G = #|state.leaf.grad = None|state.leaf = $.detach().requires_grad_()|"
    "state.net.eval()|state.net.train()|state.net.mean = @.detach()|state.net.mean.zero_()|state.net.weight.grad = None|state.net.weight.data.mul_(0.5)|state.net.zero_grad()|state.net(@).sum().backward()|state.net.requires_grad_(False)|state.net.weight.requires_grad_()|"
    "state.log.append(f'{@.shape} {#}')|state.log.append(f'{@.sum()}')|state.log.append(f'{@.sum().item():.2f}')|state.log.append(str(@.dtype))|state.log.append(@.stride())|state.log.append(@.is_contiguous())|state.log.append(@.requires_grad)|state.log.append(@ is @)|state.log.append(@.tolist())|state.log.append(#)|state.log.append(@.grad is None)|"
    "state.log.append(torch.equal(@, @))|state.log.append(repr(@.dtype))|state.log.append(len(@))|state.log.append(bool(@.any()))|state.log.append(@.is_complex())|state.log.append(@.sum() > #)|state.log.append(repr(@))|state.log.append(@.element_size())|state.log.append(@.is_conj())|torch.manual_seed(#)|k += 1|k = @.dim()|"
    "$, v0 = @, $|v0 = v1 = $|$ = @|del state.d['v']|state.log.append(list(map(len, state.d)))|torch.optim.SGD([$], lr=0.5).step()|torch.optim.SGD([{'params': [state.net.weight], 'lr': k}], lr=0.1, momentum=0.5).step()|torch.optim.Adam([state.leaf], lr=0.5).step()|torch.nn.utils.clip_grad_norm_([state.leaf, $], 1.0)|state.log.append(torch.nn.utils.parameters_to_vector([state.leaf, state.net.weight]))|state.d.update(t=@, w=$)|state.log = []"
).split("|")
UNUSUAL = (
    "state.log.append(@._version)|state.log.append(@.is_leaf)|state.log.append($.grad_fn is None)|state.log.append(@.data_ptr() == @.data_ptr())|state.log.append(@.storage_offset())|$.t_()|$.squeeze_()|$.unsqueeze_(0)|$.transpose_(0, -1)|$.detach_()|$.data = @|$.data = @.detach() * 2|$.set_(@.detach())|$.resize_($.shape)|$.retain_grad()|torch.sort(@, out=($, $.long()))"
).split("|")
NUMBERS = "0 1 2 3 -1 0.5 -0.5 1.5 True k k k state.n state.k G len(state.l) state.d['n'] @.shape[0] @.shape[-1] @.dim() @.numel() float(@.sum()) @.flatten()[0].item() int(@.sum()) @.stride(0) 2j len(state.log) @.min().item() @.max()".split()
QUESTIONS = (
    "@.sum() > #|@.any()|# > 1|@.shape[0] == 3|@.shape == @.shape|@.requires_grad|k > 1|@.is_contiguous()|@.dtype == torch.float32|@ is @|state.n % 2|@.max().item() > #|torch.equal(@, @)|@.dim() > 1|@.grad is None|'v' in state.d|state.net.training|len(state.l) > 2|torch.is_grad_enabled()|@.stride(0) == 1|@.numel() > @.numel()|isinstance(#, int)|@.is_floating_point()|not @.sum()|@.isnan().any()"
).split("|")
UNLIKE_TORCH = {
    r"rand|dropout|normal_|uniform_|random_|bernoulli|empty|resize": "random numbers are other ones, and empty memory is any",
    r"\.stride\(": "steps along dimensions of one element are any",
    r"torch\.(vmap|func\.)|autograd\.functional": "what transforms give is row-major, and PyTorch's refuse functions that write",
    r"\.H\b|adjoint|conj\(\)": "conjugates are computed at once",
    r"repr\(": "nodes of gradients have other names",
    r"inverse|logdet|\.det\(": "rounding decides which matrices are singular",
    r"unfold|median|masked_scatter_|\[:-1\]|\[1:\] = ": "PyTorch reads what it writes, or what shows an element twice",
    r"sum\(dtype": "PyTorch records gradients of integers, and refuses that",
    r"\[\[True, False\]|fft\.": "what masks pick is row-major, and PyTorch's transforms refuse what has no rows",
    r"out=": "PyTorch reads what it writes, and keeps gradients of what is gone",
    r"no_grad": "PyTorch's views made in it require grad, and its writes to views of leaves lose gradients",
    r"polar|xlogy|unique|sign\(|sgn|sign_|set_\(": "PyTorch has wrong gradients, none at all, or refuses complex numbers",
}
"""What programs that are compared with PyTorch do without, and why."""
UNLIKE = re.compile("|".join(UNLIKE_TORCH))
EAGER = re.compile(r"\.is_leaf|grad_fn|data_ptr|repr\([a-z]\d?\)|\.data = |set_\(|out=|_version|expand\(2|\.view\(torch")
WRITTEN = re.compile(r"^ *(\w+)(?:\[[^\]]*\])?(?:\.T|\.real|\.imag|\.view\(-1\))*(?:\.\w+_\(|\[[^\]]*\] [-+*]*=| [-+*]+=)")
DTYPES = "float32 float32 float32 float32 float64 bfloat16 int64 int32 bool complex64 uint8 float16".split()
LAYOUTS = (
    "make({k}, {a}, {b}{d})|make({k}, {a}, {b}{d})|make({k}, {b}, {a}{d}).t()|make({k}, {a} * 2, {b}{d})[::2]|make({k}, {a}, {b} * 2{d})[:, 1::2]|make({k}, 1, {b}{d}).expand({a}, {b})|make({k}, {b}{d}).expand({a}, {b})|make({k}, {a}{d})[:, None].expand({a}, {b})|make({k}, {b}{d})|"
    "make({k}, {a}, {a}{d})|make({k}, 2, {a}, {b}{d})|make({k}, {b}, 2, {a}{d}).permute(1, 2, 0)|make({k}{d})|make({k}, 0, {b}{d})|make({k}, {a}, {b} + 1{d})[:, 1:]|make({k}, {b} + 3{d})[3:]|make({k}, {a}, 1{d})|make({k}, {a} * {b}{d}).as_strided(({a}, {b}), (1, {a}))"
).split("|")
TRANSFORMS = (
    "torch.vmap(lambda p: @.sum() * p)(@)|torch.vmap(lambda p, q: p @ q, in_dims=(0, None))(@, @)|torch.vmap(lambda p: torch.vmap(lambda q: q * 2 + p.sum())(@))(@)|torch.vmap(lambda p: p.sort()[0], out_dims=1)(@)|torch.vmap(torch.func.grad(lambda p, q: (p * q).sin().sum()), (0, None))(@, @)|"
    "torch.func.grad(lambda p: (p * @).sum())(@)|torch.func.grad_and_value(lambda p: (p.exp() * @).mean())(@)[#]|torch.func.grad(lambda p, q: (p * q).sum(), argnums=(0, 1))(@, @)[1]|torch.func.grad(lambda p: torch.func.grad(lambda q: (q ** 3).sum())(p).sum())(@)|torch.func.grad(changed_loss)(@, @)|"
    "torch.func.jvp(lambda p: p.sin() * @, (@,), (@,))[1]|torch.func.jvp(torch.func.grad(lambda p: (p ** 3).sum()), (@,), (torch.ones_like(@),))[1]|torch.func.vjp(lambda p: p * p, @)[1](@)[0]|torch.func.vjp(lambda p, q: (p * q, p + q), @, @)[0][1]|torch.func.jacrev(lambda p: p.sum(-1) ** 2)(@)|torch.func.jacfwd(lambda p: p * p)(@)|torch.func.hessian(lambda p: (p ** 3).sum())(@)|torch.func.linearize(lambda p: p.cos(), @)[1](@)|"
    "torch.func.functional_call(state.net, {'weight': @}, (@,))|torch.func.functional_call(state.net, {'weight': state.net.weight * #, 'mean': @.detach()}, (@,))|torch.func.grad(lambda w: torch.func.functional_call(state.net, {'weight': w}, (@,)).sum())(state.net.weight)|torch.vmap(lambda w: torch.func.functional_call(state.net, {'weight': w}, (@,)))(torch.stack([state.net.weight, state.net.weight * 2]))|"
    "torch.utils.checkpoint.checkpoint(lambda p, q: (p * q).sin() * p, @, @, use_reentrant=False)|torch.utils.checkpoint.checkpoint(state.net, @, use_reentrant=False)|torch.utils.checkpoint.checkpoint(lambda p: Square.apply(p, #), @, use_reentrant=False)|Square.apply(Square.apply(@, #), 2)|Square.apply(@, #) * @|torch.vmap(lambda p: p * state.net(@).sum())(@)|"
    "step(state, @)|step(state, @, 'adam')|step(state, @, 'sgd', #)|state.net(state.net(@))|[state.net(@) for _ in range(3)][-1]|norm(state, @)|torch.autograd.functional.jacobian(lambda p: p * @, @)|torch.autograd.functional.hvp(lambda p: (p ** 3).sum(), @)[1]|torch.autograd.grad(torch.autograd.grad((@ ** 3).sum(), @, create_graph=True)[0].sum(), @)[0]|torch.autograd.grad(state.net(@).sum(), state.net.weight)[0]"
).split("|")
BASES = ("make(5, {a}, {b})", "make(5, {a}, {b})", "make(5, {a}, {b}).requires_grad_()", "make(5, {a}, {b}).requires_grad_() * 1", "make(5, {b}, {a}).t()")
SHARED = "base base.t() base[0] base[:,0] base[1:] base[::2] base[:,::2] base.view(-1) base.T[1:] base[:,None] base[0].expand(3,-1) base.detach() base.diagonal() base[-1:] base[0,0] base[...]".split()


@dataclasses.dataclass
class Program:
    """A program in parts, any of which can be left out."""

    body: list[list[str]]
    returned: list[str]
    calls: list[list[str]]
    objects: bool = False
    idioms: bool = False

    @property
    def function(self) -> list[str]:
        lines = (f"    {line}" for group in self.body for line in group)
        return ["def plain(x, y, z, k):", "    global G", *lines, f"    return [{', '.join(self.returned)}]"]

    @property
    def source(self) -> str:
        lines = [*self.function, "def script(jit, show):", "    global base, G", "    kept = []", "    f = jit(plain)", "    torch.manual_seed(7)"]
        if self.objects:
            lines.append("    random.seed(7), np.random.seed(7)")
        for call in self.calls:
            lines += [f"    {line}" for line in call]
        return self.prelude + "\n".join(lines) + "\n"

    @property
    def prelude(self) -> str:
        return PRELUDE + objects.PRELUDE * self.objects + idioms.PRELUDE * self.idioms

    def without(self, part: str, i: int) -> Program:
        kept = list(getattr(self, part))
        del kept[i]
        return dataclasses.replace(self, **{part: kept})


class Generator:
    """Draws one program."""

    def __init__(self, seed: int, length: int = 8, calls: int = 10, transforms: bool = False, objects_drawn: bool = False, idioms_drawn: bool = False, without: re.Pattern[str] | None = None):
        self.random = random.Random(seed)
        self.objects, self.idioms, self.without = objects_drawn, idioms_drawn, without
        self.transforms = 0.25 if transforms else 0.02
        self.length = length
        self.names: list[str] = []
        self.scope: dict[str, Any] = {"torch": eagerjit, "__name__": "drawn", "told": str, "kept": [eagerjit.ones(3, 4)]}
        exec(compile(Program([], [], [], objects_drawn, idioms_drawn).prelude, "drawn.py", "exec", dont_inherit=True), self.scope)
        choose = self.random.choice
        layouts, sizes, k = [self.layout() for _ in "xyz"], (3, 4), choose((1, 2))
        self.base = choose(BASES)
        while not self.runs(first := self.call(layouts, sizes, k)):
            layouts = [self.layout() for _ in "xyz"]
        self.names = ["x", "y", "z"]
        body = [self.statement(2) for _ in range(self.random.randint(3, length))]
        returned = [choose((f"{n}", f"{n}", f"{n}", f"({n}, {{'a': {choose(self.names)}}})", f"{n}[0]", f"{n}.T", "k", f"{n}.shape"))
                    for n in self.random.choices(self.names[-4:] + self.names, k=self.random.randint(1, 4))]  # fmt: skip
        called = self.others(first, layouts, sizes, k, Program(body, returned, []).function, calls)
        settle(eagerjit)
        self.program = Program(body, returned, [self.calling(c) for c in called], self.objects, self.idioms)

    def others(self, first: list[str], layouts: list[str], sizes: tuple[int, int], k: Any, function: list[str], calls: int) -> list[list[str]]:
        """The first call and others, of which most do not raise either."""
        choose = self.random.choice
        called = [first]
        self.runs(function)
        for _ in range(3 * calls):
            drawn, chance = (layouts, sizes, k, self.base), self.random.random()
            if chance < 0.25:
                sizes = choose(((3, 4), (4, 4), (2, 5), (4, 5), (5, 3), (4, 6), (2, 2), choose(((3, 1), (1, 4)))))
            elif chance < 0.28:
                layouts = [choose((old, self.layout())) for old in layouts]
            elif chance < 0.31:
                self.base = choose(BASES)
            elif chance < 0.36:
                k = choose((0, 1, 2, 3, 0.5, True))
            made = self.call(layouts, sizes, k)
            if self.runs([*made, "kept = plain(x, y, z, k)"]) or self.random.random() < 0.1:
                called.append(made)
            else:
                layouts, sizes, k, self.base = drawn
            if len(called) == calls:
                break
        return called

    def layout(self) -> str:
        """An input as a pattern: a tensor of its own, with a history or none, or a view of the call's base."""
        choose = self.random.choice
        if self.random.random() < 0.15:
            return choose(SHARED)
        dtype = choose(DTYPES)
        text = choose(LAYOUTS).replace("{d}", "" if dtype == "float32" else f", dtype=torch.{dtype}")
        if dtype in ("float32", "float64", "bfloat16", "complex64"):
            text += choose(("", "", "", ".requires_grad_()", ".requires_grad_()", ".requires_grad_() * 1", ".requires_grad_()[:]"))
        return text

    def call(self, layouts: list[str], sizes: tuple[int, int], k: Any) -> list[str]:
        a, b = sizes
        made = [f"{n} = {layout.format(k=i, a=a, b=b)}" for i, (n, layout) in enumerate(zip("xyz", layouts, strict=True))]
        if self.objects and self.random.random() < 0.3:
            made[self.random.randrange(3)] = f"{self.random.choice('yz')} = {self.random.choice(objects.AGAIN)}"
        return [f"base = {self.base.format(a=a, b=b)}; k = {k}", *made]

    def calling(self, made: list[str]) -> list[str]:
        """Lines of the script that make a call, show what came of it, write to that, and show it again."""
        after = self.random.choice(([], [], [], [], [], [], ["r[0].add_(1)"], ["r[-1].mul_(2)"], ["base.add_(1)"], ["sum(t.real.sum() for t in r if t.requires_grad).backward()"], ["(r[0] * r[-1]).sum().backward()"],
                                    ["x.detach().mul_(2)"], ["state.t = make(6, 4)"], ["state.n += 1"], ["state.net.eval()"], ["state.k = 2.0"], ["state.l[0] = x"], ["torch.manual_seed(3)"]))  # fmt: skip
        if self.objects and self.random.random() < 0.4:
            after = [self.random.choice(objects.AFTER)]
        show = "yield show([r, x, y, z, base, state, G])"
        lines = ["r = x = y = z = None", "try:", *(f"    {line}" for line in made), "    kept = f(x, y, z, k); r = kept", "except Exception as e: yield show(e)", show]
        return [*lines, "try:", *(f"    {line}" for line in after), "except Exception as e: yield show(e)", show] if after else lines

    def filled(self, text: str) -> str:
        """A pattern with tensors, numbers, dimensions and dtypes for its signs, and one tensor for all `$`."""
        target, made = self.name(), ""
        while "#" in text:
            text = text.replace("#", self.random.choice(NUMBERS), 1)
        for sign in text:
            made += {"@": self.name, "$": lambda: target, "%": lambda: self.random.choice(("0", "-1", "1")), "&": lambda: "torch." + self.random.choice(DTYPES)}.get(sign, lambda s=sign: s)()
        return made

    def name(self) -> str:
        return self.random.choice([*self.names, *self.names[-3:]])

    def runs(self, lines: list[str]) -> bool:
        """Whether lines run in the scope the program is drawn in."""
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            try:
                exec("\n".join(re.sub(r"\breturn \[x, y\]", "pass", line) for line in lines), self.scope)
            except Exception:
                return False
        return True

    def statement(self, depth: int) -> list[str]:
        """A statement that runs, or rarely one that raises, caught."""
        for _ in range(30):
            names = list(self.names)
            lines = self.drawn(depth)
            left_out = self.without is not None and self.without.search("\n".join(lines))
            if left_out or (self.runs_eagerly(lines) and self.random.random() < 0.8):
                self.names = names
                continue
            if self.runs(lines):
                self.names = [n for n in self.names if n in names or hasattr(self.scope.get(n), "untyped_storage")]
                if not any(getattr(self.scope.get(n), "numel", int)() > 500 for n in self.names):
                    return lines
            self.names = names
            if self.random.random() < 0.02:
                return ["try:", *(f"    {line}" for line in lines), "except Exception as e:", "    state.log.append(type(e).__name__)"]
        return ["pass"]

    def runs_eagerly(self, lines: list[str]) -> bool:
        """Whether a call would not be compiled: most lines that ask for addresses and histories, or write these."""
        for line in lines:
            written = WRITTEN.search(line)
            if EAGER.search(line) or (written and getattr(self.scope.get(written[1]), "requires_grad", False)):
                return True
        return False

    def drawn(self, depth: int) -> list[str]:
        choose, chance = self.random.choice, self.random.random()
        if depth and chance > 0.86:
            return self.block(depth)
        if self.objects and self.random.random() < 0.5:
            if chance < 0.4:
                made = self.filled(choose(objects.EXPRESSIONS))
                self.names.append(f"v{len(self.names)}")
                return [f"{self.names[-1]} = {made}"]
            return [self.filled(choose(objects.VIEWS_WRITTEN if chance > 0.75 else objects.EFFECTS))]
        if self.idioms and self.random.random() < 0.6:
            if chance < 0.6:
                made = self.filled(choose(idioms.EXPRESSIONS))
                self.names.append(f"v{len(self.names)}")
                return [f"{self.names[-1]} = {made}"]
            return [self.filled(choose(idioms.WRITES))]
        if chance < 0.58:
            unary = choose(UNARY).replace("[", ":[").split(":")
            called = [p for p in unary[1:] if p and not p.startswith("[")]
            own = f"@.{unary[0]}({''.join(called)})" + "".join(p for p in unary[1:] if p.startswith("["))
            text = choose(TRANSFORMS) if self.random.random() < self.transforms else choose(VIEWS) if chance < 0.18 else own if chance < 0.28 else choose(EXPRESSIONS)
            made = self.filled(text)
            self.names.append(f"v{len(self.names)}")
            return [f"{self.names[-1]} = {made}"]
        return [self.filled(choose(UNUSUAL) if chance < 0.59 else choose(WRITES) if chance < 0.76 else choose(EFFECTS))]

    def block(self, depth: int) -> list[str]:
        choose = self.random.choice
        known = list(self.names)
        inner = [f"    {line}" for _ in range(self.random.randint(1, 4)) for line in self.drawn(depth - 1)]
        names, self.names = self.names, known
        question = self.filled(choose(QUESTIONS))
        head = choose(("with torch.no_grad():", "with torch.no_grad():", "with torch.enable_grad():", f"if {question}:", f"if {question}:", "for i in range(2):", f"for p in {self.name()}.unbind():",
                       "try:", "with torch.autocast('cpu', dtype=torch.bfloat16):", "with torch.random.fork_rng():"))  # fmt: skip
        if self.objects and self.random.random() < 0.5:
            head = self.filled(choose(objects.HEADS))
            if self.random.random() < 0.2:
                inner.append("    " + choose((f"if {question}: break", f"if {question}: continue", f"if {question}: return [x, y]", f"if {question}: raise KeyError(k)")))
        if self.idioms and self.random.random() < 0.5:
            head = self.filled(choose(idioms.HEADS))
        if head.startswith(("with", "for")):
            self.names = names
        if head.startswith("try"):
            raised = choose(("raise ValueError(k)", f"{self.name()}.reshape(77)", f"assert {question}, 'no'", "1 / 0", f"{self.name()} @ {self.name()}", "pass"))
            return [head, *inner, f"    {raised}", "except Exception as e:", "    state.log.append(told(e))"]
        if head.startswith("if") and self.random.random() < 0.5:
            return [head, *inner, "else:", *(f"    {line}" for line in self.drawn(depth - 1))]
        return [head, *inner]


def settle(library: Any) -> None:
    """Take back the modes that a program may have left."""
    library.set_grad_enabled(True)
    library.set_default_dtype(library.float32)


def outcome(program: Program, library: Any, jit: Callable[[Any], Any], told: Callable[[Exception], str] = str) -> list[Any]:
    """What a program shows in a library; the last thing is the error that ended it."""
    text, name = program.source, "statements_drawn"
    linecache.cache[f"{name}.py"] = (len(text), None, text.splitlines(True), f"{name}.py")
    scope: dict[str, Any] = {"__name__": name, "torch": library, "told": told}
    showing, seen = Showing(), []
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()) as printed:
        warnings.simplefilter("ignore")
        try:
            exec(compile(text, f"{name}.py", "exec", dont_inherit=True), scope)
            for shown in scope["script"](jit, showing):
                seen.append(shown)
        except Exception as error:
            seen.append(["ended", type(error).__name__])
        finally:
            settle(library)
    return [*seen, ["printed", printed.getvalue()]]


def plain(program: Program, library: Any = eagerjit, told: Callable[[Exception], str] = str) -> list[Any]:
    return outcome(program, library, lambda f: f, told)


def compiled(program: Program, infos: list[Any]) -> list[Any]:
    made: list[Any] = []

    def jit(function: Any) -> Any:
        made.append(eagerjit.jit(function))
        return made[-1]

    seen = outcome(program, eagerjit, jit)
    infos += [f.cache_info() for f in made]
    return seen


def difference(program: Program, mode: str, infos: list[Any] | None = None) -> str | None:
    """Where the plain run parts from the compiled one, or from PyTorch's."""
    if mode == "compiled":
        return parting(plain(program), compiled(program, infos if infos is not None else []))
    kind = lambda error: type(error).__name__  # noqa: E731
    theirs = plain(program, importlib.import_module("torch"), kind)
    if re.search("refers? to a single memory location", str(theirs)):
        return None  # writes that read what they overwrite are right here
    ours = plain(program, eagerjit, kind)
    if "NotImplementedError" in str(theirs) and "NotImplementedError" not in str(ours):
        return None  # PyTorch has no kernel for a dtype, or looks at it before it looks at shapes
    return parting_from_torch(ours, theirs)


def cause(found: str) -> str:
    """What tells one cause of a difference from others: what differs, and the classes of errors."""
    place, _, values = found.partition(": ")
    return " ".join([*re.findall("[a-z_]+", place)[-1:], *re.findall(r"\w+Error", values)])


def reduced(program: Program, mode: str, seconds: float = 20) -> Program:
    """A program of which nothing can be left out without the difference going, or becoming another one."""
    first = difference(program, mode)
    ends = time.time() + seconds
    going = True
    while going:
        going = False
        for part in ("calls", "body", "returned"):
            for i in reversed(range(len(getattr(program, part)))):
                smaller = program.without(part, i)
                if time.time() < ends and (found := difference(smaller, mode)) and first and cause(found) == cause(first):
                    program, going = smaller, True
    return program


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("compiled", "torch"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--length", type=int, default=8)
    parser.add_argument("--transforms", action="store_true", help="draw more transforms, Modules and optimizers")
    parser.add_argument("--idioms", action="store_true", help="draw indices of every kind, loops that carry values, empty tensors, halves")
    parser.add_argument("--objects", action="store_true", help="draw more of Python's objects and what changes them")
    options = parser.parse_args()
    os.environ["EAGERJIT_CACHE"] = "0"
    cpu._target_machine = hasty_machine
    without = UNLIKE if options.mode == "torch" else None
    ends, seed, differing, calls, infos = time.time() + options.seconds, options.seed, 0, 0, list[Any]()
    while time.time() < ends:
        program = Generator(seed, options.length, transforms=options.transforms, objects_drawn=options.objects, idioms_drawn=options.idioms, without=without).program
        calls += len(program.calls)
        found = difference(program, options.mode, infos)
        if found is not None:
            differing += 1
            small = reduced(program, options.mode)
            print(f"seed {seed}: {difference(small, options.mode)}\n{small.source[len(small.prelude) :]}", flush=True)
        seed += 1
    print(f"{seed - options.seed} programs, {differing} differ; {calls} calls, {sum(i.compiles for i in infos)} compiled, {sum(i.eager_calls for i in infos)} run eagerly")
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main())

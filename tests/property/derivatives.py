# ruff: noqa: E501
"""Random derivatives of derivatives: transforms, walks and tangents nested in one another, with any function of them jitted.

A program has functions of one tensor, of which each is made of layers, operations and derivatives of those before it,
and a step that takes the last one's gradients once, twice or three times. All that can be seen of a call is compared
with that of the plain program: results, gradients, errors.

    python -m tests.property.derivatives --seed 0 --seconds 60
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import random
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import eagerjit as torch
from eagerjit.jit import CacheInfo
from eagerjit.runtime import cpu
from tests.property.programs import hasty_machine
from tests.property.scripts import loaded, reduced
from tests.property.seen import Showing, parting

PRELUDE = '''\
import types
import eagerjit as torch
from eagerjit.autograd import forward_ad
from eagerjit.utils.checkpoint import checkpoint
nn, F, func, functional = torch.nn, torch.nn.functional, torch.func, torch.autograd.functional
def made(k, *sizes):
    return ((torch.arange(int(torch.Size(sizes).numel())) * 7 + k * 3) % 11 - 4).reshape(sizes) / 4.0
class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3
    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return g * 3 * x * x
class Scaled(torch.autograd.Function):
    """A function of two tensors for which transforms are told everything."""
    generate_vmap_rule = True
    @staticmethod
    def forward(x, w):
        return x * w, x.sum()
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)
    @staticmethod
    def backward(ctx, g, h):
        x, w = ctx.saved_tensors
        return g * w + h, (g * x).sum(0)
    @staticmethod
    def jvp(ctx, t, u):
        x, w = ctx.saved_tensors
        t = torch.zeros_like(x) if t is None else t
        return t * w + (0 if u is None else x * u), t.sum()
class Walked(torch.autograd.Function):
    """A function whose backward differentiates another one."""
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return torch.tanh(x @ w)
    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        with torch.enable_grad():
            return torch.autograd.grad(torch.tanh(x @ w), (x, w), g, create_graph=torch.is_grad_enabled())
class Inverse(torch.autograd.Function):
    """A gradient that is another Function."""
    @staticmethod
    def forward(ctx, x):
        y = 1 / (2 + x * x)
        ctx.save_for_backward(x, y)
        return y
    @staticmethod
    def backward(ctx, g):
        return InverseGradient.apply(g, *ctx.saved_tensors)
class InverseGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, g, x, y):
        ctx.save_for_backward(g, x, y)
        return -2 * g * x * y * y
    @staticmethod
    def backward(ctx, h):
        g, x, y = ctx.saved_tensors
        return -2 * h * x * y * y, -2 * h * g * y * y, -4 * h * g * x * y
def watched(x):
    """What a gradient is taken of: in a transform a leaf that is made as one, as no flag of a tensor is set in one."""
    return x if x.requires_grad else nn.Parameter(x.detach())
def row_major(g):
    """A gradient without the strides of what `autograd.grad` gives, in which compiled calls differ."""
    return None if g is None else g.detach().clone(memory_format=torch.contiguous_format)
s = types.SimpleNamespace()
'''
PARTS = {
    "w": "nn.Parameter(made(1, 3, 3) / 2)",
    "b": "nn.Parameter(made(2, 3))",
    "k": "nn.Parameter(made(3, 1, 1, 3))",
    "net": "nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))",
    "gru": "nn.GRUCell(3, 3)",
    "lstm": "nn.LSTM(3, 3)",
    "rnn": "nn.RNN(3, 3, batch_first=True)",
    "norm": "nn.LayerNorm(3)",
    "batch": "nn.BatchNorm1d(3)",
    "attention": "nn.MultiheadAttention(3, 1)",
    "encoder": "nn.TransformerEncoderLayer(3, 1, 4, 0.0)",
}
OPERATIONS = (
    "x = torch.tanh(x @ s.w)|x = F.linear(x, s.w, s.b)|x = x * s.b + x.sin()|x = s.net(x)|x = s.net(x)|x = s.gru(x)|x = s.gru(x, s.gru(x))|x = s.lstm(x)[0]|x = s.rnn(x[None])[0][0]|x = s.norm(x)|x = s.batch(x)|x = s.attention(x, x, x)[0]|x = s.encoder(x)|"
    "x = F.softmax(x, -1) * 2|x = F.log_softmax(x, 0)|x = F.layer_norm(x, (3,), s.b)|x = F.gelu(x)|x = F.silu(x)|x = F.softplus(x)|x = F.elu(x)|x = F.relu(x) + 0.1 * x|x = x.cumsum(0) / 2|x = x.cumprod(-1)|x = torch.where(x > 0, x, s.b * x)|x = x[:, [2, 0, 1]]|x = x.flip(0) * x|x = x.roll(1, -1) * x|x = x.mT.contiguous().mT|"
    "x = x.clone(); x[:, 0] = x[:, 1] * 2|x = x * 1; x.mul_(s.b)|x = x * 1; x[:1] += s.b|x = x.sin(); x.add_(x * x)|x = torch.cat([x[:, :1], x[:, 1:] * x[:, :2]], 1)|x = x / (1 + x.square().sum(-1, keepdim=True))|x = x - x.logsumexp(-1, keepdim=True)|x = torch.einsum('ni,ij->nj', x, s.w)|x = x.sort(-1)[0]|x = F.normalize(x, dim=-1)|"
    "x = F.scaled_dot_product_attention(x[None], x[None], x[None])[0]|x = F.conv1d(x[:, None], s.k, padding=1)[:, 0]|x = x * x.detach()|x = F.embedding(torch.arange(len(x)) % 3, s.w) * x|x = x + x.mean(0)|x = x ** 3 / 4|x = x.exp().log1p()|x = torch.linalg.solve(s.w + 5 * torch.eye(3), x.T).T|x = x.var(-1, keepdim=True) + x|x = F.dropout(x, 0.5)|x = torch.stack([r * r.sum() for r in x]) if len(x) else x|"
    "x = torch.sigmoid(x) * x.amax(-1, keepdim=True)|x = torch.addcmul(x, x, s.b)|x = torch.lerp(x, x * x, 0.25)|x = x.norm(dim=-1, keepdim=True) * x|x = (x @ x.T) @ x / 4|x = x.atan() * x.shape[0]|x = torch.logaddexp(x, s.b)|x = x.clamp(-0.75, 1.0) * x|x = x.masked_fill(x > 1, 0.5)|x = x.gather(-1, x.argsort(-1))|x = x.prod(-1, keepdim=True) + x|x = x.unfold(1, 2, 1).sum(-1).repeat(1, 2)[:, :3]|"
    "x = Cubed.apply(x) / 4|x = Scaled.apply(x, s.b)[0]|x = sum(Scaled.apply(x, s.b))|x = Walked.apply(x, s.w)|x = Inverse.apply(x)"
).split("|")
DERIVATIVES = (
    "a = watched(x); x, = torch.autograd.grad(f(a).square().sum(), a, create_graph=True)|a = watched(x); x, = torch.autograd.grad(f(a), a, a.cos(), create_graph=True)|a = watched(x); g, = torch.autograd.grad(f(a).square().sum(), a, create_graph=True); x, = torch.autograd.grad(g.square().sum(), a, create_graph=True)|"
    "a = watched(x); v = torch.ones_like(a, requires_grad=True); g, = torch.autograd.grad(f(a), a, v, create_graph=True); x, = torch.autograd.grad(g.sum(), v, create_graph=True)|a = nn.Parameter(x.detach()); f(a).square().sum().backward(create_graph=True); x = a.grad * x|a = watched(x); y = f(a); x = y + 0.1 * torch.autograd.grad(y.sum(), a, create_graph=True)[0]|"
    "a = watched(x); g = torch.autograd.grad(f(a).square().mean(), [a, s.w], create_graph=True, allow_unused=True); x = sum(p.sum() for p in g if p is not None) * x|a = watched(x); g, = torch.autograd.grad(f(a).square().sum(), a, retain_graph=True); x = g.detach() * a|"
    "x = func.grad(lambda a: f(a).square().mean())(x)|x = func.grad(lambda a: func.grad(lambda q: f(q).square().sum())(a).square().sum())(x)|y, pull = func.vjp(f, x); x, = pull(y.sin())|y, pull = func.vjp(f, x); x = y * pull(torch.ones_like(y))[0]|y, t = func.jvp(f, (x,), (x.cos(),)); x = y + t|x = func.jvp(f, (x,), (torch.ones_like(x),))[1]|"
    "x = func.jvp(func.grad(lambda a: f(a).square().sum()), (x,), (torch.ones_like(x),))[1]|x = func.grad(lambda a: func.jvp(f, (a,), (torch.ones_like(a),))[1].square().sum())(x)|x = func.jvp(lambda a: func.jvp(f, (a,), (torch.ones_like(a),))[1], (x,), (x.sin(),))[1]|x = func.vjp(lambda a: func.vjp(f, a)[1](torch.ones_like(a))[0], x)[1](x)[0]|"
    "x = func.jacrev(lambda a: f(a).sum(0))(x).sum(0)|x = func.jacfwd(lambda a: f(a).sum(0))(x).sum(0)|x = func.hessian(lambda a: f(a).square().sum())(x).sum((2, 3))|x = func.jacfwd(func.jacrev(lambda a: f(a).sum()))(x).sum((0, 1))|x = func.jacrev(func.jacfwd(lambda a: f(a).sum()))(x).sum((0, 1))|y, line = func.linearize(f, x); x = y + line(x.sin())|"
    "x = func.vmap(lambda a: f(a[None])[0], randomness='different')(x)|x = func.vmap(func.grad(lambda a: f(a[None]).square().sum()), randomness='different')(x)|x = func.vmap(func.jacfwd(lambda a: f(a[None]).sum()), randomness='different')(x)|x = func.vmap(lambda t: func.jvp(f, (x,), (t,))[1], randomness='same')(torch.stack([x, x.cos()])).sum(0)|x = func.vmap(func.vjp(f, x)[1])(torch.stack([x, x.cos()]))[0].sum(0)|"
    "with forward_ad.dual_level(): y, t = forward_ad.unpack_dual(f(forward_ad.make_dual(x, x.cos()))); x = y if t is None else y + t|a = watched(x * 1)\nwith forward_ad.dual_level(): g, = torch.autograd.grad(f(forward_ad.make_dual(a, a.detach().sin())).square().sum(), a, create_graph=True); y, t = forward_ad.unpack_dual(g); x = y if t is None else y + t|"
    "x = checkpoint(f, x, use_reentrant=False)|x = checkpoint(f, x, use_reentrant=False)|x = checkpoint(lambda a: f(a) * s.b, x, use_reentrant=False, preserve_rng_state=False)|x = f(x)|x = f(f(x))|x = x + f(x * 0.5)|x = f(x.detach()) * x|x = torch.stack([f(x), f(x + 1)]).mean(0)|"
    "x = functional.jacobian(lambda a: f(a).sum(0), x, create_graph=True).sum(0)|x = functional.hvp(lambda a: f(a).square().sum(), x, x.detach().cos(), create_graph=True)[1]|x = functional.vhp(lambda a: f(a).square().sum(), x, x.detach().cos(), create_graph=True)[1]|x = functional.jvp(f, x, x.detach().cos(), create_graph=True)[1]|x = functional.vjp(f, x, torch.ones_like(x), create_graph=True)[1]|x = functional.hessian(lambda a: f(a).square().sum(), x, create_graph=True).sum((2, 3))|"
    "x = f(x * 1); x.requires_grad and x.register_hook(lambda g: g * 2)|a = watched(x) * 1; a.register_hook(lambda g: g + g.square()); x, = torch.autograd.grad(f(a).sum(), a, create_graph=True)|a = watched(x) * 1; a.retain_grad(); y = f(a); y.square().sum().backward(create_graph=True); x = y + a.grad|with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t): x = f(x)|with torch.no_grad(): y = f(x)\nx = x * y|with torch.no_grad(): g = func.grad(lambda a: f(a).square().sum())(x)\nx = x * g|x = func.functional_call(s.net, {k: p * 2 for k, p in s.net.named_parameters()}, (f(x),))|"
    "x = sum(p.sum() for p in func.grad(lambda v: func.functional_call(s.net, v, (f(x),)).square().sum())(dict(s.net.named_parameters())).values()) * x|v = dict(s.net.named_parameters()); x = func.jvp(lambda v: func.functional_call(s.net, v, (f(x),)), (v,), ({k: p.detach() * 2 for k, p in v.items()},))[1]"
).split("|")
STEPS = {
    "once": ["loss = loss_of(x)", "loss.backward()"],
    "taken": ["loss = loss_of(x)", "taken = torch.autograd.grad(loss, values, allow_unused=True)"],
    "twice": ["loss = loss_of(x)", "taken = torch.autograd.grad(loss, values, create_graph=True, allow_unused=True)", "sum(g.square().sum() for g in taken if g is not None).backward()"],
    "kept": ["loss = loss_of(x)", "loss.backward(create_graph=True)", "taken = torch.autograd.grad(sum(p.grad.square().sum() for p in values if p.grad is not None), values, allow_unused=True)", "for p in values: p.grad = None"],
    "three times": ["loss = loss_of(x)", "taken = torch.autograd.grad(loss, values, create_graph=True, allow_unused=True)", "taken = torch.autograd.grad(sum(g.square().sum() for g in taken if g is not None), values, create_graph=True, allow_unused=True)", "sum(g.square().sum() for g in taken if g is not None).backward()"],
    "pushed": ["loss, t = func.jvp(loss_of, (x,), (torch.ones_like(x),))", "(loss + t.square()).backward()"],
    "products": ["loss = loss_of(x)", "taken = torch.autograd.grad(loss, values, create_graph=True, allow_unused=True)", "sum((g * g.detach()).sum() for g in taken if g is not None).backward()"],
    "batched": ["loss = loss_of(x)", "taken = torch.autograd.grad(loss, values, create_graph=True, allow_unused=True)", "taken = [g for g in taken if g is not None][:1]", "g, = taken", "taken = torch.autograd.grad(g, values, torch.stack([torch.ones_like(g), g.detach()]), is_grads_batched=True, allow_unused=True, retain_graph=True)"],
    "hooked": ["loss = loss_of(x)", "handle = s.w.register_hook(lambda g: g * 2)", "taken = torch.autograd.grad(loss, values, create_graph=True, allow_unused=True)", "sum(g.square().sum() for g in taken if g is not None).backward()", "handle.remove()"],
}  # fmt: skip
LOSSES = "x.square().mean()|x.square().mean()|x.sum()|x.exp().mean()|x.logsumexp(-1).sum()|F.mse_loss(x, torch.ones_like(x))|F.cross_entropy(x, torch.arange(len(x)) % 3)|x.tanh().norm()".split("|")
TAKEN = re.compile(r"grad\(|backward\(|jvp\(|vjp\(|vhp\(|hvp\(|jacrev\(|jacfwd\(|jacobian\(|hessian\(|linearize\(|make_dual\(")
TWICE = re.compile(r"hessian\(|hvp\(|vhp\(")
SIZES = (3, 3, 3, 2, 2, 4, 1, 5)


@dataclasses.dataclass
class Program:
    """A program in parts, any of which can be left out."""

    jitted: list[str]
    functions: list[list[str]]
    loss: str
    step: str
    calls: list[list[str]]

    def without(self) -> Iterator[Program]:
        """Programs with one thing less, or with a simpler one."""
        for i in reversed(range(len(self.calls))):
            yield dataclasses.replace(self, calls=self.calls[:i] + self.calls[i + 1 :])
        for i, body in enumerate(self.functions):
            for j in reversed(range(len(body))):
                yield dataclasses.replace(self, functions=[*self.functions[:i], body[:j] + body[j + 1 :], *self.functions[i + 1 :]])
        for name in self.jitted * (len(self.jitted) > 1):
            yield dataclasses.replace(self, jitted=[n for n in self.jitted if n != name])
        if self.step != "once":
            yield dataclasses.replace(self, step="once")
        if self.loss != LOSSES[0]:
            yield dataclasses.replace(self, loss=LOSSES[0])

    @property
    def source(self) -> str:
        return PRELUDE + "\n".join(self.lines()) + "\n"

    def lines(self) -> list[str]:
        lines = []
        for i, body in enumerate(self.functions):
            last = f"f{i - 1}" if i else "torch.sin"
            text = "\n".join([*body, "return x"])
            lines += self.function(f"f{i}", "x", re.sub(r"\bf\b", last, text).split("\n"))
        lines += self.function("loss_of", "x", [f"x = f{len(self.functions) - 1}(x)", f"return {self.loss}"])
        lines += self.function("step", "x, values", ["taken = ()", *STEPS[self.step], "return loss.detach(), taken"])
        lines += ["def script(show):", "    torch.manual_seed(7)"]
        text = "\n".join([*lines, *(line for call in self.calls for line in call)])
        parts = [name for name in PARTS if re.search(rf"\bs\.{name}\b", text)] or ["w"]
        lines += [f"    s.{name} = {PARTS[name]}" for name in dict.fromkeys(["w", *parts])]
        lines += ["    values = [p for v in vars(s).values() for p in ([v] if isinstance(v, torch.Tensor) else v.parameters())]"]
        for x, *changes in self.calls:
            for change in changes:
                lines += ["    try:", f"        {change}", "    except Exception as e: yield show(e)"]
            lines += [f"    x = {x}", "    r = ()", "    try:", "        r = step(x, [p for p in values if p.requires_grad])", "    except Exception as e: yield show(e)"]
            lines += ["    yield show([r[:1], [row_major(g) for g in r[1:] for g in g], [p.grad for p in values], x])", "    for p in values: p.grad = None"]
        return lines

    def function(self, name: str, arguments: str, body: list[str]) -> list[str]:
        return [*(["@jit"] if name in self.jitted else []), f"def {name}({arguments}):", *(f"    {line}" for line in body)]


def order(program: Program) -> int:
    """About how often what is computed is differentiated: plain calls take long for more than three times."""
    text = str([program.functions, STEPS[program.step]])
    return len(TAKEN.findall(text)) + len(TWICE.findall(text))


class Generator:
    """Draws one program."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.program = self.drawn()
        while order(self.program) > 3:
            self.program = self.drawn()

    def drawn(self) -> Program:
        draw = self.random
        deep = draw.choice((1, 1, 2))
        functions = [[draw.choice(OPERATIONS) for _ in range(draw.randint(1, 3))]]
        for _ in range(deep):
            around = [draw.choice(OPERATIONS) for _ in range(draw.choice((0, 0, 1, 2)))]
            around.insert(draw.randint(0, len(around)), draw.choice(DERIVATIVES))
            functions.append(around)
        names = ["step"] * 4 + ["loss_of", *(f"f{i}" for i in range(len(functions)))]
        jitted = list(dict.fromkeys(draw.choices(names, k=draw.choice((1, 1, 1, 2, 3)))))
        steps = list(STEPS) + ["once"] * 3 + ["twice"]
        return Program(jitted, functions, draw.choice(LOSSES), draw.choice(steps), [self.call() for _ in range(draw.randint(3, 5))])

    def call(self) -> list[str]:
        draw = self.random
        made = f"made({draw.randrange(5)}, {draw.choice(SIZES)}, 3)"
        made += draw.choice(("", "", "", ".requires_grad_()", ".requires_grad_() * 1", ".mT.contiguous().mT"))
        changes = [draw.choice(("s.w.requires_grad_(not s.w.requires_grad)", "s.w.data.mul_(0.5)", "torch.manual_seed(3)", "s.net.requires_grad_(False)", "s.batch.eval()"))] if draw.random() < 0.15 else []
        return [made, *changes]


def outcome(program: Program, jit: Callable[[Any], Any]) -> list[Any]:
    """What a program shows, and the random state at its end."""
    seen: list[Any] = []
    torch.manual_seed(5)
    try:
        seen.extend(loaded("derivatives_drawn", program.source, jit=jit)(Showing()))
    except Exception as error:
        seen.append(["ended", type(error).__name__, str(error)])
    finally:
        torch.set_grad_enabled(True)
    return [*seen, torch.rand(2).tolist()]


def difference(program: Program, infos: list[CacheInfo] | None = None, refused: list[int] | None = None) -> str | None:
    """Where the plain run parts from the one with jitted functions."""
    functions: list[Any] = []

    def jit(function: Any) -> Any:
        functions.append(torch.jit(function))
        return functions[-1]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, jitted = outcome(program, lambda f: f), outcome(program, jit)
    if infos is not None:
        infos += [f.cache_info() for f in functions]
    if refused is not None:
        refused.append(sum(shown[:1] == ["error"] for shown in plain[:-1]))
    return parting(plain, jitted)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    os.environ.setdefault("EAGERJIT_CACHE", "0")
    cpu._target_machine = hasty_machine
    ends, seed, differing = time.time() + options.seconds, options.seed, 0
    infos: list[CacheInfo] = []
    refused: list[int] = []
    while time.time() < ends:
        program = Generator(seed).program
        if difference(program, infos, refused) is not None:
            differing += 1
            small = reduced(program, difference, 20)
            print(f"seed {seed}: {difference(small)}\n{small.source[len(PRELUDE) :]}", flush=True)
        seed += 1
    print(f"{seed - options.seed} programs, {differing} differ; {sum(i.compiles for i in infos)} compiled, {sum(i.hits for i in infos)} served, {sum(i.eager_calls for i in infos)} run eagerly, {sum(refused)} refused")
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main())

"""The operations that programs use most, and tensors that lie in other orders, by PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.eager_training import RECORDING, training

SIZES = {"16": 4, "2^20": 1024}
"""The side of the square matrix; vectors have as many elements."""

IMAGES = {4: (1, 1, 4, 4), 1024: (4, 16, 128, 128)}
"""Batch, channels, height, width: as many elements."""

UNARY = ("neg", "abs", "exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "erf", "floor", "reciprocal")

Table = dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]


class Inputs:
    """The same random tensors for every library."""

    def __init__(self, torch: Any, side: int):
        self.torch, self.side, self.size = torch, side, side * side
        self.generator = np.random.default_rng(0)
        self.v, self.w = self.normal(self.size), self.normal(self.size)
        self.a, self.b, self.row = self.normal(side, side), self.normal(side, side), self.normal(side)
        self.positive = self.v.abs() + 0.5
        self.integers = torch.tensor(self.generator.integers(0, side, self.size))
        self.permutation = torch.tensor(self.generator.permutation(self.size))
        self.classes = torch.tensor(self.generator.integers(0, side, side))
        self.mask = self.v > 0
        self.mask2 = self.a > 0
        self.image = self.normal(*IMAGES[side])

    def normal(self, *shape: int) -> Any:
        return self.torch.tensor(self.generator.standard_normal(shape, dtype=np.float32))


def operations(torch: Any, side: int) -> Table:
    """The operations by name, each with its arguments."""
    x = Inputs(torch, side)
    groups = (elementwise, reductions, layers, shapes, positions, factories, written, strided, signals, training)
    return {name: row for group in groups for name, row in group(x).items()}


def elementwise(x: Inputs) -> Table:
    torch, functional, v, w = x.torch, x.torch.nn.functional, x.v, x.w
    table: Table = {name: (getattr(torch, name), (x.positive,)) for name in UNARY}
    return table | {
        "add": (torch.add, (v, w)),
        "sub": (torch.sub, (v, w)),
        "mul": (torch.mul, (v, w)),
        "div": (torch.div, (v, w)),
        "maximum": (torch.maximum, (v, w)),
        "pow 2": (torch.pow, (v, 2)),
        "pow tensor": (torch.pow, (x.positive, w)),
        "add scalar": (torch.add, (v, 1.5)),
        "mul scalar": (torch.mul, (v, 1.5)),
        "v * 2 operator": (lambda v: v * 2, (v,)),
        "1 - v operator": (lambda v: 1 - v, (v,)),
        "add row": (torch.add, (x.a, x.row)),
        "add transposed": (lambda a, b: a + b.T, (x.a, x.b)),
        "eq": (torch.eq, (v, w)),
        "gt": (torch.gt, (v, w)),
        "gt scalar": (lambda v: v > 0, (v,)),
        "where": (torch.where, (x.mask, v, w)),
        "where scalar": (lambda m, v: torch.where(m, v, 0.0), (x.mask, v)),
        "masked_fill": (lambda v, m: v.masked_fill(m, -1e9), (v, x.mask)),
        "clamp": (lambda v: torch.clamp(v, -0.5, 0.5), (v,)),
        "clamp min": (lambda v: v.clamp(min=0.1), (v,)),
        "relu": (torch.relu, (v,)),
        "leaky_relu": (lambda v: functional.leaky_relu(v, 0.2), (v,)),
        "gelu": (functional.gelu, (v,)),
        "silu": (functional.silu, (v,)),
        "square": (torch.square, (v,)),
        "to float64": (lambda v: v.to(torch.float64), (v,)),
        "to float32, as it is": (lambda v: v.to(torch.float32), (v,)),
        "to cpu": (lambda v: v.to("cpu"), (v,)),
        "cpu": (lambda v: v.cpu(), (v,)),
        "float of integers": (lambda i: i.float(), (x.integers,)),
        "float, as it is": (lambda v: v.float(), (v,)),
        "long": (lambda v: v.long(), (v,)),
        "type_as": (lambda i, v: i.type_as(v), (x.integers, v)),
        "clone": (lambda v: v.clone(), (v,)),
        "detach": (lambda v: v.detach(), (v,)),
        "data": (lambda v: v.data, (v,)),
    }


def reductions(x: Inputs) -> Table:
    torch, functional, v, a = x.torch, x.torch.nn.functional, x.v, x.a
    return {
        "sum": (torch.sum, (v,)),
        "mean": (torch.mean, (v,)),
        "sum of rows": (lambda a: a.sum(1), (a,)),
        "sum of columns": (lambda a: a.sum(0), (a,)),
        "mean of rows, keepdim": (lambda a: a.mean(-1, keepdim=True), (a,)),
        "mean over two dims": (lambda i: i.mean((2, 3)), (x.image,)),
        "max": (torch.max, (v,)),
        "sum, backward": (gradient_of_sum, (v.clone().requires_grad_(),)),
        "max of rows": (lambda a: a.max(1)[0], (a,)),
        "min of rows": (lambda a: a.min(dim=1)[0], (a,)),
        "amax of rows": (lambda a: a.amax(1), (a,)),
        "argmax": (torch.argmax, (v,)),
        "argmax of rows": (lambda a: a.argmax(1), (a,)),
        "var of rows": (lambda a: a.var(1), (a,)),
        "std": (torch.std, (v,)),
        "norm": (lambda v: v.norm(), (v,)),
        "norm of rows": (lambda a: a.norm(dim=1), (a,)),
        "normalize": (lambda a: functional.normalize(a, dim=1), (a,)),
        "logsumexp": (lambda a: torch.logsumexp(a, 1), (a,)),
        "any": (torch.any, (x.mask,)),
        "all": (torch.all, (x.mask,)),
        "cumsum of rows": (lambda a: a.cumsum(1), (a,)),
        "cumsum of columns": (lambda a: a.cumsum(0), (a,)),
        "cumsum of integers": (lambda i: i.cumsum(0), (x.integers,)),
        "cumprod of rows": (lambda a: a.cumprod(1), (a,)),
        "sort": (lambda v: v.sort()[0], (v,)),
        "sort of rows": (lambda a: a.sort(1)[0], (a,)),
        "argsort": (lambda v: v.argsort(), (v,)),
        "argsort of integers": (lambda i: i.argsort(stable=True), (x.integers,)),
        "topk": (lambda v: v.topk(3)[0], (v,)),
        "topk of rows": (lambda a: a.topk(3)[0], (a,)),
        "item": (lambda v: torch.tensor([v[0].item()]), (v,)),
        "tolist": (lambda r: torch.tensor(r.tolist()[:1]), (x.row,)),
        "bincount": (torch.bincount, (x.integers,)),
    }


def gradient_of_sum(leaf: Any) -> Any:
    """A whole backward pass, the smallest that there is."""
    leaf.grad = None
    leaf.sum().backward()
    return leaf.grad


def layers(x: Inputs) -> Table:
    torch, functional, nn, side = x.torch, x.torch.nn.functional, x.torch.nn, x.side
    a, b, row, image = x.a, x.b, x.row, x.image
    channels = IMAGES[side][1]
    filters = x.normal(channels, channels, 3, 3)
    heads = x.normal(1, 1, side, 64 if side > 64 else 4)
    three, other = x.normal(4, side // 4, side), x.normal(4, side, side // 4)
    linear, norm = nn.Linear(side, side), nn.LayerNorm(side)
    batch_norm, embedding, dropout = nn.BatchNorm2d(channels), nn.Embedding(side, side), nn.Dropout(0.5)
    convolution = nn.Conv2d(channels, channels, 3, padding=1)
    with torch.no_grad():
        for parameter in (*linear.parameters(), *embedding.parameters(), *convolution.parameters()):
            parameter.copy_(x.normal(*parameter.shape))
    return {
        "softmax": (lambda a: torch.softmax(a, 1), (a,)),
        "log_softmax": (lambda a: torch.log_softmax(a, 1), (a,)),
        "layer_norm": (lambda a: functional.layer_norm(a, (side,)), (a,)),
        "nn.LayerNorm": (norm, (a,)),
        "nn.BatchNorm2d": (batch_norm, (image,)),
        "nn.Linear": (linear, (a,)),
        "nn.Embedding": (embedding, (x.classes,)),
        "nn.Dropout": (dropout, (a,)),
        "nn.Identity": (nn.Identity(), (a,)),
        "nn.Flatten": (nn.Flatten(), (image,)),
        "nn.ReLU": (nn.ReLU(), (a,)),
        "nn.Sigmoid": (nn.Sigmoid(), (a,)),
        "nn.Conv2d": (convolution, (image,)),
        "nn.MaxPool2d": (nn.MaxPool2d(2), (image,)),
        "nn.GELU": (nn.GELU(), (a,)),
        "nn.Softmax": (nn.Softmax(dim=-1), (a,)),
        "nn.CrossEntropyLoss": (nn.CrossEntropyLoss(), (a, x.classes)),
        "nn.MSELoss": (nn.MSELoss(), (a, b)),
        "cross_entropy": (functional.cross_entropy, (a, x.classes)),
        "nll_loss": (functional.nll_loss, (a, x.classes)),
        "mse_loss": (functional.mse_loss, (x.v, x.w)),
        "l1_loss": (functional.l1_loss, (x.v, x.w)),
        "BCE with logits": (functional.binary_cross_entropy_with_logits, (x.v, x.mask.float())),
        "embedding": (functional.embedding, (x.classes, a)),
        "one_hot": (lambda i: functional.one_hot(i, side), (x.classes,)),
        "dropout": (functional.dropout, (a,)),
        "interpolate": (lambda i: functional.interpolate(i, scale_factor=2), (image,)),
        "interpolate, bilinear": (lambda i: functional.interpolate(i, scale_factor=2.0, mode="bilinear"), (image,)),
        "matmul": (torch.matmul, (a, b)),
        "a @ b": (lambda a, b: a @ b, (a, b)),
        "matrix @ vector": (torch.matmul, (a, row)),
        "bmm": (torch.bmm, (three, other)),
        "outer": (torch.outer, (row, row)),
        "einsum": (lambda a, b: torch.einsum("ij,jk->ik", a, b), (a, b)),
        "einsum of batches": (lambda a, b: torch.einsum("bij,bjk->bik", a, b), (three, other)),
        "linear": (functional.linear, (a, b, row)),
        "conv2d 3x3": (lambda i, f: functional.conv2d(i, f, padding=1), (image, filters)),
        "max_pool2d": (lambda i: functional.max_pool2d(i, 2), (image,)),
        "avg_pool2d": (lambda i: functional.avg_pool2d(i, 2), (image,)),
        "attention": (lambda q: functional.scaled_dot_product_attention(q, q, q, is_causal=True), (heads,)),
    }


def shapes(x: Inputs) -> Table:
    torch, functional, side = x.torch, x.torch.nn.functional, x.side
    v, w, a, b, image = x.v, x.w, x.a, x.b, x.image
    half = side // 2
    return {
        "view": (lambda v: v.view(side, side), (v,)),
        "reshape": (lambda v: v.reshape(side, side), (v,)),
        "flatten": (lambda a: a.flatten(), (a,)),
        "transpose": (lambda a: a.transpose(0, 1), (a,)),
        ".T": (lambda a: a.T, (a,)),
        "permute": (lambda i: i.permute(0, 2, 3, 1), (image,)),
        "unsqueeze": (lambda a: a.unsqueeze(1), (a,)),
        "squeeze": (lambda a: a.squeeze(), (a,)),
        "contiguous": (lambda a: a.contiguous(), (a,)),
        "transpose, contiguous": (lambda a: a.T.contiguous(), (a,)),
        "expand": (lambda r: r.expand(side, side), (x.row,)),
        "expand_as": (lambda r, a: r.expand_as(a), (x.row, a)),
        "chunk": (lambda a: a.chunk(2, 1)[0], (a,)),
        "split": (lambda a: a.split(half, 1)[0], (a,)),
        "unbind": (lambda a: a[:, :4].unbind(1)[0], (a,)),
        "cat": (lambda v, w: torch.cat([v, w]), (v, w)),
        "cat of columns": (lambda a, b: torch.cat((a, b), dim=1), (a, b)),
        "stack": (lambda v, w: torch.stack([v, w]), (v, w)),
        "stack of last": (lambda v, w: torch.stack((v, w), dim=-1), (v, w)),
        "repeat": (lambda a: a.repeat(2, 1), (a,)),
        "repeat_interleave": (lambda a: a.repeat_interleave(2, 0), (a,)),
        "flip": (lambda a: a.flip(1), (a,)),
        "roll": (lambda a: a.roll(1, 1), (a,)),
        "tril": (torch.tril, (a,)),
        "pad": (lambda a: functional.pad(a, (1, 1)), (a,)),
        "pad, reflect": (lambda i: functional.pad(i, (1, 1, 1, 1), mode="reflect"), (image,)),
        "pad, replicate": (lambda i: functional.pad(i, (1, 1, 1, 1), mode="replicate"), (image,)),
        "meshgrid": (lambda r: torch.meshgrid(r, r, indexing="ij")[0], (x.row,)),
        "size": (lambda a: torch.tensor([a.size(0)]), (a,)),
        "shape": (lambda a: torch.tensor([a.shape[0]]), (a,)),
    }


def positions(x: Inputs) -> Table:
    side, v, w, a, b = x.side, x.v, x.w, x.a, x.b
    along = x.integers.reshape(side, side)
    return {
        "slice": (lambda a: a[1:-1], (a,)),
        "slice of columns": (lambda a: a[:, :2], (a,)),
        "integer": (lambda a: a[0], (a,)),
        "integers": (lambda a: a[1, 2], (a,)),
        "last of rows": (lambda a: a[:, -1], (a,)),
        "None": (lambda a: a[:, None], (a,)),
        "ellipsis": (lambda i: i[..., ::2], (x.image,)),
        "index rows": (lambda a, i: a[i], (a, x.classes)),
        "index pairs": (lambda a, i: a[i, i], (a, x.classes)),
        "index_select": (lambda a, i: a.index_select(0, i), (a, x.classes)),
        "mask": (lambda v, m: v[m], (v, x.mask)),
        "gather": (lambda v, i: v.gather(0, i), (v, x.integers)),
        "gather of rows": (lambda a, i: a.gather(1, i), (a, along)),
        "scatter": (lambda v, i, w: v.scatter(0, i, w), (v, x.permutation, w)),
        "scatter of rows": (lambda a, i, b: a.scatter(1, i, b), (a, x.permutation.reshape(side, side) % side, b * 0)),
        "scatter a number": (lambda v, i: v.scatter(0, i, 1.0), (v, x.permutation)),
        "scatter_add": (lambda v, i, w: v.scatter_add(0, i, w), (v, x.integers, w)),
        "scatter_add of rows": (lambda a, i, b: a.scatter_add(1, i, b), (a, along, b)),
        "index_add": (lambda a, i, b: a.index_add(0, i, b), (a, x.classes, b)),
        "nonzero": (lambda m: m.nonzero(), (x.mask,)),
    }


def factories(x: Inputs) -> Table:
    torch, size, side = x.torch, x.size, x.side
    array = x.generator.standard_normal(size).astype(np.float32)
    return {
        "zeros": (lambda: torch.zeros(size), ()),
        "ones": (lambda: torch.ones(side, side), ()),
        "full": (lambda: torch.full((side, side), 2.5), ()),
        "empty": (lambda: torch.empty(side, side), ()),
        "arange": (lambda: torch.arange(size), ()),
        "arange of floats": (lambda: torch.arange(0, size, 1.0), ()),
        "linspace": (lambda: torch.linspace(0, 1, size), ()),
        "eye": (lambda: torch.eye(side), ()),
        "zeros_like": (torch.zeros_like, (x.v,)),
        "ones_like": (torch.ones_like, (x.v,)),
        "new_zeros": (lambda a: a.new_zeros(side, side), (x.a,)),
        "tensor of a list": (lambda: torch.tensor([1.0, 2.0, 3.0]), ()),
        "tensor of a number": (lambda: torch.tensor(1.5), ()),
        "from_numpy": (lambda: torch.from_numpy(array), ()),
        "numpy": (lambda v: torch.from_numpy(v.numpy()), (x.v,)),
        "rand": (lambda: torch.rand(size), ()),
        "randn": (lambda: torch.randn(size), ()),
        "randn_like": (torch.randn_like, (x.v,)),
        "randint": (lambda: torch.randint(0, 10, (size,)), ()),
        "randperm": (lambda: torch.randperm(size), ()),
        "multinomial": (lambda p: torch.multinomial(p, 1), (x.a.abs(),)),
    }


def written(x: Inputs) -> Table:
    size, side, init = x.size, x.side, x.torch.nn.init
    return {
        "add_": (lambda v, w: v.add_(w), (x.normal(size), x.normal(size) * 0)),
        "mul_": (lambda v: v.mul_(1.0), (x.normal(size),)),
        "v += w": (lambda v, w: v.__iadd__(w), (x.normal(size), x.normal(size) * 0)),
        "copy_": (lambda v, w: v.copy_(w), (x.normal(size), x.w)),
        "zero_": (lambda v: v.zero_(), (x.normal(size),)),
        "fill_": (lambda v: v.fill_(1.5), (x.normal(size),)),
        "clamp_": (lambda v: v.clamp_(-0.5, 0.5), (x.normal(size),)),
        "masked_fill_": (lambda v, m: v.masked_fill_(m, 0.5), (x.normal(size), x.mask)),
        "normal_": (lambda v: v.normal_(), (x.normal(size),)),
        "uniform_": (lambda v: v.uniform_(), (x.normal(size),)),
        "scatter_": (lambda v, i: v.scatter_(0, i, 1.0), (x.normal(size), x.permutation)),
        "init.zeros_": (init.zeros_, (x.normal(size),)),
        "init.constant_": (lambda v: init.constant_(v, 0.5), (x.normal(size),)),
        "init.normal_": (lambda v: init.normal_(v, std=0.02), (x.normal(size),)),
        "setitem slice": (lambda a: a.__setitem__(slice(0, 2), 0.0) or a, (x.normal(side, side),)),
        "setitem rows": (lambda a, i: a.__setitem__(i, 0.0) or a, (x.normal(side, side), x.classes)),
        "setitem mask": (lambda a, m: a.__setitem__(m, 0.0) or a, (x.normal(side, side), x.mask2)),
    }


def strided(x: Inputs) -> Table:
    """Tensors that do not lie in row-major order, and those of many short rows."""
    torch, half = x.torch, x.side // 2
    points = x.v.reshape(x.side, x.side // 4, 4)
    heads = x.v.reshape(2, half, x.side)
    image = x.image.to(memory_format=torch.channels_last)
    return {
        "transposed, sum": (lambda a: a.t().sum(), (x.a,)),
        "transposed, sum of rows": (lambda a: a.t().sum(0), (x.a,)),
        "transposed, sum of columns": (lambda a: a.t().sum(1), (x.a,)),
        "transposed, max": (lambda a: a.t().max(0).values, (x.a,)),
        "transposed, softmax": (lambda a: a.t().softmax(-1), (x.a,)),
        "transposed, std": (lambda a: a.t().std(), (x.a,)),
        "transposed, add": (lambda a: a.t() + 1.0, (x.a,)),
        "transposed, product of two": (lambda a, b: a.t() * b.t(), (x.a, x.b)),
        "transposed, contiguous": (lambda a: a.t().contiguous(), (x.a,)),
        "transposed, written": (lambda a: a.t().mul_(1.0), (x.a.clone(),)),
        "transposed batch, mean": (lambda h: h.transpose(1, 2).mean(1), (heads,)),
        "half of the columns, sum": (lambda a: a[:, :half].sum(1), (x.a,)),
        "every second column, mul": (lambda a: a[:, ::2] * 2.0, (x.a,)),
        "every second row, sum": (lambda a: a[::2].sum(), (x.a,)),
        "channels last, relu": (torch.relu, (image,)),
        "channels last, mean": (lambda image: image.mean((2, 3)), (image,)),
        "points, mean": (lambda p: p.mean(1), (points,)),
        "points, minus mean": (lambda p: p - p.mean(1, keepdim=True), (points,)),
        "points, norm": (lambda p: p.norm(dim=-1), (points,)),
        "points, flip": (lambda p: p.flip(1), (points,)),
        "points, cdist": (lambda p: torch.cdist(p[0], p[-1]), (points,)),
        "points, median": (lambda p: p.median(1).values, (points,)),
    }


def signals(x: Inputs) -> Table:
    """Fourier transforms, images in other sizes, and heads of attention brought into order."""
    torch, functional = x.torch, x.torch.nn.functional
    waves, half = torch.complex(x.a, x.b), torch.fft.rfft(x.a)
    down, up = ((x.image.shape[-1] * k // 4,) * 2 for k in (2, 5))
    heads = x.v.reshape(2, x.side // 2, 2, x.side // 2)

    def resized(size: tuple[int, ...], mode: str, **options: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return lambda image: functional.interpolate(image, size, mode=mode, **options), (x.image,)

    return {
        "fft": (torch.fft.fft, (waves,)),
        "fft of columns": (lambda a: torch.fft.fft(a, dim=0), (waves,)),
        "fft of real numbers": (torch.fft.fft, (x.a,)),
        "rfft": (torch.fft.rfft, (x.a,)),
        "irfft": (torch.fft.irfft, (half,)),
        "rfft2 of images": (torch.fft.rfft2, (x.image,)),
        "interpolate to half, nearest": resized(down, "nearest"),
        "interpolate to half, bilinear": resized(down, "bilinear"),
        "interpolate to half, antialiased": resized(down, "bilinear", antialias=True),
        "interpolate to 5/4, bilinear": resized(up, "bilinear"),
        "interpolate to 5/4, bicubic": resized(up, "bicubic"),
        "heads, contiguous": (lambda h: h.transpose(1, 2).contiguous(), (heads,)),
        "heads, flattened": (lambda h: h.transpose(1, 2).reshape(x.side, -1), (heads,)),
    }


RANDOM = frozenset(
    (
        *("rand", "randn", "randn_like", "randint", "randperm", "multinomial", "normal_", "uniform_", "init.normal_"),
        *("empty", "dropout", "nn.Dropout"),
    )
)
"""Results that differ between libraries."""

WRITTEN = frozenset(
    (
        *("add_", "mul_", "v += w", "copy_", "zero_", "fill_", "clamp_", "masked_fill_", "normal_", "uniform_"),
        *("init.zeros_", "init.constant_", "init.normal_"),
        *("scatter_", "setitem slice", "setitem rows", "setitem mask", "transposed, written"),
    )
)
"""Calls that write a leaf."""

BACKWARD = RECORDING | {"sum, backward"}
"""Calls that record or compute a gradient themselves."""

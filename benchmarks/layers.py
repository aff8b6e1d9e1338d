"""Layers of networks run eagerly, from tiny to usual sizes: their results alone, and with the gradients."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.harness import Rows, seconds_per_call

TITLE = "Layers run eagerly: forward, and forward with backward"
UNIT = "s"
PEERS = ("eagerjit", "torch")
ROUNDS = 3
PHASES = ("calls",)

BUDGET = 0.2  # seconds for one row
FORWARD, BOTH = "forward", "with backward"

# name: (input, channels out, kernel, options)
CONVOLUTIONS: dict[str, tuple[tuple[int, ...], int, Any, dict[str, Any]]] = {
    "conv2d 7x7 stem, 1x3x224": ((1, 3, 224, 224), 64, 7, {"stride": 2, "padding": 3}),
    "conv2d 7x7 stem, 8x3x224": ((8, 3, 224, 224), 64, 7, {"stride": 2, "padding": 3}),
    "conv2d 3x3, 1x64x56": ((1, 64, 56, 56), 64, 3, {"padding": 1}),
    "conv2d 3x3, 8x64x56": ((8, 64, 56, 56), 64, 3, {"padding": 1}),
    "conv2d 3x3, 1x128x28": ((1, 128, 28, 28), 128, 3, {"padding": 1}),
    "conv2d 3x3, 8x128x28": ((8, 128, 28, 28), 128, 3, {"padding": 1}),
    "conv2d 3x3, 1x256x14": ((1, 256, 14, 14), 256, 3, {"padding": 1}),
    "conv2d 3x3, 16x256x14": ((16, 256, 14, 14), 256, 3, {"padding": 1}),
    "conv2d 3x3, 1x512x7": ((1, 512, 7, 7), 512, 3, {"padding": 1}),
    "conv2d 3x3, 16x512x7": ((16, 512, 7, 7), 512, 3, {"padding": 1}),
    "conv2d 3x3 stride 2, 8x64x56": ((8, 64, 56, 56), 128, 3, {"stride": 2, "padding": 1}),
    "conv2d 1x1, 1x64x56": ((1, 64, 56, 56), 256, 1, {}),
    "conv2d 1x1, 16x256x14": ((16, 256, 14, 14), 1024, 1, {}),
    "conv2d 1x1 stride 2, 8x256x56": ((8, 256, 56, 56), 512, 1, {"stride": 2}),
    "conv2d grouped 32, 8x128x28": ((8, 128, 28, 28), 128, 3, {"padding": 1, "groups": 32}),
    "conv2d depthwise, 1x128x56": ((1, 128, 56, 56), 128, 3, {"padding": 1, "groups": 128}),
    "conv2d depthwise, 16x128x56": ((16, 128, 56, 56), 128, 3, {"padding": 1, "groups": 128}),
    "conv2d dilated 2, 8x64x28": ((8, 64, 28, 28), 64, 3, {"padding": 2, "dilation": 2}),
    "conv2d CIFAR, 16x3x32": ((16, 3, 32, 32), 64, 3, {"padding": 1}),
    "conv2d CIFAR, 16x64x32": ((16, 64, 32, 32), 64, 3, {"padding": 1}),
    "conv2d MNIST, 1x1x28": ((1, 1, 28, 28), 32, 3, {}),
    "conv2d MNIST, 32x1x28": ((32, 1, 28, 28), 32, 3, {}),
    "conv2d MNIST, 32x32x26": ((32, 32, 26, 26), 64, 3, {}),
    "conv2d LeNet, 1x6x14": ((1, 6, 14, 14), 16, 5, {}),
    "conv2d tiny, 1x4x8": ((1, 4, 8, 8), 4, 3, {"padding": 1}),
    "conv1d 3, 1x16x64": ((1, 16, 64), 16, 3, {"padding": 1}),
    "conv1d 5, 8x64x256": ((8, 64, 256), 64, 5, {"padding": 2}),
    "conv1d 3, 16x256x128": ((16, 256, 128), 256, 3, {"padding": 1}),
    "conv3d 3, 1x16x16^3": ((1, 16, 16, 16, 16), 16, 3, {"padding": 1}),
    "conv3d 3, 4x16x16^3": ((4, 16, 16, 16, 16), 16, 3, {"padding": 1}),
    "conv3d 3, 2x3x8x56": ((2, 3, 8, 56, 56), 32, 3, {"padding": 1}),
}
TRANSPOSED: dict[str, tuple[tuple[int, ...], int, Any, dict[str, Any]]] = {
    "conv_transpose2d tiny, 1x4x4": ((1, 4, 4, 4), 4, 4, {"stride": 2, "padding": 1}),
    "conv_transpose2d DCGAN, 16x100x1": ((16, 100, 1, 1), 512, 4, {}),
    "conv_transpose2d DCGAN, 16x512x4": ((16, 512, 4, 4), 256, 4, {"stride": 2, "padding": 1}),
    "conv_transpose2d DCGAN, 16x256x8": ((16, 256, 8, 8), 128, 4, {"stride": 2, "padding": 1}),
    "conv_transpose2d DCGAN, 16x128x16": ((16, 128, 16, 16), 64, 4, {"stride": 2, "padding": 1}),
    "conv_transpose2d DCGAN, 16x64x32": ((16, 64, 32, 32), 3, 4, {"stride": 2, "padding": 1}),
    "conv_transpose2d U-Net, 1x64x32": ((1, 64, 32, 32), 32, 2, {"stride": 2}),
}
IN_BFLOAT16 = "conv2d 3x3, 8x64x56", "conv2d 3x3, 16x256x14", "conv2d 1x1, 16x256x14"
SMALL, LARGE = (1, 4, 8, 8), (8, 64, 56, 56)


class Case:
    """One layer with its inputs: `run()` is the forward call, `parameters` get gradients."""

    def __init__(self, torch: Any, run: Callable[[], Any], parameters: list[Any]):
        self.torch, self.run, self.parameters = torch, run, parameters
        self.gradient = torch.ones_like(run().detach())

    def both(self) -> None:
        self.run().backward(self.gradient)
        for parameter in self.parameters:
            parameter.grad = None


def cases(torch: Any) -> Iterator[tuple[str, Callable[[], Case]]]:
    """Yield the layers by name; each is made when it is asked for."""
    import numpy as np

    generator = np.random.default_rng(0)
    nn, functional = torch.nn, torch.nn.functional

    def normal(*shape: int) -> Any:
        return torch.tensor(generator.standard_normal(shape, dtype=np.float32) * 0.1)

    def of(layer: Any, *shape: int, wanted: bool = True, dtype: Any = torch.float32) -> Case:
        x = normal(*shape).to(dtype).requires_grad_(wanted)
        parameters = list(layer.to(dtype).parameters()) if isinstance(layer, nn.Module) else []
        for parameter in parameters:
            with torch.no_grad():
                parameter.copy_(normal(*parameter.shape))
        return Case(torch, lambda: first(layer(x)), [x] * wanted + parameters)

    def first(found: Any) -> Any:
        return found[0] if isinstance(found, tuple) else found

    for size in (16, 64, 512):
        for batch in (1, 32):
            yield f"Linear {size}x{size}, {batch}", lambda s=size, b=batch: of(nn.Linear(s, s), b, s)
    half = torch.bfloat16
    for batch in (1, 32, 512):
        yield f"Linear bfloat16 1024x4096, {batch}", lambda b=batch: of(nn.Linear(1024, 4096), b, 1024, dtype=half)
    for name in IN_BFLOAT16:
        shape, rows, kernel, options = CONVOLUTIONS[name]
        yield f"{name}, bfloat16", lambda s=shape, r=rows, n=kernel, o=options: of(
            nn.Conv2d(s[1], r, n, **o), *s, dtype=half
        )
    for name, (shape, rows, kernel, options) in CONVOLUTIONS.items():
        kind = getattr(nn, f"Conv{len(shape) - 2}d")
        wanted = shape[1] > 3  # images get no gradient
        yield name, lambda k=kind, s=shape, r=rows, n=kernel, o=options, w=wanted: of(k(s[1], r, n, **o), *s, wanted=w)
    for name, (shape, rows, kernel, options) in TRANSPOSED.items():
        yield name, lambda s=shape, r=rows, n=kernel, o=options: of(nn.ConvTranspose2d(s[1], r, n, **o), *s)
    pools: dict[str, tuple[Any, tuple[int, ...]]] = {
        "max_pool1d 2, 1x4x32": (nn.MaxPool1d(2), (1, 4, 32)),
        "max_pool1d 3, 16x64x512": (nn.MaxPool1d(3, 2, 1), (16, 64, 512)),
        "max_pool2d 2, 1x4x8": (nn.MaxPool2d(2), SMALL),
        "max_pool2d 2, 32x64x24": (nn.MaxPool2d(2), (32, 64, 24, 24)),
        "max_pool2d 3 stride 2, 1x64x112": (nn.MaxPool2d(3, 2, 1), (1, 64, 112, 112)),
        "max_pool2d 3 stride 2, 8x64x112": (nn.MaxPool2d(3, 2, 1), (8, 64, 112, 112)),
        "avg_pool2d 2, 1x4x8": (nn.AvgPool2d(2), SMALL),
        "avg_pool2d 2, 8x64x56": (nn.AvgPool2d(2), LARGE),
        "adaptive_avg_pool2d 1, 1x4x8": (nn.AdaptiveAvgPool2d(1), SMALL),
        "adaptive_avg_pool2d 1, 8x512x7": (nn.AdaptiveAvgPool2d(1), (8, 512, 7, 7)),
        "adaptive_avg_pool2d 7, 8x64x56": (nn.AdaptiveAvgPool2d(7), LARGE),
    }
    norms: dict[str, tuple[Any, tuple[int, ...]]] = {
        "LayerNorm 16, 4": (nn.LayerNorm(16), (4, 16)),
        "LayerNorm 256, 512": (nn.LayerNorm(256), (512, 256)),
        "LayerNorm 1024, 4096": (nn.LayerNorm(1024), (4096, 1024)),
        "BatchNorm1d, 32x64": (nn.BatchNorm1d(64), (32, 64)),
        "BatchNorm2d, 1x4x8": (nn.BatchNorm2d(4), SMALL),
        "BatchNorm2d, 16x64x32": (nn.BatchNorm2d(64), (16, 64, 32, 32)),
        "BatchNorm2d, 8x64x56": (nn.BatchNorm2d(64), LARGE),
        "BatchNorm2d evaluated, 8x64x56": (nn.BatchNorm2d(64).eval(), LARGE),
        "GroupNorm 8, 8x64x56": (nn.GroupNorm(8, 64), LARGE),
    }
    recurrent: dict[str, tuple[Any, tuple[int, ...]]] = {}
    for name, kind in (("LSTM", nn.LSTM), ("GRU", nn.GRU)):
        recurrent[f"{name} 35x20x200"] = kind(200, 200), (35, 20, 200)
        recurrent[f"{name} 1x1x64"] = kind(64, 64), (1, 1, 64)
        recurrent[f"{name} 100x32x128"] = kind(128, 128), (100, 32, 128)
    for name, (layer, shape) in (pools | norms | recurrent).items():
        yield name, lambda m=layer, s=shape: of(m, *s)

    def attention(*shape: int, causal: bool) -> Case:
        q, k, v = (normal(*shape).requires_grad_() for _ in range(3))
        return Case(torch, lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=causal), [q, k, v])

    def heads(layer: Any, *shape: int) -> Case:
        def run(x: Any) -> Any:
            return layer(x, x, x, need_weights=False)

        case = of(run, *shape)
        case.parameters += list(layer.parameters())
        return case

    yield "attention causal, 1x1x16x16", lambda: attention(1, 1, 16, 16, causal=True)
    yield "attention causal, 4x4x128x64", lambda: attention(4, 4, 128, 64, causal=True)
    yield "attention, 2x8x197x64", lambda: attention(2, 8, 197, 64, causal=False)
    torch.manual_seed(0)
    weights = {size: [normal(*p.shape) for p in nn.MultiheadAttention(size, 4).parameters()] for size in (32, 256)}

    def multihead(size: int, *shape: int) -> Case:
        layer = nn.MultiheadAttention(size, 4, batch_first=True)
        with torch.no_grad():
            for parameter, value in zip(layer.parameters(), weights[size], strict=True):
                parameter.copy_(value)
        return heads(layer, *shape)

    yield "MultiheadAttention 32, 1x8", lambda: multihead(32, 1, 8, 32)
    yield "MultiheadAttention 256, 8x64", lambda: multihead(256, 8, 64, 256)

    def embedding(count: int, width: int, *shape: int) -> Case:
        table = normal(count, width).requires_grad_()
        places = torch.tensor(generator.integers(0, count, shape))
        return Case(torch, lambda: functional.embedding(places, table), [table])

    yield "Embedding 100x16, 8", lambda: embedding(100, 16, 8)
    yield "Embedding 1000x256, 4x128", lambda: embedding(1000, 256, 4, 128)


def summary(result: Any) -> list[float]:
    """Return a few numbers that show what was computed; of bfloat16, which rounds coarsely, those of all."""
    if result.dtype.itemsize == 2:
        whole = result.detach().float()
        return [float(whole.std()), float(whole.abs().mean())]
    return [float(value) for value in result.detach().reshape(-1)[:4].tolist()]


def measure(peer: str, phase: str) -> Rows:
    torch = importlib.import_module(peer)
    rows, check = {}, {}
    for name, make in cases(torch):
        case = make()
        check[name] = summary(case.run())
        rows[f"{name}, {BOTH}"] = seconds_per_call(case.both, budget=BUDGET, repeats=7)
        with torch.no_grad():
            rows[f"{name}, {FORWARD}"] = seconds_per_call(case.run, budget=BUDGET, repeats=7)
    return Rows(rows, check)


def footer(medians: dict[str, dict[str, float]]) -> list[str]:
    """Say how the two compare over all layers, and on which eagerjit takes longer."""
    if not {"eagerjit", "torch"} <= medians.keys():
        return []
    ratios = {row: medians["torch"][row] / seconds for row, seconds in medians["eagerjit"].items()}
    lines = []
    for which in (FORWARD, BOTH):
        found = {row: ratio for row, ratio in ratios.items() if row.endswith(which)}
        mean = math.exp(sum(map(math.log, found.values())) / len(found))
        slower = sum(ratio < 1 for ratio in found.values())
        lines.append(f"{which}: torch takes {mean:.2f}x (geometric mean of {len(found)}), less on {slower}")
    worst = sorted(ratios, key=ratios.__getitem__)[:5]
    return [*lines, f"where torch takes least: {'; '.join(f'{row} {ratios[row]:.2f}x' for row in worst)}"]

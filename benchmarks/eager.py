"""The operations that programs use most, run eagerly, at 16 elements and at a million."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

from benchmarks.harness import Rows, seconds_per_call

TITLE = "Eager operations, 16 elements and 2^20 elements"
UNIT = "s"
PEERS = ("eagerjit", "torch")
ROUNDS = 3
PHASES = ("calls",)

SIZES = {"16": 4, "2^20": 1024}  # the side of the square matrix; vectors have as many elements
BUDGET = 0.15  # seconds for one row
CONVOLUTION = {4: (1, 1, 4, 4), 1024: (4, 16, 128, 128)}  # batch, channels, height, width: as many elements


def operations(torch: Any, side: int) -> dict[str, tuple[Callable, tuple]]:
    """Return the operations by name, each with its arguments."""
    import numpy as np

    generator = np.random.default_rng(0)
    size, functional = side * side, torch.nn.functional

    def normal(*shape: int):
        return torch.tensor(generator.standard_normal(shape, dtype=np.float32))

    v, w = normal(size), normal(size)
    a, b, row = normal(side, side), normal(side, side), normal(side)
    positive = v.abs() + 0.5
    integers = torch.tensor(generator.integers(0, side, size))
    classes = torch.tensor(generator.integers(0, side, side))
    condition = v > 0
    batch, channels, height, width = CONVOLUTION[side]
    image, filters = normal(batch, channels, height, width), normal(channels, channels, 3, 3)
    heads = normal(1, 1, side, 64 if side > 64 else 4)
    unary = ["neg", "abs", "exp", "log", "sqrt", "rsqrt", "sin", "tanh", "sigmoid", "erf", "floor", "reciprocal"]
    table: dict[str, tuple[Callable, tuple]] = {name: (getattr(torch, name), (positive,)) for name in unary}
    table |= {
        "add": (torch.add, (v, w)),
        "sub": (torch.sub, (v, w)),
        "mul": (torch.mul, (v, w)),
        "div": (torch.div, (v, w)),
        "maximum": (torch.maximum, (v, w)),
        "pow 2": (torch.pow, (v, 2)),
        "pow tensor": (torch.pow, (positive, w)),
        "add scalar": (torch.add, (v, 1.5)),
        "mul scalar": (torch.mul, (v, 1.5)),
        "add row": (torch.add, (a, row)),
        "add transposed": (lambda a, b: a + b.T, (a, b)),
        "eq": (torch.eq, (v, w)),
        "gt": (torch.gt, (v, w)),
        "where": (torch.where, (condition, v, w)),
        "clamp": (lambda v: torch.clamp(v, -0.5, 0.5), (v,)),
        "relu": (torch.relu, (v,)),
        "gelu": (functional.gelu, (v,)),
        "silu": (functional.silu, (v,)),
        "add_ in place": (lambda v, w: v.add_(w), (normal(size), normal(size) * 0)),
        "to float64": (lambda v: v.to(torch.float64), (v,)),
        "sum": (torch.sum, (v,)),
        "mean": (torch.mean, (v,)),
        "sum of rows": (lambda a: a.sum(1), (a,)),
        "sum of columns": (lambda a: a.sum(0), (a,)),
        "max": (torch.max, (v,)),
        "argmax of rows": (lambda a: a.argmax(1), (a,)),
        "var of rows": (lambda a: a.var(1), (a,)),
        "cumsum of rows": (lambda a: a.cumsum(1), (a,)),
        "softmax": (lambda a: torch.softmax(a, 1), (a,)),
        "log_softmax": (lambda a: torch.log_softmax(a, 1), (a,)),
        "layer_norm": (lambda a: functional.layer_norm(a, (side,)), (a,)),
        "cross_entropy": (functional.cross_entropy, (a, classes)),
        "mse_loss": (functional.mse_loss, (v, w)),
        "matmul": (torch.matmul, (a, b)),
        "matrix @ vector": (torch.matmul, (a, row)),
        "linear": (functional.linear, (a, b, row)),
        "conv2d 3x3": (lambda x, f: functional.conv2d(x, f, padding=1), (image, filters)),
        "attention": (lambda q: functional.scaled_dot_product_attention(q, q, q, is_causal=True), (heads,)),
        "reshape": (lambda v: v.reshape(side, side), (v,)),
        "slice": (lambda a: a[1:-1], (a,)),
        "transpose, contiguous": (lambda a: a.T.contiguous(), (a,)),
        "cat": (lambda v, w: torch.cat([v, w]), (v, w)),
        "stack": (lambda v, w: torch.stack([v, w]), (v, w)),
        "index rows": (lambda a, i: a[i], (a, classes)),
        "gather": (lambda v, i: v.gather(0, i), (v, integers)),
        "embedding": (functional.embedding, (classes, a)),
        "sort": (lambda v: v.sort()[0], (v,)),
        "zeros": (lambda: torch.zeros(size), ()),
        "arange": (lambda: torch.arange(size), ()),
        "randn": (lambda: torch.randn(size), ()),
    }
    return table


def summary(result: Any) -> list[float]:
    """Return a few numbers that show what was computed."""
    flat = result.reshape(-1)
    return [float(value) for value in flat[:4].tolist()]


def measure(peer: str, phase: str) -> Rows:
    torch = importlib.import_module(peer)
    rows, check = {}, {}
    for label, side in SIZES.items():
        for name, (function, arguments) in operations(torch, side).items():
            if name not in ("randn", "add_ in place"):
                check[f"{name}, {label}"] = summary(function(*arguments))
            with torch.no_grad():
                rows[f"{name}, {label}"] = seconds_per_call(function, *arguments, budget=BUDGET, repeats=7)
    return Rows(rows, check)


def footer(medians: dict[str, dict[str, float]]) -> list[str]:
    """Say how the two compare over all operations of a size."""
    if not {"eagerjit", "torch"} <= medians.keys():
        return []
    lines = []
    for label in SIZES:
        ratios = {
            row: medians["torch"][row] / seconds
            for row, seconds in medians["eagerjit"].items()
            if row.endswith(f", {label}")
        }
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        slower = sum(ratio < 1 for ratio in ratios.values())
        lines.append(f"{label} elements: torch takes {mean:.2f}x (geometric mean of {len(ratios)}), less on {slower}")
    return lines

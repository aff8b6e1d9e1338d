"""Compiled kernels on a GPU, on tensors that lie there: device time of a call, beside torch and torch.compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.gpu import copy_bandwidth, device_name, device_seconds, host_seconds, timed
from benchmarks.harness import Rows

TITLE = "Compiled kernels on a GPU, device time of a call, float32 unless it says otherwise"
UNIT = "s"
PEERS = ("eagerjit", "eagerjit with CUDA graphs", "torch", "torch.compile", "torch.compile with CUDA graphs")
ROUNDS = 1
PHASES = ("all",)

CHAIN, ROWS, COLUMNS, CLASSES, PARAMETERS, SIDE = 1 << 28, 1 << 15, 1 << 12, 50257, 1 << 26, 8192
HEADS, LENGTH, FEATURES = 64, 4096, 128
REPEATS = 5  # calls between two events
SMALL = "queue a compiled call on 16 floats (host)"


def cases(torch: Any) -> dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]]:
    """Functions of tensors of these shapes, written for any library with PyTorch's API."""
    functional = torch.nn.functional

    def chain(x):
        return torch.tanh(2 * x + 1) * torch.exp(-x * x) + torch.log1p(torch.abs(x))

    def adam(weight, gradient, mean, square):
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient * gradient
        return weight - 1e-3 * mean / (torch.sqrt(square) + 1e-8), mean, square

    def cross_entropy(x):
        return -torch.log_softmax(x, 1)[:, 0].mean()

    def linear(x, w, b):
        return functional.gelu(x @ w + b, approximate="tanh")

    def attention(query, key, value):
        return functional.scaled_dot_product_attention(query, key, value, is_causal=True)

    def attention_gradients(query, key, value, gradient):
        given = [x.detach().requires_grad_() for x in (query, key, value)]
        return torch.autograd.grad(attention(*given), given, gradient)

    heads = (1, HEADS, LENGTH, FEATURES)
    matrix, classes, square = (ROWS, COLUMNS), (ROWS // 4, CLASSES), (SIDE, SIDE)
    return {
        "elementwise chain": (chain, [(CHAIN,)]),
        "softmax of rows": (lambda x: torch.softmax(x, -1), [matrix]),
        "layer norm of rows": (
            lambda x, w, b: functional.layer_norm(x, w.shape, w, b), [matrix, matrix[1:], matrix[1:]]
        ),
        "cross entropy": (cross_entropy, [classes]),
        "sum of columns": (lambda x: x.sum(0), [matrix]),
        "Adam's update": (adam, [(PARAMETERS,)] * 4),
        "matrix product, bfloat16": (lambda x, w: x @ w, [square, square]),
        "the same with bias and GELU, bfloat16": (linear, [square, square, square[1:]]),
        "causal attention, bfloat16": (attention, [heads] * 3),
        "the same with its gradients, bfloat16": (attention_gradients, [heads] * 4),
    }  # fmt: skip


def measure(peer: str, phase: str) -> Rows:
    """Times of one library."""
    return _eagerjit(graphs="graphs" in peer) if peer.startswith("eagerjit") else _torch(peer)


def inputs(shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    """The same numbers for every library."""
    generator = np.random.default_rng(0)
    return [generator.random(shape, np.float32) for shape in shapes]


def repeated(call: Callable[[], object]) -> Callable[[], None]:
    """Several calls, so that the host is ahead of the device."""

    def run() -> None:
        for _ in range(REPEATS):
            call()

    return run


def _eagerjit(graphs: bool) -> Rows:
    from eagerjit.cuda.execution import compiled
    from eagerjit.runtime.gpu.devices import platform

    return measured(platform().device(0), compiled, graphs)


def measured(device: Any, compile: Any, graphs: bool) -> Rows:
    """eagerjit's times, with kernels made in this way."""
    import ml_dtypes

    import eagerjit
    from eagerjit.cuda.execution import offloaded
    from eagerjit.runtime.binding import new_tensor
    from eagerjit.runtime.gpu import arrays
    from eagerjit.runtime.gpu.event import Event
    from eagerjit.runtime.gpu.stream import current_stream

    rows, stream = Rows(), current_stream(device)
    with offloaded(device, compile, graphs):
        for name, (function, shapes) in cases(eagerjit).items():
            call = eagerjit.jit(function, fullgraph=True)
            half = "bfloat16" in name
            given = [x.astype(ml_dtypes.bfloat16) if half else x for x in inputs(shapes)]
            tensors = [new_tensor(arrays.upload(x, stream)) for x in given]
            result = call(*tensors)
            first = (result[0] if isinstance(result, tuple) else result)._data.reshape(-1)[:4]
            if not half:  # whose last bit is more than the others may differ by
                rows.check[name] = arrays.download(first, stream).tolist()
            del result, first
            seconds = device_seconds(repeated(lambda call=call, tensors=tensors: call(*tensors)), timed(Event, stream))
            rows.numbers[name] = seconds / REPEATS
        call, x = eagerjit.jit(lambda x: x * 2 + 1), new_tensor(arrays.upload(np.ones(16, np.float32), stream))
        rows.numbers[SMALL] = host_seconds(lambda: call(x), device.synchronize)
    return rows


def _torch(peer: str) -> Rows:
    import torch

    rows = Rows()
    options = {} if peer == "torch.compile" else {"mode": "reduce-overhead"}
    for name, (function, shapes) in cases(torch).items():
        # torch.compile leaves a gradient inside of a function to the plain call.
        call = function if peer == "torch" or "gradients" in name else torch.compile(function, **options)
        half = "bfloat16" in name
        tensors = [torch.from_numpy(x).cuda().to(torch.bfloat16 if half else torch.float32) for x in inputs(shapes)]
        result = call(*tensors)
        if not half:
            rows.check[name] = (result[0] if isinstance(result, tuple) else result).reshape(-1)[:4].tolist()
        del result
        event = lambda: torch.cuda.Event(enable_timing=True)  # noqa: E731
        run = repeated(lambda call=call, tensors=tensors: call(*tensors))
        rows.numbers[name] = device_seconds(run, event) / REPEATS
        del tensors
        torch.cuda.empty_cache()
    if peer != "torch":
        small, x = torch.compile(lambda x: x * 2 + 1, **options), torch.ones(16, device="cuda")
        rows.numbers[SMALL] = host_seconds(lambda: small(x), torch.cuda.synchronize)
    return rows


def footer(medians: dict[str, dict[str, float]]) -> list[str]:
    """Which device it was, and the chain's bandwidth beside that of a copy."""
    lines = [device_name()]
    for peer, numbers in medians.items():
        if "matrix product, bfloat16" in numbers:
            rate = 2 * SIDE**3 / numbers["matrix product, bfloat16"]
            lines.append(f"{peer}, matrix product: {rate / 1e12:.0f} TFLOP/s")
    own = medians.get("eagerjit", {}).get("elementwise chain")
    if own is not None and (copied := copy_bandwidth()) is not None:
        bandwidth = 2 * 4 * CHAIN / own
        lines.append(
            f"eagerjit, elementwise chain: {bandwidth / 1e9:.0f} GB/s, {bandwidth / copied:.0%} of a copy's "
            f"{copied / 1e9:.0f} GB/s"
        )
    return lines

"""Compiled kernels on a GPU, on tensors that lie there: device time of a call, beside torch and torch.compile."""

from __future__ import annotations

import contextlib
import importlib
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.gpu import device_name, device_seconds, host_seconds
from benchmarks.harness import Rows, each

TITLE = "Compiled kernels on a GPU, device time of a call, float32 unless it says otherwise"
UNIT = "s"
PEERS = ("eagerjit", "torch", "torch.compile", "eagerjit with CUDA graphs", "torch.compile with CUDA graphs")
ROUNDS = 1
PHASES = ("all",)

CHAIN, ROWS, COLUMNS, CLASSES, PARAMETERS, SIDE = 1 << 28, 1 << 15, 1 << 12, 50257, 1 << 26, 8192
HEADS, LENGTH, FEATURES = 64, 4096, 128
DRAWN = 1_000_003  # random numbers, of which inputs are made
REPEATS = 5  # calls between two events
COPY, PRODUCT = "copy of the chain's input", "matrix product, bfloat16"
FLASH = "torch's flash kernel"
"""What rows are compared with whose attention torch would otherwise leave to another of its kernels."""
CALL, ADD = "queue a compiled call on 16 floats (host)", "queue an eager addition of 16 floats (host)"
LIMIT = 110  # seconds of a library


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
        COPY: (lambda x: x.clone(), [(CHAIN,)]),
        "elementwise chain": (chain, [(CHAIN,)]),
        "softmax of rows": (lambda x: torch.softmax(x, -1), [matrix]),
        "layer norm of rows": (
            lambda x, w, b: functional.layer_norm(x, w.shape, w, b), [matrix, matrix[1:], matrix[1:]]
        ),
        "cross entropy": (cross_entropy, [classes]),
        "sum of columns": (lambda x: x.sum(0), [matrix]),
        "Adam's update": (adam, [(PARAMETERS,)] * 4),
        PRODUCT: (lambda x, w: x @ w, [square, square]),
        "the same with bias and GELU, bfloat16": (linear, [square, square, square[1:]]),
        "causal attention, bfloat16": (attention, [heads] * 3),
        "the same with its gradients, bfloat16": (attention_gradients, [heads] * 4),
        f"causal attention, bfloat16, {FLASH}": (attention, [heads] * 3),
        f"the same with its gradients, bfloat16, {FLASH}": (attention_gradients, [heads] * 4),
    }  # fmt: skip


def inputs(torch: Any, shapes: list[tuple[int, ...]], device: str) -> list[Any]:
    """The same numbers for every library: random ones, again and again, since billions take the host long to draw."""
    drawn = torch.from_numpy(np.random.default_rng(0).random(DRAWN, np.float32)).to(device)
    made = []
    for number, shape in enumerate(shapes):
        count = math.prod(shape)
        times = -(-(number + count) // drawn.numel())
        made.append(drawn.repeat(times)[number : number + count].clone().reshape(shape))
    return made


def unmoved(torch: Any, tensors: list[Any]) -> list[Any]:
    """Tensors that stay where they are, which torch's CUDA graphs are told: they copy what may move at every call."""
    for x in tensors if torch.__name__ == "torch" else ():
        torch._dynamo.mark_static_address(x)
    return tensors


def repeated(call: Callable[[], object]) -> Callable[[], None]:
    """Several calls, so that the host is ahead of the device."""

    def run() -> None:
        for _ in range(REPEATS):
            call()

    return run


def measure(peer: str, phase: str, device: str = "cuda") -> Rows:
    """Times of one library."""
    torch = importlib.import_module("eagerjit" if peer.startswith("eagerjit") else "torch")
    rows, compiler = Rows(), compilers(torch)[peer]
    compiled = compiler is not None and torch.__name__ == "torch"  # which takes the same kernel as elsewhere
    names = [name for name in cases(torch) if not (compiled and FLASH in name)]
    measured = {name: partial(seconds, rows, torch, compiler, name, device) for name in names}
    (x,) = unmoved(torch, [torch.ones(16, device=device)])
    wait = torch.cuda.synchronize
    if compiler is not None:
        measured[CALL] = lambda: host_seconds(partial(compiler(lambda x: x * 2 + 1), x), wait)
    if peer in ("eagerjit", "torch"):
        measured[ADD] = lambda: host_seconds(lambda: x + x, wait)
    each(rows, measured)
    return rows


def prepare(peer: str, phase: str) -> Rows:
    """Compile what is measured: for eagerjit on an idle device, for others on the one that there is."""
    torch = importlib.import_module("eagerjit" if peer.startswith("eagerjit") else "torch")
    compiler, rows = compilers(torch)[peer], Rows()
    each(rows, {name: partial(seconds, rows, torch, compiler, name, "cuda") for name in cases(torch)})
    return rows


def compilers(torch: Any) -> dict[str, Any]:
    """What makes the function that a peer runs; None where it is the plain one."""
    if torch.__name__ == "torch":
        graphs = partial(torch.compile, mode="reduce-overhead")
        return {"torch": None, "torch.compile": torch.compile, "torch.compile with CUDA graphs": graphs}
    jit = partial(torch.jit, fullgraph=True)
    return {"eagerjit": jit, "eagerjit with CUDA graphs": partial(jit, cuda_graphs=True)}


def seconds(rows: Rows, torch: Any, compiler: Any, name: str, device: str) -> float:
    """The device's time for a case; the first numbers of its result are kept for comparison."""
    function, shapes = cases(torch)[name]
    # torch.compile leaves a gradient inside of a function to the plain call.
    plain = compiler is None or name == COPY or (torch.__name__ == "torch" and "gradients" in name)
    call = function if plain else compiler(function)
    half = "bfloat16" in name
    tensors = unmoved(torch, [x.to(torch.bfloat16) if half else x for x in inputs(torch, shapes, device)])
    with chosen(torch, name):
        first = call(*tensors)
    if not half:  # whose last bit is more than the others may differ by
        rows.check[name] = first_numbers(first)
    del first
    event = partial(torch.cuda.Event, enable_timing=True)
    with chosen(torch, name):
        return device_seconds(repeated(lambda: call(*tensors)), event) / REPEATS


def chosen(torch: Any, name: str) -> contextlib.AbstractContextManager[object]:
    """Which kernel torch is to take for attention, where a row says so."""
    if torch.__name__ != "torch" or FLASH not in name:
        return contextlib.nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel(SDPBackend.FLASH_ATTENTION)


def first_numbers(result: Any) -> list[float]:
    """A few of what a call returned, of which nothing is kept."""
    return (result[0] if isinstance(result, tuple) else result).reshape(-1)[:4].tolist()  # type: ignore[no-any-return]


def footer(medians: dict[str, dict[str, float]]) -> list[str]:
    """Which device it was, the products' rates, and the chain's bandwidth beside that of a copy."""
    lines = [device_name()]
    for peer, numbers in medians.items():
        if PRODUCT in numbers:
            lines.append(f"{peer}, matrix product: {2 * SIDE**3 / numbers[PRODUCT] / 1e12:.0f} TFLOP/s")
    for peer, numbers in medians.items():
        if {COPY, "elementwise chain"} <= numbers.keys():
            bandwidth, copied = (2 * 4 * CHAIN / numbers[row] / 1e9 for row in ("elementwise chain", COPY))
            share = f"{bandwidth / copied:.0%} of a copy's {copied:.0f} GB/s"
            lines.append(f"{peer}, elementwise chain: {bandwidth:.0f} GB/s, {share}")
    return lines

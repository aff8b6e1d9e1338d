"""Training steps on a GPU: the six networks of the PyTorch paper's Table 1, and GPT-2 with 124M parameters."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

from benchmarks.gpu import device_name
from benchmarks.gpu_networks import SIZES, Drawn, draw, make_step
from benchmarks.harness import Rows, each, holding

TITLE = "Training steps on a GPU, time of a step (float32 with TF32 products; GPT-2 under autocast to bfloat16)"
UNIT = "s"
PEERS = ("eagerjit", "torch", "torch.compile", "eagerjit eager")
ROUNDS = 1
PHASES = ("GPT-2", "ResNet-50", "NCF", "VGG-19", "AlexNet", "MobileNet", "GNMT")
"""Each network has a process of its own. The last ones take longest to compile, and find no time if anything does."""

LIMIT = 120  # seconds of a library with a network
STEPS, MOST_SECONDS = 10, 2.0


def measure(peer: str, phase: str, device: str = "cuda") -> Rows:
    """One network's step. What comes before it is measured several processes do at a time."""
    torch = library(peer)
    torch.set_float32_matmul_precision("high")
    rows, drawn = Rows(), draw(phase, torch, SIZES[phase])
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    with holding(alone=False):
        step = training(torch, peer, phase, device, drawn)
        rows.check[phase] = [step().item()]
        for _ in range(2):  # an optimizer's first step makes its state
            step()
        wait()
    with holding(alone=True):
        each(rows, {phase: lambda: seconds_of_steps(step, wait)})
    return rows


def prepare(peer: str, phase: str) -> Rows:
    """Compile what a step needs: for eagerjit on an idle device, for others on the one that there is."""
    torch = library(peer)
    torch.set_float32_matmul_precision("high")
    step = training(torch, peer, phase, "cuda")
    for _ in range(2):  # an optimizer's first step makes its state
        step().item()
    return Rows({phase: 0.0})


def library(peer: str) -> Any:
    """The module that stands for torch."""
    return importlib.import_module("eagerjit" if peer.startswith("eagerjit") else "torch")


def training(torch: Any, peer: str, name: str, device: str, drawn: Drawn | None = None) -> Callable[[], Any]:
    """The step of a network on its batch."""
    compiler = {"eagerjit": getattr(torch, "jit", None), "torch.compile": torch.compile}.get(peer)
    step, given = make_step(name, torch, SIZES[name], device, compiler, peer == "eagerjit", drawn)
    return lambda: step(*given)


def seconds_of_steps(step: Callable[[], object], wait: Callable[[], object]) -> float:
    """The time of one step among several that the host queues without waiting, the least over some such runs."""
    step()
    wait()
    start = time.perf_counter()
    step()
    wait()
    once = time.perf_counter() - start
    steps = max(1, min(STEPS, int(MOST_SECONDS / 2 / once)))
    best, end = once, time.perf_counter() + MOST_SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(steps):
            step()
        wait()
        best = min(best, (time.perf_counter() - start) / steps)
    return best


def footer(medians: dict[str, dict[str, float]]) -> list[str]:
    """Which device it was, and what is trained in a second."""
    lines = [device_name()]
    for name, sizes in SIZES.items():
        unit = {"GNMT": "words", "GPT-2": "tokens", "NCF": "samples"}.get(name, "images")
        count = sizes.batch * (sizes.length or 1)
        rates = [f"{peer} {count / numbers[name]:,.0f}" for peer, numbers in medians.items() if name in numbers]
        if rates:
            lines.append(f"{name}, {unit} per second: {', '.join(rates)}")
    return lines

"""Training steps on a GPU: the six networks of the PyTorch paper's Table 1, and GPT-2 with 124M parameters."""

from __future__ import annotations

import importlib
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from benchmarks.gpu import device_name
from benchmarks.gpu_networks import SIZES, Sizes, make_step
from benchmarks.harness import Rows

TITLE = "Training steps on a GPU, time of a step (float32 with TF32 products; GPT-2 under autocast to bfloat16)"
UNIT = "s"
PEERS = ("eagerjit", "eagerjit eager", "torch", "torch.compile")
ROUNDS = 1
PHASES = tuple(SIZES)
"""Each network has a process of its own, and the memory of the card to itself."""

STEPS, MOST_SECONDS = 10, 5.0


def measure(peer: str, phase: str) -> Rows:
    """One network's step. One that a library can't run leaves no row, so that the others still count."""
    torch = importlib.import_module("eagerjit" if peer.startswith("eagerjit") else "torch")
    try:
        return measured(peer, phase, torch, SIZES[phase], "cuda")
    except Exception:
        traceback.print_exc(file=sys.stderr)
        return Rows()


def measured(peer: str, name: str, torch: Any, sizes: Sizes, device: str) -> Rows:
    """Seconds for the first step and for a later one; the first loss for comparison."""
    torch.set_float32_matmul_precision("high")
    compiler = {"eagerjit": getattr(torch, "jit", None), "torch.compile": torch.compile}.get(peer)
    step, given = make_step(name, torch, sizes, device, compiler, whole=peer == "eagerjit")
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    start = time.perf_counter()
    loss = step(*given).item()
    rows = Rows({f"{name}, first step": time.perf_counter() - start}, {f"{name}, first loss": [loss]})
    rows.numbers[name] = seconds_of_steps(lambda: step(*given), wait)
    return rows


def seconds_of_steps(step: Callable[[], object], wait: Callable[[], object]) -> float:
    """The time of one step among several that the host queues without waiting, the least over some such runs."""
    for _ in range(3):
        step()
    wait()
    best, end = float("inf"), time.perf_counter() + MOST_SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(STEPS):
            step()
        wait()
        best = min(best, (time.perf_counter() - start) / STEPS)
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

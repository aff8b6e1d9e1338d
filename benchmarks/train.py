"""Whole training steps: forward, backward and optimizer, of a multi-layer perceptron, a small GPT and a ResNet-18."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

from benchmarks.harness import Rows, seconds_once, seconds_per_call

TITLE = (
    "Training steps (MLP 784-512-512-10, batch 128, Adam; GPT 4 layers, 256 wide, 4x128 tokens, AdamW; ResNet-18 on 16 "
    "images of 32x32, SGD)"
)
UNIT = "s"
PEERS = ("eagerjit", "eagerjit eager", "torch", "torch.compile", "jax")
ROUNDS = 3
PHASES = ("nothing cached", "second process")

MODELS = ("MLP", "GPT", "ResNet")
COMPILES = ("eagerjit", "torch.compile", "jax")


def namespace(peer: str) -> Any:
    """Import the library that a peer runs on."""
    return importlib.import_module({"torch.compile": "torch", "eagerjit eager": "eagerjit"}.get(peer, peer))


def make_step(model: str, peer: str) -> tuple[Callable, tuple]:
    """Return a function that trains one step and returns the loss, ready, and the batch to call it with."""
    library = namespace(peer)
    if peer == "jax":
        from benchmarks import models_jax

        return models_jax.make_step(model)
    from benchmarks import models_torch

    compiler = {"eagerjit": getattr(library, "jit", None), "torch.compile": getattr(library, "compile", None)}.get(peer)
    return models_torch.make_step(model, library, peer, compiler)


def measure(peer: str, phase: str) -> Rows:
    rows, check = {}, {}
    for model in MODELS:
        step, batch = make_step(model, peer)
        if phase == "nothing cached":
            start = time.perf_counter()
            losses = [float(step(*batch)) for _ in range(2)]
            if peer in COMPILES:
                rows[f"{model}: first two steps, nothing cached"] = time.perf_counter() - start
            losses += [float(step(*batch)) for _ in range(6)]
            # A ResNet's losses are comparable at first only: later, rounding decides which of its units are on.
            check[f"{model} losses"] = losses[: 3 if model == "ResNet" else None]
            rows[f"{model} step"] = seconds_per_call(step, *batch, budget=2.0)
        elif peer in COMPILES:
            took = seconds_once(step, *batch, calls=2)
            rows[f"{model}: first two steps, second process"] = took
    return Rows(rows, check)

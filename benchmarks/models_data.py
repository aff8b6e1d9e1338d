"""The models' initial parameters and batches, as NumPy arrays, the same for every library."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from benchmarks import models_resnet

MLP_SIZES = (784, 512, 512, 10)
LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY = 4, 8, 256, 128, 100
LEARNING_RATE, BETAS, EPSILON, DECAY = 1e-3, (0.9, 0.999), 1e-8, 1e-2
BATCH = {"MLP": 128, "GPT": 4}


def parameters(model: str) -> dict[str, np.ndarray]:
    """Return a model's parameters by the names that PyTorch gives them; weights are (out, in)."""
    if model == "ResNet":
        return models_resnet.parameters()
    generator = np.random.default_rng(0)
    values: dict[str, np.ndarray] = {}

    def linear(name: str, inputs: int, outputs: int) -> None:
        bound = inputs**-0.5
        values[f"{name}.weight"] = generator.uniform(-bound, bound, (outputs, inputs)).astype(np.float32)
        values[f"{name}.bias"] = generator.uniform(-bound, bound, outputs).astype(np.float32)

    def norm(name: str) -> None:
        values[f"{name}.weight"], values[f"{name}.bias"] = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)

    if model == "MLP":
        for index, (inputs, outputs) in enumerate(pairwise(MLP_SIZES)):
            linear(f"layers.{2 * index}", inputs, outputs)
        return values
    values["tokens.weight"] = 0.02 * generator.standard_normal((VOCABULARY, WIDTH), dtype=np.float32)
    values["positions.weight"] = 0.02 * generator.standard_normal((CONTEXT, WIDTH), dtype=np.float32)
    for index in range(LAYERS):
        block = f"blocks.{index}"
        norm(f"{block}.norm1")
        linear(f"{block}.project_in", WIDTH, 3 * WIDTH)
        linear(f"{block}.project_out", WIDTH, WIDTH)
        norm(f"{block}.norm2")
        linear(f"{block}.feed.0", WIDTH, 4 * WIDTH)
        linear(f"{block}.feed.2", 4 * WIDTH, WIDTH)
    norm("norm")
    linear("head", WIDTH, VOCABULARY)
    return values


def batch(model: str) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and the classes to predict."""
    if model == "ResNet":
        return models_resnet.batch()
    generator = np.random.default_rng(1)
    if model == "MLP":
        inputs = generator.standard_normal((BATCH[model], MLP_SIZES[0]), dtype=np.float32)
        return inputs, generator.integers(0, MLP_SIZES[-1], BATCH[model])
    shape = (BATCH[model], CONTEXT)
    return generator.integers(0, VOCABULARY, shape), generator.integers(0, VOCABULARY, shape)

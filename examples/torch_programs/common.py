"""What the programs share: data and weights drawn with NumPy, so that a program starts alike on every library."""

from __future__ import annotations

import argparse

import numpy as np
import torch


def draw_weights(model: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """Give every matrix uniform numbers by its fan-in and every bias zeros; norms keep their ones."""
    random = np.random.default_rng(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                bound = (3.0 / (parameter.numel() / parameter.shape[0])) ** 0.5
                values = random.uniform(-bound, bound, tuple(parameter.shape)).astype(np.float32)
                parameter.copy_(torch.from_numpy(values))
            elif "bias" in name:
                parameter.zero_()
    return model


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """scikit-learn's 1,797 handwritten digits: images of 1x8x8 in [0, 1], and their labels."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    images = (images[order] / 16.0).astype(np.float32).reshape(-1, 1, 8, 8)
    return torch.from_numpy(images), torch.from_numpy(labels[order].astype(np.int64))


def arguments(description: str, steps: int) -> argparse.Namespace:
    """The command line of a program."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--steps", type=int, default=steps, help=f"training steps (default {steps})")
    return parser.parse_args()


def report(step: int, loss: torch.Tensor | float) -> None:
    """Print the loss of each of the first 20 steps, then of every 50th."""
    if step < 20 or step % 50 == 0:
        print(f"step {step}: loss {float(loss):.9g}", flush=True)

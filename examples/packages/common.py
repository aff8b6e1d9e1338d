"""The same parameters and data in every library."""

import numpy as np
import torch


def filled(module: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """The module with parameters from NumPy's generator, by their names in order."""
    generator = np.random.default_rng(seed)
    with torch.no_grad():
        for name, parameter in sorted(module.named_parameters()):
            value = 0.2 * generator.standard_normal(tuple(parameter.shape), dtype=np.float32)
            if parameter.ndim == 1 and "bias" not in name:
                value = 1 + 0.1 * value
            parameter.copy_(torch.from_numpy(np.asarray(value)))
    return module


def numbers(*shape: int, seed: int = 1, below: int = 0) -> torch.Tensor:
    """Normal numbers, or integers below a bound."""
    generator = np.random.default_rng(seed)
    made = generator.integers(0, below, shape) if below else generator.standard_normal(shape, dtype=np.float32)
    return torch.from_numpy(made)


def train(name: str, module: torch.nn.Module, loss_of, optimizer=None, steps: int = 3) -> None:
    """Prints the losses of some steps."""
    optimizer = optimizer or torch.optim.Adam(module.parameters(), lr=1e-3)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(name, *losses)

"""What the programs are given, drawn with NumPy so that it is the same for every library."""

import numpy as np
import torch


def fx(*s, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=s).astype(np.float32))


def ints(hi, *s, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, hi, size=s))

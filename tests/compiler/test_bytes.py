"""Elementwise kernels of bytes alone: whole registers of them, and what is left."""

from __future__ import annotations

import numpy as np
import pytest

import eagerjit as torch

SIZES = (0, 1, 7, 8, 31, 32, 33, 63, 64, 65, 100, 8191, 8192, 8193, 8192 + 40, 70_001)


@pytest.mark.parametrize("size", SIZES)
def test_bytes(size) -> None:
    rng = np.random.default_rng(size)
    a, b = (rng.integers(0, 256, size).astype(np.uint8) for _ in range(2))
    p, q = a > 100, b > 100
    x, y, m, n = map(torch.from_numpy, (a, b, p, q))
    calls = {
        "and": (lambda: m & n, p & q),
        "not": (lambda: ~m, ~p),
        "equal": (lambda: m == n, p == q),
        "add": (lambda: x + y, a + b),
        "compared": (lambda: x > y, a > b),
        "chosen": (lambda: torch.where(m, x, y), np.where(p, a, b)),
        "limited": (lambda: x.clamp(3, 200), a.clip(3, 200)),
        "negative": (lambda: x.view(torch.int8) * y.view(torch.int8), a.view(np.int8) * b.view(np.int8)),
        "to bool": (lambda: x.bool(), a != 0),
        "reversed": (lambda: x.flip(0) + y, a[::-1] + b),
        "apart": (lambda: x[::2] + y[::2], a[::2] + b[::2]),
        "with a row": (lambda: m.view(1, -1) & n.view(-1)[:1], (p[None] & q[:1])),
    }
    for name, (call, wanted) in calls.items():
        found = call().numpy()
        assert found.dtype == wanted.dtype, name
        assert found.tobytes() == np.ascontiguousarray(wanted).tobytes(), name
    before = x.clone()
    before += y
    assert before.numpy().tobytes() == (a + b).tobytes()

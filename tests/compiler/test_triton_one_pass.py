"""Sums of exponentials of long rows on a GPU: one loop finds a row's maximum and its sum."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.compiled import gpu_kernels
from eagerjit.compiler.codegen.triton import source
from eagerjit.jit import jit
from eagerjit.nn import functional as F

RANDOM = np.random.default_rng(7)
TARGETS = torch.tensor(RANDOM.integers(0, 300, 6))
CASES: dict[str, tuple[Callable[[Any], Any], int]] = {
    "softmax": (lambda x: torch.softmax(x, -1), 2),
    "log_softmax": (lambda x: torch.log_softmax(x * 3.0, -1), 2),
    "logsumexp": (lambda x: torch.logsumexp(x, -1), 1),
    "cross entropy of halves": (lambda x: F.cross_entropy(x.bfloat16().float(), TARGETS), 1),
}
"""Functions of rows, and the loops over a row that they need."""


def special() -> np.ndarray:
    """Rows of ordinary numbers, with infinities and NaN among them, of one sign alone, and rising and falling."""
    x = RANDOM.normal(size=(6, 300)).astype(np.float32) * 20
    x[1, 7], x[2, :] = -np.inf, -np.inf
    x[3, 250], x[4, 33] = np.inf, np.nan
    x[5] = np.linspace(-100, 100, 300)
    return x


def loops(text: str) -> int:
    """Loops over a row, of which each is written twice: whole steps, and what is left."""
    return text.count("    for first") // 2


@pytest.mark.parametrize("name", CASES)
def test_long_rows_are_read_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "WHOLE", 16)
    monkeypatch.setattr(source, "STEP", 8)
    function, count = CASES[name]
    x = torch.tensor(special())
    with warnings.catch_warnings(), gpu_kernels.interpreted() as made:
        warnings.simplefilter("ignore")
        found = jit(function, fullgraph=True)(x)
    expected = function(x)
    pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
    for actual, wanted in pairs:
        np.testing.assert_allclose(actual.numpy(), wanted.numpy(), rtol=2e-6, atol=2e-6)
    (long,) = [launch for m in made for launch in m.launched if "exp2" in launch.source.text]
    assert loops(long.source.text) == count


def test_sums_of_exponentials_have_the_same_bits_without_their_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the row is stored between the maximum and the sum, and in a kernel that other work shares."""
    monkeypatch.setattr(source, "WHOLE", 16)
    monkeypatch.setattr(source, "STEP", 8)
    x = torch.tensor(special())

    def beside(x: Any) -> Any:
        y = x * 0.5
        return torch.softmax(y, -1), y, torch.logsumexp(y, 1), y.sum(1)

    with warnings.catch_warnings(), gpu_kernels.interpreted() as made:
        warnings.simplefilter("ignore")
        halves = jit(lambda x: x * 0.5, fullgraph=True)(x)
        alone = jit(lambda y: torch.softmax(y, -1), fullgraph=True)(halves)
        total = jit(lambda y: torch.logsumexp(y, 1), fullgraph=True)(halves)
        found = jit(beside, fullgraph=True)(x)
    assert found[0].numpy().tobytes() == alone.numpy().tobytes()
    assert found[2].numpy().tobytes() == total.numpy().tobytes()
    texts = [launch.source.text for m in made for launch in m.launched if "exp2" in launch.source.text]
    assert any("_top = tl.full" in text for text in texts), "no sum had to find its maximum itself"


def test_what_is_written_out_is_computed_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain calls compute one operation after the other: their sums know no maximum."""
    monkeypatch.setattr(source, "WHOLE", 16)
    monkeypatch.setattr(source, "STEP", 8)
    x, y = torch.tensor(special()[:1]), torch.tensor(special()[5:])
    for function in (
        lambda x, y: torch.exp(x * 2.0 - (x * 2.0).amax(1, keepdim=True)).sum(1),
        lambda x, y: torch.exp(y - x.amax(1, keepdim=True)).sum(1),
        lambda x, y: torch.exp(x + x.amax(1, keepdim=True)).sum(1),
        lambda x, y: torch.exp(x * 0.5 - x.amax(1, keepdim=True)).sum(1),
        lambda x, y: torch.exp(x - x.amin(1, keepdim=True)).sum(1),
        lambda x, y: torch.exp(x - x.amax(1, keepdim=True)).prod(1),
    ):
        with gpu_kernels.interpreted() as made:
            found = jit(function, fullgraph=True)(x, y)
        np.testing.assert_allclose(found.numpy(), function(x, y).numpy(), rtol=2e-6)
        assert not any("exp2" in launch.source.text for m in made for launch in m.launched)

"""Elements picked from computed values: on a GPU these alone are computed, with the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.compiled import gpu_kernels
from eagerjit.jit import jit

RANDOM = np.random.default_rng(7)
Function = torch.nn.functional
X, AT = torch.tensor(RANDOM.normal(size=(40, 300))).float(), torch.tensor(RANDOM.integers(0, 300, 40))
ROW = torch.tensor(RANDOM.normal(size=300)).float()


def stored(call: Any, *arguments: Any) -> tuple[Any, list[int]]:
    """The result, and the sizes of what kernels stored: programs times the elements of a store."""
    with gpu_kernels.interpreted() as made:
        result = jit(call, fullgraph=True)(*arguments)
    texts = [(launch.programs, launch.source.text) for m in made for launch in m.launched]
    return result, [programs for programs, text in texts if "LANES" in text and "+ i), v" in text]


CASES: dict[str, tuple[Any, list[Any]]] = {
    "loss": (lambda x, at: Function.cross_entropy(x, at), [X, AT]),
    "one column": (lambda x: torch.log_softmax(x, 1)[:, 7].exp(), [X]),
    "several of each row": (lambda x, at: (x.exp() * 2.0).gather(1, at.unsqueeze(1).expand(40, 3)).sum(1), [X, AT]),
    "of two values": (lambda x, at: (x.exp() * x.mT.contiguous().mT).gather(1, at[:, None]), [X, AT]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_rest_is_not_stored(name: str) -> None:
    call, arguments = CASES[name]
    actual, full = stored(call, *arguments)
    expected = call(*arguments)
    assert np.allclose(actual._data, expected._data, rtol=1e-6, atol=1e-6)
    if name != "of two values":
        assert not full


def test_results_and_checked_operations_are_computed_whole() -> None:
    """What is a result is there; what may fail fails for elements that nothing picks."""
    y, picked = stored(lambda x, at: (lambda y: (y, y.gather(1, at[:, None])))(x.exp()), X, AT)[0]
    assert y._data.tobytes() == X.exp()._data.tobytes()
    assert picked._data.tobytes() == X.exp().gather(1, AT[:, None])._data.tobytes()
    spread = stored(lambda x, row, at: (x + row).exp().gather(1, at[:, None]), X, ROW, AT)[0]
    assert spread._data.tobytes() == (X + ROW).exp().gather(1, AT[:, None])._data.tobytes()
    with gpu_kernels.interpreted():
        divide = jit(lambda a, b: (a // b)[:, :1])
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            divide(torch.ones(2, 3, dtype=torch.int64), torch.tensor([[1, 0, 1], [1, 1, 1]]))


def test_many_operations_before_what_is_picked() -> None:
    def call(x: Any) -> Any:
        y = x
        for _ in range(1500):
            y = y + x
        return y[:, :1] * 2

    x = X[:3, :4].contiguous()
    found, _ = stored(call, x)
    assert found._data.tobytes() == call(x)._data.tobytes()

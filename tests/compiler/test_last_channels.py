"""Convolutions on GPUs whose sums run over taps first: results, and the same bits with channels last in memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import eagerjit as ej
from eagerjit.compiled import gpu_kernels
from eagerjit.compiler.codegen.triton import convolution
from eagerjit.compiler.codegen.triton.tiles import Tile
from eagerjit.compiler.lower import turned
from eagerjit.jit import jit

F = ej.nn.functional
RANDOM = np.random.default_rng(6)
Call = Callable[..., Any]

CASES: dict[str, tuple[Call, tuple[int, ...], tuple[int, ...]]] = {
    "plain": (lambda x, w: F.conv2d(x, w), (2, 16, 7, 6), (24, 16, 3, 3)),
    "single taps": (lambda x, w: F.conv2d(x, w), (3, 24, 5, 4), (16, 24, 1, 1)),
    "padded in steps": (lambda x, w: F.conv2d(x, w, stride=(2, 3), padding=(1, 2)), (2, 24, 9, 8), (25, 24, 3, 4)),
    "dilated": (lambda x, w: F.conv2d(x, w, padding=2, dilation=2), (1, 39, 7, 7), (16, 39, 3, 2)),
    "one dimension": (lambda x, w: F.conv1d(x, w, padding=1), (3, 22, 11), (23, 22, 3)),
    "three dimensions": (lambda x, w: F.conv3d(x, w, stride=(1, 2, 1)), (1, 16, 4, 5, 4), (28, 16, 2, 2, 3)),
    "groups": (lambda x, w: F.conv2d(x, w, padding=1, groups=2), (2, 44, 5, 5), (44, 22, 3, 3)),
    "transposed": (lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), (2, 24, 4, 5), (24, 29, 3, 3)),
    "few channels": (lambda x, w: F.conv2d(x, w), (2, 15, 6, 6), (13, 15, 2, 2)),
    "of a view": (lambda x, w: F.conv2d(x.mT[:, 1:], w[::2]), (2, 17, 6, 7), (48, 16, 3, 3)),
    "nothing": (lambda x, w: F.conv2d(x, w), (0, 16, 6, 6), (13, 16, 2, 2)),
}


def numbers(*shape: int) -> Any:
    return ej.tensor(RANDOM.integers(-4, 5, shape).astype(np.float32) / 4)


def with_gradients(call: Call) -> Call:
    """A call's result and both gradients of the sum of its squares."""

    def run(x: Any, w: Any) -> Any:
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        y = call(x, w)
        return (y, *ej.autograd.grad((y.float() * y.float()).sum(), (x, w)))

    return run


def run(call: Call, *given: Any) -> tuple[list[str], list[Any]]:
    """The texts of a call's convolutions, and its results."""
    with gpu_kernels.interpreted() as made:
        results = jit(call, fullgraph=True)(*given)
    texts = [launch.source.text for m in made for launch in m.launched if "DEPTH" in launch.constants]
    return texts, list(results)


@pytest.fixture
def tf32() -> Iterator[None]:
    ej.set_float32_matmul_precision("high")
    yield
    ej.set_float32_matmul_precision("highest")


@pytest.mark.parametrize(("dtype", "split"), [("float32", 1), ("bfloat16", 3)])
@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients(name: str, dtype: str, split: int, tf32: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of few bits, whose sums are exact in any order."""
    monkeypatch.setattr(convolution, "choose", lambda *sizes, **how: Tile(16, 16, 16, 4, 3, split))
    call, *shapes = CASES[name]
    given = [numbers(*shape).to(getattr(ej, dtype)) for shape in shapes]
    call = with_gradients(call)
    expected = call(*given)
    texts, results = run(call, *given)
    for found, e in zip(results, expected, strict=True):
        assert np.array_equal(found.float()._data, e.float()._data)
    assert any("tap = done" in text for text in texts) == (name != "few channels")

    for limit in ("WORK", "REUSED"):
        monkeypatch.setattr(turned, limit, 0)
    moved, again = run(call, *given)
    assert [x._data.tobytes() for x in again] == [x._data.tobytes() for x in results]
    assert (moved != texts) == (name not in ("few channels", "groups"))


def test_blocks_are_read_along_neighbours(tf32: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of an image are points, which are rows of a block, or what a sum runs over; Triton tells last channels."""
    monkeypatch.setattr(convolution, "choose", lambda *sizes, **how: Tile(16, 16, 16, 4, 3))
    call, *shapes = CASES["plain"]
    given = [numbers(*shape) for shape in shapes]

    def along(texts: list[str]) -> dict[str, list[tuple[str, str]]]:
        kinds = {kind: next(t for t in texts if f"_{kind}(" in t) for kind in ("convolution", "input", "weight")}
        found = r"(left|right) = tl\.load\(.*read_along\(.*, (\d, \d)\)"
        return {kind: re.findall(found, text) for kind, text in kinds.items()}

    of_sums = [("left", "1, 2"), ("right", "2, 1")]
    assert along(run(with_gradients(call), *given)[0]) == {
        "convolution": [("left", "2, 1"), ("right", "2, 1")], "input": [("left", "2, 1"), ("right", "1, 2")],
        "weight": of_sums,
    }  # fmt: skip
    for limit in ("WORK", "REUSED"):
        monkeypatch.setattr(turned, limit, 0)
    assert along(run(with_gradients(call), *given)[0]) == {"convolution": [], "input": [], "weight": of_sums}


def test_the_order_of_sums_is_that_of_sizes_alone(tf32: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random numbers, with channels last in memory or not: the same bits."""
    call = with_gradients(CASES["padded in steps"][0])
    given = [ej.tensor(RANDOM.normal(size=shape).astype(np.float32)) for shape in CASES["padded in steps"][1:]]
    texts, results = run(call, *given)
    for limit in ("WORK", "REUSED"):
        monkeypatch.setattr(turned, limit, 0)
    moved, again = run(call, *given)
    assert moved != texts and all(a._data.tobytes() == b._data.tobytes() for a, b in zip(again, results, strict=True))


def test_exact_products_gather_as_tensors_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    call, *shapes = CASES["plain"]
    given = [numbers(*shape) for shape in shapes]
    texts, _ = run(with_gradients(call), *given)
    for limit in ("WORK", "REUSED"):
        monkeypatch.setattr(turned, limit, 0)
    assert run(with_gradients(call), *given)[0] == texts
    doubles = [x.double() for x in given]
    ej.set_float32_matmul_precision("high")
    try:
        assert all("tap = done" in text for text in run(with_gradients(call), *doubles)[0][:1])
    finally:
        ej.set_float32_matmul_precision("highest")

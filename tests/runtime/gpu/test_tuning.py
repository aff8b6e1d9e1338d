"""Tiles of products that are tried on a device: on a fake one, whose clock says how long each takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import eagerjit as ej
from eagerjit.cuda import tuning
from eagerjit.runtime import cache

pytestmark = pytest.mark.usefixtures("cuda")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[list[Any]]:
    """Trying is on, into an empty cache; the launches that are timed, each faster than the one before."""
    monkeypatch.setenv("EAGERJIT_AUTOTUNE", "1")
    monkeypatch.setenv("EAGERJIT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tuning, "_found", {})
    monkeypatch.setattr(tuning, "TRIED", 3)
    seen: list[Any] = []
    measure = tuning.timed

    def timed(run: Any, stream: Any) -> float:
        assert measure(run, stream) > 0.0
        seen.append(run)
        return 1.0 / len(seen)

    monkeypatch.setattr(tuning, "timed", timed)
    yield seen


def close(a: Any, b: Any) -> bool:
    return bool(ej.allclose(a.cpu(), b.cpu(), atol=1e-4))


def test_the_fastest_tile_is_kept(asked: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = ej.randn(20, 70, device="cuda"), ej.randn(70, 40, device="cuda")
    expected = x.cpu() @ w.cpu()
    assert close(x @ w, expected) and len(asked) == tuning.TRIED
    (found,) = tuning._found.values()
    product = ej.jit(lambda x, w: (x @ w).relu())
    assert close(product(x, w), expected.relu()) and len(asked) == tuning.TRIED  # of one size is tried once
    assert close(x[:9] @ w, expected[:9]) and len(asked) > tuning.TRIED
    tried = len(asked)
    monkeypatch.setattr(tuning, "_found", {})  # as in another process
    ej.jit(lambda x, w: (x @ w).exp())(x, w)
    assert len(asked) == tried and list(tuning._found.values()) == [found]
    assert cache.enabled()


def test_what_changes_its_input_is_not_tried(asked: list[Any]) -> None:
    def step(x: Any, w: Any, total: Any) -> Any:
        total += x @ w
        return total

    x, w = ej.randn(8, 16, device="cuda"), ej.randn(16, 8, device="cuda")
    total = ej.ones(8, 8, device="cuda")
    expected = total.cpu() + x.cpu() @ w.cpu()
    assert close(ej.jit(step)(x, w, total), expected) and not asked


def test_nothing_is_tried_unless_asked(asked: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EAGERJIT_AUTOTUNE", "0")
    x = ej.randn(8, 8, device="cuda")
    assert close(x @ x, x.cpu() @ x.cpu()) and not asked

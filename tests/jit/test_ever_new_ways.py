"""Functions that take a new way in most calls end up running eagerly: compiling each way costs more than it gains."""

from __future__ import annotations

import pytest

import eagerjit as torch
from eagerjit.jit import JitWarning


def a_way_for_each_text(text: str, x: torch.Tensor) -> torch.Tensor:
    for letter in text:
        x = x * 2 if letter == "a" else x + ord(letter)
    return x


@pytest.mark.parametrize("decorated", [lambda function: function, torch.no_grad()])
def test_calls_that_fit_no_version_run_eagerly_after_many(decorated) -> None:  # type: ignore[no-untyped-def]
    jitted = torch.jit(decorated(a_way_for_each_text))
    x = torch.ones(2)
    texts = [f"{n:b}" for n in range(600)]
    with pytest.warns(JitWarning, match=r"test_ever_new_ways.py:\d+: \d+ versions were compiled, and most calls"):
        for text in texts:
            assert torch.equal(jitted(text, x), a_way_for_each_text(text, x))
    info = jitted.cache_info()
    assert info.compiles < 200
    assert info.eager_calls > 300


def test_versions_that_serve_calls_stay() -> None:
    calls: list[int] = []

    def counted(text: str, x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return a_way_for_each_text(text, x)

    jitted = torch.jit(counted)
    x = torch.ones(2)
    for text in (f"{n % 20:b}" for n in range(240)):
        jitted(text, x)
    assert jitted.cache_info().compiles == 20
    assert jitted.cache_info().eager_calls == 0
    assert len(calls) == 240


def test_with_fullgraph_every_way_is_compiled() -> None:
    jitted = torch.jit(a_way_for_each_text, fullgraph=True)
    x = torch.ones(2)
    for n in range(140):
        jitted(f"{n:b}", x)
    assert jitted.cache_info().compiles == 140

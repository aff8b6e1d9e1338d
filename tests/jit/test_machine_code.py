"""Machine code is made once for all programs that have the same kernels."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import eagerjit as torch
from eagerjit.compiled import machine_code
from eagerjit.runtime import cpu

X = torch.tensor([0.0, 0.25, 0.5])


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kernels that are compiled from here on; none is known."""
    monkeypatch.setenv("EAGERJIT_CACHE", "0")
    machine_code.forget()
    seen: list[str] = []
    compile_text = cpu.compile_text

    def noting(text: str, *args: Any, **kwargs: Any) -> bytes:
        if '@"kernel.' in text:  # not the native runtime
            seen.append(text)
        return compile_text(text, *args, **kwargs)

    monkeypatch.setattr(cpu, "compile_text", noting)
    return seen


def test_programs_with_the_same_kernels_share_machine_code(texts: list[str]) -> None:
    functions = [torch.jit(lambda x: x.cosh() * 3.5) for _ in range(2)]
    results = [f(X) for f in functions]
    assert [f.cache_info().compiles for f in functions] == [1, 1] and len(texts) == 1
    torch.jit(lambda x: x.cosh() * 3.5 - 1)(X)
    assert len(texts) == 2
    assert results[0].tolist() == results[1].tolist() == (X.cosh() * 3.5).tolist()


def test_long_kernels_are_compiled_side_by_side(texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    at_once: list[int] = []
    compile_texts = cpu.compile_texts

    def noting(modules: Iterable[str]) -> list[bytes]:
        codes = compile_texts(modules)
        at_once.append(len(codes))
        return codes

    def sums(x: torch.Tensor) -> list[torch.Tensor]:
        """Kernels of many statements."""
        return [sum(((x + n * k).sin() * (k + 0.5) for k in range(40)), x).sum(0) for n in range(3)]

    monkeypatch.setattr(cpu, "compile_texts", noting)
    monkeypatch.setattr(machine_code.threads, "get_num_threads", lambda: 2)
    assert torch.jit(sums)(X) == sums(X)
    assert at_once == [2]
    machine_code.forget()
    monkeypatch.setattr(machine_code.threads, "get_num_threads", lambda: 1)
    before = len(texts)
    assert torch.jit(sums)(X) == sums(X)
    assert at_once == [2] and len(texts) == before + 1


def test_programs_with_the_same_kernels_run_one_object(texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Linking takes as long as all else that a program whose machine code is known needs."""
    linked: list[tuple[str, ...]] = []
    load_object = cpu.load_object

    def noting(*data: bytes, exported: tuple[str, ...] = (), **kwargs: Any) -> Any:
        linked.append(exported)
        return load_object(*data, exported=exported, **kwargs)

    monkeypatch.setattr(cpu, "load_object", noting)
    functions = [torch.jit(lambda x: x.atan() * 4.5) for _ in range(3)]
    expected = [f(X).tolist() for f in functions]
    assert len(linked) == 1 and len(linked[0]) == 1
    del functions[0]
    gc.collect()
    assert [f(torch.tensor(X.tolist())).tolist() for f in functions] == expected[1:]
    functions.clear()
    gc.collect()
    assert not any(linked[0] == key for key in machine_code._loaded)
    torch.jit(lambda x: x.atan() * 4.5)(X)
    assert len(linked) == 2 and len(texts) == 1


def test_several_kernels_and_routines_keep_their_order(texts: list[str]) -> None:
    def function(x: torch.Tensor) -> Any:
        return x.sort(dim=-1).values.sum(0), (x - x.sum()).exp().cumsum(0), x.softmax(0)

    x = torch.linspace(-1, 1, 12).reshape(3, 4).flip(1)
    for _ in range(2):
        for a, b in zip(torch.jit(function)(x), function(x), strict=True):
            assert a.tolist() == b.tolist()


def test_code_is_for_a_width_of_vectors(texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for bits in (128, 256, 128):
        monkeypatch.setattr(cpu, "vector_width_bits", lambda bits=bits: bits)
        torch.jit(lambda x: x.sinh() + 1)(X)
    assert all(f'"prefer-vector-width"="{bits}"' in t for t, bits in zip(texts, (128, 256), strict=True))


def test_what_was_used_least_recently_is_forgotten(texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled(function: Any) -> int:
        before = len(texts)
        torch.jit(function)(X)
        return len(texts) - before

    first, second, third = (lambda x: x.tan() * 1.5), (lambda x: x.tan() * 2.5), (lambda x: x.tan() * 3.5)
    assert [compiled(first), compiled(second), compiled(first)] == [1, 1, 0]
    monkeypatch.setattr(machine_code, "MOST", sum(len(one.code) for one in machine_code._known.values()))
    assert [compiled(third), compiled(first), compiled(second)] == [1, 0, 1]


def test_what_is_kept_is_counted_once(texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    torch.jit(lambda x: x.tan() * 1.25)(X)
    kept = list(machine_code._known.values())
    for _ in range(3):
        machine_code._keep(kept)
    assert machine_code._bytes == sum(len(one.code) for one in kept)
    monkeypatch.setattr(machine_code, "MOST", 0)
    torch.jit(lambda x: x.tan() * 2.25)(X)
    assert machine_code._bytes == 0 and not machine_code._known and not machine_code._holding


def before_and_after(number: float) -> Any:
    """A function of several kernels, with a number in one of its lines."""
    source = f"""
def function(x):
    for name in ("sin", "cos", "tan", "exp", "tanh"):
        x = getattr(x, name)().cumsum(0)
    return (x * {number!r}).cumsum(0).sqrt()
"""
    made: dict[str, Any] = {}
    exec(source, made)
    return made["function"]


@pytest.mark.parametrize("forgotten", [False, True], ids=["same process", "next process"])
def test_a_function_with_an_edited_line_compiles_what_has_changed(
    texts: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, forgotten: bool
) -> None:
    if forgotten:
        monkeypatch.setenv("EAGERJIT_CACHE", "1")
        monkeypatch.setenv("EAGERJIT_CACHE_DIR", str(tmp_path))
    x = torch.linspace(0.1, 0.2, 8)
    counts = []
    for number in (1.5, 2.5, 3.5, 2.5):
        if forgotten:
            machine_code.forget()
        texts.clear()
        function = before_and_after(number)
        result = torch.jit(function)(x)
        counts.append(sum(text.count('@"kernel.') for text in texts))
        assert result.tolist() == function(x).tolist()
    assert counts[0] >= 6 and counts[1:] == [1, 1, 0]


def test_an_object_of_which_little_is_wanted_is_not_loaded(texts: list[str]) -> None:
    torch.jit(before_and_after(1.5))(X)
    texts.clear()
    torch.jit(lambda x: x.sin().cumsum(0))(X)
    assert len(texts) == 1


def test_programs_take_each_kernel_from_one_object(texts: list[str]) -> None:
    parts = [lambda x: x.sin().cumsum(0), lambda x: x.cos().cumsum(0), lambda x: x.cos().cumsum(0).cumsum(0).exp()]

    def both(x: torch.Tensor) -> Any:
        return parts[1](parts[0](x))

    for function in (both, *parts, both, lambda x: parts[2](both(x))):
        assert torch.jit(function)(X).tolist() == function(X).tolist()

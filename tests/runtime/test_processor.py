"""The processor as LLVM names it: asked once on a machine, again where anything about it is new."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagerjit.runtime import processor as subject
from eagerjit.runtime.processor import Processor, processor

ONE = Processor("20.1", "x86_64-unknown-linux-gnu", "znver3", ("avx2", "fma"))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EAGERJIT_CACHE", "1")
    monkeypatch.setenv("EAGERJIT_CACHE_DIR", str(tmp_path))


def asked(monkeypatch: pytest.MonkeyPatch, identities: list[str | None]) -> list[Processor]:
    """What is answered on each of these machines in turn, where LLVM's answer is another one every time."""
    answers = iter(range(9))
    found = []
    for identity in identities:
        monkeypatch.setattr(subject, "_identity", lambda identity=identity: identity)
        found.append(processor(lambda: ONE._replace(name=f"znver{next(answers)}")))
    return found


def test_llvm_is_asked_once_on_each_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [one.name for one in asked(monkeypatch, ["a", "a", "b", "a", None, None])]
    assert names == ["znver0", "znver0", "znver1", "znver0", "znver2", "znver3"]


def test_what_is_remembered_is_what_was_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "_identity", lambda: "here")
    assert processor(lambda: ONE) == processor(lambda: ONE._replace(name="other")) == ONE


def test_without_a_cache_llvm_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EAGERJIT_CACHE", "0")
    assert [one.name for one in asked(monkeypatch, ["a", "a"])] == ["znver0", "znver1"]


def test_what_tells_machines_apart_does_not_change_with_the_moment() -> None:
    subject._identity.cache_clear()
    first = subject._identity()
    subject._identity.cache_clear()
    assert subject._identity() == first
    if first is not None:
        assert "flags" in first or "Features" in first
        assert "MHz" not in first and "version_version" in first

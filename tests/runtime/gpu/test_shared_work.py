"""Processes that share checks: one that fails costs the name that it was at."""

from __future__ import annotations

import os
import time

import pytest
import shared_work


def check(kind: str, name: str) -> list[str]:
    """What the processes run."""
    if name == "dies":
        os._exit(3)
    if name == "hangs":
        time.sleep(60)
    if name == "raises":
        raise ValueError("of its own")
    return [f"{name} is wrong"] if name.startswith("wrong") else []


def test_failures_cost_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_work, "WORKERS", 2)
    monkeypatch.setattr(shared_work, "SLOWEST", 10.0)
    names = ["right", "dies", "wrong 1", "raises", "hangs", "wrong 2", "right too"]
    found = sorted(shared_work.problems(check, names, "fake"))
    assert found == [
        "dies: ended its process with status 3", "hangs: took more than 10 s", "raises: ValueError: of its own",
        "wrong 1 is wrong", "wrong 2 is wrong",
    ]  # fmt: skip
    kept = {worker.process.pid for worker in shared_work._idle}
    assert shared_work.problems(check, ["right"], "fake") == []
    assert {worker.process.pid for worker in shared_work._idle} == kept and kept


def test_what_finds_no_time_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_work, "END", 0.0)
    with pytest.raises(pytest.skip.Exception, match="no time for 2 names"):
        shared_work.problems(check, ["right", "wrong"], "fake")
    shared_work.problems(check, [], "fake")
    monkeypatch.setattr(shared_work, "WORKERS", 1)
    monkeypatch.setattr(shared_work, "END", time.time() + 3.0)
    monkeypatch.setattr(shared_work, "LATE", 2.0)
    with pytest.raises(pytest.skip.Exception, match="no time for 2 names"):
        shared_work.problems(check, ["hangs", "right"], "fake")

"""The GPU benchmark goes through, on a fake device."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest
from fake_driver import FakeLibrary

from eagerjit.runtime.gpu.devices import Platform

sys.path.append(str(Path(__file__).resolve().parents[3]))

from benchmarks import gpu, report


def test_every_row_is_measured(library: FakeLibrary, platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "GIB", 1 << 16)
    monkeypatch.setattr(gpu, "QUEUED", 3)
    monkeypatch.setattr(gpu, "seconds_per_call", lambda function: function() and 1e-6)
    monkeypatch.setattr(gpu, "EMPTY", library.define("empty", (ctypes.c_uint64,), lambda launch, address: None))
    rows = gpu.measure("eagerjit", "all")
    assert len(rows.numbers) == 8 and all(value > 0 for value in rows.numbers.values())
    medians = {"eagerjit": rows.numbers}
    lines = gpu.footer(medians)
    assert lines[0] == "Fake 0, driver for CUDA 13.0" and len(lines) == 4
    machine = {"cores": 1, "cpu": "a CPU", "python": "3"}
    text = report.table({
        "title": gpu.TITLE, "unit": "s", "machine": machine, "medians": medians, "footer": lines, "missing": {},
    })  # fmt: skip
    assert "queue a kernel that does nothing" in text and "GB/s" in text

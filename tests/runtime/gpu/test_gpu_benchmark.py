"""The GPU benchmark goes through, on a fake device."""

from __future__ import annotations

import contextlib
import ctypes
import json
import sys
from pathlib import Path

import pytest
import torch
from fake_driver import FakeLibrary

from eagerjit.runtime.gpu.devices import Platform

sys.path.append(str(Path(__file__).resolve().parents[3]))

from benchmarks import gpu, gpu_host, gpu_kernels, harness, report


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


def test_a_row_that_fails_costs_none_of_the_others(
    library: FakeLibrary, platform: Platform, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error of the GPU ends the process; the one after it goes on behind the rows that are known."""
    monkeypatch.setattr(gpu, "GIB", 1 << 16)
    monkeypatch.setattr(gpu, "QUEUED", 3)
    monkeypatch.setattr(gpu, "seconds_per_call", lambda function: function() and 1e-6)
    monkeypatch.setattr(gpu, "EMPTY", b"no code")
    library.fail("cuMemHostAlloc", 2, times=100)
    rows = harness.Rows({}, {}, {})
    for _ in range(9):
        monkeypatch.setenv(harness.SKIP, json.dumps([*rows.numbers, *rows.failed]))
        with contextlib.suppress(SystemExit):
            gpu.measure("eagerjit", "all")
        told = [line for line in capsys.readouterr().out.splitlines() if line.startswith(harness.MARK)]
        if not told:
            break
        new = harness.Rows(**json.loads(told[-1].removeprefix(harness.MARK)))
        rows.numbers.update(new.numbers)
        rows.failed.update(new.failed)
    assert {*rows.numbers} == {gpu.MEMSET, gpu.ALLOCATION, "copy 1 GiB on the device"} and len(rows.failed) == 5
    assert "out of memory" in rows.failed["copy 1 GiB from pinned memory"]


@pytest.mark.parametrize("peer", ["eagerjit", "eagerjit with CUDA graphs"])
def test_kernels_on_a_fake_device(cuda: Platform, monkeypatch: pytest.MonkeyPatch, peer: str) -> None:
    small = {"CHAIN": 64, "ROWS": 8, "COLUMNS": 16, "CLASSES": 7, "PARAMETERS": 32, "SIDE": 32, "HEADS": 2}
    for name, value in {**small, "LENGTH": 20, "FEATURES": 8, "REPEATS": 1}.items():
        monkeypatch.setattr(gpu_kernels, name, value)
    monkeypatch.setattr(gpu, "QUEUED", 1)
    monkeypatch.setattr(gpu_kernels, "DRAWN", 1009)
    rows = gpu_kernels.measure(peer, "all")
    assert rows.numbers.keys() >= {*gpu_kernels.cases(torch), gpu_kernels.CALL} and not rows.failed
    assert all(v > 0 for v in rows.numbers.values())
    for name, (function, shapes) in gpu_kernels.cases(torch).items():
        if "bfloat16" in name:
            continue
        result = function(*gpu_kernels.inputs(torch, shapes, "cpu"))
        assert rows.check[name] == pytest.approx(gpu_kernels.first_numbers(result), rel=1e-4, abs=1e-6)
    lines = gpu_kernels.footer({"eagerjit": rows.numbers})
    assert "TFLOP/s" in lines[1] and "of a copy's" in lines[2]


def test_host_time_is_measured_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_host, "seconds_per_call", lambda function: function() is None or 1e-6)
    rows = gpu_host.measure("eagerjit", "all")
    assert len(rows.numbers) == 10 and all(rows.numbers.values()) and "Host time only" in gpu_host.TITLE

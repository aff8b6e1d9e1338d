"""The record of what the host queued and the device did, and its pictures."""

from __future__ import annotations

import itertools
import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from fake_driver import FakeLibrary
from machines import WORDS, box

from eagerjit.cuda import execution
from eagerjit.cuda.execution import Compile, layouts
from eagerjit.runtime.gpu import observation
from eagerjit.runtime.gpu.devices import Device
from eagerjit.runtime.gpu.graphs import Graph
from eagerjit.runtime.gpu.launch import Kernel
from eagerjit.runtime.gpu.memory import DeviceMemory, fill_bytes
from eagerjit.runtime.gpu.stream import using_stream
from eagerjit.runtime.gpu.timeline import recording

sys.path.append(str(Path(__file__).resolve().parents[3]))

from benchmarks import gpu_timeline
from benchmarks.gpu_networks import Sizes


def test_host_and_device(library: FakeLibrary, device: Device) -> None:
    side = device.streams.new()
    with recording(device) as timeline:
        memory = DeviceMemory(3 << 20, side)
        for stream in (side, device.streams.default):
            stream.wait_stream(side)
            fill_bytes(memory.address, 1, 64, stream)
        timeline.iteration(0)
        timeline.iteration(1)
    fill_bytes(memory.address, 1, 64, device.streams.default)  # not recorded any more
    assert [span.name for span in timeline.spans if span.lane == "host"] == ["cuMemAlloc", "fill", "fill"]
    lanes = [span.lane for span in timeline.spans if span.lane != "host"]
    assert lanes == [f"stream {side.handle:#x}", "default stream"]
    assert all(span.begin <= span.end for span in timeline.spans)
    assert len(timeline.of_iteration(0)) == 5 and timeline.of_iteration(1) == []
    events = timeline.chrome()["traceEvents"]
    assert next(e["args"]["name"] for e in events if e["ph"] == "M") == "host"
    assert sum(e["ph"] == "X" for e in events) == 5


def test_a_capture_is_not_disturbed(library: FakeLibrary, device: Device) -> None:
    memory, graph = DeviceMemory(64, device.streams.default), Graph()
    with recording(device) as timeline, using_stream(device.streams.capture) as stream:
        graph.begin(stream)
        fill_bytes(memory.address, 1, 64, stream)
        graph.end()
        graph.replay(device.streams.default)
    assert [span.name for span in timeline.spans] == ["fill"]


def test_an_error_ends_the_recording(device: Device) -> None:
    with pytest.raises(ZeroDivisionError), recording(device):
        raise ZeroDivisionError
    assert observation.observe is None


def compile_nothing(library: FakeLibrary) -> Compile:
    """Kernels that wait for their turn and then do nothing: what they would compute is not looked at."""
    numbers = itertools.count()

    def compile(launch: Any, device: Any) -> Kernel:
        own, name = layouts(launch), f"{launch.source.name}_{next(numbers)}"
        image = library.define(name, tuple(WORDS[kind] for kind in own), lambda run, *words: None)
        return Kernel(device, image, name, own, launch.warps, boxes=[box(d) for d in launch.descriptors])

    return compile


def test_pictures(library: FakeLibrary, device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_timeline, "SIZES", Sizes(batch=32, image=64, classes=10, width=8))
    monkeypatch.setattr(gpu_timeline, "ITERATIONS", 5)
    monkeypatch.setattr(execution, "compile", compile_nothing(library))
    run = gpu_timeline.run(device)
    line = gpu_timeline.write(run, tmp_path)
    assert "ResNet-50, batch 32, eager: an iteration is queued in" in line and 0 < run.queued <= run.done
    assert run.requests[0] > 0 == run.requests[-1]
    trace = json.loads((tmp_path / "gpu_timeline.json").read_text())
    assert sum(event["ph"] == "X" for event in trace["traceEvents"]) == len(run.timeline.spans) > 300
    pairs = gpu_timeline.pairs(run.timeline.of_iteration(1))
    assert len(pairs) > 150 and {gpu_timeline.kind(host.name) for host, _ in pairs} >= {"convolutions", "other kernels"}
    for name in ("gpu_timeline.svg", "gpu_iterations.svg"):
        assert ElementTree.parse(tmp_path / name).getroot().tag.endswith("svg")
    assert (tmp_path / "gpu_timeline.svg").read_text().count("<line") == gpu_timeline.SHOWN
    drawn = (tmp_path / "gpu_iterations.svg").read_text().split('height="12"')[0]  # all but the legend
    assert gpu_timeline.COLORS["asking for memory"] in drawn

"""The record of what the host queued and the device did, and its pictures."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from fake_driver import FakeLibrary
from machines import interpreted

from eagerjit.runtime.gpu import observation, segments
from eagerjit.runtime.gpu.devices import Device
from eagerjit.runtime.gpu.graphs import Graph
from eagerjit.runtime.gpu.memory import DeviceMemory, fill_bytes
from eagerjit.runtime.gpu.stream import using_stream
from eagerjit.runtime.gpu.timeline import recording

sys.path.append(str(Path(__file__).resolve().parents[3]))

from benchmarks import gpu_timeline


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
    assert [span.name for span in timeline.of_host()] == ["cuMemAlloc", "fill", "fill"]
    assert [span.lane for span in timeline.of_device()] == [f"stream {side.handle:#x}", "default stream"]
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


def test_pictures(library: FakeLibrary, device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("LAYERS", 12), ("ROWS", 4), ("COLUMNS", 8), ("ITERATIONS", 2)):
        monkeypatch.setattr(gpu_timeline, name, value)
    monkeypatch.setattr(segments, "SMALL_SEGMENT", 4096)  # too little for the results of all layers
    timeline, seconds = gpu_timeline.run(device, interpreted(library))
    line = gpu_timeline.write(timeline, seconds, tmp_path)
    assert len(seconds) == 2 and "before the device is done with it" in line
    trace = json.loads((tmp_path / "gpu_timeline.json").read_text())
    assert sum(event["ph"] == "X" for event in trace["traceEvents"]) == len(timeline.spans) > 0
    for name in ("gpu_timeline.svg", "gpu_iterations.svg"):
        assert ElementTree.parse(tmp_path / name).getroot().tag.endswith("svg")
    first, later = (sum(s.name == "cuMemAlloc" for s in timeline.of_iteration(i)) for i in range(2))
    assert first > 0 == later

"""The runtime as programs use it, the same on a fake device and on a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from machines import F32, GPU, Machine

from eagerjit.runtime.gpu.errors import OutOfMemoryError
from eagerjit.runtime.gpu.event import Event
from eagerjit.runtime.gpu.graphs import Graph
from eagerjit.runtime.gpu.memory import (
    DeviceMemory,
    PinnedMemory,
    copy_on_device,
    copy_to_device,
    copy_to_host,
    fill_bytes,
    fill_words,
)
from eagerjit.runtime.gpu.replay import GraphedCall
from eagerjit.runtime.gpu.stream import current_stream, using_stream

ROOT = Path(__file__).resolve().parents[3]


def put(target: Machine, values: np.ndarray) -> DeviceMemory:
    stream = current_stream(target.device)
    memory = DeviceMemory(values.nbytes, stream)
    copy_to_device(memory.address, values.ctypes.data, values.nbytes, stream)
    return memory


def get(target: Machine, memory: DeviceMemory) -> np.ndarray:
    values = np.empty(memory.nbytes // 4, F32)
    copy_to_host(values.ctypes.data, memory.address, memory.nbytes, current_stream(target.device))
    current_stream(target.device).synchronize()
    return values


def test_properties(target: Machine) -> None:
    found = target.device.properties
    free, total = target.device.memory_info()
    assert found.name and found.major >= 8 and found.warp_size == 32 and found.multi_processor_count > 0
    assert 0 < free <= total and abs(total - found.total_memory) < 1 << 31


@pytest.mark.parametrize("count", [1, 1000, 1 << 20])
def test_values_survive_the_way_there_and_back(target: Machine, count: int) -> None:
    values = np.random.default_rng(0).standard_normal(count).astype(F32)
    assert (get(target, put(target, values)) == values).all()


def test_pinned_copies_on_a_side_stream(target: Machine) -> None:
    stream = target.device.streams.new()
    source, result = (PinnedMemory(4 << 20, target.device) for _ in range(2))
    source.array((1 << 20,), F32)[:] = np.arange(1 << 20)
    memory = DeviceMemory(4 << 20, stream)
    copy_to_device(memory.address, source.address, 4 << 20, stream)
    copy_to_host(result.address, memory.address, 4 << 20, stream)
    stream.synchronize()
    assert (result.array((1 << 20,), F32) == np.arange(1 << 20)).all()


def test_kernels_copies_and_fills_in_order(target: Machine) -> None:
    stream, kernel, count = current_stream(target.device), target.add_one(), 100_000
    memory = DeviceMemory(4 * count, stream)
    fill_words(memory.address, 0x40000000, count, stream)  # 2.0
    other = DeviceMemory(4 * count, stream)
    fill_bytes(other.address, 0, 4 * count, stream)
    target.device.activate()
    for _ in range(3):
        kernel.launch((-(-count // 128), 1, 1), stream, memory.address, memory.address, count)
    copy_on_device(other.address, memory.address, 4 * (count // 2), stream)
    assert (get(target, memory) == 5).all()
    assert (get(target, other) == np.where(np.arange(count) < count // 2, 5, 0)).all()


def test_streams_wait_for_events(target: Machine) -> None:
    kernel, count = target.add_one(), 1 << 20
    sides = [target.device.streams.new() for _ in range(2)]
    memory = put(target, np.zeros(count, F32))
    previous = target.device.streams.default
    for step in range(20):
        stream = sides[step % 2]
        stream.wait_stream(previous)
        target.device.activate()
        kernel.launch((count // 128, 1, 1), stream, memory.address, memory.address, count)
        memory.record_stream(stream)
        previous = stream
    target.device.streams.default.wait_stream(previous)
    assert (get(target, memory) == 20).all()


def test_memory_is_used_again_safely(target: Machine) -> None:
    # Blocks go from stream to stream while kernels still run; every result must be its own.
    kernel, count = target.add_one(), 1 << 16
    streams = [target.device.streams.default, target.device.streams.new(), target.device.streams.new()]
    for step in range(60):
        stream, user = streams[step % 3], streams[(step + 1) % 3]
        with using_stream(stream):
            memory = put(target, np.full(count, step, F32))
        user.wait_stream(stream)
        target.device.activate()
        kernel.launch((count // 128, 1, 1), user, memory.address, memory.address, count)
        memory.record_stream(user)
        if step % 7 == 0:
            with using_stream(user):
                assert (get(target, memory) == step + 1).all()
        del memory


def test_events_measure_time(target: Machine) -> None:
    stream, kernel, count = current_stream(target.device), target.add_one(), 1 << 20
    memory = put(target, np.zeros(count, F32))
    start, middle, end = (Event(enable_timing=True) for _ in range(3))
    target.device.activate()
    start.record(stream)
    middle.record(stream)
    for _ in range(50):
        kernel.launch((count // 128, 1, 1), stream, memory.address, memory.address, count)
    end.record(stream)
    end.synchronize()
    assert 0 < middle.elapsed_time(end) <= start.elapsed_time(end)


def test_out_of_memory_is_an_error_and_not_the_end(target: Machine) -> None:
    free, total = target.device.memory_info()
    with pytest.raises(OutOfMemoryError, match=r"Tried to allocate .* total capacity of .* This process has reserved"):
        DeviceMemory(2 * total, current_stream(target.device))
    kept = [DeviceMemory(free // 4, current_stream(target.device)) for _ in range(3)]
    del kept
    large = DeviceMemory(free // 2, current_stream(target.device))  # room only if the cache is given back
    assert large.address
    del large
    target.device.allocator.empty_cache()


def test_graphs_replay(target: Machine) -> None:
    kernel, count = target.add_one(), 4096
    memory, graph = put(target, np.zeros(count, F32)), Graph()
    target.device.synchronize()
    with using_stream(target.device.streams.capture) as stream:
        graph.begin(stream)
        for _ in range(10):
            kernel.launch((count // 128, 1, 1), stream, memory.address, memory.address, count)
        graph.end()
    assert (get(target, memory) == 0).all()
    for _ in range(5):
        graph.replay(current_stream(target.device))
    assert (get(target, memory) == 50).all()
    graph.reset()


def test_captured_calls(target: Machine) -> None:
    kernel, count = target.add_one(), 4096

    def twice(inputs):
        stream = current_stream(target.device)
        target.device.activate()
        first, second = (DeviceMemory(inputs[0].nbytes, stream) for _ in range(2))
        kernel.launch((count // 128, 1, 1), stream, first.address, inputs[0].address, count)
        kernel.launch((count // 128, 1, 1), stream, second.address, first.address, count)
        return [second]

    call = GraphedCall(twice)
    results = [call([put(target, np.full(count, step, F32))])[0] for step in range(6)]
    for step, result in enumerate(results):
        assert (get(target, result) == step + 2).all()
    assert call.refusal is None


@pytest.mark.gpu
@pytest.mark.skipif(GPU != "gpu", reason="the process has no fake device")
def test_a_kernel_outside_of_its_memory_is_an_error_of_that_process() -> None:
    code = """
import machines
from eagerjit.runtime.gpu.devices import platform
from eagerjit.runtime.gpu.errors import AcceleratorError
from eagerjit.runtime.gpu.launch import Kernel
from eagerjit.runtime.gpu.memory import DeviceMemory
device = platform().device(0)
memory = DeviceMemory(100, device.streams.default)
Kernel(device, machines.PTX + b"\\0", "outside", ("pointer",), warps=1).launch((1, 1, 1), device.streams.default, 64)
for attempt in range(2):
    try:
        device.synchronize()
    except AcceleratorError as error:
        print(error.error_code)
del memory
"""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{Path(__file__).parent}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["700", "700"]

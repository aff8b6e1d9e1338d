"""What a GPU's runtime costs: queueing work, memory, copies and graphs, without any kernel of the compiler."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from benchmarks.harness import Rows, progress, seconds_per_call

TITLE = "The GPU's runtime: host time of what is queued, device time of copies"
UNIT = "s"
PEERS = ("eagerjit", "torch")
ROUNDS = 1
PHASES = ("all",)
LIMIT = 60  # seconds of a library

GIB = 1 << 30
COPIES = {"copy 1 GiB on the device": GIB, "copy 1 GiB from pinned memory": GIB, "copy 1 GiB to pinned memory": GIB}
EMPTY = b".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry empty(.param .u64 a)\n{ ret; }\n\0"
QUEUED = 256  # calls between two waits: what is queued fits into the driver's queue, so that the host never waits


def measure(peer: str, phase: str) -> Rows:
    """Times of one library."""
    return _eagerjit() if peer == "eagerjit" else _torch()


def host_seconds(queue: Callable[[], object], wait: Callable[[], object]) -> float:
    """The host's time for one call that queues work, the least over many runs of calls."""

    def run() -> float:
        wait()
        start = time.perf_counter()
        for _ in range(QUEUED):
            queue()
        return (time.perf_counter() - start) / QUEUED

    run()
    return min(run() for _ in range(30))


def device_seconds(queue: Callable[[], object], event: Callable[[], Any]) -> float:
    """The device's time for one call, the median of several measured by events."""
    queue()
    times = []
    for _ in range(9):
        start, end = event(), event()
        start.record()
        queue()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return sorted(times)[len(times) // 2]


def _eagerjit() -> Rows:
    from eagerjit.runtime.gpu import memory as gpu
    from eagerjit.runtime.gpu.devices import platform
    from eagerjit.runtime.gpu.event import Event
    from eagerjit.runtime.gpu.graphs import Graph
    from eagerjit.runtime.gpu.launch import Kernel
    from eagerjit.runtime.gpu.stream import current_stream, using_stream

    device = platform().device(0)
    stream, wait = current_stream(device), device.synchronize
    device.activate()
    rows = Rows()

    small = gpu.DeviceMemory(512, stream)
    kernel = Kernel(device, EMPTY, "empty", ("pointer",), warps=4)
    rows.numbers["queue a kernel that does nothing"] = host_seconds(
        lambda: kernel.launch((1, 1, 1), stream, small.address), wait
    )
    rows.numbers["queue a memset"] = host_seconds(lambda: gpu.fill_words(small.address, 0, 1, stream), wait)
    rows.numbers["allocate and free 1 MiB"] = seconds_per_call(lambda: gpu.DeviceMemory(1 << 20, stream))
    graph = Graph()
    with using_stream(device.streams.capture) as side:
        graph.begin(side)
        for _ in range(100):
            kernel.launch((1, 1, 1), side, small.address)
        graph.end()
    rows.numbers["queue a graph of 100 kernels"] = host_seconds(lambda: graph.replay(stream), wait)
    rows.numbers["a graph of 100 kernels, on the device"] = device_seconds(
        lambda: graph.replay(stream), timed(Event, stream)
    )

    progress(rows)
    source, target = (gpu.DeviceMemory(GIB, stream) for _ in range(2))
    pinned = gpu.PinnedMemory(GIB, device)
    pairs = {
        "copy 1 GiB on the device": lambda: gpu.copy_on_device(target.address, source.address, GIB, stream),
        "copy 1 GiB from pinned memory": lambda: gpu.copy_to_device(target.address, pinned.address, GIB, stream),
        "copy 1 GiB to pinned memory": lambda: gpu.copy_to_host(pinned.address, source.address, GIB, stream),
    }
    for name, copy in pairs.items():
        rows.numbers[name] = device_seconds(copy, timed(Event, stream))
    return rows


def timed(event: Callable[..., Any], stream: Any) -> Callable[[], Any]:
    """Makes events that are recorded in a stream."""

    class Recorded:
        def __init__(self) -> None:
            self.event = event(enable_timing=True)

        def record(self) -> None:
            self.event.record(stream)

        def synchronize(self) -> None:
            self.event.synchronize()

        def elapsed_time(self, end: Recorded) -> float:
            return float(self.event.elapsed_time(end.event))

    return Recorded


def _torch() -> Rows:
    import torch

    rows, wait = Rows(), torch.cuda.synchronize
    small = torch.zeros(1, device="cuda")
    event = lambda: torch.cuda.Event(enable_timing=True)  # noqa: E731
    rows.numbers["queue a memset"] = host_seconds(small.zero_, wait)
    rows.numbers["allocate and free 1 MiB"] = seconds_per_call(
        lambda: torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
    )
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(100):
            small.add_(1)
    rows.numbers["queue a graph of 100 kernels"] = host_seconds(graph.replay, wait)
    rows.numbers["a graph of 100 kernels, on the device"] = device_seconds(graph.replay, event)
    progress(rows)
    source, target = (torch.empty(GIB, dtype=torch.uint8, device="cuda") for _ in range(2))
    pinned = torch.empty(GIB, dtype=torch.uint8, pin_memory=True)
    rows.numbers["copy 1 GiB on the device"] = device_seconds(lambda: target.copy_(source), event)
    rows.numbers["copy 1 GiB from pinned memory"] = device_seconds(
        lambda: target.copy_(pinned, non_blocking=True), event
    )
    rows.numbers["copy 1 GiB to pinned memory"] = device_seconds(lambda: pinned.copy_(source, non_blocking=True), event)
    return rows


def device_name() -> str:
    """The GPU and its driver."""
    from eagerjit.runtime.gpu.devices import available, platform

    if not available():
        return "no GPU"
    version = platform().driver.integer("cuDriverGetVersion")
    return f"{platform().device(0).properties.name}, driver for CUDA {version // 1000}.{version % 1000 // 10}"


def footer(medians: dict[str, dict[str, float]]) -> list[str]:
    """Which device it was, and copies as bandwidth: a copy on the device reads and writes."""
    lines = [device_name()]
    for peer, numbers in medians.items():
        for name, size in COPIES.items():
            if name in numbers:
                moved = 2 * size if "on the device" in name else size
                lines.append(f"{peer}, {name}: {moved / numbers[name] / 1e9:.0f} GB/s")
    return lines

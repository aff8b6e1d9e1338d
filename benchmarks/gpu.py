"""What a GPU's runtime costs: queueing work, memory, copies and graphs, without any kernel of the compiler."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from benchmarks.harness import Rows, each, seconds_per_call

TITLE = "The GPU's runtime: host time of what is queued, device time of copies"
UNIT = "s"
PEERS = ("eagerjit", "torch")
ROUNDS = 1
PHASES = ("all",)
LIMIT = 60  # seconds of a library

GIB = 1 << 30
COPIES = {"copy 1 GiB on the device": GIB, "copy 1 GiB from pinned memory": GIB, "copy 1 GiB to pinned memory": GIB}
KERNEL, MEMSET, ALLOCATION = "queue a kernel that does nothing", "queue a memset", "allocate and free 1 MiB"
QUEUED_GRAPH, GRAPH = "queue a graph of 100 kernels", "a graph of 100 kernels, on the device"
EMPTY = b".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry empty(.param .u64 a)\n{ ret; }\n\0"
QUEUED = 256  # calls between two waits: what is queued fits into the driver's queue, so that the host never waits


def measure(peer: str, phase: str) -> Rows:
    """Times of one library; a row that fails costs none of the others."""
    rows = Rows()
    each(rows, _eagerjit() if peer == "eagerjit" else _torch())
    return rows


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


def _eagerjit() -> dict[str, Callable[[], float]]:
    from eagerjit.runtime.gpu import memory as gpu
    from eagerjit.runtime.gpu.devices import platform
    from eagerjit.runtime.gpu.event import Event
    from eagerjit.runtime.gpu.graphs import Graph
    from eagerjit.runtime.gpu.launch import Kernel
    from eagerjit.runtime.gpu.stream import current_stream, using_stream

    device = platform().device(0)
    stream, wait = current_stream(device), device.synchronize
    device.activate()
    event = timed(Event, stream)
    small = gpu.DeviceMemory(512, stream)

    @cache
    def kernel() -> Kernel:
        return Kernel(device, EMPTY, "empty", ("pointer",), warps=4)

    @cache
    def graph() -> Graph:
        made = Graph()
        kernel().launch((1, 1, 1), stream, small.address)  # what is loaded at the first use is not captured
        with using_stream(device.streams.capture) as side:
            made.begin(side)
            for _ in range(100):
                kernel().launch((1, 1, 1), side, small.address)
            made.end()
        return made

    @cache
    def large() -> list[gpu.DeviceMemory]:
        return [gpu.DeviceMemory(GIB, stream) for _ in range(2)]

    @cache
    def pinned() -> gpu.PinnedMemory:
        return gpu.PinnedMemory(GIB, device)

    def launch() -> None:
        kernel().launch((1, 1, 1), stream, small.address)

    def on_device() -> None:
        gpu.copy_on_device(large()[0].address, large()[1].address, GIB, stream)

    def from_pinned() -> None:
        gpu.copy_to_device(large()[0].address, pinned().address, GIB, stream)

    def to_pinned() -> None:
        gpu.copy_to_host(pinned().address, large()[1].address, GIB, stream)

    return {
        KERNEL: lambda: host_seconds(launch, wait),
        MEMSET: lambda: host_seconds(lambda: gpu.fill_words(small.address, 0, 1, stream), wait),
        ALLOCATION: lambda: seconds_per_call(lambda: gpu.DeviceMemory(1 << 20, stream)),
        QUEUED_GRAPH: lambda: host_seconds(partial(graph().replay, stream), wait),
        GRAPH: lambda: device_seconds(partial(graph().replay, stream), event),
        **{
            name: partial(device_seconds, copy, event)
            for name, copy in zip(COPIES, (on_device, from_pinned, to_pinned), strict=True)
        },
    }


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


def _torch() -> dict[str, Callable[[], float]]:
    import torch

    wait = torch.cuda.synchronize
    event = partial(torch.cuda.Event, enable_timing=True)
    small = torch.zeros(1, device="cuda")

    @cache
    def graph() -> Any:
        made = torch.cuda.CUDAGraph()
        with torch.cuda.graph(made):
            for _ in range(100):
                small.add_(1)
        return made

    @cache
    def large() -> list[Any]:
        return [torch.empty(GIB, dtype=torch.uint8, device="cuda") for _ in range(2)]

    @cache
    def pinned() -> Any:
        return torch.empty(GIB, dtype=torch.uint8, pin_memory=True)

    def allocated() -> Any:
        return torch.empty(1 << 20, dtype=torch.uint8, device="cuda")

    copies = (
        lambda: large()[0].copy_(large()[1]),
        lambda: large()[0].copy_(pinned(), non_blocking=True),
        lambda: pinned().copy_(large()[1], non_blocking=True),
    )
    return {
        MEMSET: lambda: host_seconds(small.zero_, wait),
        ALLOCATION: lambda: seconds_per_call(allocated),
        QUEUED_GRAPH: lambda: host_seconds(graph().replay, wait),
        GRAPH: lambda: device_seconds(graph().replay, event),
        **{name: partial(device_seconds, copy, event) for name, copy in zip(COPIES, copies, strict=True)},
    }


def has_gpu() -> bool:
    """Whether this machine has one."""
    from eagerjit.runtime.gpu.devices import available

    return available()


def device_name() -> str:
    """The GPU and its driver."""
    from eagerjit.runtime.gpu.devices import platform

    if not has_gpu():
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

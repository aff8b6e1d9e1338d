"""The functions of the fake driver that give a device memory and work."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
from fake_memory import Violation
from fake_streams import TICK, Event, Graph, Operation, Stream


@dataclass(frozen=True)
class Launch:
    """What a kernel's body is given besides its arguments."""

    library: Any
    operation: Operation
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int

    def array(self, address: int, count: int, dtype: Any, writes: bool = False) -> np.ndarray:
        """An array over device memory; writing one that was asked for without `writes` is not noticed."""
        size = count * np.dtype(dtype).itemsize
        return self.library.touch(self.operation, address, size, writes).view(dtype)


class Work:
    """Memory, copies, streams, events, kernels and graphs; `FakeLibrary` has the rest."""

    def touch(self: Any, operation: Operation, address: int, size: int, writes: bool) -> np.ndarray:
        return self.memory.access(address, size, writes, operation.stream, operation.clock, operation.name)

    # -- memory ---------------------------------------------------------------------------------------------------

    def cuMemGetInfo_v2(self: Any, free: Any, total: Any) -> None:
        device = self.current()
        free[0], total[0] = device.total - self.memory.used(device), device.total

    def cuMemAlloc_v2(self: Any, out: Any, size: int) -> int:
        device = self.current()
        if not size:
            return 1
        if self.memory.used(device) + size > device.total:
            return 2
        out[0] = self.memory.allocate(size, device)
        return 0

    def cuMemFree_v2(self: Any, address: int) -> int:
        status = int(self.cuCtxSynchronize())  # as the driver's does
        if status:
            return status
        self.memory.free(address, "device")
        return 0

    def cuMemHostAlloc(self: Any, out: Any, size: int, flags: int) -> None:
        self.current()
        out[0] = self.memory.allocate(size, "host")

    def cuMemFreeHost(self: Any, address: int) -> None:
        self.memory.free(address, "host")

    def _host(self: Any, operation: Operation, address: int, size: int, writes: bool) -> np.ndarray:
        """Host memory: pinned memory is checked like a device's, other memory is the program's own business."""
        if self.memory.find(address) is not None:
            return self.touch(operation, address, size, writes)
        return np.frombuffer((ctypes.c_ubyte * size).from_address(address), np.uint8)

    def cuMemcpyHtoDAsync_v2(self: Any, target: int, source: int, size: int, stream: int) -> None:
        pinned = self.memory.find(source) is not None
        if not pinned and self.stream(stream).capture is not None:
            raise Violation("every replay of the graph reads memory of the host that is not pinned")
        staged = None if pinned else ctypes.string_at(source, size)  # the driver takes a copy before it returns

        def run(operation: Operation) -> None:
            data = np.frombuffer(staged, np.uint8) if staged is not None else self._host(operation, source, size, False)
            self.touch(operation, target, size, True)[:] = data

        self.enqueue("a copy to the device", stream, run)

    def cuMemcpyDtoHAsync_v2(self: Any, target: int, source: int, size: int, stream: int) -> int:
        def run(operation: Operation) -> None:
            self._host(operation, target, size, True)[:] = self.touch(operation, source, size, False)

        operation = self.enqueue("a copy to the host", stream, run)
        if self.memory.find(target) is None and operation.stream.capture is None:
            operation.stream.drain()  # only pinned memory can be written while the host goes on
            self.waited(operation.stream.clock)
        return int(self.sticky)

    def cuMemcpyDtoDAsync_v2(self: Any, target: int, source: int, size: int, stream: int) -> None:
        def run(operation: Operation) -> None:
            data = self.touch(operation, source, size, False).copy()
            self.touch(operation, target, size, True)[:] = data

        self.enqueue("a copy on the device", stream, run)

    def cuMemcpyPeerAsync(
        self: Any, target: int, to_context: int, source: int, from_context: int, size: int, stream: int
    ) -> None:
        for address, context in ((target, to_context), (source, from_context)):
            found = self.memory.find(address)
            if found is None or found.owner.context != context:
                raise Violation(f"{address:#x} is not memory of the context {context:#x}")
        self.cuMemcpyDtoDAsync_v2(target, source, size, stream)

    def cuMemsetD8Async(self: Any, target: int, value: int, size: int, stream: int) -> None:
        def run(operation: Operation) -> None:
            self.touch(operation, target, size, True)[:] = value

        self.enqueue("a memset", stream, run)

    def cuMemsetD32Async(self: Any, target: int, value: int, count: int, stream: int) -> None:
        def run(operation: Operation) -> None:
            self.touch(operation, target, 4 * count, True).view(np.uint32)[:] = value

        self.enqueue("a memset", stream, run)

    def cuMemsetD16Async(self: Any, target: int, value: int, count: int, stream: int) -> None:
        def run(operation: Operation) -> None:
            self.touch(operation, target, 2 * count, True).view(np.uint16)[:] = value

        self.enqueue("a memset", stream, run)

    def cuMemsetD2D32Async(
        self: Any, target: int, pitch: int, value: int, width: int, height: int, stream: int
    ) -> int:  # fmt: skip
        if pitch < 4 * width or pitch % 4:
            return 1

        def run(operation: Operation) -> None:
            words = self.touch(operation, target, (height - 1) * pitch + 4 * width, True).view(np.uint32)
            for column in range(width):
                words[column :: pitch // 4] = value

        self.enqueue("a memset", stream, run)
        return 0

    def cuPointerGetAttribute(self: Any, out: int, attribute: int, address: int) -> int:
        assert attribute in (2, 9)
        found = self.memory.find(address)
        if found is None:
            return 1
        if attribute == 9:
            ctypes.c_int.from_address(out).value = self.devices.index(found.owner)
            return 0
        ctypes.c_uint.from_address(out).value = 1 if found.owner == "host" else 2
        return 0

    # -- streams and events ---------------------------------------------------------------------------------------

    def cuCtxGetStreamPriorityRange(self: Any, least: Any, greatest: Any) -> None:
        least[0], greatest[0] = 0, -5

    def cuStreamCreateWithPriority(self: Any, out: Any, flags: int, priority: int) -> None:
        assert flags == 1 and -5 <= priority <= 0
        device = self.current()
        stream = Stream(device, f"stream {len(device.streams)} of {device}")
        device.streams.append(stream)
        out[0] = self.new("stream", stream)

    def cuStreamDestroy_v2(self: Any, handle: int) -> None:
        self.drop("stream", handle)  # what is queued is still done

    def cuStreamSynchronize(self: Any, handle: int) -> int:
        stream = self.stream(handle)
        if stream.capture is not None:
            stream.capture.invalid = True
            return 900
        stream.drain()
        self.waited(stream.clock)
        return int(self.sticky)

    def cuStreamQuery(self: Any, handle: int) -> int:
        stream = self.stream(handle)
        if stream.queue:
            stream.step()  # somebody who asks again and again gets an answer in the end
            return 600
        self.waited(stream.clock)
        return 0

    def cuEventCreate(self: Any, out: Any, flags: int) -> None:
        out[0] = self.new("event", Event(self.current(), not flags & 2))

    def cuEventDestroy_v2(self: Any, handle: int) -> None:
        self.drop("event", handle)

    def cuEventRecord(self: Any, handle: int, stream: int) -> int:
        event = self.get("event", handle)
        into = self.stream(stream)
        if event.device is not into.device:
            return 400
        if into.capture is not None:
            event.captured, event.recorded = (into.capture, into), None
            return 0
        event.captured = None
        event.recorded = self.enqueue("an event", stream, lambda operation: None)
        return 0

    def cuStreamWaitEvent(self: Any, stream: int, handle: int, flags: int) -> int:
        event, into = self.get("event", handle), self.stream(stream)
        if event.captured is not None:
            graph, origin = event.captured
            if into.capture is None:
                into.capture = graph
                graph.streams.add(into)
            graph.unjoined.add(into)
            graph.unjoined.discard(origin)
            return 0
        if into.capture is not None and event.recorded is not None:
            into.capture.invalid = True
            return 900
        if event.recorded is not None:
            self.enqueue("a wait for an event", stream, lambda operation: None, (event.recorded,))
        return 0

    def cuEventQuery(self: Any, handle: int) -> int:
        event = self.get("event", handle)
        if event.captured is not None:
            return 900
        if event.recorded is None:
            return 0
        if not event.recorded.done:
            event.recorded.stream.step()
            return 600
        self.waited(event.recorded.clock)
        return 0

    def cuEventSynchronize(self: Any, handle: int) -> int:
        event = self.get("event", handle)
        if event.recorded is not None:
            event.recorded.stream.reach(event.recorded)
            self.waited(event.recorded.clock)
        return int(self.sticky)

    def cuEventElapsedTime(self: Any, out: Any, first: int, last: int) -> int:
        events = [self.get("event", handle) for handle in (first, last)]
        if any(not event.timed or event.recorded is None for event in events):
            return 400
        if not all(event.recorded.done for event in events):
            return 600
        out[0] = events[1].recorded.time - events[0].recorded.time
        return 0

    # -- kernels --------------------------------------------------------------------------------------------------

    def cuModuleLoadData(self: Any, out: Any, image: int) -> int:
        text = ctypes.string_at(image)
        names = text.removeprefix(b"image of ").decode().split()
        if not text.startswith(b"image of ") or not self.kernels.keys() >= set(names):
            return 200
        out[0] = self.new("module", (self.current(), names))
        return 0

    def cuModuleUnload(self: Any, handle: int) -> None:
        self.drop("module", handle)

    def cuModuleGetFunction(self: Any, out: Any, module: int, name: bytes) -> int:
        device, names = self.get("module", module)
        if name.decode() not in names:
            return 500
        out[0] = self.new("function", [device, name.decode(), 48 * 1024])
        return 0

    def cuFuncLoad(self: Any, function: int) -> None:
        self.get("function", function)

    def cuFuncSetAttribute(self: Any, function: int, attribute: int, value: int) -> int:
        assert attribute == 8
        if value > 232448:
            return 1
        self.get("function", function)[2] = value
        return 0

    def cuFuncGetAttribute(self: Any, out: Any, attribute: int, function: int) -> None:
        out[0] = self.get("function", function)[2]

    def cuLaunchKernel(
        self: Any, function: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int, stream: int,
        parameters: int, extra: int,
    ) -> int:  # fmt: skip
        device, name, most_shared = self.get("function", function)
        if self.stream(stream).device is not device:
            return 400
        grid, block = (gx, gy, gz), (bx, by, bz)
        if 0 in grid or 0 in block or bx * by * bz > 1024 or gy > 65535 or gz > 65535 or shared > most_shared or extra:
            return 1
        types, body = self.kernels[name]
        addresses = (ctypes.c_void_p * max(len(types), 1)).from_address(parameters) if types else ()
        values = [kind.from_address(address).value for kind, address in zip(types, addresses, strict=False)]

        def run(operation: Operation) -> None:
            body(Launch(self, operation, grid, block, shared), *values)

        self.enqueue(f"kernel {name}", stream, run)
        return 0

    # -- graphs ---------------------------------------------------------------------------------------------------

    def cuThreadExchangeStreamCaptureMode(self: Any, mode: Any) -> None:
        graph = getattr(self.local, "capture", None)
        if graph is not None:
            graph.mode, mode[0] = mode[0], graph.mode

    def cuStreamBeginCapture_v2(self: Any, handle: int, mode: int) -> int:
        stream = self.stream(handle)
        if not handle:
            return 900  # the default stream cannot be captured
        if stream.capture is not None:
            return 1
        stream.capture = Graph(streams={stream}, mode=mode)
        self.local.capture = stream.capture
        return 0

    def cuStreamIsCapturing(self: Any, handle: int, out: Any) -> None:
        graph = self.stream(handle).capture
        out[0] = 0 if graph is None else 2 if graph.invalid else 1

    def cuStreamEndCapture(self: Any, handle: int, out: Any) -> int:
        origin = self.stream(handle)
        graph = origin.capture
        if graph is None:
            return 1
        self.local.capture = None
        for stream in graph.streams:
            stream.capture = None
        if graph.invalid:
            return 901
        if graph.unjoined - {origin}:
            return 904
        out[0] = self.new("graph", graph)
        return 0

    def cuGraphGetNodes(self: Any, handle: int, nodes: int, count: Any) -> None:
        assert nodes is None
        count[0] = len(self.get("graph", handle).operations)

    def cuGraphInstantiateWithFlags(self: Any, out: Any, handle: int, flags: int) -> None:
        out[0] = self.new("executable graph", tuple(self.get("graph", handle).operations))

    def cuGraphDestroy(self: Any, handle: int) -> None:
        self.drop("graph", handle)

    def cuGraphExecDestroy(self: Any, handle: int) -> None:
        self.drop("executable graph", handle)
        if any(
            operation.name == f"graph {handle:#x}" for stream in self.current().streams for operation in stream.queue
        ):
            raise Violation(f"graph {handle:#x} destroyed before it was done")

    def cuGraphLaunch(self: Any, handle: int, stream: int) -> None:
        operations = self.get("executable graph", handle)

        def run(operation: Operation) -> None:
            for each in operations:
                each.run(operation)
                operation.stream.time += TICK

        self.enqueue(f"graph {handle:#x}", stream, run)

"""A driver over host memory with libcuda's functions: it queues, executes, records and checks, and fails on request.

It is called through the same C function types as libcuda. What a driver would answer with an error status it answers
so; what a driver would not notice, and a program would regret, raises Violation. Kernels are Python functions.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
from fake_maps import Maps
from fake_memory import Memory, Violation, merge
from fake_streams import Operation, Stream
from fake_work import Work

from eagerjit.runtime.gpu.driver import Driver

OK, INVALID_VALUE, OUT_OF_MEMORY, INVALID_CONTEXT = 0, 1, 2, 201
STATUSES = {
    1: ("CUDA_ERROR_INVALID_VALUE", "invalid argument"),
    2: ("CUDA_ERROR_OUT_OF_MEMORY", "out of memory"),
    100: ("CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"),
    101: ("CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"),
    201: ("CUDA_ERROR_INVALID_CONTEXT", "invalid device context"),
    400: ("CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"),
    500: ("CUDA_ERROR_NOT_FOUND", "named symbol not found"),
    600: ("CUDA_ERROR_NOT_READY", "device not ready"),
    700: ("CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"),
    719: ("CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"),
    900: ("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"),
    901: ("CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"),
    904: ("CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"),
}
ATTRIBUTES = {16: 132, 10: 32, 1: 1024, 39: 2048, 97: 232448, 8: 49152}
WITHOUT_CONTEXT = {
    "cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceTotalMem_v2", "cuDeviceGetAttribute",
    "cuDeviceGetUuid", "cuDeviceCanAccessPeer", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent",
    "cuThreadExchangeStreamCaptureMode", "cuTensorMapEncodeTiled",
}  # fmt: skip
HARMLESS = {"cuGetErrorName", "cuGetErrorString", "cuDriverGetVersion"}
BLOCKING_IN_CAPTURE = {
    "cuCtxSynchronize", "cuMemAlloc_v2", "cuMemFree_v2", "cuEventQuery", "cuEventSynchronize", "cuMemHostAlloc",
    "cuMemFreeHost", "cuStreamQuery", "cuStreamSynchronize", "cuModuleLoadData",
}  # fmt: skip


class FakeDevice:
    """A device with so much memory."""

    def __init__(self, index: int, total: int):
        self.index, self.total = index, total
        self.context = 0xC000 + index
        self.default = Stream(self, f"default stream of device {index}")
        self.streams: list[Stream] = [self.default]

    def __repr__(self) -> str:
        return f"device {self.index}"


class FakeLibrary(Work, Maps):
    """The functions, and what a test wants to know of them: `calls`, `memory`, `fail`, `lose`, `leaks`."""

    def __init__(self, devices: int = 1, total: int = 1 << 30, progress: int | None = None, capability: int = 90):
        self.attributes = ATTRIBUTES | {75: capability // 10, 76: capability % 10}
        self.memory = Memory()
        self.devices = [FakeDevice(index, total) for index in range(devices)]
        self.functions: dict[str, Any] = {}
        self.calls: list[tuple[Any, ...]] = []
        self.handles: dict[int, Any] = {}
        self.names: dict[int, str] = {}
        self.gone: dict[int, str] = {}
        self.clock: dict[object, int] = {}  # what the host has waited for
        self.sticky = 0  # the status of a lost device
        self.kernels: dict[str, tuple[tuple[Any, ...], Callable[..., None]]] = {}
        self._failures: list[list[Any]] = []
        self._next = itertools.count(0x10000, 16)
        self.local = threading.local()
        self._random = None if progress is None else Random(progress)

    # -- what a test asks for -------------------------------------------------------------------------------------

    def driver(self) -> Driver:
        return Driver(self)

    def define(self, name: str, parameters: tuple[Any, ...], body: Callable[..., None]) -> bytes:
        """A kernel by name: `body(launch, *values)`. Returns an image that holds it."""
        self.kernels[name] = (parameters, body)
        return b"image of " + name.encode() + b"\0"

    def fail(self, name: str, status: int, after: int = 0, times: int = 1, sticky: bool = False) -> None:
        """The calls of a function ("*": of any) after so many from now return a status, without having any effect."""
        self._failures.append([name, after, times, status, sticky])

    def lose(self, status: int = 719) -> None:
        """The device fails: from now on every call returns this status, and nothing queued is ever done."""
        self.sticky = status
        for device in self.devices:
            for stream in device.streams:
                stream.queue.clear()

    def finish(self) -> None:
        """Do all that is queued, without the host knowing."""
        for device in self.devices:
            for stream in device.streams:
                stream.drain()

    def leaks(self) -> list[str]:
        """What was made and not given back; contexts and modules live as long as the process."""
        handles = [f"{self.names[h]} {h:#x}" for h in self.handles if self.names[h] not in ("module", "function")]
        return handles + [f"{a.size} bytes of {a.owner}" for a in self.memory.live()]

    def host_bytes(self, address: int, size: int, writes: bool = False) -> np.ndarray:
        """Bytes as the host sees them: Violation where it has not waited for who wrote them."""
        self.count_host()
        found = self.memory.access(address, size, writes, "host", self.clock, "an access of the host")
        return found if writes else self.memory.peek(address, size)

    # -- how calls come in ----------------------------------------------------------------------------------------

    def bind(self, name: str, prototype: Any) -> Callable[..., int]:
        getattr(self, name)  # AttributeError for one that no driver has

        def entered(*arguments: Any) -> int:
            try:
                return self._call(name, getattr(self, name), arguments)  # a test may replace it
            except BaseException as error:  # C code lies in between: it is raised again outside
                self.local.raised = error
                return INVALID_VALUE

        called_from_c = self.functions.setdefault(name, prototype(entered))  # native code may have its address

        def call(*arguments: Any) -> int:
            status = called_from_c(*arguments)
            self.reraise()
            return int(status)

        return call

    def address(self, name: str, prototype: Any) -> int:
        if name not in self.functions:
            self.bind(name, prototype)
        return ctypes.cast(self.functions[name], ctypes.c_void_p).value or 0

    def reraise(self) -> None:
        """What went wrong in a call that came from C."""
        error, self.local.raised = getattr(self.local, "raised", None), None
        if error is not None:
            raise error

    def _call(self, name: str, function: Callable[..., int | None], arguments: tuple[Any, ...]) -> int:
        self.calls.append((name, *arguments))
        if name in HARMLESS:
            return function(*arguments) or OK
        if self.sticky:
            return self.sticky
        if self._random is not None:
            self._some_progress(self._random)
        for failure in self._failures:
            if failure[0] not in (name, "*"):
                continue
            if failure[1]:
                failure[1] -= 1
            elif failure[2]:
                failure[2] -= 1
                if failure[4]:
                    self.lose(failure[3])
                return int(failure[3])
        if name not in WITHOUT_CONTEXT:
            self.current()
        graph = getattr(self.local, "capture", None)
        if graph is not None and graph.mode != 2 and name in BLOCKING_IN_CAPTURE:
            graph.invalid = True
            return 900
        return function(*arguments) or OK

    def _some_progress(self, random: Random) -> None:
        streams = [stream for device in self.devices for stream in device.streams if stream.queue]
        for _ in range(random.randrange(3)):
            stream = random.choice(streams) if streams else None
            if stream is not None and stream.queue:
                stream.step()

    def count_host(self) -> None:
        self.clock["host"] = self.clock.get("host", 0) + 1

    def new(self, kind: str, value: Any) -> int:
        handle = next(self._next)
        self.handles[handle], self.names[handle] = value, kind
        return handle

    def get(self, kind: str, handle: int | None) -> Any:
        """What a handle stands for; Violation where it is not, or no more, a handle of this kind."""
        if handle in self.gone:
            raise Violation(f"{self.gone[handle]} {handle:#x} used after it was destroyed")
        if handle not in self.handles or self.names[handle] != kind:
            raise Violation(f"{handle} is no {kind}")
        return self.handles[handle]

    def drop(self, kind: str, handle: int) -> Any:
        value = self.get(kind, handle)
        del self.handles[handle]
        self.gone[handle] = kind
        return value

    def current(self) -> FakeDevice:
        """The device whose context this thread has made current."""
        device = getattr(self.local, "device", None)
        if device is None:
            raise Violation("no context is current")
        return device  # type: ignore[no-any-return]

    def stream(self, handle: int | None) -> Stream:
        """The stream, whose device's context must be the current one."""
        device = self.current()
        if not handle:
            return device.default
        stream: Stream = self.get("stream", handle)
        if stream.device is not device:
            raise Violation(f"{stream.name} used with the context of {device}")
        return stream

    def enqueue(self, name: str, handle: int | None, run: Callable[[Operation], None], after: Any = ()) -> Operation:
        """Put an operation into a stream, or into the graph that the stream is captured in."""
        def opened(operation: Operation) -> None:
            with self.memory.opened():
                run(operation)

        stream = self.stream(handle)
        operation = Operation(name, opened, stream, after=tuple(after))
        if stream.capture is not None:
            stream.capture.operations.append(operation)
            return operation
        self.put(stream, operation)
        return operation

    def put(self, stream: Stream, operation: Operation) -> None:
        merge(stream.clock, self.clock)
        for earlier in operation.after:
            merge(stream.clock, earlier.clock)
        stream.count += 1
        stream.clock[stream] = stream.count
        operation.clock = dict(stream.clock)
        stream.queue.append(operation)

    def waited(self, clock: dict[object, int]) -> None:
        """The host has waited for this."""
        merge(self.clock, clock)

    # -- the library itself, devices, contexts --------------------------------------------------------------------

    def cuInit(self, flags: int) -> None:
        assert flags == 0

    def cuDriverGetVersion(self, out: Any) -> None:
        out[0] = 13000

    def cuGetErrorName(self, status: int, out: Any) -> int:
        return self._text(status, 0, out)

    def cuGetErrorString(self, status: int, out: Any) -> int:
        return self._text(status, 1, out)

    def _text(self, status: int, column: int, out: Any) -> int:
        if status not in STATUSES:
            return INVALID_VALUE
        text = self.local.text = ctypes.create_string_buffer(STATUSES[status][column].encode())
        ctypes.cast(out, ctypes.POINTER(ctypes.c_void_p))[0] = ctypes.addressof(text)
        return OK

    def cuDeviceGetCount(self, out: Any) -> None:
        out[0] = len(self.devices)

    def cuDeviceGet(self, out: Any, index: int) -> None:
        out[0] = index

    def cuDeviceGetName(self, out: int, size: int, device: int) -> None:
        ctypes.memmove(out, f"Fake {device}\0".encode(), 7)

    def cuDeviceTotalMem_v2(self, out: Any, device: int) -> None:
        out[0] = self.devices[device].total

    def cuDeviceGetAttribute(self, out: Any, attribute: int, device: int) -> None:
        out[0] = self.attributes.get(attribute, 0)

    def cuDeviceGetUuid(self, out: int, device: int) -> None:
        ctypes.memset(out, device + 1, 16)

    def cuDeviceCanAccessPeer(self, out: Any, device: int, other: int) -> None:
        out[0] = int(device != other)

    def cuDevicePrimaryCtxRetain(self, out: Any, device: int) -> None:
        out[0] = self.devices[device].context

    def cuCtxSetCurrent(self, context: int) -> int:
        for device in self.devices:
            if device.context == context:
                self.local.device = device
                return OK
        return INVALID_CONTEXT

    def cuCtxSynchronize(self) -> int:
        for stream in self.current().streams:
            stream.drain()
            self.waited(stream.clock)
        return self.sticky

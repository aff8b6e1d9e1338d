"""Graphs: work that is captured from a stream once and launched as a whole again and again, at the same addresses."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from eagerjit.runtime.gpu.functions import CAPTURE_THREAD_LOCAL
from eagerjit.runtime.gpu.stream import current_stream
from eagerjit.runtime.once import lock

if TYPE_CHECKING:
    from eagerjit.runtime.gpu.devices import Device
    from eagerjit.runtime.gpu.segments import Pool
    from eagerjit.runtime.gpu.stream import Stream


class Graph:
    """Work of one device. While it is captured, nothing is done, and memory comes from a pool of the graph's own.

    Memory of the pool that is freed may be used again by later captures into the pool, and by nobody else as long as
    the graph lives.
    """

    def __init__(self) -> None:
        self.device: Device | None = None
        self.pool: Pool | None = None
        self._before: Pool | None = None
        self._executable = 0
        self._ran: set[Stream] = set()
        self._capturing: Stream | None = None

    def __del__(self) -> None:
        try:
            self.reset()
        except RuntimeError:  # the device has failed, and the graph with it
            pass

    @property
    def is_captured(self) -> bool:
        """Whether there is something to replay."""
        return bool(self._executable)

    def begin(self, stream: Stream, pool: Pool | None = None, mode: int = CAPTURE_THREAD_LOCAL) -> None:
        """Captures what the stream, which must be this thread's current one, is given from now on.

        In this mode the thread may make no call that waits for the device. RuntimeError in the default stream, or if
        the graph is captured already.
        """
        device = stream.device
        if self._capturing is not None or self.is_captured:
            raise RuntimeError("this graph has been captured: reset() it before it is captured again")
        if stream.handle == 0 or stream != current_stream(device):
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream, and this thread's current one. (However, after "
                "capture, it's ok to replay them on the default stream.)"
            )
        device.activate()
        pool = device.allocator.new_pool() if pool is None else pool
        device.driver.cuStreamBeginCapture_v2(stream.handle, mode)
        with lock:
            device.platform.captures += 1
            pool.users += 1
        device.platform.here.captures += 1
        self._before = device.platform.here.switch_pool(device, pool)
        self.device, self.pool, self._capturing = device, pool, stream

    def end(self) -> None:
        """Ends the capture and makes the graph ready. What a capture forbids makes it fail here at the latest."""
        stream, device = self._capturing, self.device
        if stream is None or device is None:
            raise RuntimeError("this graph is not being captured")
        self._capturing = None
        captured = ctypes.c_void_p()
        try:
            device.driver.cuStreamEndCapture(stream.handle, ctypes.byref(captured))
            self._executable = device.driver.integer("cuGraphInstantiateWithFlags", captured.value, 0)
        except RuntimeError:
            self._give_up_pool()
            raise
        finally:
            with lock:
                device.platform.captures -= 1
            device.platform.here.captures -= 1
            device.platform.here.switch_pool(device, self._before)
            if captured.value:
                device.driver.status.cuGraphDestroy(captured.value)

    def replay(self, stream: Stream) -> None:
        """Queues everything that was captured."""
        if self.device is None or not self.is_captured:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        self.device.activate()
        self.device.driver.cuGraphLaunch(self._executable, stream.handle)
        self._ran.add(stream)

    def reset(self) -> None:
        """Forgets what was captured, after waiting until it is done; its memory may be used again."""
        if self._capturing is not None:
            raise RuntimeError("this graph is being captured")
        executable, self._executable = self._executable, 0
        streams, self._ran = self._ran, set()
        if not executable or self.device is None:
            return
        self._give_up_pool()
        with self.device.platform.permitted():
            for stream in streams:
                stream.wait()
        self.device.activate()
        self.device.driver.cuGraphExecDestroy(executable)

    def _give_up_pool(self) -> None:
        if self.pool is not None:
            with lock:
                self.pool.users -= 1
            self.pool = None

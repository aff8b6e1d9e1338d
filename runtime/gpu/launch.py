"""Kernels from cubins, and launching them: the arguments of a call are packed in one step into memory made before."""

from __future__ import annotations

import ctypes
import hashlib
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from eagerjit.runtime import log
from eagerjit.runtime.gpu import observation
from eagerjit.runtime.gpu.functions import FUNCTION_MAX_DYNAMIC_SHARED
from eagerjit.runtime.native import launch as layout
from eagerjit.runtime.native.library import native
from eagerjit.runtime.once import lock, once

if TYPE_CHECKING:
    from eagerjit.runtime.gpu.descriptors import Box
    from eagerjit.runtime.gpu.devices import Device
    from eagerjit.runtime.gpu.stream import Stream

WARP = 32
STATIC_SHARED = 48 << 10  # bytes of shared memory that a kernel has without asking for more
# How each type of parameter lies in its eight bytes, a tensor map (`descriptors.py`) in 128; native byte order.
LAYOUTS = {
    "pointer": "Q", "i64": "q", "u64": "Q", "i32": "i4x", "u32": "I4x", "i16": "h6x", "u16": "H6x", "i8": "b7x",
    "u8": "B7x", "i1": "?7x", "f64": "d", "f32": "f4x", "map": "128s",
}  # fmt: skip
BYTES = {kind: struct.calcsize(text if text[-1] == "s" else text[0]) for kind, text in LAYOUTS.items()}
"""Bytes that a kernel takes of each."""


def added(name: str, given: Sequence[str], taken: Sequence[int]) -> int:
    """How many parameters the compiler has added to those given, pointers that may be null; `taken`: bytes of each.

    RuntimeError where the machine code takes others than are given.
    """
    own, rest = [BYTES[kind] for kind in given], taken[len(given) :]
    if list(taken[: len(given)]) != own or any(size != BYTES["pointer"] for size in rest):
        raise RuntimeError(f"{name} was compiled to take parameters of {list(taken)} bytes, it is given {own}")
    return len(rest)


class Modules:
    """Cubins loaded into a device, each once however often it is asked for."""

    def __init__(self, device: Device):
        self.device = device
        self._loaded: dict[bytes, int] = {}

    def load(self, image: bytes) -> int:
        """The module of a cubin, known by its contents; it stays loaded as long as the process lives."""
        key = hashlib.sha256(image).digest()
        with lock:
            if key not in self._loaded:
                self.device.activate()
                with self.device.platform.permitted():
                    self._loaded[key] = self.device.driver.integer("cuModuleLoadData", image)
            return self._loaded[key]

    def function(self, image: bytes, name: str) -> int:
        """A kernel of a cubin, loaded for good: a first launch must not have to, as it may be captured."""
        driver = self.device.driver
        function = driver.integer("cuModuleGetFunction", self.load(image), name.encode())
        if hasattr(driver.status, "cuFuncLoad"):  # of CUDA 12.4
            with self.device.platform.permitted():
                driver.cuFuncLoad(function)
        return function


class Kernel:
    """A kernel of a device, ready to be launched.

    parameters  the type of each, a key of LAYOUTS. Pointers that the compiler adds at the end are `hidden`: they are
                null
    warps       of 32 threads in a block
    shared      bytes of shared memory that a block needs
    boxes       how it takes blocks of the tensors of its maps, in the order of these parameters
    """

    def __init__(
        self, device: Device, image: bytes, name: str, parameters: Sequence[str], warps: int, shared: int = 0,
        hidden: int = 0, boxes: Sequence[Box] = (),
    ):  # fmt: skip
        self.boxes = tuple(boxes)
        self.device, self.name, self.shared, self.threads = device, name, shared, WARP * warps
        self.parameters, self.hidden = (*parameters, *["pointer"] * hidden), hidden
        self._hidden = (0,) * hidden
        self.function = device.modules.function(image, name)
        if shared > STATIC_SHARED:
            most = device.properties.shared_memory_per_block_optin
            if shared > most:
                raise RuntimeError(f"{name} needs {shared} bytes of shared memory, this device has {most}")
            device.driver.cuFuncSetAttribute(self.function, FUNCTION_MAX_DYNAMIC_SHARED, shared)
        layouts = "3QQ" + "".join(LAYOUTS[kind] for kind in self.parameters)  # the grid and the stream come first
        self._pack = struct.Struct(layouts).pack_into
        self._launch = _launch_kernel()
        self._frames: list[tuple[ctypes.Array[ctypes.c_char], int]] = []

    def launch(self, grid: tuple[int, int, int], stream: Stream, *arguments: float) -> None:
        """Queues the kernel on a grid of blocks; pointers are given as addresses.

        An error may be one of earlier work, which is reported here.
        """
        self.device.activate()
        try:
            frame = self._frames.pop()  # several threads may launch at once: a frame is one launch's
        except IndexError:
            frame = self._new_frame()
        try:
            self._pack(frame[0], layout.GRID, *grid, stream.handle, *arguments, *self._hidden)
            if observation.observe is None:
                status = self._launch(frame[1])
            else:
                with observation.observe(self.name, stream):
                    status = self._launch(frame[1])
        finally:
            self._frames.append(frame)
        if status:
            raise self.device.driver.error(status, f"the launch of {self.name}")
        if log.LAUNCH:
            log.write("launch", f"{self.name} on a grid of {'x'.join(map(str, grid))} in {stream}")

    def _new_frame(self) -> tuple[ctypes.Array[ctypes.c_char], int]:
        """Memory for a launch, as `native/launch.py` describes it, and its address."""
        places = [layout.ARGUMENTS]
        for kind in self.parameters:
            places.append(places[-1] + struct.calcsize(LAYOUTS[kind]))
        count, pointers = len(self.parameters), places.pop()
        frame = ctypes.create_string_buffer(pointers + 8 * count)
        start = ctypes.addressof(frame)
        words = (self.device.driver.address("cuLaunchKernel"), self.function, self.threads, self.shared)
        struct.pack_into("5Q", frame, 0, *words, start + pointers)
        struct.pack_into(f"{count}Q", frame, pointers, *(start + place for place in places))
        return frame, start


@once
def _launch_kernel() -> Callable[[int], int]:
    # With the GIL: a launch is quick, and to give the GIL away may cost a busy process milliseconds.
    return native().function("launch_kernel", ctypes.c_int64, ctypes.c_void_p, keep_gil=True)  # type: ignore[no-any-return]

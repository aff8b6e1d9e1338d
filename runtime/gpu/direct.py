"""Programs of devices in native code (`native/device.py`): what it is told of devices, memory and launches.

Such a Program runs natively where all its leaves and results lie on the device and nothing of it needs the host. What
native code cannot decide (another device or stream than the last one, a graph's capture, a watched run) it leaves to
the executor in Python, which does the same.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from eagerjit.runtime import heap_types, layout, log, mode
from eagerjit.runtime.check import check_program
from eagerjit.runtime.cpython import increment
from eagerjit.runtime.device_array import DeviceArray
from eagerjit.runtime.execute import NativeExecutable, install_run
from eagerjit.runtime.gpu.descriptors import TensorMap
from eagerjit.runtime.gpu.executor import DeviceExecutable
from eagerjit.runtime.gpu.launch import Kernel
from eagerjit.runtime.gpu.memory import DeviceMemory
from eagerjit.runtime.gpu.segments import Block
from eagerjit.runtime.gpu.stream import current_stream
from eagerjit.runtime.interpret import MISS
from eagerjit.runtime.native import context as c
from eagerjit.runtime.native import device_memory as blocks
from eagerjit.runtime.native import ready as launches
from eagerjit.runtime.native.agreed import MOST_HIDDEN
from eagerjit.runtime.native.context import MAX_NDIM
from eagerjit.runtime.native.library import native
from eagerjit.runtime.once import lock, once
from eagerjit.runtime.program import DeviceOp, Op, Program

if TYPE_CHECKING:
    from eagerjit.runtime.gpu.devices import Device

ON_HOST = frozenset({Op.MATMUL, Op.CONVOLUTION, Op.CALL, Op.READ_SIZE, Op.CHECK_VALUE})
NOTHING = frozenset({Op.BEGIN, Op.FINISH})  # a launch only queues work: the GIL is kept
_alive: list[Any] = []  # what native code points to for as long as the process lives
increment(_alive)  # which is longer than this module


class Ready(Protocol):
    """A kernel as it is launched on some sizes."""

    @property
    def kernel(self) -> Kernel: ...
    @property
    def grid(self) -> tuple[int, int, int]: ...
    @property
    def picks(self) -> Sequence[int]: ...
    @property
    def partials(self) -> int: ...
    @property
    def counters(self) -> int: ...
    @property
    def tables(self) -> int: ...
    @property
    def maps(self) -> Sequence[TensorMap]: ...


class Launched(Protocol):
    """A kernel of a Program, of which native code keeps launches.

    compared    the parameters that decide on a launch, each with whether only its alignment does
    null        which of all words is null
    """

    @property
    def compared(self) -> Sequence[tuple[int, bool]]: ...
    @property
    def null(self) -> int: ...

    def ready(self, tasks: int, words: Sequence[int]) -> Ready:
        """How it is launched on these words."""
        ...


class KeptBlocks:
    """Blocks of a device's memory that native code hands out again."""

    def __init__(self, address: int):
        self.address = address

    def take(self, requested: int, stream: int) -> Block | None:
        """One that work of this stream freed, for a request of this many bytes."""
        found: Block | None = _take()(self.address, requested, stream)
        return found

    def give_up(self) -> list[Block]:
        """All of them; none is kept any longer."""
        found: list[Block] = []
        _give_up()(self.address, found)
        return found


@once
def _take() -> Callable[..., Any]:
    return native().function("take_kept", ctypes.py_object, *[ctypes.c_int64] * 3, keep_gil=True)  # type: ignore[no-any-return]


@once
def _give_up() -> Callable[..., Any]:
    return native().function("give_up_kept", ctypes.c_int64, ctypes.c_int64, ctypes.py_object, keep_gil=True)  # type: ignore[no-any-return]


@once
def _describe() -> None:
    """Tells native code where arrays and memory of devices keep what it reads."""
    array, memory = np.ndarray.__new__(DeviceArray, (1,)), object.__new__(DeviceMemory)
    _alive.append(_give_back)
    layout.describe(
        {
            c.DEVICE_ARRAY_TYPE: id(DeviceArray),
            c.DEVICE_ARRAY_MEMORY: heap_types.slot_in(array, "memory"),
            c.DEVICE_ARRAY_ADDRESS: heap_types.slot_in(array, "_address"),
            c.MEMORY_TYPE: id(DeviceMemory),
            c.MEMORY_BLOCK: heap_types.slot_in(memory, "block"),
            c.MEMORY_DEVICE: heap_types.slot_in(memory, "device"),
            c.GIVE_BACK: id(_give_back),
        }
    )
    address = native().address("memory_dropped")
    heap_types.install_native_method(DeviceMemory, "__del__", address, "Gives the bytes back.", arguments=False)


_give_back = DeviceMemory.__del__


def keeper(device: Device) -> int:
    """The address of what native code knows of a device, for good."""
    with lock:
        kept = device.allocator.kept
        if kept is None:
            _describe()
            words = (ctypes.c_int64 * (blocks.DEVICE_BYTES // 8))()
            allocator, driver = device.allocator, device.driver

            def complain(status: int) -> None:
                raise driver.error(status, "a launch")

            objects = device, allocator.allocate, allocator.free, complain
            places = blocks.DEVICE_OBJECT, blocks.ALLOCATE, blocks.FREE, blocks.COMPLAIN
            _alive.append((words, objects))
            for at, value in (
                *zip(places, map(id, objects), strict=True),
                (blocks.DEVICE_PLACE, device.index + 1),
                (blocks.STATISTICS, ctypes.addressof(allocator.statistics.words)),
                (blocks.LAUNCH_FUNCTION, driver.address("cuLaunchKernel")),
                (blocks.FILL_FUNCTION, driver.address("cuMemsetD32Async")),
                (blocks.COPY_FUNCTION, driver.address("cuMemcpyDtoDAsync_v2")),
            ):
                words[at // 8] = value
            kept = allocator.kept = KeptBlocks(ctypes.addressof(words))
        return kept.address


class _Table:
    """A kernel's table in native code: what decides on its launches, and those that were used last."""

    def __init__(self, kernel: Launched):
        self.kernel = kernel
        self._ready: dict[tuple[int, ...], Any] = {}
        prepare = self.prepare
        compared = [index | launches.ALIGNMENT_ONLY * alignment for index, alignment in kernel.compared]
        entries = [0] * launches.WAYS
        self.words = (ctypes.c_int64 * (6 + len(compared)))(len(compared), id(prepare), *entries, *compared)
        self._kept = prepare
        self.address = ctypes.addressof(self.words)

    def prepare(self, tasks: int, address: int) -> None:
        """Puts the launch for these words, which lie at an address, in the first place."""
        compared = self.kernel.compared
        n = 1 + max((index for index, _ in compared), default=-1)
        words = list((ctypes.c_int64 * n).from_address(address))
        decide = [words[index] & 15 if alignment else words[index] for index, alignment in compared]
        key = (tasks, mode.words[mode.PRECISION_WORD], *decide)
        made = self._ready.get(key)
        if made is None:
            made = self._ready[key] = self._launch(key, self.kernel.ready(tasks, words))
        first = launches.TABLE_ENTRIES // 8
        before = [self.words[first + i] for i in range(launches.WAYS - 1)]
        self.words[first : first + launches.WAYS] = [ctypes.addressof(made[0]), *before]

    def _launch(self, key: tuple[int, ...], ready: Ready) -> Any:
        kernel = ready.kernel
        chosen = [*ready.picks, *[self.kernel.null] * kernel.hidden]
        if len(chosen) > self.kernel.null + 1 + MOST_HIDDEN:  # a run has no room for more
            raise RuntimeError(f"{kernel.name} has {len(chosen)} parameters")
        compared, picks = (ctypes.c_int64 * len(key))(*key), (ctypes.c_int64 * max(len(chosen), 1))(*chosen)
        encode = kernel.device.driver.address("cuTensorMapEncodeTiled") if ready.maps else 0
        maps = (ctypes.c_int64 * (2 + len(ready.maps)))(len(ready.maps), encode, *(m.address for m in ready.maps))
        words = (
            kernel.function, *ready.grid, kernel.threads, kernel.shared, len(chosen), ready.partials,
            ready.counters, ready.tables, ctypes.addressof(picks), ctypes.addressof(compared),
            ctypes.addressof(maps) if ready.maps else 0,
        )  # fmt: skip
        return (ctypes.c_int64 * len(words))(*words), picks, compared, maps, ready


class DirectExecutable(NativeExecutable):
    """A Program loaded for a device and run natively; where that is not possible, by the executor in Python."""

    def __init__(self, plain: DeviceExecutable, kernels: Sequence[Launched]):
        program = plain.program
        check_program(program, len(kernels), len(plain.objects))
        tables = [_Table(kernel) for kernel in kernels]
        numbers = itertools.count()
        steps = [
            (DeviceOp.KERNEL, *rest[:3], next(numbers), *rest[4:])
            if code == Op.KERNEL
            else (_THERE.get(Op(code), code), *rest)
            for code, *rest in program.instructions
            if code not in NOTHING
        ]
        addresses = [table.address for table in tables]
        super().__init__(program, addresses, plain.objects, steps, keeper(plain.device))
        self.plain, self.tables, self.device, self.kernels = plain, tables, plain.device, plain.kernels
        self.objects = plain.objects
        plain.epochs = self.epochs
        self._words_of_checks = self.words_of_checks
        self._checks = id(self._words_of_checks) if program.errors else 0

    def words_of_checks(self, address: int) -> int:
        """Words for the kernels of a run whose slots lie at an address."""
        program, stream = self.program, current_stream(self.device)
        slots = (ctypes.c_int64 * program.n_slots).from_address(address)[:]
        return self.device.checks.words(len(self.plain.launches), program, slots, stream)

    def run(self, leaves: tuple[Any, ...]) -> Any:
        """As any executable does."""
        found = super().run(leaves)
        if found is MISS and self.device.leads():
            found = super().run(leaves)
        return self.plain.run(leaves) if found is MISS else found


_THERE = {Op[code.name]: code for code in DeviceOp}


def _is_late(program: Program) -> bool:
    """Whether a number that an error names is computed after the first launch, when native code has noted the slots."""
    codes = [code for code, *_ in program.instructions]
    first = codes.index(Op.KERNEL) if Op.KERNEL in codes else len(codes)
    named = {failure.slot for failure in program.errors}
    arithmetic = [step for step in program.instructions[first:] if Op.CONST <= step[0] <= Op.EQ]
    return any(step[1] in named for step in arithmetic)


def direct(plain: DeviceExecutable, kernels: Sequence[Launched]) -> Any:
    """The same Program run natively, where all of it is for the device; `plain` itself elsewhere."""
    program = plain.program
    if not layout.ready() or log.LAUNCH or plain.places is None or _is_late(program):
        return plain
    on_device, returning = plain.places
    if returning or not all(on_device.values()):
        return plain
    if program.raises_at_once or any(code in ON_HOST for code, *_ in program.instructions):
        return plain
    if check_program(program, len(kernels), len(plain.objects)) > MAX_NDIM:
        return plain
    install_run()
    return DirectExecutable(plain, kernels)

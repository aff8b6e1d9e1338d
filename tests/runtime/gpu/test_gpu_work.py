"""Streams, events, copies and launches against a fake driver."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
import weakref
from collections.abc import Callable

import numpy as np
import pytest
from fake_driver import FakeLibrary
from fake_memory import Violation

from eagerjit.runtime.gpu import devices
from eagerjit.runtime.gpu.devices import Device, Platform, available, using
from eagerjit.runtime.gpu.devices import platform as current_platform
from eagerjit.runtime.gpu.driver import Driver, SharedLibrary
from eagerjit.runtime.gpu.errors import AcceleratorError
from eagerjit.runtime.gpu.event import Event
from eagerjit.runtime.gpu.functions import PROTOTYPES
from eagerjit.runtime.gpu.launch import LAYOUTS, Kernel
from eagerjit.runtime.gpu.memory import (
    DeviceMemory,
    PinnedMemory,
    copy_between_devices,
    copy_on_device,
    copy_to_device,
    copy_to_host,
    fill_bytes,
    fill_words,
)
from eagerjit.runtime.gpu.stream import PER_PRIORITY, current_stream, set_stream, using_stream

F32 = np.dtype(np.float32)


def add_one(launch, target: int, source: int, count: int) -> None:
    """A kernel: every element and one."""
    x = launch.array(source, count, F32)
    launch.array(target, count, F32, writes=True)[:] = x + 1


def kernel(library: FakeLibrary, device: Device) -> Kernel:
    image = library.define("add_one", (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int32), add_one)
    return Kernel(device, image, "add_one", ("pointer", "pointer", "i32"), warps=4)


def pinned(device: Device, values: np.ndarray) -> tuple[PinnedMemory, np.ndarray]:
    memory = PinnedMemory(values.nbytes, device)
    array = memory.array(values.shape, values.dtype)
    array[:] = values
    return memory, array


# -- devices and errors -----------------------------------------------------------------------------------------------


def test_properties_and_memory(device: Device) -> None:
    found = device.properties
    assert (found.name, found.major, found.minor, found.multi_processor_count) == ("Fake 0", 9, 0, 132)
    assert found.warp_size == 32 and found.total_memory == 1 << 30 and str(found.uuid).startswith("01010101")
    assert device.memory_info() == (1 << 30, 1 << 30)
    memory = DeviceMemory(100, device.streams.default)
    assert device.memory_info() == ((1 << 30) - (2 << 20), 1 << 30) and memory.nbytes == 100


def test_errors_name_the_function_and_the_driver_s_words(library: FakeLibrary, device: Device) -> None:
    library.fail("cuCtxSynchronize", 700)
    with pytest.raises(AcceleratorError) as raised:
        device.synchronize()
    assert raised.value.error_code == 700 and isinstance(raised.value, RuntimeError)
    assert str(raised.value) == (
        "CUDA error: an illegal memory access was encountered "
        "(CUDA_ERROR_ILLEGAL_ADDRESS, reported by cuCtxSynchronize)"
    )
    library.fail("cuCtxSynchronize", 12345)
    with pytest.raises(AcceleratorError, match="status 12345"):
        device.synchronize()


def test_no_such_device(platform: Platform) -> None:
    with pytest.raises(AcceleratorError, match="invalid device ordinal: 3 of 1 devices"):
        platform.device(3)
    with pytest.raises(AcceleratorError, match="invalid device ordinal"):
        platform.set_current(-1)


def test_a_machine_without_a_driver() -> None:
    with pytest.raises(OSError, match=r"libnosuchthing"):
        SharedLibrary("libnosuchthing.so.1")
    lonely = FakeLibrary(devices=0)
    with using(lonely.driver()):
        assert not available()
    failing = FakeLibrary()
    failing.fail("cuInit", 100)
    with pytest.raises(AcceleratorError, match="no CUDA-capable device"):
        Platform(failing.driver())


def test_every_function_of_the_table_has_a_fake(library: FakeLibrary) -> None:
    assert [name for name in PROTOTYPES if not hasattr(library, name)] == []
    with pytest.raises(AttributeError):
        Driver(library).cuSomething  # noqa: B018


def test_the_child_of_a_fork_is_told(platform: Platform, device: Device) -> None:
    device.activate()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            device.activate()
        except RuntimeError as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read) as messages:
        assert "Cannot re-initialize CUDA in forked subprocess" in messages.read()


def test_a_driver_that_is_not_there_keeps_no_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise OSError("no such file")

    def ask() -> weakref.ref[np.ndarray]:
        local = np.zeros(3)
        try:
            raise ValueError(local)
        except ValueError:
            assert not available()
        with pytest.raises(OSError, match="no such file"):
            current_platform()
        return weakref.ref(local)

    monkeypatch.setattr(devices, "_platforms", [])
    monkeypatch.setattr(devices, "SharedLibrary", missing)
    reference = ask()
    gc.collect()
    assert reference() is None


def test_each_thread_has_a_current_device_and_context() -> None:
    library = FakeLibrary(devices=2)
    with using(library.driver()) as platform:
        platform.set_current(1)
        seen: list[object] = []

        def other() -> None:
            seen.append(platform.device().index)
            platform.device(1).memory_info()
            seen.append(current_stream(platform.device(1)).handle)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert seen == [0, 0] and platform.device().index == 1 and current_platform() is platform


def test_a_new_thread_may_begin_with_anything(library: FakeLibrary, platform: Platform, device: Device) -> None:
    run, stream = kernel(library, device), device.streams.new()
    memory = DeviceMemory(400, stream)
    first, last = Event(enable_timing=True), Event(enable_timing=True)
    for event in (first, last):
        event.record(stream)
    kept = [PinnedMemory(10, device)]
    errors: list[BaseException] = []

    def attempt(action: Callable[[], object]) -> None:
        try:
            action()
        except BaseException as error:
            errors.append(error)

    for action in (
        first.query, last.synchronize, lambda: first.elapsed_time(last), stream.query, stream.synchronize,
        lambda: run.launch((1, 1, 1), stream, memory.address, memory.address, 100), device.synchronize,
        lambda: kept.clear(), platform.pinned.empty_cache, device.allocator.empty_cache, lambda: Event().record(stream),
        lambda: copy_on_device(memory.address, memory.address + 200, 100, stream), device.memory_info,
    ):  # fmt: skip
        thread = threading.Thread(target=attempt, args=(action,))
        thread.start()
        thread.join()
    assert not errors


# -- streams and events -----------------------------------------------------------------------------------------------


def test_the_host_runs_ahead_and_waits_where_it_asks(library: FakeLibrary, device: Device) -> None:
    stream = device.streams.new()
    memory = DeviceMemory(64, stream)
    fill_bytes(memory.address, 5, 64, stream)
    assert not (library.memory.peek(memory.address, 64) == 5).any() and not stream.query()
    stream.synchronize()
    assert (library.memory.peek(memory.address, 64) == 5).all() and stream.query()


def test_priorities_are_brought_into_range_and_streams_come_in_turn(device: Device) -> None:
    assert device.streams.new(-100).priority == -5 and device.streams.new(7).priority == 0
    made = [device.streams.new(-1) for _ in range(PER_PRIORITY + 1)]
    assert len(set(made)) == PER_PRIORITY and made[0] is made[-1]


def test_current_streams(platform: Platform, device: Device) -> None:
    side = device.streams.new()
    assert current_stream(device) == device.streams.default
    with using_stream(side) as inside:
        assert current_stream(device) is side is inside
        with pytest.raises(ZeroDivisionError), using_stream(device.streams.default):
            raise ZeroDivisionError
        assert current_stream(device) is side
    assert current_stream(device) == device.streams.default
    set_stream(side)
    assert current_stream(device) is side
    set_stream(device.streams.default)


def test_a_stream_that_waits_reads_what_was_written(library: FakeLibrary, device: Device) -> None:
    first, second = device.streams.new(), device.streams.new()
    a, b = DeviceMemory(64, first), DeviceMemory(64, first)
    fill_bytes(a.address, 3, 64, first)
    second.wait_stream(first)
    copy_on_device(b.address, a.address, 64, second)
    second.synchronize()
    assert (library.host_bytes(b.address, 64) == 3).all()


def test_a_stream_that_does_not_wait_is_found_out(library: FakeLibrary, device: Device) -> None:
    first, second = device.streams.new(), device.streams.new()
    memory = DeviceMemory(64, first)
    fill_bytes(memory.address, 3, 64, first)
    fill_bytes(memory.address, 4, 32, second)
    with pytest.raises(Violation, match="a memset is not ordered after a memset"):
        library.finish()


def test_a_host_that_does_not_wait_is_found_out(library: FakeLibrary, device: Device) -> None:
    target, _ = pinned(device, np.zeros(16, F32))
    memory = DeviceMemory(64, device.streams.default)
    fill_bytes(memory.address, 3, 64, device.streams.default)
    copy_to_host(target.address, memory.address, 64, device.streams.default)
    library.finish()
    with pytest.raises(Violation, match="an access of the host is not ordered"):
        library.host_bytes(target.address, 64)
    device.synchronize()
    assert (library.host_bytes(target.address, 64) == 3).all()


def test_events(device: Device) -> None:
    stream = device.streams.new()
    first, last = Event(enable_timing=True), Event(enable_timing=True)
    assert first.query()
    first.synchronize()
    with pytest.raises(ValueError, match="must be recorded before"):
        first.elapsed_time(last)
    memory = DeviceMemory(64, stream)
    stream.record_event(first)
    for _ in range(10):
        fill_bytes(memory.address, 1, 64, stream)
    last.record(stream)
    with pytest.raises(RuntimeError, match="must be completed"):
        first.elapsed_time(last)
    last.synchronize()
    assert first.elapsed_time(last) == pytest.approx(0.011, rel=1e-4)
    with pytest.raises(ValueError, match="enable_timing=True"):
        first.elapsed_time(Event())


def test_events_are_made_again_from_those_given_up(library: FakeLibrary, device: Device) -> None:
    for _ in range(5):
        device.streams.default.record_event()
    assert sum(call[0] == "cuEventCreate" for call in library.calls) == 1
    library.fail("cuEventRecord", 400)
    with pytest.raises(AcceleratorError):
        device.events.record(0)
    device.streams.default.record_event()
    assert sum(call[0] == "cuEventCreate" for call in library.calls) == 1


def test_an_event_stays_on_its_device() -> None:
    with using(FakeLibrary(devices=2).driver()) as platform:
        event = platform.device(0).streams.default.record_event()
        with pytest.raises(RuntimeError, match="cuda:0 does not match recording stream's device cuda:1"):
            event.record(platform.device(1).streams.default)
        platform.device(1).streams.new().wait_event(event)


# -- copies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_pinned", [True, False])
def test_there_and_back(library: FakeLibrary, device: Device, is_pinned: bool) -> None:
    stream, values = device.streams.new(), np.arange(1000, dtype=F32)
    memory = DeviceMemory(4000, stream)
    if is_pinned:
        (source, _), (target, result) = pinned(device, values), pinned(device, np.zeros_like(values))
        copy_to_device(memory.address, source.address, 4000, stream)
        copy_to_host(target.address, memory.address, 4000, stream)
        assert not result.any()  # queued, not done
        stream.synchronize()
    else:
        source_array, result = values.copy(), np.zeros_like(values)
        copy_to_device(memory.address, source_array.ctypes.data, 4000, stream)
        source_array[:] = -1  # the copy has taken what it needs
        copy_to_host(result.ctypes.data, memory.address, 4000, stream)
    assert (result == values).all()


def test_pinned_memory_waits_for_its_copies(library: FakeLibrary, device: Device) -> None:
    stream = device.streams.new()
    memory = DeviceMemory(8192, stream)
    source, _ = pinned(device, np.full(2048, 7, F32))
    copy_to_device(memory.address, source.address, 8192, stream)
    source.record_stream(stream)
    address = source.address
    del source, _
    other, _ = pinned(device, np.zeros(2048, F32))
    assert other.address != address
    stream.synchronize()
    assert PinnedMemory(8192, device).address == address
    assert (library.memory.peek(memory.address, 8192).view(F32) == 7).all()


def test_pinned_memory_is_kept_and_given_back(library: FakeLibrary, platform: Platform, device: Device) -> None:
    PinnedMemory(5000, device)
    PinnedMemory(8000, device)
    assert platform.pinned.reserved == 8192
    library.fail("cuMemHostAlloc", 2)
    large = PinnedMemory(1 << 20, device)  # tried again after giving back what was kept
    assert platform.pinned.reserved == 1 << 20 == platform.pinned.allocated
    del large
    platform.pinned.empty_cache()
    assert platform.pinned.reserved == 0 == platform.pinned.allocated and not library.memory.live("host")
    with pytest.raises(ValueError, match="does not fit"):
        PinnedMemory(4, device).array((2,), F32)
    assert PinnedMemory(0, device).array((0,), F32).shape == (0,)


def test_between_devices() -> None:
    library = FakeLibrary(devices=2)
    with using(library.driver()) as platform:
        here, there = platform.device(0), platform.device(1)
        a, b = DeviceMemory(64, here.streams.default), DeviceMemory(64, there.streams.default)
        fill_bytes(a.address, 9, 64, here.streams.default)
        copy_between_devices(b.address, there, a.address, 64, here.streams.default)
        there.streams.default.wait_stream(here.streams.default)
        there.synchronize()
        assert (library.host_bytes(b.address, 64) == 9).all()


def test_words_and_nothing(library: FakeLibrary, device: Device) -> None:
    stream = device.streams.default
    memory = DeviceMemory(64, stream)
    fill_words(memory.address, 0x3F800000, 16, stream)
    calls = len(library.calls)
    for nothing in (fill_bytes, fill_words):
        nothing(0, 1, 0, stream)
    for nothing in (copy_on_device, copy_to_device, copy_to_host):
        nothing(0, 0, 0, stream)
    assert len(library.calls) == calls
    device.synchronize()
    assert (library.host_bytes(memory.address, 64).view(F32) == 1).all()


# -- launches ---------------------------------------------------------------------------------------------------------


def test_a_launch(library: FakeLibrary, device: Device) -> None:
    stream, values = device.streams.new(), np.arange(100, dtype=F32)
    a, b = DeviceMemory(400, stream), DeviceMemory(400, stream)
    copy_to_device(a.address, values.ctypes.data, 400, stream)
    run = kernel(library, device)
    run.launch((1, 1, 1), stream, b.address, a.address, 100)
    run.launch((2, 3, 4), stream, a.address, b.address, 100)
    result = np.empty_like(values)
    copy_to_host(result.ctypes.data, a.address, 400, stream)
    assert (result == values + 2).all()
    launches = [call for call in library.calls if call[0] == "cuLaunchKernel"]
    assert [call[2:8] for call in launches] == [(1, 1, 1, 128, 1, 1), (2, 3, 4, 128, 1, 1)]


def test_every_type_of_parameter_arrives(library: FakeLibrary, device: Device) -> None:
    values = {
        "pointer": 1 << 63, "i64": -(1 << 62), "u64": 1 << 63, "i32": -(1 << 31), "u32": (1 << 32) - 1, "i16": -4,
        "u16": 65535, "i8": -128, "u8": 255, "i1": True, "f64": 0.1, "map": bytes(range(1, 129)), "f32": 0.5,
    }  # fmt: skip
    kinds = {
        "pointer": ctypes.c_uint64, "i64": ctypes.c_int64, "u64": ctypes.c_uint64, "i32": ctypes.c_int32,
        "u32": ctypes.c_uint32, "i16": ctypes.c_int16, "u16": ctypes.c_uint16, "i8": ctypes.c_int8,
        "u8": ctypes.c_uint8, "i1": ctypes.c_bool, "f64": ctypes.c_double,
        "map": ctypes.c_char * 128, "f32": ctypes.c_float,
    }  # fmt: skip
    assert values.keys() == LAYOUTS.keys()
    arrived: list[object] = []
    body = lambda launch, *found: arrived.extend(found)  # noqa: E731
    image = library.define("all", (*(kinds[k] for k in values), ctypes.c_uint64, ctypes.c_uint64), body)
    run = Kernel(device, image, "all", tuple(values), warps=1, hidden=2)
    device.activate()
    run.launch((1, 1, 1), device.streams.default, *values.values())
    device.synchronize()
    assert arrived == [*values.values(), 0, 0]


def test_arguments_are_taken_when_the_kernel_is_launched(library: FakeLibrary, device: Device) -> None:
    seen: list[int] = []
    image = library.define("note", (ctypes.c_int64,), lambda launch, value: seen.append(value))
    run = Kernel(device, image, "note", ("i64",), warps=1)
    device.activate()
    threads = [
        threading.Thread(target=lambda n=n: [
            device.activate(), *(run.launch((1, 1, 1), device.streams.default, n * 50 + i) for i in range(50))
        ])
        for n in range(4)
    ]  # fmt: skip
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    device.synchronize()
    assert sorted(seen) == list(range(200))


def test_a_launch_in_the_middle_of_a_launch(library: FakeLibrary, device: Device) -> None:
    # Another thread may get its turn when the arguments are packed and the driver has not read them yet.
    seen: list[int] = []
    image = library.define("note", (ctypes.c_int64,), lambda launch, value: seen.append(value))
    plain = library.cuLaunchKernel

    def interrupted(*arguments: object) -> int:
        if len(library.calls) == before + 1:
            run.launch((1, 1, 1), device.streams.default, 2)
        return plain(*arguments)

    library.cuLaunchKernel = interrupted  # type: ignore[method-assign]
    run = Kernel(device, image, "note", ("i64",), warps=1)
    device.activate()
    before = len(library.calls) + 1
    for value in (0, 1):
        run.launch((1, 1, 1), device.streams.default, value)
    device.synchronize()
    assert seen == [0, 2, 1]


def test_a_cubin_is_loaded_once(library: FakeLibrary, device: Device) -> None:
    kernel(library, device), kernel(library, device)
    assert sum(call[0] == "cuModuleLoadData" for call in library.calls) == 1
    with pytest.raises(AcceleratorError, match="named symbol not found"):
        device.modules.function(b"image of add_one\0", "sub_one")


def test_shared_memory(library: FakeLibrary, device: Device) -> None:
    image = library.define("wide", (), lambda launch: None)
    Kernel(device, image, "wide", (), warps=1, shared=100 << 10).launch((1, 1, 1), device.streams.default)
    with pytest.raises(RuntimeError, match="wide needs 307200 bytes of shared memory, this device has 232448"):
        Kernel(device, image, "wide", (), warps=1, shared=300 << 10)


def test_launches_that_fail_name_the_kernel(library: FakeLibrary, device: Device) -> None:
    run = kernel(library, device)
    device.activate()
    with pytest.raises(AcceleratorError, match="reported by the launch of add_one"):
        run.launch((0, 1, 1), device.streams.default, 0, 0, 0)
    with pytest.raises(Exception, match=r"argument|required|format"):
        run.launch((1, 1, 1), device.streams.default, 0, 0, 1 << 40)
    library.fail("cuLaunchKernel", 719, sticky=True)
    with pytest.raises(AcceleratorError, match="unspecified launch failure"):
        run.launch((1, 1, 1), device.streams.default, 0, 0, 0)
    with pytest.raises(AcceleratorError, match="unspecified launch failure"):
        device.synchronize()


def test_a_kernel_that_reads_freed_memory_is_found_out(library: FakeLibrary, device: Device) -> None:
    run = kernel(library, device)
    memory = DeviceMemory(400, device.streams.default)
    address = memory.address
    del memory
    device.allocator.empty_cache()
    run.launch((1, 1, 1), device.streams.default, address, address, 100)
    with pytest.raises(Violation, match="use after free"):
        library.finish()


@pytest.mark.parametrize("call", range(24))
def test_a_device_lost_at_any_call_raises_and_frees(call: int) -> None:
    library = FakeLibrary()
    library.fail("*", 719, after=call, sticky=True)
    try:
        with using(library.driver()) as platform:
            device = platform.device(0)
            stream = device.streams.new()
            a, b = DeviceMemory(400, stream), DeviceMemory(400, stream)
            source, _ = pinned(device, np.ones(100, F32))
            copy_to_device(a.address, source.address, 400, stream)
            source.record_stream(stream)
            kernel(library, device).launch((1, 1, 1), stream, b.address, a.address, 100)
            b.record_stream(device.streams.default)
            stream.synchronize()
    except AcceleratorError as error:
        assert error.error_code == 719
    else:
        assert library.sticky == 0

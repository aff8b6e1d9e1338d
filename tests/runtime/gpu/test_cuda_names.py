"""torch.cuda's names over a fake driver, and what they say where there is no device."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import without_cuda
from fake_driver import FakeLibrary

import eagerjit as ej
from eagerjit import cuda
from eagerjit.runtime.gpu.devices import Device, Platform, using
from eagerjit.runtime.gpu.errors import AcceleratorError, OutOfMemoryError
from eagerjit.runtime.gpu.memory import DeviceMemory, fill_bytes
from eagerjit.runtime.gpu.stream import current_stream

ROOT = Path(__file__).resolve().parents[3]
MIB = 1 << 20


def take(nbytes: int) -> DeviceMemory:
    """Memory for this thread's stream on its device."""
    return DeviceMemory(nbytes, cuda.current_stream()._stream)


# -- without a device -------------------------------------------------------------------------------------------------

ANSWERS: dict[str, Callable[[Any], Any]] = {
    "is_available": lambda c: c.is_available(),
    "device_count": lambda c: c.device_count(),
    "is_initialized": lambda c: c.is_initialized(),
    "is_bf16_supported": lambda c: c.is_bf16_supported(),
    "is_tf32_supported": lambda c: c.is_tf32_supported(),
    "init": lambda c: c.init(),
    "current_device": lambda c: c.current_device(),
    "current_stream": lambda c: c.current_stream(),
    "default_stream": lambda c: c.default_stream(),
    "get_device_name": lambda c: c.get_device_name(),
    "get_device_properties": lambda c: c.get_device_properties(0),
    "get_device_capability": lambda c: c.get_device_capability(),
    "synchronize": lambda c: c.synchronize(),
    "memory": lambda c: [
        f() for f in (c.memory_allocated, c.max_memory_allocated, c.memory_reserved, c.max_memory_reserved)
    ],
    "mem_get_info": lambda c: c.mem_get_info(),
    "fraction": lambda c: c.set_per_process_memory_fraction(0.5),
    "fraction wrong": lambda c: c.get_per_process_memory_fraction(),
    "empty_cache": lambda c: c.empty_cache(),
    "host_memory_stats": lambda c: dict(c.host_memory_stats()),
    "get_arch_list": lambda c: c.get_arch_list(),
    "manual_seed": lambda c: c.manual_seed(1),
    "initial_seed": lambda c: c.initial_seed(),
    "get_rng_state": lambda c: c.get_rng_state(),
    "Stream": lambda c: c.Stream(),
    "Event": lambda c: c.Event(enable_timing=True),
    "CUDAGraph": lambda c: c.CUDAGraph(),
    "OutOfMemoryError": lambda c: c.OutOfMemoryError.__mro__[1:],
}


@pytest.mark.parametrize("name", ANSWERS)
def test_without_a_device_answers_are_pytorch_s(name: str) -> None:
    assert without_cuda.answer(ANSWERS[name], cuda) == without_cuda.expected(f"cuda {name}", ANSWERS[name], torch.cuda)


def test_without_a_device_contexts_change_nothing() -> None:
    with cuda.device(0), cuda.stream(None):
        pass
    assert cuda.AcceleratorError is ej.AcceleratorError and cuda.OutOfMemoryError is ej.OutOfMemoryError


def test_the_driver_is_looked_for_when_asked_only() -> None:
    code = "import sys, eagerjit; eagerjit.manual_seed(1); eagerjit.ones(3).to('cpu').sum().item(); eagerjit.cuda\n"
    code += "print('eagerjit.runtime.gpu.driver' in sys.modules)\n"
    code += "eagerjit.cuda.is_available(); print('eagerjit.runtime.gpu.driver' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


# -- devices ----------------------------------------------------------------------------------------------------------


def test_devices() -> None:
    with using(FakeLibrary(devices=2).driver()):
        assert cuda.is_available() and cuda.device_count() == 2 and not cuda.is_initialized()
        cuda.init()
        assert cuda.is_initialized() and cuda.current_device() == 0
        with cuda.device(1), cuda.device(None), cuda.device(-1):
            assert cuda.current_device() == 1
            with pytest.raises(ZeroDivisionError), cuda.device("cuda:0"):
                assert cuda.current_device() == 0
                raise ZeroDivisionError
            assert cuda.get_device_name() == "Fake 1"
        assert cuda.current_device() == 0
        cuda.set_device(ej.device("cuda:1"))
        cuda.set_device(-1)
        assert cuda.current_device() == 1
        assert cuda.get_device_name("cuda:0") == "Fake 0" and cuda.get_device_capability(0) == (9, 0)
        assert cuda.get_device_properties("cuda").multi_processor_count == 132
        assert cuda.is_bf16_supported() and cuda.is_tf32_supported()
        assert cuda.can_device_access_peer(0, 1) and not cuda.can_device_access_peer(1, 1)
        with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
            cuda.get_device_name("cpu")
        with pytest.raises(ValueError, match="with a specified index"):
            cuda.set_device("cuda")
        with pytest.raises(AcceleratorError, match="invalid device ordinal"):
            cuda.get_device_name(2)


# -- memory -----------------------------------------------------------------------------------------------------------


def test_memory(platform: Platform) -> None:
    assert cuda.memory_allocated() == 0 == cuda.memory_reserved()
    a, b = take(3 * MIB), take(1000)
    assert cuda.memory_allocated() == 3 * MIB + 1024 and cuda.memory_reserved() == 22 * MIB
    del a
    assert cuda.memory_allocated() == 1024 and cuda.max_memory_allocated() == 3 * MIB + 1024
    cuda.reset_peak_memory_stats()
    assert cuda.max_memory_allocated() == 1024 and cuda.max_memory_reserved() == 22 * MIB
    cuda.empty_cache()
    assert cuda.memory_reserved() == 2 * MIB and cuda.mem_get_info() == ((1 << 30) - 2 * MIB, 1 << 30)
    stats = cuda.memory_stats("cuda:0")
    assert stats["allocated_bytes.all.current"] == 1024 == stats["allocated_bytes.small_pool.current"]
    assert stats["allocation.all.allocated"] == 2 and stats["num_device_free"] == 1 and b.nbytes == 1000
    cuda.reset_accumulated_memory_stats()
    assert cuda.memory_stats()["allocation.all.allocated"] == 0 == cuda.memory_stats()["num_device_free"]


def test_the_accelerator_is_the_device(platform: Platform) -> None:
    accelerator = ej.accelerator
    a, b = take(3 * MIB), take(1000)
    del a
    numbers = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_stats")
    assert all(getattr(accelerator, name)(0) == getattr(cuda, name)(0) for name in numbers)
    assert accelerator.memory_allocated() == 1024 and accelerator.get_memory_info() == cuda.mem_get_info()
    accelerator.reset_peak_memory_stats()
    accelerator.reset_accumulated_memory_stats()
    accelerator.empty_cache()
    assert accelerator.max_memory_allocated() == 1024 and accelerator.memory_reserved() == 2 * MIB and b.nbytes == 1000
    assert accelerator.memory_stats()["allocation.all.allocated"] == 0
    pinned = ej.empty(MIB, dtype=ej.uint8, pin_memory=True)
    del pinned
    assert cuda.host_memory_stats()["reserved_bytes.current"] >= MIB
    accelerator.empty_host_cache()
    assert cuda.host_memory_stats()["reserved_bytes.current"] == 0
    stream, before = cuda.Stream(), accelerator.current_stream()
    accelerator.set_stream(stream)
    assert accelerator.current_stream() == stream == cuda.current_stream()
    accelerator.set_stream(before)
    assert ej.bfloat16 in accelerator.get_device_capability()["supported_dtypes"]


def test_memory_stats_have_pytorch_s_names(platform: Platform) -> None:
    names = set(cuda.memory_stats())
    for name in ("allocation", "segment", "active", "inactive_split"):
        for quantity in (name, f"{'allocated' if name == 'allocation' else name}_bytes"):
            if quantity == "segment_bytes":
                quantity = "reserved_bytes"
            assert {f"{quantity}.{pool}.{kind}" for pool in ("all", "large_pool", "small_pool")
                    for kind in ("current", "peak", "allocated", "freed")} <= names  # fmt: skip
    assert {"num_alloc_retries", "num_ooms", "requested_bytes.all.current"} <= names


def test_memory_summary_and_snapshot(platform: Platform) -> None:
    memory = take(1000)
    text = cuda.memory_summary()
    assert "Memory of device 0 (Fake 0)" in text and "from small pool" in text and "1.00 KiB" in text
    assert "from small pool" not in cuda.memory_summary(abbreviated=True)
    (segment,) = cuda.memory_snapshot()
    assert segment["total_size"] == 2 * MIB and segment["segment_type"] == "small"
    assert [(part["size"], part["state"]) for part in segment["blocks"]] == [
        (1024, "active_allocated"), (2 * MIB - 1024, "inactive"),
    ]  # fmt: skip
    assert memory.address == segment["address"]


def test_a_fraction_of_the_memory(platform: Platform) -> None:
    cuda.set_per_process_memory_fraction(0.25)
    assert cuda.get_per_process_memory_fraction() == 0.25
    with pytest.raises(cuda.OutOfMemoryError, match=r"It may reserve 256\.00 MiB"):
        take(300 * MIB)
    with pytest.raises(OutOfMemoryError):
        take(257 * MIB)
    cuda.set_per_process_memory_fraction(1.0)
    assert take(300 * MIB).address
    for wrong, error in ((2.0, ValueError), (1, TypeError)):
        with pytest.raises(error, match="fraction"):
            cuda.set_per_process_memory_fraction(wrong)  # type: ignore[arg-type]


# -- streams, events, graphs ------------------------------------------------------------------------------------------


def test_streams_and_events(library: FakeLibrary, platform: Platform, device: Device) -> None:
    side = cuda.Stream()
    assert side != cuda.default_stream() == cuda.current_stream() and side.device == ej.device("cuda:0")
    assert cuda.Stream(priority=-1).priority == -1 and cuda.Stream.priority_range() == (0, -5)
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    with cuda.stream(side):
        assert cuda.current_stream() == side and hash(side) == hash(cuda.current_stream())
        memory = take(64)
        start.record()
        fill_bytes(memory.address, 1, 64, current_stream(device))
        end.record()
    assert cuda.current_stream() == cuda.default_stream()
    assert not end.query() and not side.query()
    cuda.default_stream().wait_event(end)
    end.synchronize()
    assert end.query() and start.elapsed_time(end) > 0
    side.synchronize()
    assert side.query()
    with side as inside:
        assert cuda.current_stream() == inside
    cuda.default_stream().wait_stream(side)
    assert "cuda:0" in repr(side) and "uninitialized" in repr(cuda.Event())
    external = cuda.ExternalStream(side.cuda_stream)
    assert external == side
    assert not cuda.is_current_stream_capturing()
    cuda.synchronize()


def test_a_thread_s_stream_is_its_own(platform: Platform) -> None:
    side = cuda.Stream()
    seen: list[object] = []
    cuda.set_stream(side)
    thread = threading.Thread(target=lambda: seen.append(cuda.current_stream() == cuda.default_stream()))
    thread.start()
    thread.join()
    assert seen == [True] and cuda.current_stream() == side


def test_graphs(library: FakeLibrary, device: Device) -> None:
    memory, graph, pool = take(64), cuda.CUDAGraph(), cuda.graph_pool_handle()
    with cuda.graph(graph, pool=pool):
        assert cuda.is_current_stream_capturing()
        fill_bytes(memory.address, 7, 64, current_stream(device))
    cuda.synchronize()
    assert not (library.memory.peek(memory.address, 64) == 7).any() and graph.pool() is pool
    graph.replay()
    cuda.synchronize()
    assert (library.memory.peek(memory.address, 64) == 7).all()
    graph.reset()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    with pytest.raises(RuntimeError, match="Unknown capture error mode"):
        graph.capture_begin(capture_error_mode="none")


@pytest.mark.usefixtures("cuda")
def test_a_graph_copies_from_the_host_what_is_pinned() -> None:
    """Its replays read the memory again: of what is not pinned the program may have made something else meanwhile."""
    there, host = ej.zeros(3, device="cuda"), ej.ones(3)
    with pytest.raises(RuntimeError, match="during CUDA graph capture unless the CPU tensor is pinned"):
        with cuda.graph(cuda.CUDAGraph()):
            there.copy_(host)
    pinned, graph = host.pin_memory(), cuda.CUDAGraph()
    with cuda.graph(graph):
        filled = [ej.full((3,), 0.1, dtype=dtype, device="cuda") for dtype in (ej.float64, ej.float32, ej.bfloat16)]
        there = pinned.to("cuda", non_blocking=True)
    pinned.fill_(5.0)
    graph.replay()
    assert there.tolist() == [5.0] * 3 and filled[0].tolist() == [0.1] * 3
    assert filled[2].tolist() == [ej.tensor(0.1, dtype=ej.bfloat16).item()] * 3


def test_an_error_in_a_capture_comes_out_and_ends_it(platform: Platform, device: Device) -> None:
    graph = cuda.CUDAGraph()
    with pytest.raises(ZeroDivisionError), cuda.graph(graph):
        raise ZeroDivisionError
    assert platform.captures == 0 and not cuda.is_current_stream_capturing()
    with pytest.raises(AcceleratorError, match="previous error during capture"), cuda.graph(cuda.CUDAGraph()):
        try:
            cuda.synchronize()
        except AcceleratorError:
            pass
    assert platform.captures == 0


# -- pools ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("cuda")
def test_pools(library: FakeLibrary) -> None:
    pool, outside = cuda.MemPool(), ej.ones(3, device="cuda")
    assert pool.snapshot() == [] and pool.use_count() == 1 and pool.allocator is None
    with cuda.use_mem_pool(pool):
        inside = [ej.ones(3, device="cuda"), outside + 1]
        with pytest.raises(ZeroDivisionError), cuda.use_mem_pool(cuda.MemPool(), "cuda:0"):
            elsewhere = outside + 3
            raise ZeroDivisionError
        inside.append(outside + 2)
        assert ej.tensor([1.0, 2.0]).cuda().tolist() == [1.0, 2.0]
    after = outside + 4
    (segment,) = pool.snapshot()
    addresses = range(segment["address"], segment["address"] + segment["total_size"])
    assert [x.data_ptr() in addresses for x in (*inside, outside, elsewhere, after)] == [True] * 3 + [False] * 3
    assert [x.tolist() for x in (*inside, elsewhere, after)] == [[n] * 3 for n in (1.0, 2.0, 3.0, 4.0, 5.0)]
    del inside
    cuda.empty_cache()
    (segment,) = pool.snapshot()
    assert all(block["state"] == "inactive" for block in segment["blocks"])
    assert sum(call[0] == "cuMemFree_v2" for call in library.calls) == 0
    del pool
    cuda.empty_cache()
    assert sum(call[0] == "cuMemFree_v2" for call in library.calls) == 1


def test_segments_of_pools(device: Device) -> None:
    whole, spare = cuda.MemPool(no_split=True), cuda.MemPool(use_on_oom=True)
    with cuda.use_mem_pool(whole):
        memory = [take(64), take(64)]
    assert len(whole.snapshot()) == len(memory) == 2
    with cuda.use_mem_pool(spare):
        del memory
        assert take(64).address
    device.allocator.limit = cuda.memory_reserved()
    (segment,) = spare.snapshot()
    assert take(64).address == segment["address"]
    with pytest.raises(OutOfMemoryError):
        take(30 * MIB)


@pytest.mark.usefixtures("cuda")
def test_a_graph_in_a_pool() -> None:
    pool, graph, x = cuda.MemPool(), cuda.CUDAGraph(), ej.ones(3, device="cuda")
    x + 1
    with cuda.use_mem_pool(pool):
        with cuda.graph(graph, pool=pool.id):
            result = x + 1
        assert pool.use_count() == 2
        beside = x + 2
    assert len(pool.snapshot()) >= 1
    graph.replay()
    assert result.tolist() == [2.0] * 3 and beside.tolist() == [3.0] * 3


def test_pools_without_a_device() -> None:
    for call in (cuda.MemPool, lambda: cuda.make_graphed_callables(lambda x: x, (ej.ones(1),))):
        with pytest.raises((RuntimeError, AssertionError)):
            call()
    with pytest.raises(RuntimeError):
        torch.cuda.MemPool()


@pytest.mark.usefixtures("platform")
def test_pools_take_no_allocator() -> None:
    with pytest.raises(RuntimeError, match="take no allocators"):
        cuda.MemPool(object())

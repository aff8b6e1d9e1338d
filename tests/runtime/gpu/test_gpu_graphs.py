"""Capturing work as a graph and replaying it, against a fake driver."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Sequence

import numpy as np
import pytest
from fake_driver import FakeLibrary
from fake_memory import Violation

from eagerjit.runtime.gpu.devices import Device, Platform
from eagerjit.runtime.gpu.errors import AcceleratorError
from eagerjit.runtime.gpu.graphs import Graph
from eagerjit.runtime.gpu.launch import Kernel
from eagerjit.runtime.gpu.memory import DeviceMemory, copy_to_device, copy_to_host, fill_words
from eagerjit.runtime.gpu.replay import MOST, GraphedCall, Memory, Result
from eagerjit.runtime.gpu.stream import current_stream, using_stream

F32 = np.dtype(np.float32)
N = 100


def put(device: Device, values: object) -> DeviceMemory:
    """Device memory with these numbers."""
    array = np.asarray(values, F32)
    memory = DeviceMemory(array.nbytes, current_stream(device))
    copy_to_device(memory.address, array.ctypes.data, array.nbytes, current_stream(device))
    return memory


def get(memory: Memory) -> list[float]:
    """The numbers in device memory."""
    array = np.empty(memory.nbytes // 4, F32)
    copy_to_host(array.ctypes.data, memory.address, memory.nbytes, current_stream(memory.device))
    return array.tolist()


class Adder:
    """Device work: x + y by a kernel, by way of a temporary; and how often it was queued."""

    def __init__(self, library: FakeLibrary, device: Device):
        def body(launch, target: int, x: int, y: int, count: int) -> None:
            total = launch.array(x, count, F32) + launch.array(y, count, F32)
            launch.array(target, count, F32, writes=True)[:] = total

        types = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int32)
        self.kernel = Kernel(device, library.define("add", types, body), "add", ("pointer",) * 3 + ("i32",), warps=4)
        self.device, self.runs = device, 0

    def add(self, target: Memory, x: Memory, y: Memory) -> None:
        self.device.activate()
        stream, count = current_stream(self.device), x.nbytes // 4
        self.kernel.launch((1, 1, 1), stream, target.address, x.address, y.address, count)

    def __call__(self, inputs: Sequence[Memory]) -> list[DeviceMemory]:
        self.runs += 1
        x, y = inputs
        stream = current_stream(self.device)
        temporary = DeviceMemory(x.nbytes, stream)
        self.add(temporary, x, y)
        result = DeviceMemory(x.nbytes, stream)
        self.add(result, temporary, y)
        return [result]


@pytest.fixture
def adder(library: FakeLibrary, device: Device) -> Adder:
    return Adder(library, device)


# -- graphs -----------------------------------------------------------------------------------------------------------


def capture(device: Device, memory: DeviceMemory, graph: Graph) -> None:
    with using_stream(device.streams.capture) as stream:
        graph.begin(stream)
        fill_words(memory.address, 7, memory.nbytes // 4, stream)
        graph.end()


def test_what_is_captured_is_done_when_it_is_replayed(library: FakeLibrary, device: Device) -> None:
    memory = put(device, [0.0] * 4)
    graph = Graph()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay(device.streams.default)
    capture(device, memory, graph)
    assert get(memory) == [0.0] * 4
    graph.replay(device.streams.default)
    assert np.asarray(get(memory), F32).view(np.int32).tolist() == [7] * 4
    with pytest.raises(RuntimeError, match="has been captured"):
        capture(device, memory, graph)
    graph.reset()
    capture(device, memory, graph)
    graph.replay(device.streams.default)
    graph.reset()  # waits for what is still to be done
    capture(device, memory, graph)
    del graph
    gc.collect()
    assert not [leak for leak in library.leaks() if "graph" in leak]


def test_only_the_current_stream_but_not_the_default_one(device: Device) -> None:
    for stream in (device.streams.default, device.streams.new()):
        with pytest.raises(RuntimeError, match="must be captured on a non-default stream"):
            Graph().begin(stream)
    with pytest.raises(RuntimeError, match="is not being captured"):
        Graph().end()


@pytest.mark.parametrize("forbidden", ["synchronize", "query"])
def test_waiting_breaks_a_capture_and_nothing_else(
    library: FakeLibrary, platform: Platform, device: Device, forbidden: str
) -> None:
    memory = put(device, [1.0, 2.0])
    graph = Graph()
    with using_stream(device.streams.capture) as stream:
        graph.begin(stream)
        with pytest.raises(AcceleratorError, match="not permitted when stream is capturing"):
            getattr(stream, forbidden)()
        with pytest.raises(AcceleratorError, match="previous error during capture"):
            graph.end()
    assert platform.captures == 0 and not graph.is_captured and not platform.here.pools
    device.synchronize()
    capture(device, memory, graph)
    graph.replay(device.streams.default)
    device.synchronize()


def test_memory_for_a_capture_comes_from_a_pool_of_its_own(library: FakeLibrary, device: Device) -> None:
    kept = put(device, [1.0] * 4)
    graph = Graph()
    with using_stream(device.streams.capture) as stream:
        graph.begin(stream)
        first = DeviceMemory(64, stream)
        address = first.address
        fill_words(address, 1, 16, stream)
        del first
        assert DeviceMemory(64, stream).address == address  # used again within the capture
        graph.end()
    outside = DeviceMemory(64, device.streams.capture)
    assert outside.address != address  # and by nobody else
    device.allocator.empty_cache()
    graph.replay(device.streams.default)  # the graph's memory is still there
    device.synchronize()
    reserved = device.allocator.statistics.current("reserved_bytes")
    del graph
    gc.collect()
    device.allocator.empty_cache()
    assert device.allocator.statistics.current("reserved_bytes") == reserved - (2 << 20) and kept.nbytes


def test_a_graph_that_lost_its_memory_is_found_out(library: FakeLibrary, device: Device) -> None:
    memory, graph = put(device, [1.0] * 4), Graph()
    capture(device, memory, graph)
    device.synchronize()
    del memory
    device.allocator.empty_cache()
    graph.replay(device.streams.default)
    with pytest.raises(Violation, match="use after free"):
        library.finish()


def test_memory_freed_during_a_capture_by_another_stream_s_user(library: FakeLibrary, device: Device) -> None:
    side, graph = device.streams.new(), Graph()
    memory = put(device, [1.0] * 4)
    with using_stream(device.streams.capture) as stream:
        graph.begin(stream)
        for user in (side, stream):
            memory.record_stream(user)
        del memory
        device.allocator.collect()  # no event may be recorded or asked now
        fill_words(DeviceMemory(16, stream).address, 1, 4, stream)
        graph.end()
    device.allocator.collect()
    device.synchronize()
    device.allocator.collect()
    assert device.allocator.statistics.current("active_bytes") == 0


@pytest.mark.parametrize("name", ["cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags"])
def test_a_capture_that_fails_leaves_no_trace(
    library: FakeLibrary, platform: Platform, device: Device, name: str
) -> None:
    memory, graph = put(device, [1.0] * 4), Graph()
    library.fail(name, 2 if name == "cuGraphInstantiateWithFlags" else 901)
    with pytest.raises(RuntimeError, match=r"out of memory|previous error"):
        capture(device, memory, graph)
    assert platform.captures == 0 and not platform.here.pools
    if name == "cuStreamEndCapture":  # the fake one was not called: the stream is still captured
        library.get("stream", device.streams.capture.handle).capture = library.local.capture = None
    capture(device, memory, graph)
    graph.replay(device.streams.default)
    device.synchronize()


# -- captured calls ---------------------------------------------------------------------------------------------------


def test_calls_are_replayed(library: FakeLibrary, device: Device, adder: Adder) -> None:
    call, weight = GraphedCall(adder), put(device, [10.0] * N)
    for step in range(5):
        x = put(device, [float(step)] * N)
        (result,) = call([x, weight])
        assert get(result) == [step + 20.0] * N
        assert isinstance(result, Result) == (step > 0)
        del result
    assert adder.runs == 2 and len(call.instances) == 1  # once plainly, once captured
    assert call.instances[0].fixed == {1}
    assert sum(c[0] == "cuGraphLaunch" for c in library.calls) == 4


def test_a_weight_that_changes_in_place_is_read_where_it_is(device: Device, adder: Adder) -> None:
    call, weight = GraphedCall(adder), put(device, [1.0] * N)
    for step in range(4):
        (result,) = call([put(device, [0.0] * N), weight])
        assert get(result) == [2.0 * 2**step] * N
        del result
        adder.add(weight, weight, weight)
    assert call.instances[0].fixed == {1}


def test_another_weight_captures_again(device: Device, adder: Adder) -> None:
    call, x = GraphedCall(adder), put(device, [1.0] * N)
    for step in range(6):
        weight = put(device, [float(step)] * N)
        for _ in range(2):
            (result,) = call([x, weight])
            assert get(result) == [1.0 + 2 * step] * N
            del result
    assert call.instances[0].fixed == {0} and len(call.instances) == 1


def test_results_that_are_held_are_not_overwritten(device: Device, adder: Adder) -> None:
    call, weight = GraphedCall(adder), put(device, [0.0] * N)
    results = [call([put(device, [float(step)] * N), weight])[0] for step in range(6)]
    assert [get(result) for result in results] == [[float(step)] * N for step in range(6)]
    assert len(call.instances) == MOST and sum(isinstance(result, Result) for result in results) == MOST
    plain = adder.runs
    del results, weight
    last = None
    weight = call.instances[0].inputs[1]
    for step in range(4):  # the last result is dropped when the next is there
        last = call([put(device, [float(step)] * N), weight])[0]
        assert isinstance(last, Result) and get(last) == [float(step)] * N
    assert adder.runs == plain


def test_results_that_are_fed_back(device: Device, adder: Adder) -> None:
    call, weight = GraphedCall(adder), put(device, [1.0] * N)
    state: Memory = put(device, [0.0] * N)
    for _ in range(8):
        (state,) = call([state, weight])
    assert get(state) == [16.0] * N


def test_results_used_by_another_stream(library: FakeLibrary, device: Device, adder: Adder) -> None:
    call, weight = GraphedCall(adder), put(device, [1.0] * N)
    side = device.streams.new()
    total = put(device, [0.0] * N)
    for step in range(5):
        (result,) = call([put(device, [float(step)] * N), weight])
        side.wait_stream(device.streams.default)
        with using_stream(side):
            adder.add(total, total, result)
        result.record_stream(side)
        total.record_stream(side)
        del result
    device.streams.default.wait_stream(side)
    assert get(total) == [sum(step + 2.0 for step in range(5))] * N


def test_a_result_that_is_passed_again_and_again_is_not_kept(device: Device, adder: Adder) -> None:
    first, second = GraphedCall(adder), GraphedCall(adder)
    x, weight = put(device, [1.0] * N), put(device, [1.0] * N)
    first([x, weight])
    (result,) = first([x, weight])
    for _ in range(3):
        assert get(second([result, weight])[0]) == [5.0] * N
    del result
    assert not first.instances[0].held


def test_inputs_of_another_stream_are_not_used_again_too_early(
    library: FakeLibrary, device: Device, adder: Adder
) -> None:
    call, weight, side = GraphedCall(adder), put(device, [1.0] * N), device.streams.new()
    for step in range(4):
        with using_stream(side):
            x = put(device, [float(step)] * N)
            assert x.block is not None
        current_stream(device).wait_stream(side)
        call([x, weight])
        if step == 0:
            x.record_stream(device.streams.default)  # the plain call's work is its caller's to say
        del x
    library.finish()


def test_calls_from_several_streams_are_ordered(library: FakeLibrary, device: Device, adder: Adder) -> None:
    call = GraphedCall(adder)
    weight = put(device, [1.0] * N)
    streams = [device.streams.new() for _ in range(3)]
    for step in range(6):
        with using_stream(streams[step % 3]) as stream:
            stream.wait_stream(device.streams.default)
            (result,) = call([put(device, [float(step)] * N), weight])
            assert get(result) == [step + 2.0] * N
            del result
    library.finish()


def test_inputs_that_are_written(device: Device, adder: Adder) -> None:
    def accumulate(inputs: Sequence[Memory]) -> list[DeviceMemory]:
        total, x = inputs
        adder.add(total, total, x)
        return []

    call, total = GraphedCall(accumulate, written=(0,)), put(device, [0.0] * N)
    for step in range(5):
        call([total, put(device, [float(step)] * N)])
    moved = put(device, [100.0] * N)
    call([moved, put(device, [1.0] * N)])
    call([put(device, [0.0] * N), put(device, [1.0] * N)])
    assert get(total) == [10.0] * N and get(moved) == [101.0] * N


def test_what_cannot_be_captured_runs_plainly(library: FakeLibrary, platform: Platform, device: Device) -> None:
    runs: list[int] = []

    def waits(inputs: Sequence[Memory]) -> list[DeviceMemory]:
        runs.append(1)
        current_stream(device).synchronize()
        return [put(device, [float(len(runs))])]

    call, x = GraphedCall(waits), put(device, [0.0])
    values = [get(call([x])[0]) for _ in range(4)]
    assert values == [[1.0], [3.0], [4.0], [5.0]]  # the second run was the attempt
    assert call.refusal is not None and "not permitted when stream is capturing" in call.refusal
    assert platform.captures == 0


def test_no_memory_for_a_graph(library: FakeLibrary, device: Device, adder: Adder) -> None:
    call, weight = GraphedCall(adder), put(device, [1.0] * N)
    call([weight, weight])
    library.fail("cuMemAlloc_v2", 2, times=4)
    (result,) = call([weight, weight])
    assert get(result) == [3.0] * N and call.refusal is not None and "out of memory" in call.refusal
    assert device.platform.captures == 0

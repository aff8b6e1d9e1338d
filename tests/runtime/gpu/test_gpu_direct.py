"""Calls on tensors of a device that native code serves: what it launches, what it leaves to Python, what it counts."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fake_driver import FakeLibrary

import eagerjit as ej
from eagerjit.runtime import layout
from eagerjit.runtime.gpu.devices import Device, Platform
from eagerjit.runtime.gpu.executor import DeviceExecutable
from eagerjit.runtime.gpu.stream import using_stream
from eagerjit.runtime.gpu.timeline import recording

pytestmark = pytest.mark.skipif(not layout.wanted(), reason="native execution is off")


@pytest.fixture(autouse=True)
def left_to_python(cuda: Platform, device: Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The runs that the executor in Python did."""
    runs: list[Any] = []
    plain = DeviceExecutable.run

    def run(executable: Any, leaves: Any) -> Any:
        if executable.device is device:  # there are those of devices of other tests too
            runs.append(executable)
        return plain(executable, leaves)

    monkeypatch.setattr(DeviceExecutable, "run", run)
    yield runs


def launches(library: FakeLibrary) -> int:
    return sum(call[0] == "cuLaunchKernel" for call in library.calls)


def on_device(*shape: int) -> Any:
    return ej.tensor(np.arange(np.prod(shape), dtype=np.float32).reshape(shape), device="cuda")


def test_an_eager_call_is_one_launch(library: FakeLibrary, left_to_python: list[Any]) -> None:
    x = on_device(33, 5)
    first = x + x
    left_to_python.clear()
    before = launches(library)
    second = x + x
    assert launches(library) == before + 1 and not left_to_python
    assert second.is_cuda and second.shape == (33, 5) and second.is_contiguous()
    assert first.tolist() == second.tolist() == (2 * x.cpu()).tolist()


def test_compiled_calls_gradients_and_writes(library: FakeLibrary, left_to_python: list[Any]) -> None:
    @ej.jit(fullgraph=True)
    def step(x: Any, w: Any) -> Any:
        w.mul_(0.5)
        return (x * w).sum(0), x[1:]

    x, w = on_device(4, 3), on_device(3)
    step(x, w)
    left_to_python.clear()
    total, rest = step(x, w)
    assert not left_to_python
    w_here = np.arange(3, dtype=np.float32) / 4
    assert w.tolist() == w_here.tolist()
    assert total.tolist() == (x.cpu().numpy() * w_here).sum(0).tolist()
    assert rest.tolist() == x.cpu().numpy()[1:].tolist() and rest._data.memory is x._data.memory
    rest.zero_()
    assert x.tolist()[1:] == [[0, 0, 0]] * 3

    v = on_device(7).requires_grad_()
    for _ in range(2):
        left_to_python.clear()
        v.grad = None
        (v * v).sum().backward()
    assert v.grad.is_cuda and v.grad.tolist() == [0, 2, 4, 6, 8, 10, 12] and not left_to_python


def test_other_sizes_and_alignments_have_launches_of_their_own(library: FakeLibrary) -> None:
    for n in (5, 64, 64, 7, 1000, 5, 9, 11, 13, 64):
        x = on_device(n + 1)
        for part in (x[:n], x[1:]):
            assert (part + 1).tolist() == (part.cpu() + 1).tolist()
    empty = on_device(0)
    before = launches(library)
    assert (empty + 1).tolist() == [] and launches(library) == before


def test_memory_is_used_again_and_counted(device: Device, left_to_python: list[Any]) -> None:
    x = on_device(1000)
    y = x + x
    address = y._data.address
    del y
    statistics = device.allocator.statistics
    before = statistics.table()
    y = x * x
    z = x * x
    assert y._data.address == address != z._data.address
    assert statistics.current("allocated_bytes") == before["allocated_bytes.all.current"] + 2 * 4096
    assert statistics.current("requested_bytes") == before["requested_bytes.all.current"] + 2 * 4000
    del y, z
    gc.collect()
    now = statistics.table()
    for name in now:
        if name.endswith("current") and not name.startswith("inactive_split."):  # what is kept has not joined
            assert now[name] == before[name], name
    del x
    ej.cuda.empty_cache()
    for name, value in statistics.table().items():
        assert value == 0 or not name.endswith("current") or "large" not in name, name
    assert ej.cuda.memory_allocated() == 0


def test_kept_blocks_join_where_a_larger_one_is_wanted(device: Device) -> None:
    x = on_device(1 << 17)
    kept = [x + x for _ in range(3)]  # fill a small segment with halves of a MiB
    del kept
    reserved = device.allocator.statistics.current("reserved_bytes")
    whole = ej.empty(1 << 18, device="cuda")
    assert device.allocator.statistics.current("reserved_bytes") == reserved and whole.is_cuda


def test_streams_and_threads(library: FakeLibrary, device: Device, left_to_python: list[Any]) -> None:
    x = on_device(40)
    x + x
    device.synchronize()
    side = device.streams.new()
    left_to_python.clear()
    with using_stream(side):
        y = x + x
    assert not left_to_python
    assert [c for c in library.calls if c[0] == "cuLaunchKernel"][-1][9] == side.handle
    assert y._data.memory.block.stream == side.handle
    z = x + x
    assert [c for c in library.calls if c[0] == "cuLaunchKernel"][-1][9] in (None, 0)
    side.synchronize()
    found = []

    def elsewhere() -> None:  # a thread whose context nobody has set
        found.append((x * 3).tolist())

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [[3.0 * i for i in range(40)]] and y.tolist() == z.tolist()


def test_memory_that_other_streams_use_waits_for_them(device: Device) -> None:
    x = on_device(300)
    y = x + x
    side = device.streams.new()
    with using_stream(side):
        side.wait_stream(device.streams.default)
        y.record_stream(ej.cuda.current_stream())
        total = y * 2
        side.synchronize()
    address = y._data.address
    del y
    assert (x + x)._data.address != address
    assert total.tolist() == [4.0 * i for i in range(300)]


def test_what_is_watched_or_captured_is_python_s(device: Device, left_to_python: list[Any]) -> None:
    x = on_device(16)
    x + x
    left_to_python.clear()
    with recording(device) as timeline:
        x + x
    assert left_to_python and "host" in {span.lane for span in timeline.spans} and len(timeline.spans) >= 2
    graph = ej.cuda.CUDAGraph()
    left_to_python.clear()
    with ej.cuda.graph(graph):
        y = x + x
    assert left_to_python
    graph.replay()
    assert y.tolist() == [2.0 * i for i in range(16)]


@pytest.mark.parametrize("options", [{}, {"momentum": 0.9}, {"momentum": 0.9, "dampening": 0.5, "nesterov": False}])
def test_a_training_step_asks_nothing_of_the_device(
    library: FakeLibrary, left_to_python: list[Any], options: dict[str, Any]
) -> None:
    weight = on_device(5).requires_grad_()
    optimizer = ej.optim.SGD([weight], lr=0.1, **options)

    @ej.jit(fullgraph=True)
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (x * weight).sum()
        loss.backward()
        optimizer.step()
        return loss

    x = on_device(5)
    for _ in range(2):
        step(x)
    left_to_python.clear()
    library.calls.clear()
    step(x)
    assert not left_to_python
    assert not any(call[0].startswith(("cuMemcpyDtoH", "cuStreamSynchronize")) for call in library.calls)


def test_placing_tensors_searches_for_no_module(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []

    class Finder:
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
            searched.append(name)

    ej.zeros(2, device="cuda")
    monkeypatch.setattr("sys.meta_path", [Finder(), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    ej.zeros(2, device="cuda")
    assert "triton" not in searched


def test_a_failing_launch_raises(library: FakeLibrary) -> None:
    x = on_device(16)
    x + x
    library.fail("cuLaunchKernel", 719)
    with pytest.raises(RuntimeError, match="unspecified launch failure"):
        x + x
    assert (x + x).tolist() == [2.0 * i for i in range(16)]


def test_no_memory_raises_and_leaves_nothing(library: FakeLibrary, device: Device) -> None:
    x = on_device(1 << 22)
    (x * x + x).tolist()
    ej.cuda.empty_cache()
    before = ej.cuda.memory_allocated()
    library.fail("cuMemAlloc_v2", 2, times=4)
    with pytest.raises(ej.cuda.OutOfMemoryError, match="Tried to allocate"):
        x * x + x
    assert ej.cuda.memory_allocated() == before


def test_an_op_knows_where_its_arguments_lie() -> None:
    x, y = on_device(4), ej.ones(4)
    for _ in range(2):
        assert (y + y).tolist() == [2, 2, 2, 2] and not (y + y).is_cuda and (x + x).is_cuda
        assert ej.add(x, 1).is_cuda and not ej.add(y, 1).is_cuda
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            x + y
        assert (x + ej.tensor(1.0)).tolist() == [1, 2, 3, 4]  # one of the host without dimensions goes along

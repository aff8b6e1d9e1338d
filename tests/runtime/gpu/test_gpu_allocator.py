"""The caching allocator against a fake driver: what it splits, joins, keeps, gives back and refuses."""

from __future__ import annotations

import itertools
import threading

import pytest
from fake_driver import FakeLibrary
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from eagerjit.runtime.gpu.devices import Device, Platform
from eagerjit.runtime.gpu.errors import AcceleratorError, OutOfMemoryError
from eagerjit.runtime.gpu.memory import DeviceMemory, fill_bytes

MIB = 1 << 20


def take(device: Device, nbytes: int, stream: int = 0) -> DeviceMemory:
    streams = device.streams
    made = [streams.default, *streams._made.get(0, ())]
    return DeviceMemory(nbytes, made[stream])


def count(library: FakeLibrary, name: str) -> int:
    return sum(call[0] == name for call in library.calls)


@pytest.mark.parametrize(
    ("requests", "segments"),
    [
        ([1], [2]),
        ([1, 512, 513, MIB], [2]),
        ([MIB, MIB, 1], [2, 2]),
        ([MIB + 1], [20]),
        ([9 * MIB, 9 * MIB], [20]),
        ([10 * MIB], [10]),
        ([10 * MIB + 1, 31 * MIB], [12, 32]),
    ],
)
def test_segments_that_requests_are_served_from(
    library: FakeLibrary, device: Device, requests: list[int], segments: list[int]
) -> None:
    memory = [take(device, nbytes) for nbytes in requests]
    assert [call[2] // MIB for call in library.calls if call[0] == "cuMemAlloc_v2"] == segments
    assert all(m.address % 512 == 0 for m in memory)
    stats = device.allocator.statistics
    assert stats.current("reserved_bytes") == sum(segments) * MIB
    assert stats.current("allocated_bytes") >= sum(requests) == stats.current("requested_bytes")


def test_what_a_stream_frees_it_gets_again_at_once(library: FakeLibrary, device: Device) -> None:
    memory = take(device, 5 * MIB)
    address = memory.address
    del memory
    assert take(device, 5 * MIB).address == address
    assert count(library, "cuMemAlloc_v2") == 1 and count(library, "cuEventRecord") == 0


def test_the_first_iteration_fills_the_cache(library: FakeLibrary, device: Device) -> None:
    def iteration() -> None:
        kept = [take(device, n * 300_000 + 1) for n in range(20)]
        del kept[::2]
        kept += [take(device, n * 700_000 + 1) for n in range(5)]

    iteration()
    asked = count(library, "cuMemAlloc_v2")
    for _ in range(3):
        iteration()
    assert count(library, "cuMemAlloc_v2") == asked > 0 == count(library, "cuMemFree_v2")


def test_joined_again_a_segment_goes_back_whole(library: FakeLibrary, device: Device) -> None:
    memory = [take(device, 100_000) for _ in range(15)]
    assert len(device.allocator.blocks()) == 16
    for index in (3, 1, 2, 0, 14, 12, 13, *range(4, 12)):
        memory[index] = None  # type: ignore[call-overload]
    device.allocator.collect()
    (block,) = device.allocator.blocks()
    assert block.free and block.size == 2 * MIB
    device.allocator.empty_cache()
    assert not device.allocator.blocks() and not library.memory.live(library.devices[0])
    assert all(value == 0 for name, value in device.allocator.statistics.table().items() if name.endswith(".current"))


def test_streams_have_memory_of_their_own(device: Device) -> None:
    side = device.streams.new()
    first = take(device, 1000)
    address = first.address
    del first
    other = DeviceMemory(1000, side)
    assert other.address != address
    assert take(device, 1000).address == address


def test_a_block_that_another_stream_uses_is_kept_until_that_stream_is_done(
    library: FakeLibrary, device: Device
) -> None:
    side = device.streams.new()
    memory = take(device, 4096)
    address = memory.address
    side.wait_stream(device.streams.default)
    fill_bytes(address, 7, 4096, side)
    memory.record_stream(side)
    del memory
    stats = device.allocator.statistics
    device.allocator.collect()
    assert stats.current("allocated_bytes") == 0 < stats.current("active_bytes")
    again = take(device, 4096)
    assert again.address != address
    side.synchronize()
    device.allocator.collect()
    assert stats.current("active_bytes") == 4096
    assert take(device, 4096).address == address


def test_unordered_use_by_two_streams_is_seen(library: FakeLibrary, device: Device) -> None:
    # What record_stream is for: without it, the memory is used again while the other stream still writes it.
    side = device.streams.new()
    memory = take(device, 4096)
    fill_bytes(memory.address, 7, 4096, side)
    del memory
    again = take(device, 4096)
    fill_bytes(again.address, 8, 4096, device.streams.default)
    with pytest.raises(AssertionError, match="not ordered after"):
        library.finish()


def test_out_of_memory_gives_the_cache_back_and_tries_again(library: FakeLibrary, device: Device) -> None:
    kept = [take(device, 200 * MIB) for _ in range(4)]
    del kept[:]
    device.allocator.collect()
    assert library.memory.used(library.devices[0]) == 800 * MIB
    large = take(device, 900 * MIB)
    stats = device.allocator.statistics.table()
    assert large.address and stats["num_alloc_retries"] == 1 and stats["num_ooms"] == 0
    assert stats["reserved_bytes.all.current"] == 900 * MIB


def test_out_of_memory_waits_for_other_streams(library: FakeLibrary, device: Device) -> None:
    side = device.streams.new()
    memory = take(device, 600 * MIB)
    side.wait_stream(device.streams.default)
    fill_bytes(memory.address, 1, 4096, side)
    memory.record_stream(side)
    del memory
    assert take(device, 600 * MIB).address
    assert device.allocator.statistics.events["num_alloc_retries"] == 1


def test_out_of_memory_collects_garbage(device: Device) -> None:
    cycle: list = [take(device, 600 * MIB)]
    cycle.append(cycle)
    del cycle
    assert take(device, 600 * MIB).address
    assert device.allocator.statistics.events["num_ooms"] == 0


def test_out_of_memory_says_the_figures(library: FakeLibrary, device: Device) -> None:
    kept = take(device, 600 * MIB)
    with pytest.raises(OutOfMemoryError) as raised:
        take(device, 500 * MIB)
    assert str(raised.value) == (
        "CUDA out of memory. Tried to allocate 500.00 MiB. GPU 0 has a total capacity of 1.00 GiB of which 424.00 MiB "
        "is free. This process has reserved 600.00 MiB: 600.00 MiB is allocated, 0 bytes is reserved but unallocated."
    )
    assert device.allocator.statistics.events["num_ooms"] == 1
    assert take(device, 400 * MIB).address and kept.address


def test_a_limit_below_the_device(device: Device) -> None:
    device.allocator.limit = 100 * MIB
    with pytest.raises(OutOfMemoryError, match=r"It may reserve 100\.00 MiB"):
        take(device, 101 * MIB)
    assert take(device, 100 * MIB).address


def test_an_error_of_the_driver_leaves_everything_as_it_was(library: FakeLibrary, device: Device) -> None:
    kept = take(device, 10)
    before = device.allocator.statistics.table()
    library.fail("cuMemAlloc_v2", 719)
    with pytest.raises(AcceleratorError, match=r"unspecified launch failure \(CUDA_ERROR_LAUNCH_FAILED") as raised:
        take(device, 3 * MIB)
    assert raised.value.error_code == 719
    assert device.allocator.statistics.table() == before
    assert take(device, 3 * MIB).address and kept.address


def test_giving_back_that_fails_halfway_keeps_the_rest(library: FakeLibrary, device: Device) -> None:
    memory = [take(device, 30 * MIB) for _ in range(3)]
    del memory[:]
    library.fail("cuMemFree_v2", 700, after=1)
    with pytest.raises(AcceleratorError):
        device.allocator.empty_cache()
    assert library.memory.used(library.devices[0]) == 60 * MIB
    assert device.allocator.statistics.current("reserved_bytes") == 60 * MIB
    device.allocator.empty_cache()
    assert library.memory.used(library.devices[0]) == 0


def test_memory_is_freed_when_its_device_is_lost(library: FakeLibrary, device: Device) -> None:
    side = device.streams.new()
    plain, shared = take(device, 512), take(device, 512)
    shared.record_stream(side)
    library.lose()
    del plain, shared
    with pytest.raises(AcceleratorError):
        take(device, 30 * MIB)
    stats = device.allocator.statistics
    assert stats.current("allocated_bytes") == 0
    assert stats.current("active_bytes") == 512  # what the lost device still does to it nobody knows


def test_nothing_takes_no_memory(library: FakeLibrary, device: Device) -> None:
    memory = take(device, 0)
    assert memory.address == 0 and count(library, "cuMemAlloc_v2") == 0
    with pytest.raises(ValueError, match="negative"):
        take(device, -1)


def test_freeing_in_the_middle_of_an_allocation(library: FakeLibrary, device: Device) -> None:
    # The garbage collector runs whenever it likes, with the allocator's lock held.
    inner = [take(device, 2000)]
    original = device.memory_info

    def allocate_and_collect(name: str, *arguments: object) -> int:
        inner.clear()
        return 2

    library.cuMemAlloc_v2 = lambda out, size: allocate_and_collect("")  # type: ignore[method-assign,assignment]
    with pytest.raises(OutOfMemoryError):
        take(device, 30 * MIB)
    assert not inner and original()
    device.allocator.collect()
    assert device.allocator.statistics.current("allocated_bytes") == 0


def test_threads_allocate_and_free_at_once(library: FakeLibrary, platform: Platform, device: Device) -> None:
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            held: list[DeviceMemory] = []
            for step in range(150):
                held.append(take(device, (seed * 7919 + step * 104729) % (3 * MIB) + 1))
                if len(held) > 5:
                    del held[step % 5]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    device.allocator.empty_cache()
    assert not device.allocator.blocks() and library.memory.used(library.devices[0]) == 0


class Programs(RuleBasedStateMachine):
    """Whatever programs ask for and free, on several streams, and whatever the driver refuses."""

    blocks = Bundle("blocks")

    def __init__(self) -> None:
        super().__init__()
        self.library = FakeLibrary(total=64 * MIB, progress=5)
        self.device = Platform(self.library.driver()).device(0)
        self.streams = [self.device.streams.default, self.device.streams.new(), self.device.streams.new()]
        self.held: list[DeviceMemory] = []

    def use(self, memory: DeviceMemory, stream: int) -> None:
        """Give a stream work that writes the memory, as far as the fake driver's books are concerned."""
        address, nbytes = memory.address, memory.nbytes
        run = lambda operation: self.library.touch(operation, address, nbytes, True)  # noqa: E731
        self.device.activate()
        self.library.enqueue("a use", self.streams[stream].handle, run)

    @rule(target=blocks, nbytes=st.one_of(st.integers(1, 5000), st.integers(1, 30 * MIB)), stream=st.integers(0, 2))
    def allocate(self, nbytes: int, stream: int) -> int:
        try:
            memory = DeviceMemory(nbytes, self.streams[stream])
        except OutOfMemoryError:
            self.held.append(DeviceMemory(0, self.streams[0]))
        else:
            self.use(memory, stream)
            self.held.append(memory)
        return len(self.held) - 1

    @rule(index=blocks, stream=st.integers(0, 2))
    def use_elsewhere(self, index: int, stream: int) -> None:
        memory = self.held[index]
        if memory is not None and memory.block is not None and memory.block.stream != self.streams[stream].handle:
            own = next(s for s in self.streams if s.handle == memory.block.stream)
            self.streams[stream].wait_stream(own)
            self.use(memory, stream)
            own.wait_stream(self.streams[stream])
            memory.record_stream(self.streams[stream])

    @rule(index=consumes(blocks))
    def free(self, index: int) -> None:
        self.held[index] = None  # type: ignore[call-overload]

    @rule()
    def empty(self) -> None:
        self.device.allocator.empty_cache()

    @rule(stream=st.integers(0, 2))
    def wait(self, stream: int) -> None:
        self.streams[stream].synchronize()

    @invariant()
    def blocks_lie_side_by_side(self) -> None:
        self.device.allocator.collect()
        blocks = self.device.allocator.blocks()
        for a, b in itertools.pairwise(blocks):
            assert a.address + a.size <= b.address
            if a.next is b:
                assert b.previous is a and a.address + a.size == b.address and not (a.free and b.free)
        used = {b.address: b for b in blocks if not b.free}
        live = [m for m in self.held if m is not None and m.nbytes]
        assert {m.address for m in live} <= used.keys()
        assert all(used[m.address].size >= m.nbytes for m in live)
        for block in blocks:
            block.owner.pool.free_blocks(block.stream, block.owner.small)
            found = self.library.memory.find(block.address)
            assert found is not None and not found.freed and found.address + found.size >= block.address + block.size

    @invariant()
    def the_figures_are_right(self) -> None:
        blocks, stats = self.device.allocator.blocks(), self.device.allocator.statistics
        live = [m for m in self.held if m is not None and m.block is not None]
        assert stats.current("reserved_bytes") == self.library.memory.used(self.library.devices[0])
        assert stats.current("allocated_bytes") == sum(m.block.size for m in live if m.block)
        assert stats.current("requested_bytes") == sum(m.nbytes for m in live)
        assert stats.current("active_bytes") == sum(b.size for b in blocks if not b.free)
        parts = [b for b in blocks if b.free and b.size < b.segment_size]
        assert stats.current("inactive_split_bytes") == sum(b.size for b in parts)
        assert stats.current("inactive_split") == len(parts)
        for name, gauge in stats.gauges["all"].items():
            assert gauge.current == gauge.added - gauge.taken <= gauge.peak
            both = stats.gauges["small_pool"][name].current + stats.gauges["large_pool"][name].current
            assert gauge.current == both

    def teardown(self) -> None:
        self.library.finish()
        self.held.clear()
        self.device.synchronize()
        self.device.allocator.empty_cache()
        assert self.library.memory.used(self.library.devices[0]) == 0


Programs.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestPrograms = Programs.TestCase

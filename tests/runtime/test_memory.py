"""The caching allocator and the ndarrays that own its blocks."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from eagerjit.runtime import memory
from eagerjit.runtime.native.library import native

ROOT = Path(__file__).resolve().parents[2]
F32 = np.dtype(np.float32)


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    limit = memory.cache_limit()
    gc.collect()
    memory.empty_cache()
    yield
    memory.set_cache_limit(limit)


def allocator() -> tuple:
    library = native()
    allocate = library.function("allocate", ctypes.c_void_p, ctypes.c_int64, keep_gil=True)
    release = library.function("release", None, ctypes.c_void_p, ctypes.c_int64, keep_gil=True)
    return allocate, release


def test_blocks_are_aligned_large_enough_and_apart() -> None:
    allocate, release = allocator()
    sizes = [1, 63, 64, 65, 127, 128, 129, 1000, 4096, 4097, 100_000, 3 << 20, (3 << 20) + 1]
    blocks = [(allocate(size), size) for size in sizes * 3]
    for address, size in blocks:
        assert address % 64 == 0
        ctypes.memset(address, size % 251, size)
    for address, size in blocks:
        assert ctypes.string_at(address, size) == bytes([size % 251]) * size
        release(address, size)


def test_counters_return_to_where_they_were() -> None:
    allocate, release = allocator()
    before = memory.memory_stats()["allocated_bytes"]
    for size in range(1, 20_000, 37):
        block = allocate(size)
        used = memory.memory_stats()["allocated_bytes"] - before
        assert size <= used <= max(64, size * 1.25 + 64)
        release(block, size)
        assert memory.memory_stats()["allocated_bytes"] == before


def test_the_last_released_block_is_the_next_of_its_size() -> None:
    allocate, release = allocator()
    first, second = allocate(5000), allocate(5000)
    release(first, 5000)
    release(second, 5000)
    assert [allocate(5001), allocate(4999)] == [second, first]
    release(first, 5000)
    release(second, 5000)


def test_reuse_the_limit_and_emptying_show_in_the_counters() -> None:
    allocate, release = allocator()
    before = memory.memory_stats()
    release(allocate(1 << 20), 1 << 20)
    release(allocate(1 << 20), 1 << 20)
    after = memory.memory_stats()
    assert after["fresh_blocks"] - before["fresh_blocks"] == 1
    assert after["reused_blocks"] - before["reused_blocks"] == 1
    assert after["cached_bytes"] == 1 << 20
    assert memory.empty_cache() == 1 << 20
    memory.set_cache_limit(3 << 20)
    blocks = [allocate(1 << 20) for _ in range(5)]
    for block in blocks:
        release(block, 1 << 20)
    assert memory.memory_stats()["cached_bytes"] == 3 << 20
    memory.set_cache_limit(0)
    assert memory.memory_stats()["cached_bytes"] == 0
    with pytest.raises(ValueError, match="negative"):
        memory.set_cache_limit(-1)


def test_what_was_not_asked_for_the_longest_goes_first() -> None:
    allocate, release = allocator()
    memory.set_cache_limit(7 << 20)
    sizes = [1 << 20, 2 << 20, 4 << 20]
    for block, size in [(allocate(size), size) for size in sizes]:
        release(block, size)
    release(allocate(1 << 20), 1 << 20)  # now the one of two is the oldest
    release(allocate(3 << 19), 3 << 19)
    fresh = memory.memory_stats()["fresh_blocks"]
    assert memory.memory_stats()["cached_bytes"] == (1 << 20) + (3 << 19) + (4 << 20)
    kept = [(allocate(size), size) for size in (1 << 20, 3 << 19, 4 << 20)]
    assert memory.memory_stats()["fresh_blocks"] == fresh
    for block, size in [*kept, (allocate(2 << 20), 2 << 20)]:
        release(block, size)
    assert memory.memory_stats()["fresh_blocks"] == fresh + 1
    release(allocate(8 << 20), 8 << 20)  # more than may be kept
    assert memory.memory_stats()["cached_bytes"] <= 7 << 20


def test_ever_new_sizes_keep_twice_what_was_in_use() -> None:
    script = """
import numpy as np
from eagerjit.runtime import memory
for step in range(400):
    size = ((step * 7919) % 97 + 3) << 16
    arrays = [memory.empty((size * k,), np.dtype("u1")) for k in (1, 2, 3)]
    del arrays
    stats = memory.memory_stats()
    assert stats["cached_bytes"] + stats["allocated_bytes"] <= 2 * stats["peak_bytes"] + (64 << 20), stats
print(memory.memory_stats()["reused_blocks"], memory.memory_stats()["fresh_blocks"])
"""
    run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    reused, fresh = map(int, run.stdout.split())
    assert reused > fresh


def test_the_peak() -> None:
    memory.reset_peak()
    start = memory.memory_stats()["allocated_bytes"]
    a = memory.empty((1 << 18,), F32)
    b = memory.empty((1 << 18,), F32)
    del a, b
    assert memory.memory_stats()["peak_bytes"] - start == 2 << 20
    memory.reset_peak()
    assert memory.memory_stats()["peak_bytes"] == memory.memory_stats()["allocated_bytes"]


def test_too_much_memory_is_a_memory_error() -> None:
    allocate, _ = allocator()
    assert allocate(1 << 50) is None
    with pytest.raises(MemoryError):
        memory.empty((1 << 44,), F32)


@pytest.mark.parametrize("shape", [(), (0,), (3,), (0, 5), (2, 3, 4), (1000, 1000)])
@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.float16, np.float32, np.float64])
def test_arrays_give_their_block_back(shape: tuple[int, ...], dtype: type) -> None:
    before = memory.memory_stats()["allocated_bytes"]
    array = memory.empty(shape, np.dtype(dtype))
    assert array.shape == shape and array.dtype == dtype and array.flags.c_contiguous and array.flags.owndata
    assert memory.is_cached(array)
    assert not memory.is_cached(np.empty(3))
    array[...] = 1
    assert memory.memory_stats()["allocated_bytes"] > before
    view = array.reshape(-1)
    del array
    assert (view == 1).all()
    assert memory.memory_stats()["allocated_bytes"] > before
    del view
    assert memory.memory_stats()["allocated_bytes"] == before


def test_arrays_can_be_resized_in_place() -> None:
    before = memory.memory_stats()["allocated_bytes"]
    for start in (3, 10, 20, 40, 50, 70, 100, 120):
        array = memory.empty((start,), F32)
        array[:] = np.arange(start)
        for size in (1000, 17, 300_000, 3):
            array.resize((size,), refcheck=False)
            assert (array[:3] == [0, 1, 2]).all()
            assert memory.is_cached(array)
        del array
        assert memory.memory_stats()["allocated_bytes"] == before


def test_the_block_that_fits() -> None:
    fits = native().function("block_bytes_within", ctypes.c_int64, ctypes.c_int64)
    blocks = [size for size in range(64, 5000) if fits(size) == size]
    assert blocks[:12] == [64, 128, 192, 256, 320, 384, 448, 512, 640, 768, 896, 1024]
    assert all(fits(size) == max(block for block in blocks if block <= size) for size in range(64, 5000))


def test_results_of_numpy_are_not_ours() -> None:
    array = memory.empty((10,), F32)
    assert not memory.is_cached(array + 1)
    assert not memory.is_cached(array.copy())


def test_threads_of_python_share_the_allocator() -> None:
    before = memory.memory_stats()["allocated_bytes"]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(300):
            arrays = [memory.empty((size,), F32) for size in (3, 100, 5000)]
            for array in arrays:
                array[:] = number
            wrong.extend(number for array in arrays if (array != number).any())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert memory.memory_stats()["allocated_bytes"] == before


def test_the_limit_comes_from_the_environment() -> None:
    script = "from eagerjit.runtime import memory; print(memory.memory_stats()['limit_bytes'])"
    for text, expected in (("123456789", "123456789"), ("0", "0")):
        environment = {"EAGERJIT_CACHED_MEMORY": text, "PATH": "", "HOME": str(Path.home())}
        run = subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        assert run.stdout.strip() == expected


def test_arrays_alive_at_exit_do_no_harm() -> None:
    script = """
import numpy as np
from eagerjit.runtime import memory
class Holder: pass
holder = Holder()
holder.self = holder
holder.array = memory.empty((1000,), np.dtype("f4"))
import sys
sys.kept = memory.empty((1 << 20,), np.dtype("f4"))
"""
    subprocess.run([sys.executable, "-X", "dev", "-c", script], cwd=ROOT, check=True)


def test_garbage_is_collected_when_it_takes_much_memory() -> None:
    thresholds, before = gc.get_threshold(), memory.memory_stats()["allocated_bytes"]
    gc.set_threshold(0)  # Python would not look for it
    try:
        most = 0
        for _ in range(16):
            cycle: list = [memory.empty((1 << 30,), np.dtype(np.uint8))]
            cycle.append(cycle)
            del cycle
            most = max(most, memory.memory_stats()["allocated_bytes"] - before)
    finally:
        gc.set_threshold(*thresholds)
    assert most < 8 << 30

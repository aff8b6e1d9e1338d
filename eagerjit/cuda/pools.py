"""Memory of a device that a program sets apart for some of its tensors."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from eagerjit.cuda.memory import described
from eagerjit.cuda.present import device_of, needed
from eagerjit.runtime.once import lock

if TYPE_CHECKING:
    from eagerjit.runtime.gpu.devices import Device
    from eagerjit.runtime.gpu.segments import Pool

__all__ = ["MemPool", "use_mem_pool"]


class MemPool:
    """Memory that serves the requests made in `use_mem_pool`, and no others as long as this object lives.

    use_on_oom  whether its free memory also serves requests for which there is no memory elsewhere
    no_split    whether each request gets a segment of its own

    Raises RuntimeError for an allocator: memory comes from the driver.
    """

    def __init__(self, allocator: Any = None, use_on_oom: bool = False, no_split: bool = False):
        needed()
        if allocator is not None:
            raise RuntimeError("eagerjit's pools take no allocators of a program's own")
        self.allocator = None
        self._how = not no_split, use_on_oom
        self._pools: dict[Device, Pool] = {}
        weakref.finalize(self, _give_up, self._pools)

    @property
    def id(self) -> Pool:
        """The memory on this thread's device, as `graph(pool=)` takes it."""
        return self.on(device_of())

    def on(self, device: Device) -> Pool:
        """The memory on a device."""
        with lock:
            if device not in self._pools:
                self._pools[device] = device.allocator.new_pool(*self._how)
                self._pools[device].users += 1
            return self._pools[device]

    def use_count(self) -> int:
        """How many keep the memory: this object, and graphs that were captured into it."""
        return self.id.users

    def snapshot(self, include_traces: bool = True) -> list[dict[str, Any]]:
        """Its segments with their blocks, by address, on all devices."""
        found = []
        for device, pool in self._pools.items():
            device.allocator.collect()
            found += described(device.allocator.blocks(pool))
        return found


def _give_up(pools: dict[Device, Pool]) -> None:
    """What is free goes back to the driver when the cache is emptied."""
    for pool in pools.values():
        with lock:
            pool.users -= 1


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: Any = None) -> Iterator[None]:
    """A context in which this thread's requests for memory on a device are served from a pool."""
    target = device_of(device)
    here = target.platform.here
    before = here.switch_pool(target, pool.on(target))
    try:
        yield
    finally:
        here.switch_pool(target, before)

"""What an allocator counts, under the names of `torch.cuda.memory_stats`."""

from __future__ import annotations

import ctypes

COUNTED = (
    "allocation", "segment", "active", "inactive_split",
    "allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes", "requested_bytes",
)  # fmt: skip
EVENTS = ("num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc", "num_device_free")


class Gauge(ctypes.Structure):
    """A quantity now and at most, and the sums of what was added to it and taken from it."""

    _fields_ = tuple((name, ctypes.c_int64) for name in ("current", "peak", "added", "taken"))
    current: int
    peak: int
    added: int
    taken: int


class Statistics:
    """Gauges of small blocks, of large ones and of all; how often something happened."""

    def __init__(self) -> None:
        self.words = (Gauge * (3 * len(COUNTED)))()  # native code counts here too (`native/device_memory.py`)
        own = iter(self.words)
        self.gauges = {pool: {name: next(own) for name in COUNTED} for pool in ("all", "small_pool", "large_pool")}
        self.events = dict.fromkeys(EVENTS, 0)
        self._all, small, large = self.gauges.values()
        self._pairs = [{name: (pool[name], self._all[name]) for name in COUNTED} for pool in (large, small)]

    def add(self, small: bool, **amounts: int) -> None:
        """Quantities of a pool grow."""
        pairs = self._pairs[small]
        for name, amount in amounts.items():
            for gauge in pairs[name]:
                gauge.added += amount
                gauge.current += amount
                if gauge.current > gauge.peak:
                    gauge.peak = gauge.current

    def take(self, small: bool, **amounts: int) -> None:
        """Quantities of a pool shrink."""
        pairs = self._pairs[small]
        for name, amount in amounts.items():
            for gauge in pairs[name]:
                gauge.taken += amount
                gauge.current -= amount

    def current(self, name: str) -> int:
        """A quantity over both pools."""
        return self._all[name].current

    def peak(self, name: str) -> int:
        """The most that a quantity over both pools has been."""
        return self._all[name].peak

    def reset_peaks(self) -> None:
        """Peaks count from now on."""
        for pool in self.gauges.values():
            for gauge in pool.values():
                gauge.peak = gauge.current

    def reset_sums(self) -> None:
        """Sums and counts of events count from now on."""
        self.events = dict.fromkeys(EVENTS, 0)
        for pool in self.gauges.values():
            for gauge in pool.values():
                gauge.added = gauge.taken = 0

    def table(self) -> dict[str, int]:
        """Everything by name, as in "allocated_bytes.all.peak"."""
        found = dict(self.events)
        for pool, gauges in self.gauges.items():
            for name, gauge in gauges.items():
                values = (gauge.current, gauge.peak, gauge.added, gauge.taken)
                for kind, value in zip(("current", "peak", "allocated", "freed"), values, strict=True):
                    found[f"{name}.{pool}.{kind}"] = value
        return dict(sorted(found.items()))

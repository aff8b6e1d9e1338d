"""What an allocator counts, under the names of `torch.cuda.memory_stats`."""

from __future__ import annotations

COUNTED = (
    "allocation", "segment", "active", "inactive_split",
    "allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes", "requested_bytes",
)  # fmt: skip
EVENTS = ("num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc", "num_device_free")


class Gauge:
    """A quantity now and at most, and the sums of what was added to it and taken from it."""

    __slots__ = ("added", "current", "peak", "taken")

    def __init__(self) -> None:
        self.current = self.peak = self.added = self.taken = 0

    def add(self, amount: int) -> None:
        """The quantity grows."""
        self.added += amount
        self.current += amount
        if self.current > self.peak:
            self.peak = self.current

    def take(self, amount: int) -> None:
        """It shrinks."""
        self.taken += amount
        self.current -= amount


class Statistics:
    """Gauges of small blocks, of large ones and of all; how often something happened."""

    def __init__(self) -> None:
        self.gauges = {pool: {name: Gauge() for name in COUNTED} for pool in ("all", "small_pool", "large_pool")}
        self.events = dict.fromkeys(EVENTS, 0)
        self._all, self._small, self._large = self.gauges.values()

    def add(self, small: bool, **amounts: int) -> None:
        """Quantities of a pool grow."""
        pool = self._small if small else self._large
        for name, amount in amounts.items():
            pool[name].add(amount)
            self._all[name].add(amount)

    def take(self, small: bool, **amounts: int) -> None:
        """Quantities of a pool shrink."""
        pool = self._small if small else self._large
        for name, amount in amounts.items():
            pool[name].take(amount)
            self._all[name].take(amount)

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

"""How much memory of a device is in use, and giving back what is kept. Devices are this thread's unless given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagerjit.cuda.present import device_of, found, needed

if TYPE_CHECKING:
    from eagerjit.runtime.gpu.segments import Block
    from eagerjit.runtime.gpu.statistics import Statistics

__all__ = [
    "empty_cache", "get_allocator_backend", "get_per_process_memory_fraction", "host_memory_stats",
    "max_memory_allocated", "max_memory_cached", "max_memory_reserved", "mem_get_info", "memory_allocated",
    "memory_cached", "memory_reserved", "memory_snapshot", "memory_stats", "memory_summary",
    "reset_accumulated_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached",
    "reset_peak_memory_stats", "set_per_process_memory_fraction",
]  # fmt: skip


def _statistics(device: Any) -> Statistics:
    """What the device's allocator counted."""
    allocator = device_of(device).allocator
    allocator.collect()
    return allocator.statistics


def memory_allocated(device: Any = None) -> int:
    """Bytes in use."""
    return 0 if found() is None else _statistics(device).current("allocated_bytes")


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes in use at once since the start, or since `reset_peak_memory_stats`."""
    return 0 if found() is None else _statistics(device).peak("allocated_bytes")


def memory_reserved(device: Any = None) -> int:
    """Bytes in use or kept for reuse."""
    return 0 if found() is None else _statistics(device).current("reserved_bytes")


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes in use or kept at once."""
    return 0 if found() is None else _statistics(device).peak("reserved_bytes")


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved


def reset_peak_memory_stats(device: Any = None) -> None:
    """Counts peaks from now on."""
    if found() is not None:
        _statistics(device).reset_peaks()


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Counts sums, and how often something happened, from now on."""
    _statistics(device).reset_sums()


def empty_cache() -> None:
    """Gives memory that is kept for reuse back to the driver, on all devices."""
    platform = found()
    if platform is None:
        return
    for device in platform.devices:
        if device.is_initialized:
            device.allocator.empty_cache()
    platform.pinned.empty_cache()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes, over all processes."""
    return device_of(device).memory_info()


def memory_stats(device: Any = None) -> dict[str, int]:
    """Everything that the allocator counts, by names such as "allocated_bytes.all.peak"."""
    return _statistics(device).table()


def host_memory_stats() -> dict[str, int]:
    """Pinned bytes of the host: in use, and in use or kept."""
    platform = found()
    if platform is None:
        return {}
    pinned = platform.pinned
    return {"allocated_bytes.current": pinned.allocated, "reserved_bytes.current": pinned.reserved}


def memory_snapshot(device: Any = None) -> list[dict[str, Any]]:
    """Every segment with its blocks, by address."""
    allocator = device_of(device).allocator
    allocator.collect()
    return described(allocator.blocks())


def described(blocks: list[Block]) -> list[dict[str, Any]]:
    """Segments with their blocks."""
    segments: list[dict[str, Any]] = []
    for block in blocks:
        if block.previous is None:
            kind = "small" if block.owner.small else "large"
            segments.append({
                "address": block.address, "total_size": block.segment_size, "stream": block.stream,
                "segment_type": kind, "blocks": [],
            })  # fmt: skip
        state = "inactive" if block.free else "active_allocated"
        part = {"address": block.address, "size": block.size, "requested_size": block.requested, "state": state}
        segments[-1]["blocks"].append(part)
    return segments


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """A table of what the allocator counts; `abbreviated` leaves out the pools of small and of large blocks."""
    from eagerjit.runtime.gpu.segments import figure

    target = device_of(device)
    table = _statistics(device).table()
    parts = {} if abbreviated else {"large_pool": "  from large pool", "small_pool": "  from small pool"}
    lines = [f"Memory of device {target.index} ({target.properties.name})", ""]
    lines += [f"{'':32}{'current':>14}{'peak':>14}{'allocated':>14}{'freed':>14}"]
    for name in dict.fromkeys(key.split(".")[0] for key in table if "." in key):
        for pool, label in {"all": "", **parts}.items():
            values = [table[f"{name}.{pool}.{kind}"] for kind in ("current", "peak", "allocated", "freed")]
            texts = [figure(value) if name.endswith("bytes") else str(value) for value in values]
            lines.append(f"{label or name.replace('_', ' '):32}" + "".join(f"{text:>14}" for text in texts))
    lines += ["", f"out of memory {table['num_ooms']} times, tried again {table['num_alloc_retries']} times"]
    return "\n".join(lines)


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Lets this process take no more than a part, between 0 and 1, of a device's memory."""
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    target = device_of(device)
    target.allocator.limit = None if fraction == 1 else int(fraction * target.properties.total_memory)


def get_per_process_memory_fraction(device: Any = None) -> float:
    """The part of a device's memory that this process may take."""
    target = device_of(device)
    limit = target.allocator.limit
    return 1.0 if limit is None else limit / target.properties.total_memory


def get_allocator_backend() -> str:
    """The name of the kind of allocator."""
    needed()
    return "native"

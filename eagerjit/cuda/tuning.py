"""Tiles of matrix products by trying them: with EAGERJIT_AUTOTUNE=1, once for each size, kept in the disk cache.

A product of some sizes has the same tile whatever follows it, so that calls and compiled calls add in the same order.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping

from eagerjit.compiler.codegen.triton.product import ProductKernel
from eagerjit.compiler.codegen.triton.source import Launch
from eagerjit.compiler.codegen.triton.tiles import Tile, ranked
from eagerjit.compiler.loops import Load, Store, walk
from eagerjit.runtime import cache
from eagerjit.runtime.gpu.event import Event
from eagerjit.runtime.gpu.stream import Stream
from eagerjit.runtime.records import as_dict

TRIED, REPEATS = 8, 3
"""Tiles that are tried, the cheapest by the model, and times that each is run."""
_found: dict[tuple[object, ...], Tile] = {}


def wanted() -> bool:
    """Whether tiles are to be tried."""
    return os.environ.get("EAGERJIT_AUTOTUNE", "") not in ("", "0")


def may_repeat(kernel: ProductKernel) -> bool:
    """Whether a kernel reads nothing that it writes, so that running it again changes nothing."""
    statements = list(walk(kernel.kernel.body))
    written = {s.param for s in statements if isinstance(s, Store)}
    return not written & {s.param for s in statements if isinstance(s, Load)}


def tile(
    kernel: ProductKernel, tasks: int, sizes: Mapping[str, int], architecture: int, seconds: Callable[[Launch], float]
) -> Tile | None:
    """The fastest tile; None to leave it to the model, where this kernel cannot be tried. `seconds` runs a launch."""
    shape = kernel.shape(tasks, sizes)
    known = (*shape, architecture)
    key = cache.content_key("tile", *map(str, known))
    if known not in _found:
        stored = cache.get("tile", key)
        if stored is not None:
            _found[known] = Tile(*json.loads(stored))
        elif may_repeat(kernel):
            tried = ranked(*shape, architecture, TRIED)
            times = [seconds(kernel.launch(tasks, sizes, architecture, t)) for t in tried]
            _found[known] = tried[times.index(min(times))]
            cache.put("tile", key, json.dumps([*as_dict(_found[known]).values()]).encode())
    return _found.get(known)


def timed(run: Callable[[], None], stream: Stream) -> float:
    """Seconds of a run on the device, the shortest of a few after the first."""
    run()
    found = []
    for _ in range(REPEATS):
        first, last = Event(enable_timing=True), Event(enable_timing=True)
        first.record(stream)
        run()
        last.record(stream)
        last.synchronize()
        found.append(first.elapsed_time(last) * 1e-3)
    return min(found)

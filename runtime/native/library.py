"""The native runtime in parts, each loaded on first use, compiled once per machine and kept.

What starts every process is compiled quickly first and well in the background (`improving.py`); the other parts, whose
loops are long, are compiled well at once.
"""

from __future__ import annotations

import ctypes
import functools
import os

from eagerjit.runtime import allowance
from eagerjit.runtime.native import agreed
from eagerjit.runtime.native.parts import NativeLibrary, Part
from eagerjit.runtime.once import lock, once

CORE = Part(
    *("memory", "threads", "products", "context", "flags", "objects", "arrays", "places", "guards", "loads", "work"),
    *("device_memory", "descriptors", "ready", "device", "captured", "execute", "operators", "nodes", "written"),
    *("connect", "taking", "entry", "launch", "answers", "remembered", "views", "subscripts", "view_calls", "elements"),
    *("filling", "making", "planned"),
    *("walk_memory", "walk_graph", "walk_freshness", "walk_parts", "walk_steps"),
    *("known_gradients", "walk_calls", "walk_joined", "walk"),
)
"""What runs Programs and serves eager operators, then other calls of the eager API, which have no memory of their own.
"""

PRODUCTS = Part("packing", "tiles", "copying", "panels", "pairs", "tile_products", "matmul", base=(CORE,))
ROUTINES = {name: Part(name, base=(CORE,)) for name in ("scan", "order", "search", "sparse", "holders")}
ROUTINES |= {
    "factors": Part("kinds", "factors", "spectra", base=(CORE,)),
    "fourier": Part("fourier_job", "fourier_lines", "fourier", "fourier_calls", base=(CORE,)),
}
CONVOLUTIONS = Part(
    "tiles",
    "copying",
    "gemm",
    "windows",
    "convolution_plan",
    "column_products",
    "covering",
    "chunks",
    "few_channels",
    "direct_plan",
    "direct_lines",
    "direct_pairs",
    "direct",
    "direct_weight",
    "turned",
    "convolution",
    base=(CORE, PRODUCTS),
)


SPIN_MICROSECONDS = 200


@once
def native() -> NativeLibrary:
    """What runs Programs."""
    stored = CORE.stored()
    library = CORE.loaded(stored) if stored else _improving(CORE)
    settle(library)
    os.register_at_fork(after_in_child=library.function("forget_threads", None))
    return library


def settle(library: NativeLibrary) -> None:
    """Tells native code how many threads to use, how long they spin, and how many bytes to keep for reuse."""
    pool, memory = library.address("thread_pool"), library.address("memory_counters")
    threads = _number("EAGERJIT_NUM_THREADS", 1) or _number("OMP_NUM_THREADS", 1) or allowance.processors()
    kept = _number("EAGERJIT_CACHED_MEMORY", 0)
    words = {
        pool + agreed.THREADS: min(threads, agreed.MAX_THREADS),
        pool + agreed.SPIN_NANOSECONDS: 1000 * (_number("EAGERJIT_SPIN_MICROSECONDS", 1) or SPIN_MICROSECONDS),
        memory + agreed.LIMIT: allowance.memory() // 4 if kept is None else kept,
    }
    for address, value in words.items():
        ctypes.c_int64.from_address(address).value = value


def _number(name: str, least: int) -> int | None:
    """What a variable of the environment begins with, if it is a number and no less; one per nested region is OpenMP's
    way."""
    text = os.environ.get(name, "").split(",")[0].strip()
    return int(text) if text.isdecimal() and int(text) >= least else None


@once
def products() -> NativeLibrary:
    """Matrix products; the executor finds them from then on."""
    library = PRODUCTS.load(native())
    _tell("matmul_function", library.address("matmul"))
    return library


@once
def convolutions() -> NativeLibrary:
    """Convolutions; the executor finds them from then on."""
    library = CONVOLUTIONS.load(native(), products())
    _tell("convolution_function", library.address("convolution"))
    return library


@functools.cache
def routine(part: str) -> NativeLibrary:
    """Kernels that Programs call by name ("scan", "order", "search", "sparse"), or functions of the host."""
    with lock:
        return ROUTINES[part].load(native())


def _improving(part: Part) -> NativeLibrary:
    from eagerjit.runtime.native import improving

    return improving.load(part, later="answers")


def _tell(cell: str, address: int) -> None:
    """Tells the executor where a function is."""
    ctypes.c_int64.from_address(native().address(cell)).value = address

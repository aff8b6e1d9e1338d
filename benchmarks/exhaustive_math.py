"""The largest error of elementary functions over all 2^32 float32 inputs.

    python -m benchmarks.exhaustive_math [FUNCTION ...] [--step N]

Prints, per function, the largest error in units in the last place of float32, and where it occurs. One function takes
half a minute to a minute on one core. The reference is NumPy's float64 function, or, where NumPy has none, the compiled
float64 one (which the tests hold against 140-bit arithmetic).
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable

import numpy as np

from eagerjit.compiler.codegen.llvm import emit_module
from eagerjit.compiler.codegen.math import UNARY
from eagerjit.compiler.loops import Kernel, Let, Load, Loop, Param, Store
from eagerjit.runtime import cpu

CHUNK = 1 << 17
REFERENCES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}  # fmt: skip


def compiled(function: str, dtype: str) -> Callable[[np.ndarray], np.ndarray]:
    """The function as a kernel on one array of `dtype` (f32 or f64)."""
    body = (Load("x", "a", (("i", 1),), dtype), Let("y", function, ("x",), dtype), Store("b", (("i", 1),), "y"))
    params = (Param("a", "memory", dtype), Param("b", "memory", dtype), Param("n", "size", "i64"))
    kernel = Kernel(function, params, (Loop("tasks", "t", 0, 1, (Loop("vector", "i", 0, "n", body),)),))
    loaded = cpu.load_object(cpu.compile_text(emit_module([kernel], cpu.vector_width_bits())))
    integer, pointer = ctypes.c_int64, ctypes.c_void_p
    entry = cpu.callable_at(loaded.address(function), integer, pointer, integer, integer, pointer)

    def call(x: np.ndarray) -> np.ndarray:
        y = np.empty_like(x)
        words = np.array([x.ctypes.data, y.ctypes.data, len(x)], np.int64)
        entry(words.ctypes.data, 0, 1, loaded and None)
        return y

    return call


def errors(results: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """|result - exact| in units in the last place of the exact value as float32; infinite for a wrong special value."""
    rounded = exact.astype(np.float32)
    exponent = np.maximum((exact.view(np.int64) >> 52) & 0x7FF, 1023 - 126)
    unit = ((exponent - 23) << 52).view(np.float64)
    distance = np.abs(results - exact) / unit
    right = (results == rounded) | (np.isnan(results) & np.isnan(rounded))
    distance[~np.isfinite(distance)] = np.inf
    # A result that is the exact value rounded is off by half a unit at most, also where that is infinite or NaN.
    return np.where(right, np.minimum(distance, 0.5), distance)


def largest_error(function: str, step: int = 1) -> tuple[float, float]:
    """The largest error over every `step`-th float32, and the input that has it."""
    ours = compiled(function, "f32")
    reference = REFERENCES.get(function) or compiled(function, "f64")
    worst, where = -1.0, 0.0
    with np.errstate(all="ignore"):
        for start in range(0, 1 << 32, CHUNK * step):
            bits = np.arange(start, min(start + CHUNK * step, 1 << 32), step, dtype=np.int64)
            x = bits.astype(np.uint32).view(np.float32)
            distance = errors(ours(x), reference(x.astype(np.float64)))
            position = int(distance.argmax())
            if distance[position] > worst:
                worst, where = float(distance[position]), float(x[position])
    return worst, where


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exhaustive_math", description=__doc__)
    parser.add_argument("functions", nargs="*", metavar="FUNCTION", help=f"of {', '.join(UNARY)} (all)")
    parser.add_argument("--step", type=int, default=1, help="test every N-th input only")
    options = parser.parse_args()
    for function in options.functions or UNARY:
        start = time.perf_counter()
        worst, where = largest_error(function, options.step)
        print(f"{function:8} {worst:.4f} ulp at {where!r}  ({time.perf_counter() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    main()

"""BLAS: loads one privately, single-threaded, with the kernels this processor deserves, and hands it to native code.

A setting of the environment (OPENBLAS_CORETYPE) can hold OpenBLAS to kernels for older processors, at half the speed,
so its core type is chosen from the processor's own features before it is loaded. `scipy-openblas32` is preferred, then
the OpenBLAS inside NumPy's wheel; without either, what is not multiplied in registers runs in a plain compiled loop.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from eagerjit.runtime import cpu, dtypes
from eagerjit.runtime.native import products as layout
from eagerjit.runtime.native.agreed import OUT_OF_MEMORY
from eagerjit.runtime.native.library import convolutions, native, products
from eagerjit.runtime.once import once
from eagerjit.runtime.records import record

_FUNCTIONS = {"sgemm": layout.SGEMM, "dgemm": layout.DGEMM, "sgemv": layout.SGEMV, "dgemv": layout.DGEMV}


@record(frozen=True)
class Blas:
    """A loaded BLAS: its file, how its symbols are decorated, and what it says of itself."""

    path: str
    prefix: str
    suffix: str
    core: str
    version: str
    library: ctypes.CDLL


def _candidates() -> Iterator[tuple[Path, str, str]]:
    """Files of OpenBLAS with prefix and suffix of their symbols, best first."""
    spec = importlib.util.find_spec("scipy_openblas32")
    if spec is not None and spec.submodule_search_locations:
        folder = Path(spec.submodule_search_locations[0]) / "lib"
        for path in sorted(folder.glob("libscipy_openblas*")):
            yield path, "scipy_", ""
    beside_numpy = Path(np.__file__).parent
    for folder in (beside_numpy.parent / "numpy.libs", beside_numpy / ".dylibs"):
        for path in sorted(folder.glob("libscipy_openblas64_*")):
            yield path, "scipy_", "64_"


def _core_type() -> str | None:
    """OpenBLAS's name of the kernels to use: EAGERJIT_BLAS_CORE, else AVX-512 ones where they run; None: it chooses.

    OPENBLAS_CORETYPE is left to the other copies of OpenBLAS in the process.
    """
    needed = {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}
    return os.environ.get("EAGERJIT_BLAS_CORE") or ("SkylakeX" if needed <= cpu.features() else None)


@contextmanager
def _environment(**values: str | None) -> Iterator[None]:
    """Sets environment variables (None: removes) for as long as a library initialises."""
    before = {name: os.environ.get(name) for name in values}
    _set_environment(values)
    try:
        yield
    finally:
        _set_environment(before)


def _set_environment(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _load(path: Path, prefix: str, suffix: str) -> Blas | None:
    try:
        with _environment(OPENBLAS_CORETYPE=_core_type(), OPENBLAS_NUM_THREADS="1"):
            library = ctypes.CDLL(str(path))
        for name in _FUNCTIONS:
            getattr(library, f"{prefix}cblas_{name}{suffix}")
        getattr(library, f"{prefix}openblas_set_num_threads{suffix}")(1)
    except (OSError, AttributeError):
        return None
    texts = []
    for name in ("get_corename", "get_config"):
        function = getattr(library, f"{prefix}openblas_{name}{suffix}")
        function.restype = ctypes.c_char_p
        texts.append(function().decode())
    return Blas(str(path), prefix, suffix, texts[0], texts[1], library)


@once
def blas() -> Blas | None:
    """The BLAS in use, loaded and handed to native code on first call; None where there is none.

    EAGERJIT_BLAS=0 uses none. Call this before the first matrix product of native code.
    """
    if os.environ.get("EAGERJIT_BLAS", "1") == "0":
        return None
    found = next(filter(None, (_load(*candidate) for candidate in _candidates())), None)
    if found is None:
        return None
    table = native().address("blas_functions")
    for name, offset in _FUNCTIONS.items():
        function = getattr(found.library, f"{found.prefix}cblas_{name}{found.suffix}")
        address = ctypes.cast(function, ctypes.c_void_p).value
        assert address
        ctypes.c_int64.from_address(table + offset).value = address
    return found


def report() -> str:
    """One line on the BLAS in use, for the environment report."""
    found = blas()
    if found is None:
        return "no BLAS: plain compiled loops"
    return f"{found.version.strip()}, running its {found.core} kernels, from {found.path}"


@functools.cache
def _matmul() -> Any:
    blas()
    pointer, word = ctypes.c_void_p, ctypes.c_int64
    return products().function("matmul", word, word, pointer, pointer, pointer, *[word] * 9, pointer)


def matmul_into(
    dtype_code: int,
    a: int,
    b: int,
    c: int,
    sizes: tuple[int, int, int],
    strides: tuple[int, int, int, int, int],
    batch: Sequence[tuple[int, int, int, int]] = (),
) -> None:
    """C = A @ B on addresses. `sizes` is M, N, K; `strides` A's row and column, B's row and column, C's row (elements).

    `batch` lists extent and the strides of A, B and C per batch dimension. Raises MemoryError, or OverflowError where a
    size exceeds what BLAS counts.
    """
    table = (ctypes.c_int64 * max(1, 4 * len(batch)))(*[word for dimension in batch for word in dimension])
    check_status(_matmul()(dtype_code, a, b, c, *sizes, *strides, len(batch), table))


@functools.cache
def _convolution() -> Any:
    blas()
    word = ctypes.c_int64
    return convolutions().function("convolution", word, word, word, ctypes.c_void_p)


def convolution_into(kind: int, dtype_code: int, operands: Sequence[int]) -> None:
    """The instruction CONVOLUTION on the numbers that its slots hold; raises as `matmul_into` does."""
    words = [*operands[7:], *operands[:7]]
    table = (ctypes.c_int64 * len(words))(*words)
    check_status(_convolution()(kind, dtype_code, table))


def check_status(status: int) -> None:
    """Raises what a status of the native matmul means."""
    if status == OUT_OF_MEMORY:
        raise MemoryError("no memory for packing the operands of a matrix product")
    if status == layout.TOO_LARGE:
        raise OverflowError("a matrix product has a size beyond 2**31 - 1")


def matmul(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """a @ b with broadcast batch dimensions, for arrays of one dtype and at least two dimensions, of any strides."""
    if a.dtype != b.dtype or a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-2]:
        raise ValueError(f"cannot multiply {a.dtype}{list(a.shape)} by {b.dtype}{list(b.shape)}")
    batch_shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = np.broadcast_to(a, batch_shape + a.shape[-2:])
    b = np.broadcast_to(b, batch_shape + b.shape[-2:])
    m, k, n = *a.shape[-2:], b.shape[-1]
    c = np.empty((*batch_shape, m, n), a.dtype)
    sa, sb, sc = ([step // a.itemsize for step in x.strides] for x in (a, b, c))
    batch = [(extent, sa[d], sb[d], sc[d]) for d, extent in enumerate(batch_shape)]
    code = dtypes.BY_NUMPY[a.dtype].code
    strides = (sa[-2], sa[-1], sb[-2], sb[-1], n)
    matmul_into(code, a.ctypes.data, b.ctypes.data, c.ctypes.data, (m, n, k), strides, batch)
    return c

"""Calls of the host that native code tries first: of few numbers, NumPy takes longer to be called than to compute.

A native function is given the words of the call and a description of it. What it declines Python computes. The Python
function asks it too, with fewer bounds, so that results are the same whoever calls.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eagerjit.runtime import blas, dtypes
from eagerjit.runtime.native.agreed import GEQRF, GESDD, GETRF, GETRS, MOST_DIMS, ORGQR, POTRF, SYEVD, TRSM
from eagerjit.runtime.native.library import NativeLibrary, routine
from eagerjit.runtime.once import once
from eagerjit.runtime.program import HostCall

QUICK, ANY = 1 << 20, 1 << 62
"""Multiplications that keep other threads waiting for the GIL: some 300 microseconds; and with the GIL released."""

_KINDS = {d.code: i for i, d in enumerate((dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128))}
_KINDS[dtypes.int32.code] = 0  # of which functions of integers alone make nothing
_CODES = {d.numpy: d.code for d in dtypes.HELD}
_LETTERS = "sdcz"
_LAPACK = {
    **{POTRF: "potrf", GETRF: "getrf", GETRS: "getrs", TRSM: "trsm"},
    **{GESDD: "gesdd", SYEVD: "syevd heevd", GEQRF: "geqrf", ORGQR: "orgqr ungqr"},
}
"""Names of functions, a second one for complex numbers."""


@once
def _factors() -> NativeLibrary | None:
    """Functions of matrices, told where LAPACK is; None where there is none with integers of 32 bits."""
    found = blas.blas()
    if found is None or found.suffix:
        return None
    library = routine("factors")
    table = library.address("lapack_functions")
    for row, names in _LAPACK.items():
        for column, letter in enumerate(_LETTERS):
            name = f"{found.prefix}{letter}{names.split()[-1 if letter in 'cz' else 0]}_"
            entry = getattr(found.library, name, None)
            address = 0 if entry is None else ctypes.cast(entry, ctypes.c_void_p).value or 0
            ctypes.c_int64.from_address(table + 8 * (4 * row + column)).value = address
    return library


@once
def _transforms() -> NativeLibrary:
    return routine("fourier")


FUNCTIONS: dict[str, tuple[Callable[[], NativeLibrary | None], str, int]] = {
    "linalg_cholesky": (_factors, "factor_cholesky", 1),
    "linalg_inv": (_factors, "factor_inv", 1),
    "linalg_solve": (_factors, "factor_solve", 1),
    "linalg_solve_triangular": (_factors, "factor_triangular", 1),
    "linalg_det": (_factors, "factor_det", 1),
    "linalg_slogdet": (_factors, "factor_slogdet", 2),
    "linalg_lu_factor": (_factors, "factor_lu", 2),
    "lu_permutation": (_factors, "factor_permutation", 1),
    "linalg_qr": (_factors, "factor_qr", 2),
    "linalg_eigh": (_factors, "factor_eigh", 2),
    "linalg_eigvalsh": (_factors, "factor_eigvalsh", 1),
    "linalg_svd": (_factors, "factor_svd", 3),
    "linalg_svd_of_values": (_factors, "factor_svd", 3),
    "linalg_svdvals": (_factors, "factor_svdvals", 1),
    "fft_full": (_transforms, "fourier_full", 1),
    "fft_half": (_transforms, "fourier_half", 1),
    "fft_whole": (_transforms, "fourier_whole", 1),
}
"""By the name of a function of the host: the part of the native runtime with a direct one, its name, its results."""


@functools.cache
def description(call: HostCall, most: int) -> Any:
    """What a direct function is told of a call whose results are all wanted, itself first; None where there is none."""
    load, name, count = FUNCTIONS.get(call.function, (None, "", 0))
    if load is None or [r[0] for r in call.results] != list(range(count)):
        return None
    kinds = {_KINDS.get(a[1], -1) for a in call.arguments if _is_tensor(a) and not a[3]}
    library = load()
    if library is None or len(kinds) != 1 or -1 in kinds:
        return None
    words = [library.address(name), *kinds, most, *map(_told, call.arguments)]
    return (ctypes.c_int64 * len(words))(*words)


def unhurried(call: HostCall) -> Callable[[int], int] | None:
    """A direct function with no bound on its time, of the address of the call's words, that releases the GIL."""
    about = description(call, ANY)
    if about is None:
        return None
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(about[0])
    return lambda address: function(address, ctypes.addressof(about))


def _is_tensor(argument: Any) -> bool:
    return isinstance(argument, tuple) and argument[:1] == ("$tensor",)


def _told(argument: Any) -> int:
    """The word of an argument: 0 for a size or number that the call has."""
    if _is_tensor(argument):
        return int(argument[2])
    if isinstance(argument, tuple):
        return sum(d << 4 * i for i, d in enumerate((len(argument), *argument))) if len(argument) < MOST_DIMS else 0
    if isinstance(argument, float):
        return int(np.float64(argument).view(np.int64))
    if isinstance(argument, str):
        return 0 if argument == "$size" else ord(argument[1])
    return int(argument)


def computed(name: str, arguments: Sequence[Any], results: Sequence[np.ndarray]) -> bool:
    """Whether a direct function has computed these results, of arguments that are arrays, bools and texts."""
    described = tuple(_described(a) for a in arguments)
    call = HostCall(name, described, tuple((i, _CODES[r.dtype], r.ndim) for i, r in enumerate(results)))
    function = unhurried(call)
    if function is None:
        return False
    arrays = [a for a in (*arguments, *results) if isinstance(a, np.ndarray)]
    if not all(a.flags.c_contiguous for a in arrays):
        return False
    numbers = [word for a in arrays for word in (a.ctypes.data, *a.shape)]
    words = (ctypes.c_int64 * len(numbers))(*numbers)
    return bool(function(ctypes.addressof(words)))


def _described(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return "$tensor", _CODES[argument.dtype], argument.ndim, False
    return f"={argument}" if isinstance(argument, str) else argument

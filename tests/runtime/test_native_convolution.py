"""The native convolutions against the primitives' NumPy references, in every way that sizes make them be cut."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from eagerjit.compiler.ops import convolution
from eagerjit.runtime import blas, dtypes

Case = tuple[int, int, int, tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...], int]

CASES: dict[str, Case] = {
    # images, channels, rows, input, kernel, stride, padding, dilation, groups
    "one of everything": (1, 1, 1, (1,), (1,), (1,), (0,), (1,), 1),
    "plain": (2, 5, 7, (9, 8), (1, 1), (1, 1), (0, 0), (1, 1), 1),
    "strided taps": (2, 5, 7, (9, 8), (1, 1), (2, 3), (0, 0), (1, 1), 1),
    "short lines": (2, 4, 6, (9, 8), (3, 2), (1, 1), (1, 0), (1, 1), 2),
    "lines of three": (3, 2, 3, (5, 3), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "long lines": (1, 3, 2, (40, 90), (5, 3), (1, 1), (2, 1), (1, 1), 1),
    "long lines, strided": (1, 3, 2, (40, 90), (5, 3), (2, 2), (2, 1), (1, 2), 1),
    "lines longer than a tile": (1, 2, 3, (2500,), (3,), (1,), (1,), (1,), 1),
    "lines longer than a tile, strided": (2, 2, 3, (4999,), (3,), (2,), (2,), (3,), 1),
    "several images in a tile": (40, 6, 5, (4, 4), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "several images in a tile, strided": (70, 6, 5, (5, 4), (3, 3), (2, 2), (1, 1), (1, 1), 1),
    "blocks of rows": (3, 70, 300, (2, 2), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "blocks of channels": (2, 150, 8, (9, 9), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "blocks of channels, strided": (2, 150, 8, (9, 9), (3, 3), (2, 2), (1, 1), (1, 1), 1),
    "padding alone": (2, 3, 4, (2, 2), (2, 2), (1, 1), (3, 3), (1, 1), 1),
    "dilation past the border": (2, 3, 4, (3, 9), (3, 3), (1, 1), (4, 0), (4, 2), 1),
    "space": (2, 4, 4, (5, 4, 6), (2, 3, 1), (1, 2, 1), (1, 0, 1), (1, 1, 2), 2),
    "many groups": (2, 12, 12, (6, 6), (3, 3), (1, 1), (1, 1), (1, 1), 12),
    "blocks of channels and rows": (2, 90, 40, (12, 13), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "phases": (2, 5, 11, (21, 23), (5, 4), (3, 2), (2, 1), (1, 3), 1),
    "phases of space": (1, 3, 9, (7, 9, 11), (3, 2, 3), (2, 3, 2), (1, 1, 0), (2, 1, 1), 1),
    "more lines than a task has": (1, 40, 17, (70, 33), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "longer than a task, plain": (1, 3, 9, (41, 43), (1, 1), (1, 1), (0, 0), (1, 1), 1),
    "groups of rows": (3, 24, 30, (8, 12), (3, 3), (1, 1), (1, 1), (1, 1), 3),
    "much of everything": (3, 20, 21, (21, 25), (5, 4), (3, 2), (2, 1), (1, 3), 1),
    "much of space": (2, 12, 18, (9, 11, 13), (3, 2, 3), (2, 1, 2), (1, 1, 0), (2, 1, 1), 2),
    "long lines in segments": (2, 16, 10, (1500,), (3,), (1,), (1,), (1,), 1),
    "images side by side": (21, 40, 40, (7, 7), (3, 3), (1, 1), (1, 1), (1, 1), 2),
    "images side by side, strided": (19, 70, 9, (9, 11), (4, 3), (2, 2), (1, 0), (1, 1), 1),
    "images side by side, plain": (9, 60, 80, (3, 3), (1, 1), (1, 1), (0, 0), (1, 1), 1),
    "few channels of images": (18, 1, 9, (11, 12), (3, 3), (1, 1), (0, 0), (1, 1), 1),
    "turned around, groups of odd rows": (3, 18, 34, (9, 10), (3, 2), (1, 1), (1, 1), (1, 1), 2),
    "lines of a vector": (2, 6, 16, (16, 16), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "turned around by phases": (3, 24, 9, (33, 20), (3, 4), (2, 2), (1, 1), (1, 1), 1),
    "turned around by phases, groups": (9, 20, 12, (23, 31), (5, 2), (3, 2), (2, 0), (1, 1), 2),
    "more stride than kernel": (2, 9, 8, (40, 50), (1, 2), (2, 3), (0, 0), (1, 1), 1),
    "phases side by side": (20, 48, 48, (13, 14), (4, 4), (2, 2), (1, 2), (1, 1), 1),
    "phases of space turned around": (2, 8, 6, (11, 13, 12), (3, 2, 1), (2, 1, 2), (1, 1, 0), (1, 1, 1), 1),
    "padding beyond the kernel, strided": (4, 8, 8, (20, 22), (2, 3), (2, 2), (3, 4), (1, 1), 1),
    "kernel over all of the input": (17, 6, 10, (4, 5), (4, 5), (1, 1), (0, 0), (1, 1), 2),
    "phases of one tap, many channels": (3, 40, 36, (21, 20), (3, 3), (2, 2), (1, 1), (1, 1), 1),
    "an odd number of many channels": (2, 99, 70, (13, 15), (3, 2), (1, 1), (1, 0), (1, 2), 1),
    "space of many channels": (2, 34, 20, (5, 7, 6), (3, 2, 3), (1, 1, 1), (1, 0, 1), (1, 1, 1), 2),
    "more channels than are copied": (2, 300, 33, (40, 41), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "lines of many images, more channels than are copied": (17, 700, 40, (6, 11), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "products of images": (3, 40, 50, (9, 9), (1, 1), (1, 1), (0, 0), (1, 1), 1),
    "products of images, groups": (3, 24, 36, (10, 7), (1, 1), (1, 1), (0, 0), (1, 1), 3),
    "products of large images": (2, 150, 300, (35, 37), (1, 1), (1, 1), (0, 0), (1, 1), 1),
    "a product of one image": (1, 40, 9, (5, 7), (1, 1), (1, 1), (0, 0), (1, 1), 1),
    "one tap, padded": (2, 40, 9, (9, 8), (1, 1), (1, 1), (1, 2), (1, 1), 1),
    "one tap, strided, images side by side": (20, 70, 40, (15, 14), (1, 1), (2, 2), (0, 0), (1, 1), 1),
    "one point": (5, 40, 50, (1, 1), (1, 1), (2, 2), (0, 0), (1, 1), 1),
    "no images": (0, 2, 3, (6, 6), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "no channels": (2, 0, 3, (6, 6), (3, 3), (1, 1), (1, 1), (1, 1), 1),
}


def tensors(case: Case, dtype: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
    """Input, weight, a gradient of the output, and the attributes; numbers of bfloat16 are kept as float32."""
    images, channels, rows, size, kernel, stride, padding, dilation, groups = case
    random = np.random.default_rng(0)
    kept = np.float32 if dtype is ml_dtypes.bfloat16 else dtype
    x = random.standard_normal((images, channels, *size)).astype(dtype).astype(kept)
    w = random.standard_normal((rows, channels // groups, *kernel)).astype(dtype).astype(kept)
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    numbers = zip(size, kernel, stride, padding, dilation, strict=True)
    out = tuple(int(convolution.output_size(*each)) for each in numbers)  # type: ignore[call-overload]
    return x, w, random.standard_normal((images, rows, *out)).astype(dtype).astype(kept), how


def run(kind: int, dtype: Any, x: np.ndarray, w: np.ndarray, y: np.ndarray, how: dict[str, Any]) -> None:
    """Compute x, w or y from the other two, in place."""
    rank = x.ndim - 2
    words = [1, 1, 1, 1, 0, 1] * (3 - rank)
    for d in range(rank):
        words += [x.shape[d + 2], w.shape[d + 2], y.shape[d + 2]]
        words += [how[name][d] for name in ("stride", "padding", "dilation")]
    sizes = [x.shape[0], w.shape[1], w.shape[0] // how["groups"], how["groups"]]
    code = dtypes.BY_NUMPY[np.dtype(dtype)].code
    blas.convolution_into(kind, code, [*(a.ctypes.data for a in (x, w, y)), *sizes, *words])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", CASES)
def test_all_three(name: str, dtype: Any) -> None:
    x, w, y, how = tensors(CASES[name], dtype)
    wanted = [
        convolution.convolution.reference(x, w, **how),
        convolution.convolution_input.reference(y, w, size=x.shape[2:], **how),
        convolution.convolution_weight.reference(y, x, size=w.shape[2:], **how),
    ]
    tolerance = 1e-11 if dtype is np.float64 else 2e-4
    for kind, expected in enumerate(wanted):
        found = np.full(expected.shape, np.nan, x.dtype)  # whatever is left of this shows
        operands = [(x, w, found), (found, w, y), (x, found, y)][kind]
        run(kind, dtype, *operands, how)
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * 10)


def test_sizes_beyond_blas_are_refused() -> None:
    with pytest.raises(OverflowError, match="2\\*\\*31"):
        line = [2**31, 1, 2**31, 1, 0, 1]
        blas.convolution_into(0, dtypes.float32.code, [0, 0, 0, 1, 1, 1, 1, *[1, 1, 1, 1, 0, 1] * 2, *line])


def test_without_blas() -> None:
    code = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); import test_native_convolution as t\n"
    code += "import numpy as np\nfor name in ('short lines', 'several images in a tile, strided', 'space'):\n"
    code += "    t.test_all_three(name, np.float32); t.test_all_three(name, np.float64)\n"
    code += "from eagerjit.runtime import blas; print(blas.blas())"
    environment = {**os.environ, "EAGERJIT_BLAS": "0"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "None"

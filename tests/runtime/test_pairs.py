"""Products of pairs of bfloat16 numbers by vectors, as processors without tiles compute them."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from eagerjit.runtime import cpu
from eagerjit.runtime.native import tiles
from eagerjit.runtime.native.translate import translate
from tests.runtime.test_translate import load

SIDE = 16
I64, PTR = ctypes.c_int64, ctypes.c_void_p


@pytest.fixture(scope="module")
def examples() -> Any:
    patch = pytest.MonkeyPatch()
    patch.setattr(tiles, "HAS_TILES", False)
    patch.setattr(tiles, "HAS_PAIRS", True)
    text = translate([load(Path(__file__).with_name("pair_examples.py"))])
    patch.undo()
    assert "dpbf16ps" in text
    if "avx512bf16" not in cpu.features():
        pytest.skip("the processor does not multiply pairs")
    return cpu.load_object(cpu.compile_text(text, "full"))


def call(examples: Any, name: str, *arguments: Any) -> None:
    kinds = [PTR if isinstance(a, np.ndarray) else I64 for a in arguments]
    plain = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]
    cpu.callable_at(examples.address(name), None, *kinds)(*plain)


def normal(rng: Any, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(ml_dtypes.bfloat16)


@pytest.mark.parametrize("add", [0, 1])
@pytest.mark.parametrize("blocks", [1, 3])
def test_blocks_of_rows_and_columns(examples: Any, blocks: int, add: int) -> None:
    rng = np.random.default_rng(blocks)
    a = normal(rng, 2, blocks, SIDE, SIDE, 2)  # two blocks of rows, steps, rows, pairs
    b = normal(rng, 2, blocks, SIDE, SIDE, 2)  # two blocks of columns, steps, pairs, columns
    c = rng.standard_normal((32, 32)).astype(np.float32)
    product = np.einsum("xsrpi,yspci->xryc", a.astype(np.float64), b.astype(np.float64)).reshape(32, 32)
    expected = product + add * c
    call(examples, "blocks_of_pairs", blocks, a, b, c, add)
    assert np.allclose(c, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("add", [0, 1])
def test_what_planes_hold_at_places(examples: Any, add: int) -> None:
    rng = np.random.default_rng(5)
    count, width = 3, 50
    a, planes = normal(rng, count, 2, SIDE, SIDE, 2), normal(rng, SIDE, width, 2)
    places = np.array([0, 7, 18], np.int32)
    c = rng.standard_normal((32, 40)).astype(np.float32)
    seen = np.stack([planes[:, place : place + 32] for place in places]).astype(np.float64)
    expected = c.astype(np.float64)
    expected[:, :32] *= add
    expected[:, :32] += np.einsum("sxrpi,spci->xrc", a.astype(np.float64), seen).reshape(32, 32)
    call(examples, "seen_pairs", count, a, planes, places * 4, width * 4, c, 40, add)
    assert np.allclose(c, expected, rtol=1e-5, atol=1e-4)

"""Products of floats of 8 bits with scales, against torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit as ej
from eagerjit.calling.dispatch import OPS, Op
from eagerjit.compiled import gpu_kernels
from eagerjit.ops.float8 import FORMATS, _decoded, _encoded, scaled_product

RANDOM = np.random.default_rng(4)
LEFT, RIGHT = RANDOM.standard_normal((16, 32)), RANDOM.standard_normal((48, 32))
ROWS, COLUMNS, BIAS = (RANDOM.random(shape, np.float32) for shape in ((16, 1), (1, 48), (48,)))
BOTH = ("float8_e4m3fn", "float8_e5m2")
TOLERANCE = {"float32": 1e-5, "bfloat16": 1e-2, "float16": 2e-3, "float8_e4m3fn": 0.13, "float8_e5m2": 0.26}


def product(library: Any, left: str, right: str, out: str | None, by_row: bool, bias: bool) -> Any:
    a = library.from_numpy(LEFT).to(getattr(library, left))
    b = library.from_numpy(RIGHT).to(getattr(library, right)).t()
    scales = (library.from_numpy(ROWS), library.from_numpy(COLUMNS)) if by_row else map(library.tensor, (0.5, 2.0))
    added = library.from_numpy(BIAS) if bias else None
    return library._scaled_mm(a, b, *scales, bias=added, out_dtype=out and getattr(library, out), use_fast_accum=True)


@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize("out", [None, "float32", "bfloat16", "float16", "float8_e5m2"])
@pytest.mark.parametrize("right", BOTH)
@pytest.mark.parametrize("left", BOTH)
def test_products(left: str, right: str, out: str | None, by_row: bool) -> None:
    for bias in (False, True):
        found, expected = (product(library, left, right, out, by_row, bias) for library in (ej, torch))
        assert str(found.dtype) == str(expected.dtype) and tuple(found.shape) == tuple(expected.shape)
        limit = TOLERANCE[str(found.dtype).removeprefix("torch.")]  # one unit in the last place, of other roundings
        np.testing.assert_allclose(found.float().tolist(), expected.float().tolist(), limit, 1e-3)


DECODED = Op("decoded_in_test", lambda x, format: _decoded(x, format), differentiable=False)
ENCODED = Op("encoded_in_test", lambda x, format: _encoded(x, format), differentiable=False)
for made in (DECODED, ENCODED):
    del OPS[made.name]  # they are no ops of the library


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_all_numbers(dtype: Any) -> None:
    theirs, format = getattr(torch, dtype.name), FORMATS[dtype]
    codes = np.arange(256, dtype=np.uint8)
    numbers = torch.from_numpy(codes).view(theirs).float().numpy()
    found = DECODED.call(ej.from_numpy(codes), format).numpy()
    np.testing.assert_array_equal(found, numbers)
    assert (np.signbit(found) == np.signbit(numbers))[numbers == numbers].all()
    finite = np.sort(numbers[np.isfinite(numbers)])
    middles = (finite[1:] + finite[:-1]) / 2
    any_bits = RANDOM.integers(0, 1 << 32, 100000, np.uint32).view(np.float32)
    x = np.concatenate([numbers, middles, any_bits, 1.001 * middles, np.float32([1e9, -1e9])])
    expected = torch.from_numpy(x).to(theirs).view(torch.uint8).numpy()
    np.testing.assert_array_equal(ENCODED.call(ej.from_numpy(x), format).numpy(), expected)


def given(library: Any) -> tuple[Any, Any, Any]:
    a = library.ones(16, 32).to(library.float8_e4m3fn)
    return a, library.ones(16, 32).to(library.float8_e4m3fn).t(), library.tensor(0.5)


SCALES = "Got mat_a.dtype()={}, scale_a.dtype()={}, scale_a.size()={}, scale_a.stride()={}, mat_b.dtype()=Float8_e4m3fn"

MISTAKES: list[tuple[Callable[[Any, Any, Any, Any], Any], type[Exception], str]] = [
    (lambda t, a, b, s: t._scaled_mm(a[0], b, s, s), RuntimeError, "mat1 must be a matrix"),
    (lambda t, a, b, s: t._scaled_mm(a, b[0], s, s), RuntimeError, "mat2 must be a matrix"),
    (lambda t, a, b, s: t._scaled_mm(a, b[:16], s, s), RuntimeError, "shapes cannot be multiplied (16x32 and 16x16)"),
    (lambda t, a, b, s: t._scaled_mm(a.float(), b, s, s), ValueError, SCALES.format("Float", "Float", "[]", "[]")),
    (
        lambda t, a, b, s: t._scaled_mm(a, b, s.double(), s),
        ValueError, SCALES.format("Float8_e4m3fn", "Double", "[]", "[]"),
    ),
    (
        lambda t, a, b, s: t._scaled_mm(a, b, t.ones(16, 1), s),
        ValueError, SCALES.format("Float8_e4m3fn", "Float", "[16, 1]", "[1, 1]"),
    ),
    (
        lambda t, a, b, s: t._scaled_mm(a, b, t.ones(16, 1), t.ones(16, 1)),
        ValueError, SCALES.format("Float8_e4m3fn", "Float", "[16, 1]", "[1, 1]"),
    ),
    (lambda t, a, b, s: t._scaled_mm(a, b, s, s, bias=t.ones(3)), RuntimeError, "Bias must be size 16 but got 3"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "text"), MISTAKES)
def test_mistakes(call: Callable[[Any, Any, Any, Any], Any], kind: type[Exception], text: str) -> None:
    """What PyTorch raises where it has no instructions for AMX: with them it lets some of these pass."""
    with pytest.raises((RuntimeError, ValueError)) as raised:
        call(ej, *given(ej))
    assert raised.type is kind
    assert text in str(raised.value)


def test_a_jitted_function_with_floats_of_8_bits_says_so_and_gives_the_same() -> None:
    call = ej.jit(lambda a, b, s: ej._scaled_mm(a, b, s, s, out_dtype=ej.float32) + 1)
    with pytest.warns(UserWarning, match="float8_e4m3fn"):
        assert (call(*given(ej)) == 9.0).all()


def test_a_gpu_multiplies_bfloat16_and_scales_in_the_same_kernel() -> None:
    def call(a: Any, b: Any, scale: Any) -> Any:
        return scaled_product.call(a, b, scale, scale, None, *FORMATS.values(), ej.bfloat16, None)

    a, b = (ej.from_numpy(RANDOM.integers(0, 0x77, (64, 64), np.uint8)) for _ in range(2))
    scale = ej.full((1, 1), 0.5)
    with gpu_kernels.interpreted() as made:
        found = ej.jit(call, fullgraph=True)(a, b, scale)
    np.testing.assert_allclose(found.float().numpy(), call(a, b, scale).float().numpy(), 1e-2)
    last = [launch for m in made for launch in m.launched][-1]
    assert [p.dtype for p in last.source.params if p.kind == "memory"] == ["bf16", "bf16", "f32", "bf16"]
    assert all("mma.sync" in gpu_kernels.binary(last, architecture).ptx for architecture in (80, 90))

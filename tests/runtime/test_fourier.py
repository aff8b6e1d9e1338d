"""Transforms by the native runtime against NumPy's in double precision: every stage, every way to read and to write."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.runtime import fourier, threads

DTYPES = {np.complex64: 4e-7, np.complex128: 2e-15}
LENGTHS = (2, 3, 4, 5, 7, 8, 9, 10, 12, 14, 16, 21, 25, 28, 30, 35, 36, 49, 64, 75, 105, 128, 210, 343, 400, 512, 625)
SHAPES = ((1, 0), (7, 0), (8, 0), (19, 0), (0, 3), (0, 9), (2, 8), (2, 11), (40, 2), (9, 1))
"""Lines before and behind the dimension; 0 for none."""


def numbers(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    random = np.random.default_rng(sum(shape))
    x = random.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * random.normal(size=shape)
    return np.ascontiguousarray(x.astype(dtype))


def real(dtype: type) -> type:
    return np.float32 if dtype is np.complex64 else np.float64


def assert_near(found: np.ndarray, expected: np.ndarray, dtype: type) -> None:
    assert found.shape == expected.shape
    tolerance = DTYPES[dtype] * np.linalg.norm(expected) + np.finfo(dtype).tiny
    assert np.linalg.norm(found.astype(np.complex128) - expected) <= tolerance


def cases(n: int) -> list[tuple[tuple[int, ...], int]]:
    return [(tuple([k for k in (before, n, behind) if k]), int(before > 0)) for before, behind in SHAPES]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", LENGTHS)
def test_complex_lines(n: int, dtype: type) -> None:
    for (shape, axis), forward in itertools.product(cases(n), (True, False)):
        x = numbers(shape, dtype)
        found = fourier.transform(x, axis, n, forward, 0.5, n)
        transform = np.fft.fft(x.astype(np.complex128), axis=axis) if forward else np.fft.ifft(x, axis=axis) * n
        assert found.dtype == dtype
        assert_near(found, transform * 0.5, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", LENGTHS)
def test_real_lines_and_back(n: int, dtype: type) -> None:
    for shape, axis in cases(n):
        x = numbers(shape, real(dtype))
        half = fourier.transform(x, axis, n, True, 1.0, n // 2 + 1)
        assert_near(half, np.fft.rfft(x.astype(np.float64), axis=axis), dtype)
        back = fourier.transform(half, axis, n, False, 1.0 / n, n, real=True)
        assert back.dtype == real(dtype)
        assert_near(back, x.astype(np.float64), dtype)
        whole = fourier.transform(x, axis, n, False, 1.0, n)
        assert_near(whole, np.fft.ifft(x.astype(np.float64), axis=axis) * n, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", (32, 96, 160, 192, 224, 256, 320, 448, 1024, 1152, 2048))
def test_lines_by_themselves(n: int, dtype: type) -> None:
    """Lengths whose lines are transformed one by one, or two real ones together: with partners and without."""
    for lines, forward in itertools.product((1, 2, 3, 9), (True, False)):
        for x in (numbers((lines, n), dtype), numbers((lines, n), real(dtype))):
            whole = fourier.transform(x, 1, n, forward, 1.0, n)
            wide = x.astype(np.complex128)
            assert_near(whole, np.fft.fft(wide) if forward else np.fft.ifft(wide) * n, dtype)
            for kept in (1, n // 2, n // 2 + 1, n - 1):
                assert np.array_equal(fourier.transform(x, 1, n, forward, 1.0, kept), whole[:, :kept])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", (32, 96, 224, 320, 1024, 2048))
def test_half_spectra_by_themselves(n: int, dtype: type) -> None:
    for lines in (1, 2, 9):
        x = numbers((lines, n), real(dtype))
        half = np.fft.rfft(x.astype(np.float64)).astype(dtype)
        half[:, 0] += 1j
        half[:, -1] -= 2j
        whole = fourier.transform(half, 1, n, False, 1.0 / n, n, real=True)
        assert_near(whole, x.astype(np.float64), dtype)
        for kept in (1, n // 2 + 3):
            assert np.array_equal(fourier.transform(half, 1, n, False, 1.0 / n, kept, real=True), whole[:, :kept])


MIXED = ((3, 0), (8, 0), (19, 0), (0, 9), (2, 19), (9, 3))
"""Lines before and behind the dimension."""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", (2, 3, 4, 14, 15, 16, 30, 48, 105, 128, 192, 256, 500, 1024, 2058, 4096))
def test_each_line_is_as_exact_as_alone(n: int, dtype: type) -> None:
    """Whatever the size of the lines beside it, before it and behind."""
    for before, behind in MIXED:
        lines = numbers((max(before, 1), max(behind, 1), n), real(dtype))
        lines *= 10.0 ** (8 * (np.arange(lines.shape[0])[:, None] % 2 + np.arange(lines.shape[1]) % 2 - 1))[..., None]
        x = np.ascontiguousarray(np.swapaxes(lines.astype(real(dtype)), 1, 2))
        wide = x.astype(np.float64)
        half = np.fft.rfft(wide, axis=1)
        found = (
            (fourier.transform(x, 1, n, True, 1.0, n // 2 + 1), half),
            (fourier.transform(x, 1, n, True, 1.0, n), np.fft.fft(wide, axis=1)),
            (fourier.transform(x, 1, n, False, 0.5, n), np.fft.ifft(wide, axis=1) * n * 0.5),
            (fourier.transform(half.astype(dtype), 1, n, False, 1.0 / n, n, real=True), wide),
        )
        for result, expected in found:
            apart = np.linalg.norm(result.astype(np.complex128) - expected, axis=1)
            assert (apart <= 1.5 * DTYPES[dtype] * np.linalg.norm(expected, axis=1)).all()


@pytest.mark.parametrize("bad", (np.nan, np.inf, 1e30))
@pytest.mark.parametrize("n", (2, 3, 15, 16, 48, 128, 256, 500, 4096))
def test_a_line_reaches_no_other(n: int, bad: float) -> None:
    """The bits of all others are as they were."""
    for shape in ((2, n, 1), (9, n, 1), (16, n, 1), (1, n, 9), (2, n, 19), (9, n, 3)):
        x = numbers(shape, np.float32)
        half = numbers((shape[0], n // 2 + 1, shape[2]), np.complex64)
        for given, count, forward in ((x, n // 2 + 1, True), (x, n, False), (half, n, False)):
            to_real = given is half
            expected = fourier.transform(given, 1, n, forward, 1.0, count, real=to_real)
            for line in {0, shape[0] - 1}:
                for behind in {0, shape[2] - 1}:
                    other = given.copy()
                    other[line, :, behind] = bad
                    found = fourier.transform(other, 1, n, forward, 1.0, count, real=to_real)
                    found[line, :, behind] = expected[line, :, behind]
                    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("n", (2, 4, 15, 16, 128, 256))
def test_what_is_real_of_a_spectrum_is_real(n: int) -> None:
    """The sum, and with signs by turns: zeros without a sign beside them, whatever the numbers are."""
    x = np.full((9, n), np.nan, np.float32)
    x[1:] = numbers((8, n), np.float32)
    for count, forward in itertools.product((n // 2 + 1, n), (True, False)):
        found = fourier.transform(x, 1, n, forward, 1.0, count)
        assert found[:, 0].imag.tobytes() == bytes(9 * 4)
        assert n % 2 or found[:, n // 2].imag.tobytes() == bytes(9 * 4)


def test_lines_by_themselves_in_calls_without_python() -> None:
    """Which ask for the same transforms, bit for bit."""
    for n in (32, 64, 320, 1024):
        x = numbers((3, n), np.float32)
        found = [torch.fft.rfft(torch.from_numpy(x)).numpy() for _ in range(3)][-1]
        assert np.array_equal(found, fourier.transform(x, 1, n, True, 1.0, n // 2 + 1))


@pytest.mark.parametrize("kind", (np.float32, np.float64))
@pytest.mark.parametrize("n", (1, 2, 3, 15, 30, 96, 256, 1000))
def test_real_lines_in_calls_without_python(n: int, kind: type) -> None:
    for shape, axis in (((9, n), 1), ((n, 9), 0), ((2, n, 3), 1)):
        x = numbers(shape, kind)
        half = fourier.transform(x, axis, n, True, 1.0, n // 2 + 1)
        expected = {
            "rfft": half,
            "fft": fourier.transform(x, axis, n, True, 1.0, n),
            "ifft": fourier.transform(x, axis, n, False, 1.0 / n, n),
            "irfft": fourier.transform(half, axis, n, False, 1.0 / n, n, real=True),
        }
        for name, bits in expected.items():
            given = torch.from_numpy(half if name == "irfft" else x)
            sizes = (n,) if name == "irfft" else ()
            for _ in range(3):
                found = getattr(torch.fft, name)(given, *sizes, dim=axis).numpy()
                assert found.tobytes() == bits.tobytes()


@pytest.mark.parametrize("given", (1, 3, 17, 33, 40))
def test_half_spectra_of_other_lengths(given: int) -> None:
    """What is missing counts as zero, what is too much is left out; the first and middle numbers' are real."""
    x = numbers((9, given), np.complex64)
    for n in (7, 8, 64):
        found = fourier.transform(x, 1, n, False, 1.0, n, real=True)
        assert_near(found, np.fft.irfft(x.astype(np.complex128), n=n, axis=1) * n, np.complex64)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", (2048, 6000, 7**4, 1 << 14, 3 * 5 * 7 * 64))
def test_few_long_lines(n: int, dtype: type) -> None:
    for lines, forward in itertools.product((1, 3), (True, False)):
        x = numbers((lines, n), dtype)
        expected = np.fft.fft(x.astype(np.complex128)) if forward else np.fft.ifft(x.astype(np.complex128)) * n
        assert_near(fourier.transform(x, 1, n, forward, 2.0, n), expected * 2.0, dtype)
        reals = numbers((lines, n), real(dtype))
        half = fourier.transform(reals, 1, n, True, 1.0, n // 2 + 1)
        assert_near(half, np.fft.rfft(reals.astype(np.float64)), dtype)
        assert_near(fourier.transform(half, 1, n, False, 1.0 / n, n, real=True), reals.astype(np.float64), dtype)


def test_bits_do_not_depend_on_threads() -> None:
    x = numbers((300, 360), np.complex64)
    before = threads.get_num_threads()
    try:
        found = []
        for number in (1, 2, 5):
            threads.set_num_threads(number)
            found.append(fourier.transform(x, 1, 360, True, 1.0, 360).tobytes())
    finally:
        threads.set_num_threads(before)
    assert len(set(found)) == 1


def test_bits_of_real_lines_do_not_depend_on_threads() -> None:
    before = threads.get_num_threads()
    try:
        found = []
        for number in (1, 2, 5):
            threads.set_num_threads(number)
            bits = b""
            for n in (360, 315, 512):
                half = fourier.transform(numbers((300, n), np.float32), 1, n, True, 1.0, n // 2 + 1)
                bits += half.tobytes() + fourier.transform(half, 1, n, False, 1.0, n, real=True).tobytes()
            found.append(bits)
    finally:
        threads.set_num_threads(before)
    assert len(set(found)) == 1


def test_unaligned_memory() -> None:
    x = numbers((9, 40), np.complex64)
    memory = np.zeros(x.nbytes + 4, np.uint8)
    shifted = memory[4:].view(np.complex64).reshape(x.shape)
    shifted[...] = x
    assert np.array_equal(fourier.transform(shifted, 1, 40, True, 1.0, 40), fourier.transform(x, 1, 40, True, 1.0, 40))


def test_lengths_that_suit() -> None:
    assert fourier.factors(1024) == (8, 8, 4, 4) and fourier.factors(96) == (8, 4, 3)
    assert [n for n in range(24) if fourier.suits(n)] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 18, 20, 21]
    assert fourier.factors(360) == (5, 4, 3, 3, 2) and fourier.factors(22) == ()
    assert not fourier.suits(fourier.LONGEST * 2)


@pytest.mark.parametrize("n", [2048, 2049, 2058, 3000, 4096, 5000, 6561, 65536])
@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
def test_long_signals_from_half_spectra(n: int, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(n)
    half = rng.standard_normal((*shape, n // 2 + 1)) + 1j * rng.standard_normal((*shape, n // 2 + 1))
    for kind, close in ((np.complex64, 1e-5), (np.complex128, 1e-12)):
        x = torch.from_numpy(half.astype(kind))
        for size in (n, n - 100, n + 100):

            def function(v: torch.Tensor, size: int = size) -> torch.Tensor:
                return torch.fft.irfft(v, size)

            found, compiled = function(x).numpy(), torch.jit(function)(x).numpy()
            np.testing.assert_allclose(found, np.fft.irfft(half.astype(kind), size), atol=close)
            assert found.tobytes() == compiled.tobytes()

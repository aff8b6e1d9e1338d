"""Fourier transforms against PyTorch: values and gradients, sizes, norms, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from test_complex import compare

import eagerjit
from eagerjit.compiled import gpu_kernels
from eagerjit.jit import jit

RANDOM = np.random.default_rng(0)
ODD, EVEN = RANDOM.standard_normal((4, 5)), RANDOM.standard_normal((3, 6))
ARRAYS = {
    "real odd": ODD,
    "real even": EVEN,
    "complex odd": ODD + 1j * RANDOM.standard_normal((4, 5)),
    "complex even": EVEN + 1j * RANDOM.standard_normal((3, 6)),
}
NAMES = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("norm", [None, "ortho", "forward", "backward"])
@pytest.mark.parametrize("name", [f"{name}{kind}" for name in NAMES for kind in ("", "2", "n")])
def test_norms(name: str, norm: str | None, array: str) -> None:
    compare(lambda t, x: getattr(t.fft, name)(x, norm=norm), ARRAYS[array])


ARGUMENTS: dict[str, Any] = {
    "longer": lambda t, x, name: getattr(t.fft, name)(x, 7, 0),
    "shorter": lambda t, x, name: getattr(t.fft, name)(x, n=3),
    "sizes": lambda t, x, name: getattr(t.fft, f"{name}n")(x, s=(3, 8)),
    "sizes as they are": lambda t, x, name: getattr(t.fft, f"{name}n")(x, s=(-1, -1)),
    "one size as it is": lambda t, x, name: getattr(t.fft, f"{name}n")(x, s=(3, -1)),
    "no size": lambda t, x, name: getattr(t.fft, name)(x, n=-1),
    "order": lambda t, x, name: getattr(t.fft, f"{name}n")(x, dim=(1, 0)),
    "no points": lambda t, x, name: getattr(t.fft, name)(x, n=0),
    "dimension": lambda t, x, name: getattr(t.fft, name)(x, dim=4),
    "norm": lambda t, x, name: getattr(t.fft, name)(x, norm="x"),
    "twice": lambda t, x, name: getattr(t.fft, f"{name}n")(x, dim=(0, 0)),
    "half precision": lambda t, x, name: getattr(t.fft, name)(x.half()),
    "scalar": lambda t, x, name: getattr(t.fft, name)(x[0, 0]),
}


@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize("name", NAMES)
def test_arguments(name: str, argument: str) -> None:
    for array in ("real odd", "complex even"):
        if (argument, array) != ("half precision", "complex even"):
            compare(lambda t, x: ARGUMENTS[argument](t, x, name), ARRAYS[array])


SHIFTS: dict[str, Any] = {
    "fftshift": lambda t, x: t.fft.fftshift(x),
    "fftshift dim": lambda t, x: t.fft.fftshift(x, dim=1),
    "ifftshift": lambda t, x: t.fft.ifftshift(x, dim=(0,)),
    "magnitude": lambda t, x: t.fft.fft(x).abs(),
    "convolution": lambda t, x: t.fft.irfft(t.fft.rfft(x) * t.fft.rfft(x * x), n=x.shape[-1]),
}


@pytest.mark.parametrize("name", SHIFTS)
def test_uses(name: str) -> None:
    compare(SHIFTS[name], ODD)


SIGNALS: dict[str, Any] = {
    "fft": lambda t, x: t.fft.fft(x),
    "ifft dim": lambda t, x: t.fft.ifft(x, dim=1),
    "fft2": lambda t, x: t.fft.fft2(x),
    "rfft": lambda t, x: t.fft.rfft(x),
    "rfft2": lambda t, x: t.fft.rfft2(x),
    "rfftn": lambda t, x: t.fft.rfftn(x, dim=(2, 1)),
    "ihfft2": lambda t, x: t.fft.ihfft2(x),
    "irfft": lambda t, x: t.fft.irfft(x),
    "irfft odd": lambda t, x: t.fft.irfft(x, n=2 * x.shape[-1] - 1),
    "irfft2": lambda t, x: t.fft.irfft2(x + 1j * x),
    "irfftn": lambda t, x: t.fft.irfftn(x + 1j * x, dim=(2, 1)),
    "hfft": lambda t, x: t.fft.hfft(x + 1j * x, dim=1),
    "hfftn": lambda t, x: t.fft.hfftn(x + 1j * x, dim=(1, 2)),
    "back": lambda t, x: t.fft.irfftn(t.fft.rfftn(x, dim=(1, 2)), s=x.shape[1:], dim=(1, 2)),
    "stft": lambda t, x: t.view_as_real(
        t.stft(x.flatten(1), 16, 4, window=t.ones(16), center=False, return_complex=True)
    ),
    "istft": lambda t, x: t.istft(
        t.stft(x.flatten(1), 16, 4, window=t.ones(16), return_complex=True), 16, 4, window=t.ones(16)
    ),
}


@pytest.mark.parametrize("shape", [(5, 6, 8), (9, 5, 7), (3, 16, 33), (2, 3, 128)])
@pytest.mark.parametrize("name", SIGNALS)
def test_signals_beside_others(name: str, shape: tuple[int, ...]) -> None:
    """Each is as exact as its own size has it, whether others are 10^16 times as loud, infinite or not numbers."""
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    x[::2] *= 1e-8
    x[1::2] *= 1e8
    for bad in (None, np.nan, np.inf):
        if bad is not None:
            x[-1, 1, 2] = bad
        given = eagerjit.from_numpy(x)
        found = SIGNALS[name](eagerjit, given).resolve_conj().numpy()
        assert jit(SIGNALS[name])(eagerjit, given).resolve_conj().numpy().tobytes() == found.tobytes()
        expected = SIGNALS[name](torch, torch.from_numpy(x))
        for one, other in zip(found[:-1], expected.resolve_conj().numpy()[:-1], strict=True):
            assert np.linalg.norm(one - other) <= 1e-6 * np.linalg.norm(other)
        assert np.isfinite(found[-1]).all() == (bad is None)


def test_frequencies() -> None:
    for n in (1, 4, 5):
        np.testing.assert_allclose(eagerjit.fft.fftfreq(n, 0.5).numpy(), np.fft.fftfreq(n, 0.5))
        np.testing.assert_allclose(eagerjit.fft.rfftfreq(n).numpy(), np.fft.rfftfreq(n))
    assert eagerjit.fft.fft(eagerjit.arange(4)).dtype is eagerjit.complex64


def test_compiled_functions_call_numpy() -> None:
    def spectrum(x: Any) -> Any:
        return eagerjit.fft.rfft(x).abs()

    x = eagerjit.tensor(ODD)
    assert jit(spectrum, fullgraph=True)(x).tolist() == spectrum(x).tolist()


@pytest.mark.parametrize("n", [1, 5, 96, 134])
def test_kernels_for_gpus_transform_by_products(n: int) -> None:
    z = eagerjit.tensor(np.exp(1j * np.arange(2.0 * n) ** 2).reshape(2, n))

    def transforms(z: Any) -> Any:
        return eagerjit.fft.fft(z), eagerjit.fft.ifft2(z), eagerjit.fft.rfft(z.real), eagerjit.fft.irfft(z, n=n)

    with gpu_kernels.interpreted() as made:
        found = jit(transforms, fullgraph=True)(z)
    assert not any(m.program.calls for m in made)
    for a, b in zip(found, transforms(z), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-12)


def test_large_prime_lengths_are_the_hosts() -> None:
    z = eagerjit.ones(1031, dtype=eagerjit.complex64)
    with gpu_kernels.interpreted() as made:
        jit(lambda z: eagerjit.fft.fft(z), fullgraph=True)(z)
    assert [c.function for m in made for c in m.program.calls] == ["fft_full"]

"""The array API's Fourier transforms: against array-api-strict, dtypes, inverses, compiled, gradients, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from array_oracle import (
    COMPLEX,
    CUBE,
    MATRIX,
    RANDOM,
    VECTOR,
    Case,
    check,
    check_compiled,
    check_gradient,
    check_sizes,
    first_of_each,
    tensors,
)

import eagerjit as ej
from eagerjit import array_api as xp

F = xp.fft
COMPLEX_CUBE = CUBE + 1j * RANDOM.standard_normal(CUBE.shape)
FROM_COMPLEX, FROM_REAL = ("fft", "ifft", "irfft", "hfft"), ("rfft", "ihfft")
SEVERAL = {"fftn": COMPLEX_CUBE, "ifftn": COMPLEX_CUBE, "irfftn": COMPLEX_CUBE, "rfftn": CUBE}
NORMS = ("backward", "ortho", "forward")


def _transform(name: str, **options: Any) -> Any:
    return lambda t, x: getattr(t.fft, name)(x, **options)


ONE = [(name, COMPLEX_CUBE) for name in FROM_COMPLEX] + [(name, CUBE) for name in FROM_REAL]
CASES: dict[str, Case] = {
    **{f"{name} {norm}": (_transform(name, norm=norm), [x]) for name, x in ONE for norm in NORMS},
    **{f"{name} n={n}": (_transform(name, n=n, axis=1), [x]) for name, x in ONE for n in (1, 2, 3, 6, 7)},
    **{f"{name} first axis": (_transform(name, axis=-3), [x]) for name, x in ONE},
    **{f"{name} single": (_transform(name), [COMPLEX]) for name in FROM_COMPLEX},
    **{f"{name} single": (_transform(name), [MATRIX]) for name in FROM_REAL},
    **{f"{name} {norm}": (_transform(name, norm=norm), [x]) for name, x in SEVERAL.items() for norm in NORMS},
    **{f"{name} axes": (_transform(name, axes=(2, 0)), [x]) for name, x in SEVERAL.items()},
    **{f"{name} sizes": (_transform(name, s=(5, 2), axes=(-1, 1)), [x]) for name, x in SEVERAL.items()},
    **{f"{name} single": (_transform(name), [COMPLEX]) for name in ("fftn", "ifftn", "irfftn")},
    "rfftn single": (_transform("rfftn"), [MATRIX]),
    **{
        f"{name} {n}": (lambda t, name=name, n=n: getattr(t.fft, name)(n, d=0.5), [])
        for name in ("fftfreq", "rfftfreq")
        for n in (1, 4, 5)
    },
    **{
        f"{name} in {dtype}": (lambda t, name=name, d=dtype: getattr(t.fft, name)(6, dtype=getattr(t, d)), [])
        for name in ("fftfreq", "rfftfreq")
        for dtype in ("float32", "float64")
    },
    **{
        f"{name} {axes}": (_transform(name, axes=axes), [CUBE])
        for name in ("fftshift", "ifftshift")
        for axes in (None, 1, -1, (0, 2), ())
    },
    "fftshift complex": (_transform("fftshift"), [COMPLEX]),
}


@pytest.mark.parametrize("name", [name for name in CASES if "freq" not in name])
def test_agrees_with_the_strict_namespace(name: str) -> None:
    check(CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_compiled_gives_the_same_bits(name: str) -> None:
    check_compiled(CASES[name])


@pytest.mark.parametrize("name", first_of_each(CASES))
def test_compiled_serves_other_sizes(name: str) -> None:
    check_sizes(CASES[name])


@pytest.mark.parametrize("n", [1, 4, 5])
def test_frequencies(n: int) -> None:
    for name in ("fftfreq", "rfftfreq"):
        for dtype in (None, xp.float32, xp.float64):
            found = getattr(F, name)(n, d=0.25, dtype=dtype)
            assert found.dtype is (dtype or xp.__array_namespace_info__().default_dtypes()["real floating"])
            np.testing.assert_allclose(found.numpy(), getattr(np.fft, name)(n, 0.25))
    assert F.fftfreq(4).tolist() == [0.0, 0.25, -0.5, -0.25]
    assert F.rfftfreq(4, device="cpu").tolist() == [0.0, 0.25, 0.5]


def test_frequencies_of_a_compiled_functions_sizes() -> None:
    compiled = ej.jit(lambda x: F.fftfreq(x.shape[0]) + F.rfftfreq(x.shape[0]).sum())
    for n in (4, 5, 6):
        x = ej.ones(n)
        assert compiled(x).tolist() == (F.fftfreq(n) + F.rfftfreq(n).sum()).tolist()


@pytest.mark.parametrize("size", [4, 5])
@pytest.mark.parametrize("norm", NORMS)
def test_inverses_give_back_what_was_transformed(size: int, norm: str) -> None:
    real = ej.tensor(RANDOM.standard_normal((3, size)))
    z = ej.tensor(RANDOM.standard_normal((3, size)) + 1j * RANDOM.standard_normal((3, size)))
    pairs = [
        (z, F.ifft(F.fft(z, norm=norm), norm=norm)),
        (z, F.ifftn(F.fftn(z, norm=norm), norm=norm)),
        (real, F.irfft(F.rfft(real, norm=norm), n=size, norm=norm)),
        (real, F.irfftn(F.rfftn(real, norm=norm), s=(3, size), axes=(0, 1), norm=norm)),
        (real, F.hfft(F.ihfft(real, norm=norm), n=size, norm=norm)),
        (real, F.ifftshift(F.fftshift(real))),
    ]
    for given, found in pairs:
        assert found.dtype is given.dtype
        np.testing.assert_allclose(found.numpy(), given.numpy(), atol=1e-12)


@pytest.mark.parametrize("name", SEVERAL)
def test_a_size_of_minus_one_is_the_axis_as_it_is(name: str) -> None:
    (x,) = tensors([SEVERAL[name]])
    transform = getattr(F, name)
    assert transform(x, s=(-1, -1), axes=(0, 2)).tolist() == transform(x, axes=(0, 2)).tolist()


def test_dtypes() -> None:
    for real, whole in ((xp.float32, xp.complex64), (xp.float64, xp.complex128)):
        x, z = ej.ones(4, dtype=real), ej.ones(4, dtype=whole)
        for name in ("fft", "ifft", "fftn", "ifftn"):
            assert getattr(F, name)(z).dtype is getattr(F, name)(x).dtype is whole
        for name in ("rfft", "rfftn", "ihfft"):
            assert getattr(F, name)(x).dtype is whole
        for name in ("irfft", "irfftn", "hfft"):
            assert getattr(F, name)(z).dtype is real
        for name in ("fftshift", "ifftshift"):
            assert getattr(F, name)(x).dtype is real


GRADIENTS: dict[str, tuple[Any, Any, list[np.ndarray]]] = {
    "fft": (lambda x: F.fft(x, n=6).abs(), lambda x: torch.fft.fft(x, 6).abs(), [MATRIX]),
    "fftn": (lambda x: F.fftn(x).imag, lambda x: torch.fft.fftn(x).imag, [CUBE]),
    "rfft": (lambda x: F.rfft(x, norm="ortho").abs(), lambda x: torch.fft.rfft(x, norm="ortho").abs(), [MATRIX]),
    "irfft": (lambda x: F.irfft(x * 1j, n=5), lambda x: torch.fft.irfft(x * 1j, 5), [MATRIX]),
    "rfftn": (lambda x: F.rfftn(x, axes=(0, 1)).real, lambda x: torch.fft.rfftn(x, dim=(0, 1)).real, [CUBE]),
    "hfft": (lambda x: F.hfft(x + 0j), lambda x: torch.fft.hfft(x + 0j), [MATRIX]),
    "ihfft": (lambda x: F.ihfft(x).imag, lambda x: torch.fft.ihfft(x).imag, [MATRIX]),
    "fftshift": (lambda x: F.fftshift(x, axes=1), lambda x: torch.fft.fftshift(x, 1), [MATRIX]),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_those_of_pytorch(name: str) -> None:
    check_gradient(*GRADIENTS[name])


TRANSFORMS = (*FROM_COMPLEX, *FROM_REAL)
WRONG: dict[str, tuple[Any, Any]] = {
    **{f"{n} at no axis": (lambda v, z, n=n: getattr(F, n)(v, axis=1), IndexError) for n in TRANSFORMS},
    **{f"{n} of no points": (lambda v, z, n=n: getattr(F, n)(v, n=0), RuntimeError) for n in TRANSFORMS},
    **{f"{n} of fewer": (lambda v, z, n=n: getattr(F, n)(v, n=-1), RuntimeError) for n in TRANSFORMS},
    **{
        f"{n} in another norm": (lambda v, z, n=n: getattr(F, n)(v, norm="half"), ValueError)
        for n in (*TRANSFORMS, *SEVERAL)
    },
    **{f"{n} in no norm": (lambda v, z, n=n: getattr(F, n)(v, norm=None), ValueError) for n in (*TRANSFORMS, *SEVERAL)},
    **{f"{n} of a list": (lambda v, z, n=n: getattr(F, n)([1.0]), TypeError) for n in (*TRANSFORMS, *SEVERAL)},
    **{f"{n} without axes": (lambda v, z, n=n: getattr(F, n)(v, s=(3,)), ValueError) for n in SEVERAL},
    **{f"{n} twice": (lambda v, z, n=n: getattr(F, n)(z, axes=(0, -2)), ValueError) for n in SEVERAL},
    **{
        f"{n} of other counts": (lambda v, z, n=n: getattr(F, n)(z.real, s=(3,), axes=(0, 1)), RuntimeError)
        for n in SEVERAL
    },
    **{
        f"{n} of complex numbers": (lambda v, z, n=n: getattr(F, n)(z), RuntimeError)
        for n in ("rfft", "ihfft", "rfftn")
    },
    "fftfreq in integers": (lambda v, z: F.fftfreq(4, dtype=xp.int64), ValueError),
    "rfftfreq in complex numbers": (lambda v, z: F.rfftfreq(4, dtype=xp.complex64), ValueError),
    "fftshift at no axis": (lambda v, z: F.fftshift(v, axes=1), IndexError),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_raise(name: str) -> None:
    call, error = WRONG[name]
    with pytest.raises(error):
        call(*tensors([VECTOR, COMPLEX]))

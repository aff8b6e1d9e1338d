"""Discrete Fourier transforms: of complex and of real signals, along one axis or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eagerjit import fft as transforms
from eagerjit.array_api.axes import axes_of, axis_of
from eagerjit.devices import check_device
from eagerjit.runtime.dtypes import DType
from eagerjit.tensors.tensor import Tensor

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip


def fft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The transform along an axis, cut or filled with zeros to n elements."""
    return _along(transforms.fft, "fft", x, n, axis, norm)


def ifft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `fft`."""
    return _along(transforms.ifft, "ifft", x, n, axis, norm)


def rfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The first n // 2 + 1 elements of a real signal's transform along an axis; the rest follows from them."""
    return _along(transforms.rfft, "rfft", x, n, axis, norm)


def irfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `rfft`: n real elements, 2 * (M - 1) unless n is given."""
    return _along(transforms.irfft, "irfft", x, n, axis, norm)


def hfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The real transform along an axis of the Hermitian signal of n elements, 2 * (M - 1) unless n is given, that
    begins with x.
    """
    return _along(transforms.hfft, "hfft", x, n, axis, norm)


def ihfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `hfft`."""
    return _along(transforms.ihfft, "ihfft", x, n, axis, norm)


def _along(transform: Callable[..., Tensor], name: str, x: Tensor, n: int | None, axis: int, norm: str) -> Tensor:
    d = axis_of(name, x, axis)
    _check_norm(name, norm)
    return transform(x, n, d, norm)


def _check_norm(name: str, norm: str) -> None:
    if norm not in ("backward", "ortho", "forward"):
        raise ValueError(f"{name}(): norm must be 'backward', 'ortho' or 'forward', not {norm!r}")


# -- along several axes -----------------------------------------------------------------------------------------------

Sizes = Sequence[int] | None


def fftn(x: Tensor, /, *, s: Sizes = None, axes: Sizes = None, norm: str = "backward") -> Tensor:
    """The transform along axes, all unless some are given, cut or filled with zeros to sizes s (-1: as they are)."""
    return _along_several(transforms.fftn, "fftn", x, s, axes, norm)


def ifftn(x: Tensor, /, *, s: Sizes = None, axes: Sizes = None, norm: str = "backward") -> Tensor:
    """The inverse of `fftn`."""
    return _along_several(transforms.ifftn, "ifftn", x, s, axes, norm)


def rfftn(x: Tensor, /, *, s: Sizes = None, axes: Sizes = None, norm: str = "backward") -> Tensor:
    """`rfft` along the last of axes, and `fft` along the others."""
    return _along_several(transforms.rfftn, "rfftn", x, s, axes, norm)


def irfftn(x: Tensor, /, *, s: Sizes = None, axes: Sizes = None, norm: str = "backward") -> Tensor:
    """The inverse of `rfftn`; s are the sizes of its result."""
    return _along_several(transforms.irfftn, "irfftn", x, s, axes, norm)


def _along_several(transform: Callable[..., Tensor], name: str, x: Tensor, s: Sizes, axes: Sizes, norm: str) -> Tensor:
    if s is not None and axes is None:
        raise ValueError(f"{name}(): sizes s need axes")
    dims = axes_of(name, x, None if axes is None else tuple(axes))
    _check_norm(name, norm)
    return transform(x, None if s is None else tuple(s), dims, norm)


# -- frequencies ------------------------------------------------------------------------------------------------------


def fftfreq(n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Any = None) -> Tensor:
    """The frequencies of the transform of n values sampled at distances d."""
    check_device(device)
    return transforms.fftfreq(n, d, dtype=_real("fftfreq", dtype))


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Any = None) -> Tensor:
    """The frequencies of what `rfft` gives for n values sampled at distances d."""
    check_device(device)
    return transforms.rfftfreq(n, d, dtype=_real("rfftfreq", dtype))


def _real(name: str, dtype: DType | None) -> DType | None:
    if dtype is not None and not dtype.is_floating_point:
        raise ValueError(f"{name}(): frequencies are real floating point numbers, not {dtype}")
    return dtype


def fftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The frequency 0 moved to the middle of axes, all unless some are given."""
    return transforms.fftshift(x, _shifted("fftshift", x, axes))


def ifftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of `fftshift`."""
    return transforms.ifftshift(x, _shifted("ifftshift", x, axes))


def _shifted(name: str, x: Tensor, axes: int | Sequence[int] | None) -> tuple[int, ...]:
    return axes_of(name, x, tuple(axes) if isinstance(axes, Sequence) else axes)

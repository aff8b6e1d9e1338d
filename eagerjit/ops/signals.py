"""Spectra of a signal's windows, and the signal from these again."""

from __future__ import annotations

import functools
import operator
from typing import Any

from eagerjit import fft
from eagerjit.ops.complexes import view_as_complex, view_as_real
from eagerjit.ops.padding import pad
from eagerjit.runtime import dtypes
from eagerjit.tensors.conversion import passes
from eagerjit.tensors.creation import ones
from eagerjit.tensors.tensor import Tensor


def _window(
    name: str, window: Tensor | None, n_fft: int, win_length: int | None, dtype: Any, device: Any
) -> tuple[Tensor, int]:  # fmt: skip
    """The window in the middle of n_fft points, zeros around it."""
    length = n_fft if win_length is None else win_length
    if not 0 < length <= n_fft:
        raise RuntimeError(f"{name}: expected 0 < win_length <= n_fft, but got win_length={length}")
    if window is None:
        window = ones(length, dtype=dtype, device=device)
    elif window.ndim != 1 or window.shape[0] != length:
        raise RuntimeError(
            f"{name}: expected a 1D window tensor of size equal to win_length={length}, but got window with size "
            f"{list(window.shape)}"
        )
    left = (n_fft - length) // 2
    return (window if length == n_fft else pad(window, (left, n_fft - length - left))), length


def stft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Tensor | None = None, center: bool = True, pad_mode: str = "reflect", normalized: bool = False,
    onesided: bool | None = None, return_complex: bool | None = None, align_to_window: bool | None = None,
) -> Tensor:  # fmt: skip
    """The Fourier transforms of a signal's windows: ([batch,] frequencies, frames).

    input           a signal (length) or several (batch, length)
    n_fft           points per transform; `hop_length` (n_fft / 4) apart
    window          what frames are multiplied by, of `win_length` (n_fft) points in their middle
    center          whether frames are centred at multiples of the hop, the signal being padded as `pad_mode` says
    normalized      divides by the square root of n_fft
    onesided        whether only the frequencies up to the middle are given, which those of a real signal follow from
    return_complex  without, the last dimension holds real and imaginary parts

    Raises RuntimeError for sizes that do not fit, as PyTorch does.
    """
    if input.ndim not in (1, 2):
        raise RuntimeError(f"stft: expected a 1D or 2D tensor, but got a {input.ndim}D one")
    whole = input.dtype.is_complex or (window is not None and window.dtype.is_complex)
    if return_complex is None:
        if not whole:
            raise RuntimeError("stft requires the return_complex parameter be given for real inputs")
        return_complex = True
    if not input.dtype.is_differentiable:
        raise RuntimeError(f"stft: expected a tensor of floating point or complex values, but got {input.dtype}")
    if center and align_to_window is not None:
        raise RuntimeError("stft: align_to_window should only be set when center = false")
    hop = n_fft // 4 if hop_length is None else hop_length
    signal = input if input.ndim == 2 else input.unsqueeze(0)
    if center:
        signal = pad(signal.unsqueeze(0), (n_fft // 2, n_fft // 2), pad_mode).squeeze(0)
    if not 0 < n_fft <= signal.shape[1]:
        raise RuntimeError(f"stft: expected 0 < n_fft <= {signal.shape[1]}, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(f"stft: expected hop_length > 0, but got hop_length={hop}")
    weights, _ = _window("stft", window, n_fft, win_length, dtypes.REAL_OF.get(input.dtype, input.dtype), input.device)
    half = not whole if onesided is None else onesided
    if half and whole:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    frames = signal.unfold(1, n_fft, hop) * weights
    transform = fft.rfft if half else fft.fft
    out = transform(frames, norm="ortho" if normalized else None).transpose(1, 2)
    out = out if input.ndim == 2 else out.squeeze(0)
    return out if return_complex else view_as_real(out)


def _overlapped(frames: Tensor, hop: int) -> Tensor:
    """The sum (batch, points) of frames (batch, count, points of each) of which each begins `hop` points later.

    Frames are cut into pieces as long as a hop; where these lie no two pieces of one number overlap.
    """
    batch, count, points = frames.shape
    pieces = -(-points // hop)
    cut = pad(frames, (0, pieces * hop - points)).reshape(batch, count, pieces, hop)
    shifted = [pad(cut.select(2, i), (0, 0, i, pieces - 1 - i)) for i in range(pieces)]
    return functools.reduce(operator.add, shifted).reshape(batch, -1)[:, : points + hop * (count - 1)]


def istft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Tensor | None = None, center: bool = True, normalized: bool = False, onesided: bool | None = None,
    length: int | None = None, return_complex: bool = False,
) -> Tensor:  # fmt: skip
    """The signal that `stft` with the same arguments gave this spectrum of, of `length` points if that is given.

    Frames are added where they overlap, weighted by the window, and divided by what the windows' squares add up to.
    Raises RuntimeError where these are too near to 0.
    """
    if not input.dtype.is_complex:
        raise RuntimeError(f"istft requires a complex-valued input tensor, but got one of {input.dtype}")
    if input.ndim not in (2, 3):
        raise RuntimeError(f"istft: expected a tensor with 2 or 3 dimensions, but got {input.ndim}")
    hop = n_fft // 4 if hop_length is None else hop_length
    spectrum = input if input.ndim == 3 else input.unsqueeze(0)
    half = spectrum.shape[1] != n_fft if onesided is None else onesided
    if half and return_complex:
        raise RuntimeError("Cannot have onesided output if return_complex is true")
    wanted = n_fft // 2 + 1 if half else n_fft
    if spectrum.shape[1] != wanted:
        raise RuntimeError(
            f"istft: expected the frequency dimension (3rd to the last) of the input tensor to match n_fft: {wanted} "
            f"when onesided={half}, but got {spectrum.shape[1]}"
        )
    if window is not None and window.dtype.is_complex and not return_complex:
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    real = dtypes.REAL_OF[input.dtype]
    weights, points = _window("istft", window, n_fft, win_length, real, input.device)
    if not 0 < hop <= points:
        raise RuntimeError(f"istft: expected 0 < hop_length <= win_length, but got hop_length={hop}")
    norm = "ortho" if normalized else None
    frames = spectrum.transpose(1, 2)
    if return_complex:
        parts = fft.ifft(frames, norm=norm)
    else:
        parts = fft.irfft(frames[..., : n_fft // 2 + 1], n_fft, norm=norm)
    count = spectrum.shape[2]
    total = n_fft + hop * (count - 1)

    parts = parts * weights
    if parts.dtype.is_complex:
        split = view_as_real(parts)
        both = [_overlapped(split.select(-1, i), hop) for i in (0, 1)]
        from eagerjit.ops.index import stack

        added = view_as_complex(stack(both, -1))
    else:
        added = _overlapped(parts, hop)
    squares = _overlapped((weights * weights).expand(1, count, n_fft), hop)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - start
    inside = squares[:, start : min(end, total)]
    if not passes((inside.abs() > 1e-11).all()):
        raise RuntimeError("window overlap add min: 0 (the windows do not cover the signal)")
    out = added[:, start : min(end, total)] / inside
    if end > total:
        out = pad(out, (0, end - total))
    return out if input.ndim == 3 else out.squeeze(0)

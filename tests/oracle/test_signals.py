"""Spectra of windows, windows and pooling at random places, against PyTorch."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit

GENERATOR = np.random.default_rng(0)
SIGNAL = GENERATOR.normal(size=(2, 64)).astype(np.float32)
LONG, SHORT = (GENERATOR.uniform(0.1, 1, size=n).astype(np.float32) for n in (16, 12))
IMAGE = GENERATOR.normal(size=(2, 3, 9, 11)).astype(np.float32)
VOLUME = GENERATOR.normal(size=(2, 2, 7, 9, 8)).astype(np.float32)
PLACES = {2: GENERATOR.uniform(size=(2, 3, 2)).astype(np.float32), 3: GENERATOR.uniform(size=(2, 2, 3)).astype("f4")}

OPTIONS: dict[str, Any] = {
    "as is": lambda t: {},
    "hop": lambda t: {"hop_length": 5},
    "window": lambda t: {"window": t.tensor(LONG)},
    "short window": lambda t: {"window": t.tensor(SHORT), "win_length": 12},
    "normalized": lambda t: {"normalized": True},
    "both sides": lambda t: {"onesided": False},
    "window of another length": lambda t: {"window": t.tensor(LONG), "win_length": 12},
    "no hop": lambda t: {"hop_length": 0},
    "long window": lambda t: {"win_length": 20},
}
FORWARD: dict[str, Any] = {
    "not centred": lambda t: {"center": False},
    "zeros around": lambda t: {"pad_mode": "constant"},
    "real parts": lambda t: {"return_complex": False},
    "no answer": lambda t: {"return_complex": None},
    "aligned": lambda t: {"align_to_window": True},
}


def spectrum(t: Any, x: Any, options: dict[str, Any]) -> Any:
    return t.stft(x, 16, **{"return_complex": True, **options})


CALLS: dict[str, Any] = {
    **{f"stft {name}": lambda t, make=make: spectrum(t, t.tensor(SIGNAL), make(t))
       for name, make in {**OPTIONS, **FORWARD}.items()},
    **{f"istft {name}": lambda t, make=make: t.istft(spectrum(t, t.tensor(SIGNAL), make(t)), 16, **make(t))
       for name, make in OPTIONS.items()},
    "stft of one": lambda t: t.tensor(SIGNAL[0]).stft(16, return_complex=True),
    "stft of complex numbers": lambda t: t.stft(t.complex(t.tensor(SIGNAL), t.tensor(SIGNAL)), 16),
    "stft of integers": lambda t: t.stft(t.arange(64), 16, return_complex=True),
    "stft of too little": lambda t: t.stft(t.tensor(SIGNAL), 160, return_complex=True, center=False),
    "stft of many dimensions": lambda t: t.stft(t.tensor(SIGNAL[None]), 16, return_complex=True),
    "istft shorter": lambda t: t.istft(spectrum(t, t.tensor(SIGNAL[0]), {}), 16, length=30),
    "istft longer": lambda t: t.istft(spectrum(t, t.tensor(SIGNAL), {}), 16, length=70),
    "istft complex": lambda t: t.istft(
        t.stft(t.complex(t.tensor(SIGNAL), t.tensor(SIGNAL)), 16), 16, return_complex=True),
    "istft of real numbers": lambda t: t.istft(t.tensor(SIGNAL[None]), 16),
    "istft of other sizes": lambda t: t.istft(spectrum(t, t.tensor(SIGNAL), {}), 20),
    "istft without a window": lambda t: t.istft(spectrum(t, t.tensor(SIGNAL), {}), 16, window=t.zeros(16)),
    **{f"windows {name} {n} {sym}": lambda t, name=name, n=n, sym=sym: getattr(windows(t), name)(n, sym=sym)
       for name in ("bartlett", "blackman", "cosine", "exponential", "gaussian", "hamming", "hann", "kaiser", "nuttall")
       for n in (-1, 0, 1, 2, 5, 8) for sym in (True, False)},
    "windows general_cosine": lambda t: windows(t).general_cosine(7, a=[0.5, 0.3, 0.2]),
    "windows general_hamming": lambda t: windows(t).general_hamming(7, alpha=0.6, dtype=t.float64),
    "windows exponential": lambda t: windows(t).exponential(7, tau=2.0, center=1, sym=False),
    **{f"pool {rank} {k} {size}": lambda t, rank=rank, k=k, size=size: getattr(
        t.nn.functional, f"fractional_max_pool{rank}d")(
        t.tensor(IMAGE if rank == 2 else VOLUME), k, output_size=size, return_indices=True,
        _random_samples=t.tensor(PLACES[rank]))
       for rank, k, size in ((2, 2, (4, 5)), (2, (2, 3), (5, 6)), (2, 2, (1, 1)), (2, 2, (8, 10)), (2, 2, (9, 10)),
                             (3, 2, (3, 4, 5)), (3, (2, 3, 2), (3, 3, 3)))},
    "pool by a share": lambda t: t.nn.functional.fractional_max_pool2d(
        t.tensor(IMAGE[0]), 2, output_ratio=(0.5, 0.7), _random_samples=t.tensor(PLACES[2][:1])),
    **{f"pool of no images {rank}": lambda t, rank=rank: getattr(t.nn.functional, f"fractional_max_pool{rank}d")(
        t.ones((0, 2, 6, 5, 4)[: rank + 2]), 2, output_size=2) for rank in (2, 3)},
    "pool of no size": lambda t: t.nn.functional.fractional_max_pool2d(t.tensor(IMAGE), 2),
    "layer": lambda t: t.tensor(t.nn.FractionalMaxPool3d(2, output_size=3)(t.tensor(VOLUME)).shape),
    "layer of no size": lambda t: t.nn.FractionalMaxPool2d(2),
    "layer of a share": lambda t: t.nn.FractionalMaxPool2d(2, output_ratio=1.5),
}  # fmt: skip


def windows(t: Any) -> Any:
    return importlib.import_module(f"{t.__name__}.signal.windows")


def outcome(t: Any, name: str) -> Any:
    """Results as arrays, or the class of the exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = CALLS[name](t)
        except Exception as error:
            return type(error)
    found = found if isinstance(found, tuple) else (found,)
    return [(t.view_as_real(x) if x.is_complex() else x).numpy() for x in found]


@pytest.mark.parametrize("name", CALLS)
def test_as_in_torch(name: str) -> None:
    found, expected = outcome(eagerjit, name), outcome(torch, name)
    if isinstance(expected, type):
        assert found is expected
        return
    for a, b in zip(found, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, atol=2e-5)


def test_gradients() -> None:
    found = []
    for t in (eagerjit, torch):
        x, image = t.tensor(SIGNAL, requires_grad=True), t.tensor(IMAGE, requires_grad=True)
        window = t.tensor(LONG, requires_grad=True)
        s = t.stft(x, 16, window=window, return_complex=True)
        (t.istft(s * 2, 16, window=window).pow(2).sum() + s.abs().sum()).backward()
        pooled = t.nn.functional.fractional_max_pool2d(image, 2, (4, 5), _random_samples=t.tensor(PLACES[2]))
        pooled.pow(2).sum().backward()
        found.append([g.numpy() for g in (x.grad, window.grad, image.grad)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-4)


def test_pooling_at_random_places_draws_anew() -> None:
    pool = eagerjit.jit(lambda x: eagerjit.nn.functional.fractional_max_pool2d(x, 2, output_size=4))
    x = eagerjit.tensor(IMAGE)
    first, second = pool(x), pool(x)
    assert tuple(first.shape) == (2, 3, 4, 4) and not eagerjit.equal(first, second)
    eagerjit.manual_seed(3)
    compiled = pool(x)
    eagerjit.manual_seed(3)
    assert eagerjit.equal(compiled, eagerjit.nn.functional.fractional_max_pool2d(x, 2, output_size=4))


def test_frames_are_added_a_hop_at_a_time() -> None:
    spectrum = eagerjit.stft(eagerjit.randn(2, 2048), 256, window=eagerjit.hann_window(256), return_complex=True)
    compiled = eagerjit.jit(lambda s: eagerjit.istft(s, 256, window=eagerjit.hann_window(256)))
    assert len(compiled.explain(spectrum).graph.nodes) < 150

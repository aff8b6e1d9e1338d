"""Operators that torchaudio and torchvision have compiled for PyTorch, on sound and on files of images."""

from __future__ import annotations

import io
import itertools
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import eagerjit as ej

for file in ("torchaudio/lib/_torchaudio.abi3.so", "torchaudio/lib/libtorchaudio.abi3.so", "torchvision/image.so"):
    ej.ops.load_library(Path("/site-packages") / file)
audio, image = ej.ops.torchaudio, ej.ops.image
RNG = np.random.default_rng(0)


def test_how_it_was_built() -> None:
    assert ej.ops._torchaudio.is_align_available() is True and ej.ops._torchaudio.cuda_version() is None


# -- filters ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [0, 1, 2, 7])
@pytest.mark.parametrize("shape", [(2, 3, 1), (1, 3, 128), (2, 3, 301), (2, 3, 0), (0, 3, 5)])
@pytest.mark.parametrize("dtype", [ej.float32, ej.float64])
def test_filter(shape: tuple[int, ...], order: int, dtype: Any) -> None:
    x, a = RNG.standard_normal(shape), RNG.standard_normal((3, order + 1)) / (order + 1)
    y = RNG.standard_normal((*shape[:2], shape[2] + order))
    padded = ej.tensor(y, dtype=dtype)
    audio._lfilter_core_loop(ej.tensor(x, dtype=dtype), ej.tensor(a, dtype=dtype), padded)
    for t in range(shape[2]):
        y[:, :, t + order] = x[:, :, t] - (y[:, :, t : t + order] * a[:, :order]).sum(2)
    np.testing.assert_allclose(padded.numpy(), y, rtol=1e-9 if dtype is ej.float64 else 1e-4, atol=1e-4)


def test_filter_of_a_view() -> None:
    x, a = RNG.standard_normal((2, 1, 200)), np.array([[0.2, -0.5, 1.0]])
    plain, turned = ej.zeros(2, 1, 202, dtype=ej.float64), ej.zeros(202, 1, 2, dtype=ej.float64)
    audio._lfilter_core_loop(ej.tensor(x), ej.tensor(a), plain)
    view = ej.tensor(x.transpose(2, 1, 0).copy()).permute(2, 1, 0)
    audio._lfilter_core_loop(view, ej.tensor(a), turned.permute(2, 1, 0))
    assert ej.equal(plain, turned.permute(2, 1, 0)) and plain[:, :, 2:].abs().min() > 0


def test_overdrive() -> None:
    wave, temp, first, last = (RNG.standard_normal(s) for s in ((2, 50), (2, 50), (2,), (2,)))
    out = ej.zeros(2, 50, dtype=ej.float64)
    audio._overdrive_core_loop(*map(ej.tensor, (wave, temp, first, last)), out)
    for t in range(50):
        last, first = temp[:, t] - first + 0.995 * last, temp[:, t]
        np.testing.assert_allclose(out[:, t].numpy(), wave[:, t] * 0.5 + last * 0.75, atol=1e-12)


# -- alignment --------------------------------------------------------------------------------------------------------


def said(path: tuple[int, ...], blank: int) -> list[int]:
    return [k for k, _ in itertools.groupby(path) if k != blank]


@pytest.mark.parametrize("labels", [[1, 2], [1, 1], [2], [], [1, 2, 2]])
@pytest.mark.parametrize("integers", [ej.int32, ej.int64])
def test_alignment(labels: list[int], integers: Any) -> None:
    scores = np.log(RNG.dirichlet(np.ones(3), (1, 5)))
    lengths = ej.tensor([5]), ej.tensor([len(labels)])
    targets = ej.tensor([labels], dtype=integers)
    path, same = audio.forced_align(ej.tensor(scores), targets, *lengths, 0)
    every = [p for p in itertools.product(range(3), repeat=5) if said(p, 0) == labels]
    best = max(every, key=lambda p: sum(scores[0, t, k] for t, k in enumerate(p)))
    assert path.dtype is integers and path.tolist() == [list(best)] and np.array_equal(same.numpy(), scores)


def test_alignment_refuses() -> None:
    scores, lengths = ej.rand(1, 3, 4), (ej.tensor([3]), ej.tensor([2]))
    for given, says in (
        ((scores, ej.tensor([[1, 1, 1]]), ej.tensor([3]), ej.tensor([3]), 0), "too long for CTC.*number of repeats: 2"),
        ((scores, ej.tensor([[1, 2]]), *lengths, 4), "blank must be within"),
        ((scores[0], ej.tensor([[1, 2]]), *lengths, 0), "got 2-D, 2-D, 1-D and 1-D"),
        ((scores, ej.tensor([[1, 2.0]]), *lengths, 0), "int32 or int64, got"),
        ((scores.expand(2, 3, 4), ej.tensor([[1, 2]]), *lengths, 0), "must be 1 at the current version"),
        ((scores, ej.tensor([[1, 2]]), ej.tensor([2]), ej.tensor([2]), 0), "input length mismatch"),
        ((scores, ej.tensor([[1, 2]]), ej.tensor([3]), ej.tensor([1]), 0), "target length mismatch"),
    ):
        with pytest.raises(RuntimeError, match=says):
            audio.forced_align(*given)


# -- transducers ------------------------------------------------------------------------------------------------------


def probability(scores: np.ndarray, targets: list[int], blank: int) -> float:
    """Of all ways through time and targets that end with a blank."""
    time, places = scores.shape[0], len(targets)
    total = 0.0
    for emits in itertools.combinations(range(time - 1 + places), places):
        t = u = 0
        product = 1.0
        for step in range(time - 1 + places):
            product *= np.exp(scores[t, u, targets[u] if step in emits else blank])
            t, u = (t, u + 1) if step in emits else (t + 1, u)
        total += product * np.exp(scores[t, u, blank])
    return total


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("blank", [0, 4])
def test_transducers(blank: int, normalized: bool) -> None:
    logits = ej.tensor(RNG.standard_normal((3, 4, 3, 5)))
    targets, times, lengths = [[1, 2], [3, 1], [2, 0]], [4, 3, 1], [2, 2, 1]
    numbers = (ej.tensor(n, dtype=ej.int32) for n in (targets, times, lengths))
    given = logits.log_softmax(-1) if normalized else logits
    costs, gradient = audio.rnnt_loss_forward(given, *numbers, blank, -1.0, not normalized)
    scores = logits.log_softmax(-1).numpy()
    for b in range(3):
        expected = -np.log(probability(scores[b, : times[b]], targets[b][: lengths[b]], blank))
        assert costs[b].item() == pytest.approx(expected, rel=1e-5)
        assert (gradient[b, times[b] :] == 0).all() and (gradient[b, : times[b], : lengths[b]] != 0).any()
    assert gradient.shape == logits.shape and not costs.requires_grad
    if not normalized:
        np.testing.assert_allclose(gradient.sum(-1).numpy(), 0, atol=1e-6)


def test_gradients_of_transducers() -> None:
    numbers = ej.tensor([[1, 2]]), ej.tensor([4]), ej.tensor([2])
    logits = ej.tensor(RNG.standard_normal((1, 4, 3, 5)))
    gradient = audio.rnnt_loss_forward(logits, *numbers, 0, -1.0, True)[1]
    step = ej.tensor(RNG.standard_normal((1, 4, 3, 5)))
    ahead, behind = (audio.rnnt_loss_forward(logits + by * step, *numbers, 0, -1.0, True)[0] for by in (1e-2, -1e-2))
    assert ((ahead - behind) / 2e-2).item() == pytest.approx((gradient * step).sum().item(), rel=1e-3)
    cut = audio.rnnt_loss_forward(logits, *numbers, 0, 0.1, True)[1]
    assert ej.equal(cut, gradient.clamp(-0.1, 0.1)) and not ej.equal(cut, gradient)


def test_transducers_refuse() -> None:
    with pytest.raises(RuntimeError, match=r"got \[2, 3, 4, 5\] and \[2, 4\]"):
        numbers = ej.zeros(2, 4).long(), ej.tensor([3, 3]), ej.tensor([2, 2])
        audio.rnnt_loss_forward(ej.rand(2, 3, 4, 5), *numbers, 0, -1.0, True)


# -- images -----------------------------------------------------------------------------------------------------------

UNCHANGED, GREY, GREY_ALPHA, RGB, RGB_ALPHA = range(5)


def written(pixels: np.ndarray, kind: str, mode: str | None = None, **options: Any) -> Any:
    file = io.BytesIO()
    picture = Image.fromarray(pixels)
    (picture if mode is None else picture.convert(mode)).save(file, format=kind, **options)
    return ej.tensor(list(file.getvalue()), dtype=ej.uint8)


SMOOTH = (np.add.outer(np.arange(24), np.arange(32))[..., None] * 3 + [0, 40, 80]).astype(np.uint8)


@pytest.mark.parametrize("channels", [1, 3])
def test_files_there_and_back(channels: int, tmp_path: Path) -> None:
    pixels = ej.tensor(SMOOTH[:, :, :channels].transpose(2, 0, 1).copy())
    path = str(tmp_path / "image")
    image.write_file(path, image.encode_png(pixels, 6))
    for decode in (image.decode_png, image.decode_image):
        assert ej.equal(decode(image.read_file(path), UNCHANGED), pixels)
    image.write_file(path, image.encode_jpeg(pixels, 95))
    found = image.decode_jpeg(image.read_file(path), UNCHANGED)
    assert found.shape == pixels.shape and (found.int() - pixels.int()).abs().max() < 12
    assert len(image.encode_jpeg(pixels, 5)) < len(image.encode_jpeg(pixels, 95))
    assert len(image.encode_png(pixels, 9)) < len(image.encode_png(pixels, 0))


@pytest.mark.parametrize(("mode", "channels"), [(GREY, 1), (GREY_ALPHA, 2), (RGB, 3), (RGB_ALPHA, 4), (UNCHANGED, 3)])
def test_modes(mode: int, channels: int) -> None:
    found = image.decode_image(written(SMOOTH, "PNG"), mode)
    assert found.shape == (channels, 24, 32) and found.dtype is ej.uint8 and found.is_contiguous()
    if channels in (2, 4):
        assert found[-1].min() == 255
    if channels > 2:
        assert np.array_equal(found[:3].numpy(), SMOOTH.transpose(2, 0, 1))


def test_kinds_of_files() -> None:
    grey = SMOOTH[:, :, 0]
    assert image.decode_image(written(grey, "PNG", "LA"), UNCHANGED).shape == (2, 24, 32)
    assert image.decode_image(written(SMOOTH, "PNG", "P"), UNCHANGED).shape == (3, 24, 32)
    assert image.decode_image(written(grey > 50, "PNG"), UNCHANGED).unique().tolist() == [0, 255]
    wide = grey.astype(np.uint16) * 200
    found = image.decode_image(written(wide, "PNG"), UNCHANGED)
    assert found.dtype is ej.uint16 and np.array_equal(found.numpy()[0], wide)
    assert np.array_equal(image.decode_image(written(wide, "PNG"), RGB_ALPHA).numpy()[2:], [wide, wide * 0 + 65535])
    assert image.decode_image(written(SMOOTH, "WEBP"), RGB).shape == (3, 24, 32)
    assert image.decode_image(written(SMOOTH, "GIF"), UNCHANGED).shape == (3, 24, 32)
    moving = written(SMOOTH, "GIF", save_all=True, append_images=[Image.fromarray(SMOOTH // 2)])
    assert image.decode_gif(moving).shape == (2, 3, 24, 32)
    turned = Image.Exif()
    turned[0x0112] = 6  # the first row is at the right
    for flag, shape in ((False, (3, 24, 32)), (True, (3, 32, 24))):
        assert image.decode_jpeg(written(SMOOTH, "JPEG", exif=turned), RGB, flag).shape == shape
    assert image.decode_jpeg(written(SMOOTH, "JPEG"), GREY).shape == (1, 24, 32)


def png_of_wide_colours() -> bytes:
    """A pixel of three colours of 16 bits, which Pillow does not write."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", 1, 1, 16, 2, 0, 0, 0)
    parts = chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(bytes(7))), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def test_images_refuse(tmp_path: Path) -> None:
    colours = png_of_wide_colours()
    for call, says in (
        (lambda: image.read_file(str(tmp_path / "none")), "No such file"),
        (lambda: image.decode_image(ej.zeros(9, dtype=ej.uint8), RGB), "Unsupported image file"),
        (lambda: image.decode_png(written(SMOOTH, "JPEG"), RGB), "Unsupported image file. Only PNG"),
        (lambda: image.decode_jpeg(written(SMOOTH, "JPEG")[:300], RGB), "cannot be read"),
        (lambda: image.decode_image(ej.zeros(0, dtype=ej.uint8), RGB), "non empty"),
        (lambda: image.decode_image(ej.zeros(9), RGB), "should be uint8"),
        (lambda: image.decode_image(written(SMOOTH, "PNG"), 7), "mode is not supported"),
        (lambda: image.decode_png(ej.tensor(list(colours), dtype=ej.uint8), RGB), "16 bits per colour"),
        (lambda: image.encode_png(ej.zeros(2, 4, 4, dtype=ej.uint8), 6), "should be 1 or 3, got: 2"),
        (lambda: image.encode_png(ej.zeros(4, 4, dtype=ej.uint8), 6), "3-dimensional"),
        (lambda: image.encode_png(ej.zeros(3, 4, 4, dtype=ej.uint8), 10), "between 0 and 9"),
        (lambda: image.encode_jpeg(ej.zeros(3, 4, 4, dtype=ej.uint8), 0), "between 1 and 100"),
        (lambda: image.encode_jpeg(ej.zeros(3, 4, 4), 50), "should be uint8"),
        (lambda: image.write_file(str(tmp_path / "file"), ej.zeros(3)), "should be uint8"),
    ):
        with pytest.raises(RuntimeError, match=says):
            call()

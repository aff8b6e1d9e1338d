"""torchvision's readers and writers of image files, by Pillow, which torchvision needs as well.

Images are uint8 tensors (channel, height, width), uint16 ones of PNG files with 16 bits of grey.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from eagerjit.runtime import dtypes
from eagerjit.tensors.creation import from_numpy
from eagerjit.tensors.tensor import Tensor

_UNCHANGED, _GREY = 0, 1
_MODES = {_GREY: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
"""Pillow's names of `ImageReadMode`."""
_EXPANDED = {"1": "L", "P": "RGB", "CMYK": "CMYK", "YCbCr": "RGB"}


def read_file(path: str) -> Tensor:
    """A file's bytes."""
    try:
        found = Path(path).read_bytes()
    except FileNotFoundError:
        raise RuntimeError(f"[Errno 2] No such file or directory: '{path}'") from None
    return from_numpy(np.frombuffer(bytearray(found), np.uint8))


def write_file(filename: str, data: Tensor) -> None:
    """Bytes as a file."""
    _uint8(data, 1, "Input tensor should be one-dimensional")
    Path(filename).write_bytes(data.cpu().numpy().tobytes())


def _uint8(data: Tensor, dimensions: int, says: str) -> None:
    if data.dtype is not dtypes.uint8:
        raise RuntimeError(f"Input tensor dtype should be uint8, got {data.dtype}")
    if data.ndim != dimensions:
        raise RuntimeError(f"{says}, got {list(data.shape)}")


@contextmanager
def _readable() -> Iterator[None]:
    """What Pillow says of broken files as RuntimeError."""
    try:
        yield
    except (OSError, SyntaxError) as error:
        raise _broken(error) from None


def _broken(error: Exception) -> RuntimeError:
    return RuntimeError(f"the image cannot be read: {error}")


def _opened(data: Tensor, *formats: str) -> Any:
    from PIL import Image, UnidentifiedImageError

    _uint8(data, 1, "Expected a non empty 1-dimensional tensor")
    if data.numel() == 0:
        raise RuntimeError("Expected a non empty 1-dimensional tensor, got [0]")
    file = io.BytesIO(data.cpu().numpy().tobytes())
    try:
        return Image.open(file, formats=formats)
    except UnidentifiedImageError:
        raise RuntimeError(f"Unsupported image file. Only {', '.join(formats)} are supported here.") from None
    except (OSError, SyntaxError) as error:
        raise _broken(error) from None


def _decoded(image: Any, mode: int, apply_exif_orientation: bool) -> Tensor:
    from PIL import ImageOps

    if mode not in (_UNCHANGED, *_MODES):
        raise RuntimeError("The provided mode is not supported")
    if image.format == "JPEG" and mode == _GREY:
        image.draft("L", image.size)  # the file's own grey
    with _readable():
        image.load()
    if apply_exif_orientation:
        image = ImageOps.exif_transpose(image)
    return _tensor(image, mode)


def _tensor(image: Any, mode: int) -> Tensor:
    if image.mode.startswith("I"):
        grey = np.asarray(image).astype(np.uint16)[None]
        channels = mode or 1
        full = np.full_like(grey, 65535)
        parts = [grey] * (1 if channels < 3 else 3) + ([full] if channels in (2, 4) else [])
        return from_numpy(np.concatenate(parts))
    wanted = _MODES.get(mode, _EXPANDED.get(image.mode, image.mode))
    if mode == _UNCHANGED and image.mode == "P" and "transparency" in image.info:
        wanted = "RGBA"
    pixels = np.array(image if image.mode == wanted else image.convert(wanted))
    return from_numpy(np.ascontiguousarray(pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)))


def decode_png(data: Tensor, mode: int, apply_exif_orientation: bool = False) -> Tensor:
    """The image of a PNG file. Raises RuntimeError for 16 bits of colours, which Pillow does not read."""
    image = _opened(data, "PNG")
    bits, kind = data[24:26].tolist()
    if bits == 16 and kind != 0:
        raise RuntimeError("decode_png: eagerjit reads no PNG files with 16 bits per colour")
    return _decoded(image, mode, apply_exif_orientation)


def decode_jpeg(data: Tensor, mode: int, apply_exif_orientation: bool = False) -> Tensor:
    """The image of a JPEG file."""
    return _decoded(_opened(data, "JPEG"), mode, apply_exif_orientation)


def decode_webp(data: Tensor, mode: int) -> Tensor:
    """The image of a WebP file."""
    return _decoded(_opened(data, "WEBP"), mode, False)


def decode_gif(data: Tensor) -> Tensor:
    """The image of a GIF file in colours, (image, channel, height, width) of several."""
    from PIL import ImageSequence

    image = _opened(data, "GIF")
    with _readable():
        found = [np.asarray(part.convert("RGB")).transpose(2, 0, 1) for part in ImageSequence.Iterator(image)]
    return from_numpy(np.ascontiguousarray(found[0] if len(found) == 1 else np.stack(found)))


def decode_image(data: Tensor, mode: int, apply_exif_orientation: bool = False) -> Tensor:
    """The image of a JPEG, PNG, GIF or WebP file."""
    kind = _opened(data, "JPEG", "PNG", "GIF", "WEBP").format
    if kind == "GIF":
        return decode_gif(data)
    if kind == "WEBP":
        return decode_webp(data, mode)
    return (decode_png if kind == "PNG" else decode_jpeg)(data, mode, apply_exif_orientation)


def _encoded(data: Tensor, **options: Any) -> Tensor:
    from PIL import Image

    _uint8(data, 3, "Input data should be a 3-dimensional tensor")
    if data.shape[0] not in (1, 3):
        raise RuntimeError(f"The number of channels should be 1 or 3, got: {data.shape[0]}")
    pixels = data.permute(1, 2, 0).contiguous().numpy()
    file = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(file, **options)
    return from_numpy(np.frombuffer(bytearray(file.getvalue()), np.uint8))


def encode_png(data: Tensor, compression_level: int) -> Tensor:
    """The bytes of a PNG file."""
    if not 0 <= compression_level <= 9:
        raise RuntimeError("Compression level should be between 0 and 9")
    return _encoded(data, format="PNG", compress_level=compression_level)


def encode_jpeg(data: Tensor, quality: int) -> Tensor:
    """The bytes of a JPEG file."""
    if not 1 <= quality <= 100:
        raise RuntimeError("Image quality should be a positive number between 1 and 100")
    return _encoded(data, format="JPEG", quality=quality)


OPERATORS = {
    f.__name__: f
    for f in (
        read_file, write_file, decode_png, decode_jpeg, decode_webp, decode_gif, decode_image, encode_png, encode_jpeg,
    )
}  # fmt: skip

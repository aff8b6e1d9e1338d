"""Pictures: grids, channels, scales, boxes, and their PNG and GIF files."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tensorboard.compat.proto.summary_pb2 import Summary

__all__ = ["convert_to_HWC", "figure_to_image", "make_grid"]

_COLUMNS = 8
"""Images in a row of a grid."""


def figure_to_image(figures: Any, close: bool = True) -> NDArray[np.uint8]:
    """A matplotlib figure as an array [3, height, width] of uint8; a list of them as one with a dimension more."""
    if isinstance(figures, list):
        return np.stack([figure_to_image(figure, close) for figure in figures])
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figures)
    canvas.draw()
    drawn = np.array(canvas.buffer_rgba(), dtype=np.uint8)[:, :, :3].transpose(2, 0, 1)
    if close:
        import matplotlib.pyplot as plt

        plt.close(figures)
    return drawn


def make_grid(images: NDArray[Any], ncols: int = _COLUMNS) -> NDArray[Any]:
    """Images [N, C, H, W] in rows of `ncols`, as [3, height, width]; of one channel, all three are that one."""
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        raise AssertionError(f"a grid takes images [N, 1 or 3, H, W], and got {list(images.shape)}")
    count, _, height, width = images.shape
    ncols = min(count, ncols)
    rows = math.ceil(count / ncols)
    grid = np.zeros((3, rows * height, ncols * width), dtype=images.dtype)
    for index, image in enumerate(images):
        top, left = index // ncols * height, index % ncols * width
        grid[:, top : top + height, left : left + width] = image
    return grid


def convert_to_HWC(tensor: NDArray[Any], input_format: str) -> NDArray[Any]:
    """A picture [H, W, C] of one whose dimensions the letters H, W, C and N name, each once; N images are a grid."""
    letters = input_format.upper()
    if len(set(letters)) != len(letters):
        raise AssertionError(f"no dimension can be named twice: {input_format}")
    if len(letters) != tensor.ndim:
        raise AssertionError(f"{input_format} names {len(letters)} dimensions of the {tensor.ndim} of {tensor.shape}")
    if set(letters) not in ({*"NCHW"}, {*"CHW"}, {*"HW"}):
        raise ValueError(f"dataformats are HW, CHW or NCHW in any order, and not {input_format}")
    if len(letters) == 4:
        return make_grid(tensor.transpose([letters.index(c) for c in "NCHW"])).transpose(1, 2, 0)
    if len(letters) == 2:
        return np.stack([tensor.transpose([letters.index(c) for c in "HW"])] * 3, 2)
    picture = tensor.transpose([letters.index(c) for c in "HWC"])
    return np.repeat(picture, 3, 2) if picture.shape[2] == 1 else picture


def as_bytes(picture: NDArray[Any]) -> NDArray[np.uint8]:
    """The picture as uint8: other numbers are taken to be from 0 to 1."""
    scale = 1 if picture.dtype == np.uint8 else 255
    return np.clip(picture.astype(np.float32) * scale, 0, 255).astype(np.uint8)


def make_image(picture: NDArray[np.uint8], rescale: float = 1, boxes: Any = None, labels: Any = None) -> Summary.Image:
    """A picture [H, W, C] as a PNG, with boxes (left, top, right, bottom) on it, and then rescaled."""
    from PIL import Image

    height, width, channels = picture.shape
    height, width = int(height * rescale), int(width * rescale)
    image = Image.fromarray(picture[:, :, 0] if channels == 1 else picture)
    if boxes is not None:
        image = draw_boxes(image, boxes, labels)
    image = image.resize((width, height), Image.Resampling.LANCZOS)
    return Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=_file(image, format="PNG")
    )


def draw_boxes(disp_image: Any, boxes: NDArray[Any], labels: Any = None) -> Any:
    """A PIL image with red boxes, each with its label at the bottom if there are any."""
    from PIL import ImageDraw, ImageFont

    drawing, font = ImageDraw.Draw(disp_image), ImageFont.load_default()
    for index, (left, top, right, bottom) in enumerate(boxes[:, :4].tolist()):
        corners = [(left, top), (left, bottom), (right, bottom), (right, top), (left, top)]
        drawing.line(corners, width=2, fill="Red")
        if labels is None:
            continue
        inked = font.getbbox(labels[index])
        width, height = inked[2] - inked[0], inked[3] - inked[1]
        margin = math.ceil(0.05 * height)
        drawing.rectangle([(left, bottom - height - 2 * margin), (left + width, bottom)], fill="Red")
        drawing.text((left + margin, bottom - height - margin), labels[index], fill="black", font=font)
    return disp_image


def prepare_video(videos: NDArray[Any]) -> NDArray[Any]:
    """Videos [N, T, C, H, W] side by side in one [T, height, width, C], in fewer rows than columns.

    Their number is filled up to a power of two with black ones.
    """
    count, frames, channels, height, width = videos.shape
    filled = 1 << (count - 1).bit_length()
    black = np.zeros((filled - count, *videos.shape[1:]), dtype=videos.dtype)
    rows = 1 << (count.bit_length() - 1) // 2
    grid = np.concatenate((videos, black)).reshape(rows, filled // rows, frames, channels, height, width)
    return grid.transpose(2, 0, 4, 1, 5, 3).reshape(frames, rows * height, -1, channels)


def make_video(video: NDArray[np.uint8], fps: float) -> Summary.Image:
    """A video [T, H, W, C] as a GIF that starts again at its end."""
    from PIL import Image

    _, height, width, channels = video.shape
    first, *rest = [Image.fromarray(frame[:, :, 0] if channels == 1 else frame) for frame in video]
    data = _file(first, format="GIF", save_all=True, append_images=rest, duration=1000 / fps, loop=0)
    return Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=data)


def _file(image: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, **options)
    return file.getvalue()

"""The files by which TensorBoard's projector shows points."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tensorboard.plugins.projector.projector_config_pb2 import EmbeddingInfo

from eagerjit.utils.tensorboard._utils import as_bytes, make_grid

_ESCAPED = str.maketrans({"%": "%25", "/": "%2f", "\\": "%5c"})
"""What a tag may hold and a folder's name may not."""


def write_embedding(
    logdir: Path, points: NDArray[Any], metadata: Any, pictures: NDArray[Any] | None, step: str, tag: str, header: Any
) -> EmbeddingInfo:
    """Write points, their labels and their pictures into a folder of the step and tag; returns what describes it."""
    if points.ndim != 2:
        raise AssertionError(f"an embedding is [points, features], and not {list(points.shape)}")
    inside = Path(step, tag.translate(_ESCAPED))
    folder = logdir / inside
    folder.mkdir(parents=True, exist_ok=True)
    info = EmbeddingInfo(tensor_name=f"{tag}:{step}", tensor_path=str(inside / "tensors.tsv"))
    if metadata is not None:
        _same_count("labels", metadata, points)
        (folder / "metadata.tsv").write_text(_labels(metadata, header), encoding="utf-8")
        info.metadata_path = str(inside / "metadata.tsv")
    if pictures is not None:
        _same_count("pictures", pictures, points)
        _write_sprite(pictures, folder / "sprite.png")
        info.sprite.image_path = str(inside / "sprite.png")
        info.sprite.single_image_dim.extend([pictures.shape[3], pictures.shape[2]])
    (folder / "tensors.tsv").write_text("".join("\t".join(map(str, row)) + "\n" for row in points.tolist()))
    return info


def _same_count(what: str, given: Any, points: NDArray[Any]) -> None:
    if len(given) != len(points):
        raise AssertionError(f"{len(given)} {what} for {len(points)} points")


def _labels(metadata: Any, header: Any) -> str:
    if not header:
        return "".join(str(label) + "\n" for label in metadata)  # what a tensor prints, not what it formats
    if len(header) != len(metadata[0]):
        raise AssertionError(f"{len(header)} headers for {len(metadata[0])} labels of a point")
    return "".join("\t".join(map(str, row)) + "\n" for row in (header, *metadata))


def _write_sprite(pictures: NDArray[Any], path: Path) -> None:
    """All pictures as one file, which is square: the rest is black."""
    from PIL import Image

    columns = math.ceil(math.sqrt(len(pictures)))
    grid = as_bytes(make_grid(pictures, columns).transpose(1, 2, 0))
    side = columns * max(pictures.shape[2:])
    sprite = np.zeros((side, side, 3), dtype=np.uint8)
    sprite[: grid.shape[0], : grid.shape[1]] = grid
    Image.fromarray(sprite).save(path)

"""Event files, written and read by tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

Case = Callable[[Any, Any], Any]


def numbers(*shape: int, seed: int = 0, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def read(folder: Path) -> dict[str, Any]:
    """What lies in a folder: of event files the messages without times, of others the contents."""
    found: dict[str, Any] = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        place = str(path.relative_to(folder))
        if "tfevents" in path.name:
            events = list(LegacyEventFileLoader(str(path)).Load())
            for event in events:
                event.wall_time = 0
            found[str(path.parent.relative_to(folder))] = [of_hparams(event) for event in events]
        elif path.suffix == ".png":
            found[place] = np.asarray(Image.open(path)).tolist()
        else:
            found[place] = path.read_text()
    return found


def of_hparams(event: Any) -> Any:
    """An event with what is known of hyperparameters beside it: they are a map, whose bytes have no order."""
    contents = []
    for value in event.summary.value:
        data = value.metadata.plugin_data
        if data.plugin_name == "hparams":
            contents.append(HParamsPluginData.FromString(data.content))
            data.content = b""
    return event, contents


def written(library: Any, folder: Path, case: Case, **options: Any) -> dict[str, Any]:
    with library.utils.tensorboard.SummaryWriter(folder, **options) as writer:
        case(writer, library)
    return read(folder)

"""Names of `torch.hub`: files that lie in its folder are loaded; nothing is downloaded."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlparse

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
"""Where a file's name holds the beginning of its hash, under PyTorch's name."""

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

_folder: str | None = None


def _get_torch_home() -> str:
    """The folder $TORCH_HOME, by default one among the user's caches."""
    home = os.environ.get("TORCH_HOME", str(Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "torch")))
    return str(Path(home).expanduser())


def get_dir() -> str:
    """The folder of downloaded files: what `set_dir` said, else that of $TORCH_HOME."""
    return _folder if _folder is not None else str(Path(_get_torch_home(), "hub"))


def set_dir(d: Any) -> None:
    """Another folder of downloaded files."""
    global _folder
    _folder = str(Path(d).expanduser())


def load_state_dict_from_url(
    url: str, model_dir: str | None = None, map_location: Any = None, progress: bool = True, check_hash: bool = False,
    file_name: str | None = None, weights_only: bool = True,
) -> Any:  # fmt: skip
    """What a file holds that was downloaded before. Raises FileNotFoundError for one that is not there."""
    from eagerjit.serialization import load as load_file

    folder = Path(model_dir) if model_dir is not None else Path(get_dir(), "checkpoints")
    path = folder / (file_name or Path(urlparse(url).path).name)
    if not path.exists():
        raise FileNotFoundError(f"eagerjit downloads nothing: save {url} as {path}")
    return load_file(path, map_location=map_location)


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises RuntimeError: nothing is downloaded."""
    raise RuntimeError("eagerjit downloads neither files nor programs; load local ones with load_state_dict_from_url")


load = list = help = download_url_to_file = _refuse


def __getattr__(name: str) -> Any:
    if name != "tqdm":
        raise AttributeError(f"module 'eagerjit.hub' has no attribute {name!r}")
    from tqdm import tqdm

    return tqdm

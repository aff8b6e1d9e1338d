"""The places where PyTorch keeps its modules, for programs that import them from there."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from eagerjit import nn

_PLACES = {
    "activation": "activations multihead", "adaptive": "adaptive", "batchnorm": "batch", "channelshuffle": "resampling",
    "container": "containers parameter_containers", "conv": "convolution lazy_convolution", "distance": "distances",
    "flatten": "layers", "fold": "resampling", "padding": "pooling", "pixelshuffle": "resampling",
    "pooling": "pooling fractional", "upsampling": "resampling", "dropout": "dropouts", "instancenorm": "batch",
    "lazy": "lazy",
    "linear": "layers multihead lazy", "loss": "losses", "module": "module global_hooks state",
    "normalization": "batch layers", "rnn": "rnn",
    "sparse": "embeddings", "transformer": "transformer", "utils": "pairs",
}  # fmt: skip
"""Where the classes are that PyTorch has in each of its files."""


class _Place(ModuleType):
    """A module that finds its names elsewhere when they are asked for."""

    def __init__(self, name: str, sources: str):
        super().__init__(f"{__name__}.{name}", f"What PyTorch has in `nn.modules.{name}`.")
        self.__sources__ = sources.split()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            for source in self.__sources__:
                found = getattr(importlib.import_module(f"eagerjit.nn.{source}"), name, None)
                if found is not None:
                    return found
            if name in nn.__all__:
                return getattr(nn, name)
        raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")


for _name, _sources in _PLACES.items():
    _place = _Place(_name, _sources)
    sys.modules[_place.__name__] = _place
    globals()[_name] = _place


def __getattr__(name: str) -> Any:
    if name in nn.__all__ and name != "modules":
        return getattr(nn, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")

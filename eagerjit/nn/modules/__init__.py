"""The places where PyTorch keeps its modules, for programs that import them from there."""

from __future__ import annotations

import importlib
import re
import sys
from types import ModuleType
from typing import Any

from eagerjit import nn

_PLACES = {
    "activation": "activations multihead", "adaptive": "adaptive", "batchnorm": "batch lazy",
    "channelshuffle": "resampling",
    "container": "containers parameter_containers", "conv": "convolution lazy_convolution", "distance": "distances",
    "flatten": "layers", "fold": "resampling", "padding": "pooling", "pixelshuffle": "resampling",
    "pooling": "pooling fractional", "upsampling": "resampling", "dropout": "dropouts", "instancenorm": "batch lazy",
    "lazy": "lazy",
    "linear": "layers multihead lazy", "loss": "losses linear_losses", "module": "module global_hooks state",
    "normalization": "batch layers cross_map", "rnn": "rnn",
    "sparse": "embeddings", "transformer": "transformer", "utils": "pairs",
}  # fmt: skip
"""Where the classes are that PyTorch has in each of its files."""

_CLASSES = {
    "batchnorm": "BatchNorm", "channelshuffle": "Channel", "container": "Sequential|List|Dict", "conv": "Conv",
    "flatten": "latten", "fold": "old$", "instancenorm": "InstanceNorm", "lazy": "LazyModuleMixin",
    "linear": "Linear$|Bilinear|Identity", "loss": "Loss",
    "normalization": "LayerNorm|GroupNorm|RMSNorm|LocalResponseNorm|LRN",
    "padding": "Pad", "pixelshuffle": "^Pixel", "pooling": "[Pp]ool", "upsampling": "^Upsampl",
}  # fmt: skip
"""What tells which of the classes there they are, where those of several files are in one."""


class _Place(ModuleType):
    """A module that finds its names elsewhere when they are asked for."""

    def __init__(self, name: str, sources: str):
        super().__init__(f"{__name__}.{name}", f"What PyTorch has in `nn.modules.{name}`.")
        self.__sources__ = sources.split()

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        """What `vars` lists: all classes too."""
        for name in self._public():
            getattr(self, name)
        return super().__dict__

    def _public(self) -> list[str]:
        file = self.__name__.rpartition(".")[2]
        names = [name for source in self.__sources__ for name in nn._MODULES.get(source, "").split()]
        return [name for name in names if re.search(_CLASSES.get(file, ""), name)]

    def __getattr__(self, name: str) -> Any:
        if name == "__all__" and (names := self._public()):
            return names
        if not name.startswith("__"):
            for source in self.__sources__:
                found = getattr(importlib.import_module(f"eagerjit.nn.{source}"), name, None)
                if found is not None:
                    setattr(self, name, found)
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

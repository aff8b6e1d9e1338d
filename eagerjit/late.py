"""Names that come when they are first used: importing them would cost every program time.

A name is listed once, beside the module that defines it.
"""

from __future__ import annotations

import importlib
from typing import Any

BOTH = {
    "eagerjit.ops.strided": "diagonal diagonal_scatter as_strided as_strided_scatter",
    "eagerjit.ops.memory": "as_strided_ resize_as_ select_scatter slice_scatter",
}
"""Functions of the namespace that are methods too."""

METHODS = {
    "eagerjit.ops.strided": "unfold",
    "eagerjit.ops.padding": "replace_block",
    "eagerjit.ops.memory": "squeeze_ unsqueeze_ transpose_ swapaxes_ swapdims_ t_ set_ resize_",
}
"""Methods only."""

FUNCTIONS = {
    "eagerjit.ops.convolution": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
    "eagerjit.ops.pooling": "avg_pool1d max_pool1d max_pool2d max_pool3d max_pool1d_with_indices",
    "eagerjit.ops.adaptive": "adaptive_avg_pool1d adaptive_max_pool1d",
}
"""Functions of the namespace only."""


def _homes(*tables: dict[str, str]) -> dict[str, str]:
    return {name: module for table in tables for module, names in table.items() for name in names.split()}


_NETWORK = {
    "eagerjit.ops.padding": "pad",
    "eagerjit.ops.pooling": "avg_pool2d avg_pool3d lp_pool1d lp_pool2d lp_pool3d max_unpool1d max_unpool2d "
    "max_unpool3d max_pool2d_with_indices max_pool3d_with_indices",
    "eagerjit.ops.adaptive": "adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d",
}

HOMES = _homes(BOTH, FUNCTIONS)
"""The module that defines each name of the namespace."""

_SHARED = {k: v for k, v in FUNCTIONS.items() if k.partition("ops.")[2] in ("convolution", "pooling", "adaptive")}
NETWORK_FUNCTIONS = _homes(_SHARED, _NETWORK)
"""The module that defines each late function of `nn.functional`."""


def load(module: str, name: str) -> Any:
    """What a module defines under a name."""
    return getattr(importlib.import_module(module), name)


class LateMethod:
    """Stands for a method whose module is imported when it is first asked for."""

    __slots__ = ("module", "name")

    def __init__(self, module: str, name: str):
        self.module, self.name = module, name

    def __get__(self, instance: Any, owner: type) -> Any:
        function = load(self.module, self.name)
        for kind in owner.__mro__:
            if kind.__dict__.get(self.name) is self:
                setattr(kind, self.name, function)
        return function if instance is None else function.__get__(instance, owner)


def methods() -> dict[str, LateMethod]:
    """The late methods by name."""
    return {name: LateMethod(module, name) for name, module in _homes(BOTH, METHODS).items()}

"""`torch.ao.quantization`: linear layers of small weights, and marks in Modules, which nothing converts."""

from __future__ import annotations

import copy
from typing import Any

from eagerjit.ao.nn.quantized import dynamic
from eagerjit.ao.quantization.marks import DeQuantStub, FakeQuantizeBase, ObserverBase, QuantStub
from eagerjit.nn.layers import Linear
from eagerjit.nn.module import Module
from eagerjit.nn.rnn import GRU, LSTM, GRUCell, LSTMCell, RNNCell
from eagerjit.runtime import dtypes
from eagerjit.runtime.dtypes import NAMED

__all__ = ["DeQuantStub", "FakeQuantizeBase", "ObserverBase", "QuantStub", "quantize_dynamic"]

_USUAL = (Linear, LSTM, GRU, LSTMCell, RNNCell, GRUCell)
"""What PyTorch makes smaller where a program does not say what."""


def quantize_dynamic(
    model: Module, qconfig_spec: Any = None, dtype: Any = NAMED["qint8"], mapping: Any = None, inplace: bool = False
) -> Module:
    """A copy of a model, in evaluation mode, whose linear layers have weights of 8 or 16 bits.

    qconfig_spec    classes of layers, and names of parts whose layers are meant
    dtype           torch.qint8 or torch.float16

    Raises NotImplementedError for recurrent layers, which have no such form here, ValueError for other dtypes.
    """
    if dtype not in (NAMED["qint8"], dtypes.float16):
        raise ValueError(f"quantize_dynamic: weights are torch.qint8 or torch.float16, not {dtype}")
    if isinstance(qconfig_spec, dict) or mapping is not None:
        raise TypeError("quantize_dynamic: qconfig_spec is a set of classes and names, and there is no mapping")
    wanted = set(_USUAL if qconfig_spec is None else qconfig_spec)
    model = model if inplace else copy.deepcopy(model)
    model.eval()
    _convert(model, "", wanted, dtype, False)
    return model


def _convert(module: Module, path: str, wanted: set[Any], dtype: Any, inside: bool) -> None:
    for name, child in list(module.named_children()):
        place = f"{path}.{name}".lstrip(".")
        meant = inside or place in wanted or type(child) in wanted
        if not meant or type(child) not in _USUAL:
            _convert(child, place, wanted, dtype, meant)
        elif type(child) is Linear:
            setattr(module, name, dynamic.Linear.from_float(child, dtype))
        else:
            raise NotImplementedError(
                f"quantize_dynamic: {place} is a {type(child).__name__}, of which eagerjit has no form with small "
                "weights: say qconfig_spec={torch.nn.Linear}"
            )

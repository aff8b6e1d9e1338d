"""CUDA devices under PyTorch's names: devices, memory, streams, events and graphs.

Where there is none, what asks says so, and what would only tidy up does nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

from eagerjit.cuda import devices, graphs, memory, pools, streams
from eagerjit.runtime.gpu.errors import AcceleratorError, OutOfMemoryError
from eagerjit.tensors.legacy import CUDA_TYPES

__all__ = ["AcceleratorError", "OutOfMemoryError", *CUDA_TYPES]
globals().update(CUDA_TYPES)
for _module in (devices, memory, streams, graphs, pools):
    globals().update({_name: getattr(_module, _name) for _name in _module.__all__})
    __all__ += _module.__all__


__all__ += ["make_graphed_callables"]


def __getattr__(name: str) -> Any:
    if name == "make_graphed_callables":
        return importlib.import_module("eagerjit.cuda.graphed").make_graphed_callables
    if name == "amp":
        return importlib.import_module("eagerjit.amp.cuda")
    if name == "_initialized":
        return devices.is_initialized()
    if name == "nvtx":
        return importlib.import_module("eagerjit.cuda.nvtx")
    raise AttributeError(f"module 'eagerjit.cuda' has no attribute '{name}'")

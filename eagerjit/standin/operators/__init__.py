"""Operators that packages have compiled for PyTorch, written on eagerjit's own.

A package that loads its compiled file (`torch.ops.load_library`) gets those of that file. They are made of ordinary
operations, so that they run on every device and have gradients of their own.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eagerjit.library import OPERATORS, CustomOpDef
from eagerjit.library.declared import DeclaredOp

_FILES = {
    ("torchvision", "_C"): ("torchvision", "boxes", "regions", "deformed"),
    ("torchvision", "image"): ("image", "images"),
    ("torchaudio", "_torchaudio"): ("_torchaudio", "audio_build"),
    ("torchaudio", "libtorchaudio"): ("torchaudio", "audio"),
}
"""By package and file: the namespace of its operators, and the modules here whose `OPERATORS` they are."""


_ABSENT = {
    "torchvision": (
        "qnms", "qroi_align", "_roi_align_backward", "_roi_pool_backward", "_ps_roi_align_backward",
        "_ps_roi_pool_backward", "_deform_conv2d_backward",
    ),
}  # fmt: skip
"""Names that packages ask for at import and eagerjit lacks: of quantized tensors, and gradients as functions."""


class Provided(DeclaredOp):
    """An operator of a package. What the package registers for its compiled one, gradients among it, is not needed."""

    def __init__(self, name: str, function: Callable[..., Any]):
        self._through, self._with_gradient = True, None
        CustomOpDef.__init__(self, name, function)

    def register_autograd(self, backward: Callable[..., Any], /, *, setup_context: Any = None) -> None:
        """Nothing: gradients go through the function."""

    def give(self, function: Callable[..., Any], key: str) -> None:
        """Nothing: this function serves every dispatch key."""


def _absent(name: str) -> Callable[..., Any]:
    def missing(*args: Any) -> Any:
        raise NotImplementedError(f"eagerjit has no operator {name}")

    return missing


def load(path: Any) -> bool:
    """The operators of a package's compiled file become names of `torch.ops`; False for a file that is not known."""
    file = Path(path)
    packages = {parent.name for parent in file.parents}
    stem = file.name.split(".")[0]
    known = next((found for (package, name), found in _FILES.items() if package in packages and name == stem), None)
    if known is None:
        return False
    namespace, *modules = known
    found = {name: _absent(f"{namespace}::{name}") for name in _ABSENT.get(namespace, ())}
    for module in modules:
        found |= importlib.import_module(f"{__name__}.{module}").OPERATORS
    for name, function in found.items():
        OPERATORS[f"{namespace}::{name}"] = Provided(f"{namespace}::{name}", function)
    return True

"""Optimizers and learning rate schedules. The rarer ones are imported when first used."""

from __future__ import annotations

import importlib
from typing import Any

from eagerjit.optim import lr_scheduler, optimizer
from eagerjit.optim.algorithms import SGD, Adagrad, Adam, AdamW, RMSprop
from eagerjit.optim.optimizer import Optimizer, ParamsT

_LATER = {
    "Adadelta": "adaptive", "Adamax": "adaptive", "NAdam": "adaptive", "RAdam": "adaptive", "Rprop": "others",
    "ASGD": "others", "LBFGS": "lbfgs",
}  # fmt: skip

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "ParamsT", "RMSprop", "lr_scheduler", "optimizer"]
__all__ += sorted({*_LATER, "swa_utils"})


def __getattr__(name: str) -> Any:
    if name == "swa_utils":
        return importlib.import_module("eagerjit.optim.swa_utils")
    if name not in _LATER:
        raise AttributeError(f"module 'eagerjit.optim' has no attribute '{name}'")
    value = getattr(importlib.import_module(f"eagerjit.optim.{_LATER[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

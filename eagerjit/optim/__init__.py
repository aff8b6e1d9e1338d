"""Optimizers and learning rate schedules."""

from __future__ import annotations

import importlib
from typing import Any

from eagerjit.optim import lr_scheduler, optimizer
from eagerjit.optim.adaptive import Adadelta, Adamax, NAdam, RAdam
from eagerjit.optim.algorithms import SGD, Adagrad, Adam, AdamW, RMSprop
from eagerjit.optim.helpers import ParamsT
from eagerjit.optim.lbfgs import LBFGS
from eagerjit.optim.matrices import Adafactor, Muon
from eagerjit.optim.optimizer import Optimizer
from eagerjit.optim.others import ASGD, Rprop
from eagerjit.optim.sparse_adam import SparseAdam

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "ParamsT",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "optimizer",
    "swa_utils",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "swa_utils":
        return importlib.import_module("eagerjit.optim.swa_utils")
    raise AttributeError(f"module 'eagerjit.optim' has no attribute '{name}'")

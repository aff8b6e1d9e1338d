"""What several cases need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import eagerjit as torch


def error_of(function: Callable[[], Any]) -> str | None:
    """The class of the error that a call raises, by name: for messages that name another operation when compiled."""
    try:
        function()
    except Exception as error:
        return type(error).__name__
    return None


def network() -> Any:
    """A small network with fixed weights."""
    made = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    with torch.no_grad():
        for i, p in enumerate(made.parameters()):
            p.copy_((torch.arange(float(p.numel())).reshape(p.shape) + i).sin())
    return made

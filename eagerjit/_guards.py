"""Questions about fake tensors: there are none here, as recordings work on types and leave tensors alone."""

from __future__ import annotations

from typing import Any


def active_fake_mode() -> None:
    """None: no tensor of this thread is a fake."""


def detect_fake_mode(inputs: Any = None) -> None:
    """None: none of these is one either."""

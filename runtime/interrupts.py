"""Interrupts (KeyboardInterrupt, alarms that raise) come anywhere, also where things are put back."""

from __future__ import annotations

from collections.abc import Callable


def surely(step: Callable[[], object]) -> None:
    """Run what may be run again; once more where it was interrupted."""
    try:
        step()
    except BaseException:
        step()
        raise

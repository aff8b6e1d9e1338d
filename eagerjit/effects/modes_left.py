"""Modes that a recorded function leaves switched: a compiled call would switch them no more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from eagerjit.autograd.anomaly import switch_anomaly
from eagerjit.effects.journal import Journal
from eagerjit.runtime import mode
from eagerjit.runtime.interrupts import surely
from eagerjit.state import Defaults, keep_parametrized, set_casting, set_saving, state


@contextmanager
def modes_kept(journal: Journal, source: str) -> Iterator[None]:
    """Put back the modes of this thread as they were, and end the recording where they were left switched."""
    before = _modes()
    try:
        yield
        switched = [name for name, value in _modes().items() if value != before[name]]
        if switched:
            journal.refuse(f"it leaves {' and '.join(switched)} switched", source)
    finally:
        surely(lambda: _put_back(before))


def _put_back(before: dict[str, Any]) -> None:
    mode.set_inference(*before["grad mode"])
    set_casting(before["autocast"])
    set_saving(before["saved tensors' hooks"])
    keep_parametrized(before["what parametrizations keep"])
    switch_anomaly(before["anomaly detection"])
    np.seterr(**before["errors of NumPy"])


def _modes() -> dict[str, Any]:
    return {
        "grad mode": (mode.inference(), mode.asked_grad_mode()),
        "autocast": state.casting,
        "saved tensors' hooks": state.saving,
        "what parametrizations keep": state.parametrized,
        "anomaly detection": Defaults.anomaly,
        "errors of NumPy": np.geterr(),
    }

"""Exponents of a recorded call: which of them decide how a power is computed."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.state import state

_NEAR = 1e-6


def decided(exponent: Any) -> Any:
    """Python's number for one of the trace, which is tied to it, or a varying exponent as it is.

    Powers to some whole numbers and halves are computed without a power function, and so are derivatives of powers
    whose exponents are larger by whole numbers. The trace is tied to those, and to what rounding could make one; else
    it holds for all exponents between the same two halves.
    """
    if not isinstance(exponent, (SymbolicInt, TracedFloat)):
        return exponent
    tracer = state.tracer
    value = exponent.value if type(exponent) is TracedFloat else None
    if tracer is None or value is None or not tracer.varies(exponent) or not math.isfinite(value):
        return exponent._value()
    half = math.floor(2.0 * value) / 2.0
    least, most = half + _NEAR, half + (0.5 - _NEAR)
    return exponent if exponent > least and exponent < most else exponent._value()  # type: ignore[operator]

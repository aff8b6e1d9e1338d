"""Exponents: which of them decide how a power is computed, and which of them programs take as inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from eagerjit.calling.dispatch import Op
from eagerjit.calling.elementwise import ElementwiseOp
from eagerjit.compiler.ops import elementwise
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.state import state
from eagerjit.tensors.tensor import Tensor

_NEAR = 1e-6
_FEW = 8
_seen: set[float] = set()


def is_one_of_many(exponent: Any) -> bool:
    """Whether a plain call's exponent is one that programs take as an input, since there were many others.

    What needs no power function never is, and the first few floats have programs of their own, which are faster.
    """
    if type(exponent) is not float or not math.isfinite(exponent) or (2.0 * exponent).is_integer():
        return False
    if len(_seen) < _FEW:
        _seen.add(exponent)
    return exponent not in _seen


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
    if tracer is None or value is None or not math.isfinite(value):
        return exponent._value()
    if not tracer.values_only and not tracer.varies(exponent):
        return exponent._value()
    half = math.floor(2.0 * value) / 2.0
    near = _NEAR if exponent.node.op is elementwise.argument else _NEAR / 2  # rounding is far less than the half
    least, most = half + near, half + (0.5 - near)
    return exponent if exponent > least and exponent < most else exponent._value()  # type: ignore[operator]


class PowerOp(ElementwiseOp):
    """Powers, of which those to one of many floats are another op of the same name, and those of a number row-major."""

    promotion = "arithmetic"

    def __init__(self, name: str, body: Callable[..., Any], rules: tuple[Callable[..., Any] | None, ...]):
        super().__init__(name, body, rules, ("input",))
        self.of_many = ElementwiseOp(f"{name}_of_many", body, rules, ("exponent",))
        self.of_many.name = name

    def run(self, arguments: tuple[Any, ...]) -> Any:
        """Compute or record, then note the call on the tape."""
        if state.tracer is None and is_one_of_many(arguments[1]):
            return self.of_many.call(*arguments)
        return super().run(arguments)

    def computed(self, arguments: tuple[Any, ...]) -> Any:
        """What the body gives, in memory of its own, in the order of the arguments."""
        return super().computed(arguments) if isinstance(arguments[0], Tensor) else Op.computed(self, arguments)

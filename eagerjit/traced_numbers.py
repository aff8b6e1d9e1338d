"""Numbers of a call being traced, as nodes of its graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.ops import elementwise
from eagerjit.compiler.ops.declare import Primitive
from eagerjit.numbers import SymbolicInt, TracedFloat
from eagerjit.questions import Questions
from eagerjit.runtime import dtypes
from eagerjit.runtime.program import Op


class Numbers(Questions):
    """What a tracer does with Python numbers that are inputs of the compiled function, or calculated from these."""

    def __init__(self) -> None:
        super().__init__()
        self._floats: dict[Node, tuple[int, float]] = {}

    def record(self, primitive: Primitive, inputs: tuple[Node, ...], **attributes: Any) -> Node:
        """Append one primitive."""
        raise NotImplementedError

    def guard_object(self, leaf: int, op: Op, value: Any) -> None:
        """Require that a leaf is this object, or equals it."""
        raise NotImplementedError

    def constant(self, value: Any, dtype: dtypes.DType) -> Node:
        """A number as a 0-d node of a dtype: a literal, or a number of this call converted."""
        if isinstance(value, TracedFloat):
            return self._converted(value.node, dtype)
        if isinstance(value, SymbolicInt):
            return self._converted(self.record(elementwise.size_value, (), size=value.expression), dtype)
        return self.record(elementwise.constant, (), value=_plain(value, dtype), dtype=dtype)

    def _converted(self, node: Node, dtype: dtypes.DType) -> Node:
        return node if node.type.dtype is dtype else self.record(elementwise.cast, (node,), dtype=dtype)

    def calculate(self, name: str, a: Any, b: Any) -> Node:
        """Record a float operation of Python's."""
        operands = tuple(self.constant(x, dtypes.float64) for x in (a, b))
        return self.record(getattr(elementwise, name), operands)

    def float_of(self, value: SymbolicInt) -> TracedFloat:
        """A size as a float."""
        hint = sizes.evaluate(value.expression, self.assumptions.hints)
        return TracedFloat(self.constant(value, dtypes.float64), float(hint))

    def specialize(self, node: Node) -> None:
        """Tie this trace to the present value of every number that `node` was calculated from."""
        if node in self._floats:
            leaf, value = self._floats[node]
            self.guard_object(leaf, Op.EQUAL, value)
        for operand in node.inputs:
            self.specialize(operand)
        if node.op is elementwise.size_value:
            size = node.attributes["size"]
            self.assumptions.decide("==", size, sizes.evaluate(size, self.assumptions.hints))


def _plain(value: Any, dtype: dtypes.DType) -> int | float | bool:
    """A literal as it is after conversion, so that equal constants print alike."""
    number = np.asarray(value).astype(dtype.numpy).item()
    return float(number) if dtype.is_floating_point else number

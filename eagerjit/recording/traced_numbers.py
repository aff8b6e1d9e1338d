"""Numbers of a call being traced, as nodes of its graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node, ancestors
from eagerjit.compiler.ops import elementwise
from eagerjit.compiler.ops.declare import Primitive
from eagerjit.compiler.ops.host import NUMBER, host
from eagerjit.compiler.signature import Binding, FloatLeaf, IntLeaf
from eagerjit.recording.integer_range import is_wide
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.recording.questions import Questions
from eagerjit.runtime import dtypes
from eagerjit.runtime.host import FUNCTIONS
from eagerjit.runtime.program import Op
from eagerjit.watching.observation import TraceBreak, user_line


class Numbers(Questions):
    """What a tracer does with Python numbers that are inputs of the compiled function, or calculated from these."""

    bindings: list[Binding]
    slots: dict[int, Any]

    def __init__(self) -> None:
        super().__init__()
        self._floats: dict[Node, tuple[int, float]] = {}
        self._items: dict[tuple[int, str], Any] = {}
        self.numbers_vary = False

    def record(self, primitive: Primitive, inputs: tuple[Node, ...], **attributes: Any) -> Node:
        """Append one primitive."""
        raise NotImplementedError

    def guard_object(self, leaf: int, op: Op, value: Any) -> None:
        """Require that a leaf is this object, or equals it."""
        raise NotImplementedError

    def note_item(self, container: dict[str, Any], key: str, value: Any) -> None:
        """A dictionary got a number while being recorded: what reads it from here on reads this one."""
        self._items[id(container), key] = value

    def constant(self, value: Any, dtype: dtypes.DType) -> Node:
        """A number as a 0-d node of a dtype: a literal, or a number of this call converted."""
        if isinstance(value, TracedFloat):
            return self._converted(value.node, dtype)
        if isinstance(value, SymbolicInt):
            return self._converted(self.record(elementwise.size_value, (), size=value.expression), dtype)
        if type(value) is int and not -(1 << 63) <= value < 1 << 64:
            raise OverflowError("int too big to convert")
        return self.record(elementwise.constant, (), value=_plain(value, dtype), dtype=dtype)

    def _floats_of(self, values: Sequence[Any]) -> tuple[Node, ...]:
        """Python numbers, ints of any size among them, as nodes of float64."""
        return tuple(self.constant(float(x) if type(x) is int else x, dtypes.float64) for x in values)

    def _converted(self, node: Node, dtype: dtypes.DType) -> Node:
        return node if node.type.dtype is dtype else self.record(elementwise.cast, (node,), dtype=dtype)

    def calculate(self, name: str, a: Any, b: Any) -> Node:
        """Record a float operation of Python's."""
        operands = self._floats_of((a, b))
        return self.record(getattr(elementwise, name), operands)

    def float_given(self, node: Node) -> float:
        """The value of a float that is an input, in the call being recorded."""
        return self._floats[node][1]

    def float_input(self, node: Node) -> FloatLeaf | None:
        """The input of the trace that a node is, where it is a Python float."""
        return next((b for b in self.bindings if isinstance(b, FloatLeaf) and b.node is node), None)

    def absolute(self, value: TracedFloat) -> Node:
        """Record the absolute value of a float."""
        return self.record(elementwise.abs_, (value.node,))

    def compare(self, name: str, a: TracedFloat, b: Any, known: bool | None) -> bool:
        """Whether a comparison holds in this call, which becomes a condition of the compiled one."""
        node = self.record(getattr(elementwise, name), self._floats_of((a, b)))
        return bool(self.ask(node, "a tensor's value was compared by Python code", known))

    def python_call(
        self, function: Callable[..., Any], arguments: Sequence[Any], known: bool | None, dtype: Any = dtypes.float64
    ) -> Node:
        """Record a call of a Python function of floats that gives a float, and that it gives one; of int64, ints.

        TraceBreak is raised where it is not `known` and does not.
        """
        whole = dtype is dtypes.int64
        nodes = tuple(self.constant(x, dtype) for x in arguments) if whole else self._floats_of(arguments)
        called = {"function": python_function(function, whole), "arguments": (NUMBER,) * len(nodes), "shape": ()}
        value, made = (
            self.record(host, nodes, **called, result=i, dtype=kind) for i, kind in enumerate((dtype, dtypes.bool_))
        )
        if not self.ask(made, "a Python function was called", known):
            raise TraceBreak(f"{function.__name__} gives no float", user_line())
        return value

    def python_integer(self, function: Callable[..., Any], arguments: Sequence[Any], known: int) -> Any:
        """Record a call of a Python function of ints that gives an int of 64 bits, as an int of the call."""
        value = self.python_call(function, arguments, True, dtypes.int64)
        return self.measure(value, f"{function.__name__} was called", negative=True, known=known)

    def varies(self, *numbers: Any) -> bool:
        """Whether other calls are known to have other numbers: also where the function keeps what they come from.

        Of what it keeps those numbers are inputs that its code changes.
        """
        if self.numbers_vary:
            return True
        kept = {str(b.size) for b in self.bindings if isinstance(b, IntLeaf) and b.leaf in self.slots}
        used = ancestors([x.node for x in numbers if isinstance(x, TracedFloat)])
        counts = [x.expression for x in numbers if isinstance(x, SymbolicInt)]
        counts += [n.attributes["size"] for n in used if n.op is elementwise.size_value]
        return any(self._floats[n][0] in self.slots for n in used if n in self._floats) or any(
            not kept.isdisjoint(sizes.symbols(x)) for x in counts
        )

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


def python_function(function: Callable[..., Any], whole: bool = False) -> str:
    """The name under which compiled calls know a function of Python floats, or of ints of 64 bits (`whole`).

    It gives the number, and whether there is one: not where the function raises or gives something else.
    """
    name = f"python{'.of integers' * whole}.{function.__module__}.{function.__name__}"
    kind, dtype = (int, np.int64) if whole else (float, np.float64)

    def of_numbers(*arguments: Any) -> tuple[Any, bool]:
        try:
            found = function(*arguments)
        except (ArithmeticError, MemoryError, ValueError):
            found = None
        made = type(found) is kind and not is_wide(found)
        return found if made else kind(0), made

    def call(*arguments: Any) -> tuple[np.ndarray, np.ndarray]:
        found, made = of_numbers(*arguments)
        return np.asarray(found, dtype), np.asarray(made)

    vars(call)["of_numbers"] = of_numbers
    FUNCTIONS.setdefault(name, call)
    return name


def _plain(value: Any, dtype: dtypes.DType) -> int | float | bool:
    """A literal as it is after conversion, so that equal constants print alike."""
    with np.errstate(over="ignore"):
        number = np.asarray(value).astype(dtype.numpy).item()
    return float(number) if dtype.is_floating_point else number

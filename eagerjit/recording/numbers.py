"""Python numbers of a call being traced: inputs of the compiled function, not constants.

They act as int and float do. Where Python code needs the number itself (a truth value, an index, a C function), it gets
the number of this call, and the trace notes that it holds for this value only.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from eagerjit.compiler import sizes
from eagerjit.recording.float_ranges import compared
from eagerjit.recording.integer_bits import IntegerBits
from eagerjit.recording.integer_range import checked_division, equal, in_range, less, subtract
from eagerjit.recording.numpy_protocol import NumberForNumPy
from eagerjit.recording.other_numbers import compares_itself, is_foreign, rounding
from eagerjit.recording.python_integers import python_integer
from eagerjit.state import state

if TYPE_CHECKING:
    from eagerjit.compiler.ir import Node


def expression(value: Any) -> sizes.Expr:
    """The size that an int or a SymbolicInt stands for."""
    if isinstance(value, SymbolicInt):
        return sizes.simplified(value.expression)
    return operator.index(value)


def wrap(size: sizes.Expr) -> Any:
    """What user code sees of a size: an int where it is known."""
    size = sizes.simplified(size)
    return size if isinstance(size, int) else SymbolicInt(size)


class SymbolicInt(IntegerBits, NumberForNumPy, called="int"):
    """An int whose value is known only when the compiled function is called; `isinstance` takes it for an int."""

    __slots__ = ("expression",)
    __class__ = property(lambda self: int)  # type: ignore[assignment]

    def __init__(self, size: sizes.Size):
        self.expression = size

    def _known(self) -> int:
        """This call's number, to ask something of it that holds for others too."""
        if sizes.active.assumptions is None:
            raise RuntimeError(f"the symbolic size {self.expression} left the function that was traced")
        return sizes.evaluate(self.expression, sizes.active.assumptions.hints)

    def _value(self) -> int:
        """This call's number; the trace holds for it alone."""
        value = self._known()
        sizes.active.assumptions.decide("==", self.expression, value)  # type: ignore[union-attr]
        return value

    __index__ = _value
    __int__ = _value

    def __float__(self) -> float:
        return float(self._value())

    def __getattr__(self, name: str) -> Any:
        return _rarer(self, name)

    def __hash__(self) -> int:
        return hash(self._value())

    def __bool__(self) -> bool:
        return not sizes.equal(self.expression, 0)

    def __repr__(self) -> str:
        return str(self._value())

    def __eq__(self, other: object) -> bool:
        return _compared(self, other, operator.eq, lambda: equal(self.expression, expression(other)))

    def __ne__(self, other: object) -> bool:
        return _compared(self, other, operator.ne, lambda: not equal(self.expression, expression(other)))

    def __lt__(self, other: Any) -> bool:
        return _compared(self, other, operator.lt, lambda: less(self.expression, expression(other)))

    def __gt__(self, other: Any) -> bool:
        return _compared(self, other, operator.gt, lambda: less(expression(other), self.expression))

    def __le__(self, other: Any) -> bool:
        return _compared(self, other, operator.le, lambda: not less(expression(other), self.expression))

    def __ge__(self, other: Any) -> bool:
        return _compared(self, other, operator.ge, lambda: not less(self.expression, expression(other)))

    def __neg__(self) -> Any:
        return operator.mul(self, -1)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    def __truediv__(self, other: Any) -> Any:
        other = int(other) if type(other) is bool else other
        if _is_int(other):
            return _quotient(self, other)
        return self._value() / other if is_foreign(other) else to_float(self) / other

    def __rtruediv__(self, other: Any) -> Any:
        other = int(other) if type(other) is bool else other
        if _is_int(other):
            return _quotient(other, self)
        return other / self._value() if is_foreign(other) else other / to_float(self)

    def __rpow__(self, other: Any) -> Any:
        if isinstance(other, float):
            return python_number(operator.pow, other, self)
        return python_integer(operator.pow, int(other), self) if type(other) in (bool, int) else other ** self._value()

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if modulus is not None:
            return pow(self._value(), plain(other), plain(modulus))
        if type(other) is int and other >= 0:
            out: Any = 1
            for _ in range(other):
                out = out * self
            return out
        if isinstance(other, (float, TracedFloat)):
            return to_float(self) ** other
        if type(other) is SymbolicInt:
            return python_integer(operator.pow, self, other)
        return self._value() ** other if type(other) in (bool, int) or is_foreign(other) else NotImplemented


def _floated(value: SymbolicInt) -> Any:
    """What is compared with a float: a float of the call, where that is the int exactly."""
    size = value.expression
    exact = state.tracer is not None and sizes.less(size, _EXACT) and sizes.less(-_EXACT, size)
    return to_float(value) if exact else value._value()


def _is_int(value: object) -> bool:
    return isinstance(value, (int, SymbolicInt)) and not isinstance(value, bool)


def _compared(number: SymbolicInt, other: Any, function: Callable[..., Any], known: Callable[[], bool]) -> Any:
    """A comparison; `known` is that of two integers. With what has an `==` of its own it is Python's number."""
    if type(other) in (int, SymbolicInt, float, TracedFloat):
        return known() if type(other) in (int, SymbolicInt) else function(_floated(number), other)
    return NotImplemented if compares_itself(other) else function(number._value(), other)


def _quotient(a: Any, b: Any) -> Any:
    """The quotient of two integers: of floats where both are exactly, else that of Python's numbers."""
    if b == 0:
        return plain(a) / plain(b)
    floats = [_floated(x) if type(x) is SymbolicInt else x for x in (a, b)]
    if all(type(x) is TracedFloat or -_EXACT <= x <= _EXACT for x in floats):
        return _calculate("div", operator.truediv, *map(to_float, floats))
    return plain(a) / plain(b)


def _integer_operator(function: Callable[..., Any], other_function: Callable[..., Any]) -> tuple[Any, Any]:
    def forward(self: SymbolicInt, other: Any) -> Any:
        other = int(other) if isinstance(other, bool) else other
        if _is_int(other):
            try:
                return wrap(function(expression(self), expression(other)))
            except OverflowError:
                return other_function(self._value(), plain(other))
        if isinstance(other, (float, TracedFloat)) and not isinstance(other, np.generic):
            return other_function(to_float(self), other)
        return other_function(self._value(), other) if is_foreign(other) else NotImplemented

    def reflected(self: SymbolicInt, other: Any) -> Any:
        other = int(other) if isinstance(other, bool) else other
        if _is_int(other):
            try:
                return wrap(function(expression(other), expression(self)))
            except OverflowError:
                return other_function(plain(other), self._value())
        if isinstance(other, (float, TracedFloat)) and not isinstance(other, np.generic):
            return other_function(other, to_float(self))
        return other_function(other, self._value()) if is_foreign(other) else NotImplemented

    return forward, reflected


for _name, _sized, _other in (
    ("add", in_range(sizes.add), operator.add),
    ("sub", in_range(subtract), operator.sub),
    ("mul", in_range(sizes.mul), operator.mul),
    ("floordiv", checked_division(sizes.floordiv, operator.floordiv), operator.floordiv),
    ("mod", checked_division(sizes.mod, operator.mod), operator.mod),
):
    _forward, _reflected = _integer_operator(_sized, _other)
    setattr(SymbolicInt, f"__{_name}__", _forward)
    setattr(SymbolicInt, f"__r{_name}__", _reflected)


class TracedFloat(NumberForNumPy, called="float"):
    """A float whose value is known only when the compiled function is called.

    `value` is this call's, or None where it comes from a tensor and has not been looked at.
    `isinstance` takes it for a float.
    """

    __slots__ = ("node", "value")
    __class__ = property(lambda self: float)  # type: ignore[assignment]

    def __init__(self, node: Node, value: float | None):
        self.node = node
        self.value = value

    def _value(self) -> float:
        """This call's number; the trace holds for it alone."""
        if state.tracer is None:
            raise RuntimeError("a number of a traced function left it")
        if self.value is None:
            return float(state.tracer.ask(self.node, "a tensor's value was used as a Python number"))
        state.tracer.specialize(self.node)
        return self.value

    __float__ = _value

    def __int__(self) -> int:
        return int(self._value())

    def __bool__(self) -> bool:
        return bool(self != 0.0)

    def __abs__(self) -> Any:
        if state.tracer is None:
            raise RuntimeError("a number of a traced function left it")
        return TracedFloat(state.tracer.absolute(self), None if self.value is None else abs(self.value))

    def __hash__(self) -> int:
        return hash(self._value())

    def __repr__(self) -> str:
        return repr(self._value())

    def __format__(self, specification: str) -> str:
        return format(self._value(), specification)

    def __round__(self, digits: int | None = None) -> Any:
        if digits is None:
            from eagerjit.recording.rounding import rounded

            return rounded(round, self)
        return python_number(rounding(digits), self) if type(digits) is int else round(self._value(), digits)

    def __getattr__(self, name: str) -> Any:
        return _rarer(self, name)


def _rarer(number: Any, name: str) -> Any:
    """An attribute of Python's number that has no other meaning here: `hex`, `real`, `bit_length`."""
    if name.startswith("__"):
        raise AttributeError(f"'{number.__class__.__name__}' object has no attribute '{name}'")
    return getattr(number._value(), name)


def to_float(value: Any) -> Any:
    """A number as a float, one of the trace where it is that."""
    if type(value) is TracedFloat:
        return value
    if isinstance(value, SymbolicInt) and state.tracer is not None:
        return state.tracer.float_of(value)
    return float(value)


def _is_number(value: Any) -> bool:
    known = isinstance(value, (bool, int, float, SymbolicInt, TracedFloat))
    return known and not hasattr(type(value), "is_later") and not isinstance(value, np.generic)


def _float_operator(name: str, function: Callable[..., Any]) -> tuple[Any, Any]:
    def forward(self: TracedFloat, other: Any) -> Any:
        return _calculate(name, function, self, other)

    def reflected(self: TracedFloat, other: Any) -> Any:
        return _calculate(name, function, other, self)

    return forward, reflected


def _calculate(name: str, function: Callable[..., Any], a: Any, b: Any) -> Any:
    """Record a float operation whose machine result is the same in Python and in compiled code."""
    if not all(map(_is_number, (a, b))):
        return function(plain(a), plain(b)) if is_foreign(a) or is_foreign(b) else NotImplemented
    tracer = state.tracer
    if tracer is None:
        raise RuntimeError("a number of a traced function left it")
    a, b = (x if isinstance(x, (float, TracedFloat)) else to_float(x) for x in (a, b))
    values = [x.value if isinstance(x, TracedFloat) else x for x in (a, b)]
    value = None if None in values else function(*values)
    return TracedFloat(tracer.calculate(name, a, b), value)


for _name, _operation in (("add", operator.add), ("sub", operator.sub), ("mul", operator.mul)):
    _forward, _reflected = _float_operator(_name, _operation)
    setattr(TracedFloat, f"__{_name}__", _forward)
    setattr(TracedFloat, f"__r{_name}__", _reflected)


def _divide(a: Any, b: Any) -> Any:
    """a / b: recorded where the divisor is not zero, else done in Python, which raises."""
    if not all(map(_is_number, (a, b))):
        return operator.truediv(plain(a), plain(b)) if is_foreign(a) or is_foreign(b) else NotImplemented
    return _calculate("div", operator.truediv, a, b) if b else plain(a) / 0.0


_EXACT = 2**53
"""Integers below are floats exactly."""


def _comparison(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A comparison as a condition of the compiled call; where it cannot be one, the trace is tied to the number."""

    def compare(self: TracedFloat, other: Any) -> Any:
        if type(other) not in (bool, int, float, SymbolicInt, TracedFloat):
            return NotImplemented if compares_itself(other) else function(self._value(), other)
        tracer = state.tracer
        exact = isinstance(other, (float, TracedFloat)) or -_EXACT < other < _EXACT
        if tracer is None or tracer.arguments is None or not exact:
            return function(compared(self, other), plain(other))
        values = self.value, other.value if type(other := to_float(other)) is TracedFloat else other
        return tracer.compare(name, self, other, None if None in values else function(*values))

    return compare


def python_number(function: Callable[..., Any], *arguments: Any) -> Any:
    """A float that only Python calculates as Python does, `math.cos` or a power, of numbers of the call.

    The first recording is tied to the numbers, but to those that the function keeps and changes. When they vary, it is
    a call of the Python function in the compiled one.
    """
    tracer = state.tracer
    values = [x.value if isinstance(x, TracedFloat) else x for x in map(to_float, arguments)]
    if tracer is None or tracer.arguments is None:
        return function(*map(plain, arguments))
    if None in values:  # calculated from a tensor
        return TracedFloat(tracer.python_call(function, [to_float(x) for x in arguments], None), None)
    if not tracer.varies(*arguments):
        return function(*map(plain, arguments))
    try:
        result = function(*values)
    except (ArithmeticError, TypeError, ValueError):
        result = None
    if type(result) is not float:
        return function(*map(plain, arguments))
    return TracedFloat(tracer.python_call(function, [to_float(x) for x in arguments], True), result)


def _divmod(a: Any, b: Any) -> Any:
    """Quotient and remainder, each by its own operator; errors are those of Python's numbers."""
    known = _is_number(a) and _is_number(b) and b != 0
    return (a // b, a % b) if known else divmod(plain(a), plain(b))


def plain(value: Any) -> Any:
    """A number of the trace as Python's own, which ties the trace to it; other values as they are."""
    return value._value() if type(value) in (SymbolicInt, TracedFloat) else value


def _python_operator(function: Callable[..., Any]) -> tuple[Any, Any]:
    """An operator that only Python calculates as Python does."""

    def forward(self: TracedFloat, other: Any) -> Any:
        if _is_number(other):
            return python_number(function, self, other)
        return function(self._value(), other) if is_foreign(other) else NotImplemented

    def reflected(self: TracedFloat, other: Any) -> Any:
        if _is_number(other):
            return python_number(function, other, self)
        return function(other, self._value()) if is_foreign(other) else NotImplemented

    return forward, reflected


for _name in ("pow", "floordiv", "mod"):
    _forward, _reflected = _python_operator(getattr(operator, _name))
    setattr(TracedFloat, f"__{_name}__", _forward)
    setattr(TracedFloat, f"__r{_name}__", _reflected)
SymbolicInt.__divmod__ = TracedFloat.__divmod__ = _divmod  # type: ignore
SymbolicInt.__rdivmod__ = TracedFloat.__rdivmod__ = lambda self, other: _divmod(other, self)  # type: ignore
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(TracedFloat, f"__{_name}__", _comparison(_name, getattr(operator, _name)))
TracedFloat.__truediv__ = _divide  # type: ignore[operator]
TracedFloat.__rtruediv__ = lambda self, other: _divide(other, self)  # type: ignore[attr-defined]
TracedFloat.__neg__ = lambda self: self * -1.0  # type: ignore[operator]
TracedFloat.__pos__ = lambda self: self  # type: ignore[operator]
SymbolicInt.__reduce_ex__ = TracedFloat.__reduce_ex__ = lambda self, protocol: "itself"  # type: ignore  # for copies

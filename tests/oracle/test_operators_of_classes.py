"""What subclasses are told of operators: the functions' names, their arguments and results, as PyTorch tells them."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch

import eagerjit

BINARY = "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift eq ne lt le gt ge".split()
IN_PLACE = "iadd isub imul itruediv ifloordiv imod ipow iand ior ixor".split()
UNARY = (operator.neg, operator.pos, operator.invert, abs, list, reversed, bool, len)
OLD = "__div__ __rdiv__ __idiv__ __rtruediv__ __rand__ __ror__ __rxor__ __rlshift__ __rrshift__".split()


class Other:
    """An operand that PyTorch knows nothing of."""

    def answer(self, *args: Any) -> str:
        return "the other's"

    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = __rmatmul__ = answer
    __rand__ = __ror__ = __rxor__ = __rlshift__ = __rrshift__ = answer
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = answer


def told(library: Any, values: list[Any], function: Any, *operands: Any) -> Any:
    """(name, classes of the arguments) of all that the class is asked for, and what comes of it."""
    asked = []

    class Noted(library.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked.append((func.__name__, [type(a).__name__ for a in args]))
            return super().__torch_function__(func, types, args, kwargs or {})

    made = {"noted": library.tensor(values).as_subclass(Noted), "plain": library.tensor(values)}
    try:
        result = function(*(made[o] if isinstance(o, str) and o in made else o for o in operands))
    except (TypeError, RuntimeError, NotImplementedError, AttributeError) as problem:
        return asked, type(problem)
    return list(asked), type(result).__name__, result.tolist() if isinstance(result, library.Tensor) else repr(result)


VALUES = pytest.mark.parametrize("values", [[[3, 1], [2, 4]], [[3.0, 1.0], [2.0, 4.0]]], ids=["int", "float"])


@VALUES
@pytest.mark.parametrize("name", BINARY)
def test_binary_operators_ask_by_the_names_of_pytorch(name: str, values: list[Any]) -> None:
    pairs = [("noted", "noted"), ("noted", "plain"), ("plain", "noted"), ("noted", Other())]
    pairs += [pair for other in (2, None, "text") for pair in (("noted", other), (other, "noted"))]
    for pair in pairs:
        if name == "matmul" and 2 in pair:
            continue
        got, expected = (told(library, values, getattr(operator, name), *pair) for library in (eagerjit, torch))
        assert got == expected, (name, pair)


@VALUES
@pytest.mark.parametrize("name", IN_PLACE)
def test_operators_in_place_ask_by_the_names_of_pytorch(name: str, values: list[Any]) -> None:
    for pair in [("noted", "noted"), ("noted", "plain"), ("plain", "noted"), ("noted", 2), ("noted", Other())]:
        got, expected = (told(library, values, getattr(operator, name), *pair) for library in (eagerjit, torch))
        assert got == expected, (name, pair)


@VALUES
def test_unary_operators_and_methods_of_reflected_ones_ask_by_the_names_of_pytorch(values: list[Any]) -> None:
    for function in UNARY:
        got, expected = (told(library, values, function, "noted")[:2] for library in (eagerjit, torch))
        assert got == expected, function
    for name in OLD:
        call = operator.methodcaller(name, 2)
        got, expected = (told(library, values, call, "noted") for library in (eagerjit, torch))
        assert got == expected, name


def test_elements_cannot_be_deleted() -> None:
    for library in (torch, eagerjit):
        with pytest.raises(TypeError, match="Tensor does not support deleting items"):
            del library.ones(2)[0]

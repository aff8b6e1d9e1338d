"""What nodes of an exported graph call besides the library's ops: single primitives, sizes, states of generators."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from eagerjit.calling.dispatch import OPS, Op, emit
from eagerjit.compiler.ops import TABLE
from eagerjit.compiler.ops.host import host
from eagerjit.func.evaluate import call_by_name
from eagerjit.generator import default_generator
from eagerjit.namespace.packets import Packet, aten, function_of
from eagerjit.recording.numbers import SymbolicInt, expression
from eagerjit.runtime import mode
from eagerjit.runtime.parameters import Parameters
from eagerjit.tensors.tensor import Tensor


def _as_attribute(value: Any) -> Any:
    if isinstance(value, SymbolicInt):
        return expression(value)
    return tuple(map(_as_attribute, value)) if type(value) is tuple else value


@functools.cache
def _primitive(count: int) -> Op:
    """The op that computes a primitive of so many tensors."""

    def body(name: str, names: tuple[str, ...], values: tuple[Any, ...], *inputs: Tensor) -> Tensor:
        return emit(TABLE[name], *inputs, **dict(zip(names, map(_as_attribute, values), strict=True)))

    names = ("name", "names", "values", *(f"input_{i}" for i in range(count)))
    body.takes = Parameters(names, (inspect.Parameter.empty,) * len(names))  # type: ignore[attr-defined]
    op = Op(f"primitive_{count}", body)
    op.symbolic = False  # sizes among the attributes are those of the call
    del OPS[op.name]  # not one of the table's: who records a call notes the primitive
    return op


def _with_gradient(
    inputs: tuple[Tensor, ...], function: str, arguments: tuple[Any, ...], result: int, **types: Any
) -> Tensor:
    """A result of a Python function, which has no gradient as a primitive."""
    found = call_by_name(function, _as_attribute(arguments), inputs)
    return found[result] if isinstance(found, tuple) else found


class PrimitiveFunction:
    """A primitive of the compiler as a function of tensors, whose attributes are given by name."""

    __module__ = "prims"

    def __init__(self, name: str):
        self.__name__ = name

    def __call__(self, *inputs: Tensor, **attributes: Any) -> Any:
        if self.__name__ == host.name and mode.grad_mode() and any(x.requires_grad for x in inputs):
            return _with_gradient(inputs, **attributes)
        return _primitive(len(inputs)).call(self.__name__, tuple(attributes), tuple(attributes.values()), *inputs)

    def __repr__(self) -> str:
        return f"prims.{self.__name__}"


class OpFunction:
    """An op as a function of all its arguments, in order."""

    __module__ = "ops"

    def __init__(self, name: str):
        self.__name__ = name

    def __call__(self, *arguments: Any) -> Any:
        return OPS[self.__name__].call(*arguments)

    def __repr__(self) -> str:
        return f"ops.{self.__name__}"


@functools.cache
def primitive(name: str) -> PrimitiveFunction:
    """The function of a primitive, the same object each time. Raises KeyError for a name that none has."""
    return PrimitiveFunction(TABLE[name].name)


@functools.cache
def op_function(name: str) -> Packet | OpFunction:
    """An op as `torch.ops.aten` has it where that is the op itself. Raises KeyError for a name that none has."""
    is_itself = function_of(name) == OPS[name].call  # or what stands for it where classes are asked
    return getattr(aten, name) if is_itself else OpFunction(name)


def sym_size(input: Tensor, dim: int) -> int:
    """A size of a tensor."""
    return input.shape[dim]


def generator_state() -> Tensor:
    """The state of the default generator, which draws move on."""
    return default_generator.state


FUNCTIONS = {function.__name__: function for function in (sym_size, generator_state, min, max)}
"""Functions by name; those of Python combine sizes."""

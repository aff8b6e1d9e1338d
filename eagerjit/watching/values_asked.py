"""Tensors that stand where an op takes numbers: those that are numbers are asked for them, the others refused."""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

from eagerjit.compiler.ir import ancestors
from eagerjit.runtime import dtypes
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import Evaluated, TraceBreak, user_line


class ValueAsked(TraceBreak):
    """What ends the recording of an op's body that asks for the value of tensors among its arguments.

    `node` is what it asks for, `positions` are those of the arguments that it is computed of.
    """

    def __init__(self, reason: str, positions: frozenset[int] = frozenset(), node: Any = None):
        super().__init__(reason, user_line())
        self.positions, self.node = positions, node

    def locate(self, ends: Sequence[int]) -> None:
        """Find the positions; `ends` says up to which leaf of the recording each argument goes."""
        given = [n.attributes["leaf"] for n in ancestors([self.node]) if n.op.family == "argument"]
        self.positions = frozenset(bisect_right(ends, leaf) for leaf in given)

    def numbers(self, name: str, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments with numbers for the tensors asked for. Raises TypeError where one of them is none."""
        given: list[Any] = list(arguments)
        for i in self.positions:
            several = given[i] if type(given[i]) is tuple else (given[i],)
            if not all(map(_is_number, several)):
                raise _refused(name, arguments) from self
            values = tuple([x.item() if isinstance(x, Tensor) else x for x in several])
            given[i] = values if type(given[i]) is tuple else values[0]
        return tuple(given)


def _is_number(value: Any) -> bool:
    """Whether PyTorch takes a value for a number: of tensors those without dimensions and gradients."""
    return not isinstance(value, Tensor) or not (value.ndim or value.requires_grad or value.dtype is dtypes.bool_)


def _refused(name: str, arguments: Sequence[Any]) -> TypeError:
    kinds = ", ".join(type(a).__name__ for a in arguments)
    return TypeError(f"{name}(): a Tensor stands where a number or a flag belongs, in ({kinds})")


@contextlib.contextmanager
def values_refused(name: str, arguments: Sequence[Any]) -> Iterator[None]:
    """Where an op's body is recorded for an eager call: a Tensor whose value it asks for stands where none belongs."""
    try:
        yield
    except Evaluated:
        raise
    except ValueAsked as asked:
        if not asked.positions:
            raise _refused(name, arguments) from asked
        raise
    except TraceBreak as broken:
        raise _refused(name, arguments) from broken

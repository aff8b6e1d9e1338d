"""What tests of Programs need: classes to stand for the front layer's, tiny kernels, and both executors."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from eagerjit.runtime import cpu, dtypes
from eagerjit.runtime.binding import new_tensor
from eagerjit.runtime.execute import NativeExecutable, load
from eagerjit.runtime.interpret import PythonExecutable
from eagerjit.runtime.program import Failure, Op, Program


class Tensor:
    """The slots of a Tensor, in an order of their own, with one that the runtime knows nothing of."""

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_data",
        "_extra",
        "_grad",
        "_hooks",
        "_index",
        "_node",
        "_requires_grad",
        "_storage",
        "_view",
    )


class Parameter(Tensor):
    """An exact sibling of Tensor."""

    __slots__ = ()


class Custom(Tensor):
    """A subclass that the runtime was not told of."""


class Storage:
    __slots__ = ("source", "version")

    def __init__(self) -> None:
        self.version = 0
        self.source: Any = None


class Node:
    __slots__ = (
        *("code", "hooks", "inputs", "offset", "op", "other", "output", "overwritten", "replaced", "sequence"),
        "versions",
    )


def tensor(values: Any, dtype: Any = np.float32, kind: type = Tensor, grad: bool = False) -> Any:
    """A Tensor over an ndarray of these values; an ndarray is taken as it is."""
    made = new_tensor(values if isinstance(values, np.ndarray) else np.array(values, dtype))
    if kind is not Tensor:
        other = object.__new__(kind)
        for slot in ("_hooks", "_data", "_extra", "_grad", "_index", "_node", "_requires_grad", "_storage"):
            setattr(other, slot, getattr(made, slot))
        made = other
    made._requires_grad = grad
    return made


_KERNELS = """
define i64 @probe(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
  %to = load ptr, ptr %args
  %count.at = getelementptr i64, ptr %args, i64 1
  %count = load i64, ptr %count.at
  br label %loop
loop:
  %i = phi i64 [0, %0], [%next, %loop]
  %from.i = add i64 %i, 2
  %from = getelementptr i64, ptr %args, i64 %from.i
  %value = load i64, ptr %from
  %at = getelementptr i64, ptr %to, i64 %i
  store i64 %value, ptr %at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret i64 0
}

define i64 @add(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
  %x = load ptr, ptr %args
  %y.at = getelementptr i64, ptr %args, i64 1
  %y = load ptr, ptr %y.at
  %z.at = getelementptr i64, ptr %args, i64 2
  %z = load ptr, ptr %z.at
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [%begin, %0], [%next, %loop]
  %x.i = getelementptr float, ptr %x, i64 %i
  %y.i = getelementptr float, ptr %y, i64 %i
  %z.i = getelementptr float, ptr %z, i64 %i
  %a = load float, ptr %x.i
  %b = load float, ptr %y.i
  %c = fadd float %a, %b
  store float %c, ptr %z.i
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret i64 0
}

define i64 @through_scratch(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
  %x = load ptr, ptr %args
  %value = load float, ptr %x
  %bytes.at = getelementptr i64, ptr %args, i64 1
  %bytes = load i64, ptr %bytes.at
  %last = getelementptr i8, ptr %scratch, i64 %bytes
  %place = getelementptr i8, ptr %last, i64 -4
  store float %value, ptr %place
  %again = load float, ptr %place
  %twice = fadd float %again, %again
  store float %twice, ptr %x
  ret i64 0
}

define i64 @fail(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
  %status = load i64, ptr %args
  ret i64 %status
}
"""


@functools.cache
def _loaded() -> cpu.LoadedObject:
    return cpu.load_object(cpu.compile_text(_KERNELS))


@functools.cache
def kernel(name: str) -> int:
    """The address of one of the kernels above."""
    return _loaded().address(name)


EXECUTORS = ("python", "native")


def executable(
    executor: str, program: Program, objects: Sequence[object] = (), functions: Sequence[int] | None = None
) -> Any:
    """The Program loaded for one of the two executors."""
    addresses = [kernel(name) for name in program.kernels] if functions is None else functions
    if executor == "python":
        return PythonExecutable(program, addresses, objects)
    loaded = load(program, addresses, objects)
    assert type(loaded) is NativeExecutable
    return loaded


SLOTS = 40
LEAVES = 12


def program(arguments: int, *steps: tuple[int, ...], outputs: int = 1, words: int = 0) -> Program:
    """A Program with room for SLOTS slots and LEAVES leaves, and all kernels of this file in order of their name."""
    failures = [Failure("IndexError", "out of range"), Failure("ValueError", "bad value")]
    kernels = ["add", "fail", "probe", "through_scratch"]
    return Program(arguments, LEAVES, SLOTS, outputs, list(steps), kernels, failures, words)


ADD, FAIL, PROBE, THROUGH_SCRATCH = range(4)


def observing(arguments: int, *steps: tuple[int, ...], slots: Sequence[int], words: int = 0) -> Program:
    """The steps, then an int64 tensor of what these slots hold."""
    count, pointer, one = SLOTS - 3, SLOTS - 2, SLOTS - 1
    return program(
        arguments,
        *steps,
        (Op.CONST, count, len(slots)),
        (Op.CONST, one, 1),
        (Op.OUTPUT, 0, dtypes.int64.code, 1, pointer, count),
        (Op.BEGIN, one),
        (Op.KERNEL, PROBE, one, one, -1, len(slots) + 2, pointer, count, *slots),
        (Op.FINISH,),
        words=words,
    )


F32 = dtypes.float32.code


def adding(work: int = 1, grad: int = 2) -> Program:
    """x + y for two contiguous float32 vectors of one length; `work` is what it says it costs."""
    return program(
        2,
        (Op.TENSOR, 0, F32, 1, 1, grad, 0, 1, 0),
        (Op.TENSOR, 1, F32, 1, 1, grad, 2, 3, 0),
        (Op.CHECK_EQ, 1, 3),
        (Op.OUTPUT, 0, F32, 1, 4, 1),
        (Op.CONST, 5, work),
        (Op.BEGIN, 5),
        (Op.KERNEL, ADD, 1, 5, -1, 3, 0, 2, 4),
        (Op.FINISH,),
    )


both = pytest.mark.parametrize("executor", EXECUTORS)


def fallback(*args: Any, **kwargs: Any) -> Any:
    return "fallback", args, kwargs


def refuse(*args: Any, **kwargs: Any) -> Any:
    raise LookupError("nothing serves this")


def pair(a: float, b: float) -> tuple[Any, Any]:
    return tensor([a, 1.0]), tensor([b, 2.0])

"""What the layers above call: jitted functions and eager operators in front of loaded Programs.

A `Function` tries its executables in order, an `OpCall` looks its arguments' classes up in a table; whatever neither
serves goes to Python. The classes here are the pure-Python ones; where the native runtime is on, `native/entry.py`
supplies heap types with the same interface under the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

import numpy as np

from eagerjit.runtime import dtypes, mode
from eagerjit.runtime.binding import bound
from eagerjit.runtime.execute import MISS

MAX_NDIM = 4
KINDS = {float: 10, int: 11, bool: 12, type(None): 13}
"""Kinds of arguments that are not Tensors, numbered after the dtype codes."""

_CODES = {d.numpy: d.code for d in dtypes.ALL}
_FLOATING = frozenset(d.numpy for d in dtypes.ALL if d.is_floating_point)

Finish = Callable[[tuple[Any, ...]], Any]


def argument_class(argument: object) -> int:
    """The 16 bits an operator's table knows an argument by; 0 where only Python can serve it.

    From the low bits on: kind or dtype code (4), dimensions (3), C-contiguous (1), then 2 bits per dimension: its
    extent up to 2. Numbers are classed by type alone, except that a bool carries its value.
    """
    kind = KINDS.get(type(argument))
    if kind is not None:
        return kind | (argument is True) << 4
    if type(argument) not in bound.tensor_types:
        return 0
    array = argument._data  # type: ignore[attr-defined]
    if type(array) is not np.ndarray or array.ndim > MAX_NDIM or array.dtype not in _CODES:
        return 0
    word = _CODES[array.dtype] | array.ndim << 4 | array.flags.c_contiguous << 7
    for axis, extent in enumerate(array.shape):
        word |= min(extent, 2) << (8 + 2 * axis)
    return word


def argument_classes(arguments: Sequence[object]) -> tuple[int, ...] | None:
    """The classes of all arguments, or None where one has none."""
    classes = tuple(map(argument_class, arguments))
    return classes if all(classes) else None


def record_node(op: object, inputs: tuple[Any, ...], result: Any) -> None:
    """Makes `result` the output of a new autograd node if an input needs a gradient and the result can have one."""
    tensors = [x if type(x) in bound.tensor_types else None for x in inputs]
    if not any(t is not None and t._requires_grad is True for t in tensors) or result._data.dtype not in _FLOATING:
        return
    assert bound.node_type is not None
    node = object.__new__(bound.node_type)
    for slot in bound.node_slots:
        setattr(node, slot, None)
    storages = [None if t is None else t._storage for t in tensors]
    node.op = op
    node.inputs = inputs
    node.output = result._data
    node.sequence = mode.next_sequence()
    if any(s is not None for s in storages):
        node.versions = tuple(0 if s is None else s.version for s in storages)
    result._node = node
    result._requires_grad = True


class PythonFunction:
    """A jitted function: `insert` adds an executable; a call that none serves is `fallback(*args, **kwargs)`.

    Positional arguments are the executable's leaves, so only calls whose arguments are flat are served here. Like a
    function it binds to instances when stored on a class.
    """

    def __init__(self, fallback: Callable[..., Any]):
        self.fallback = fallback
        self._entries: list[tuple[Any, Finish | None]] = []

    def insert(self, executable: Any, finish: Finish | None = None) -> None:
        """Tries `executable` after those inserted before; `finish` turns the tuple of its outputs into the result."""
        self._entries.append((executable, finish))

    def clear(self) -> None:
        """Forgets all executables."""
        self._entries = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs or mode.tracing():
            return self.fallback(*args, **kwargs)
        for executable, finish in self._entries:
            if executable.n_arguments != len(args):
                continue
            result = executable.run(args)
            if result is MISS:
                continue
            if finish is None:
                return result
            return finish((result,) if executable.n_outputs == 1 else result)
        return self.fallback(*args)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)


class PythonOpCall:
    """An eager operator: executables by the classes of their arguments; a call none serves is `slow(*args, **kwargs)`.

    With `record`, results that need a gradient get an autograd node whose `op` is the one given here. `reflected` calls
    take their two arguments in the other order, as `__radd__` does.
    """

    def __init__(self, name: str, slow: Callable[..., Any], op: object, record: bool = True, reflected: bool = False):
        self.__name__ = name
        self.slow = slow
        self.op = op
        self._record = record
        self._reflected = reflected
        self._table: dict[tuple[int, ...], list[Any]] = {}

    def insert(self, arguments: Sequence[object], executable: Any) -> bool:
        """Serves calls with arguments of these classes by `executable` (after those inserted before); False if it can't."""
        classes = argument_classes(arguments)
        if classes is None:
            return False
        self._table.setdefault(classes, []).append(executable)
        return True

    def clear(self) -> None:
        """Forgets all executables."""
        self._table.clear()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._reflected:
            args = args[::-1]
        classes = None if kwargs or mode.tracing() else argument_classes(args)
        if classes is None:
            return self.slow(*args, **kwargs)
        for executable in self._table.get(classes, ()):
            result = executable.run(args)
            if result is MISS:
                continue
            if self._record and mode.grad_mode():
                record_node(self.op, args, result)
            return result
        return self.slow(*args)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)


Function: Any = PythonFunction
OpCall: Any = PythonOpCall


def install_method(owner: type, name: str, op_call: Any) -> None:
    """Makes `op_call` the method `name` of a class; calls through it make no bound method."""
    setattr(owner, name, op_call)

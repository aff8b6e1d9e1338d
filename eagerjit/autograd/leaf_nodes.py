"""What stands at the end of the tape for a leaf."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

from eagerjit.autograd import node_hooks
from eagerjit.tensors.tensor import Tensor


class AccumulateGrad:
    """Where a leaf's gradient is added up. As long as somebody holds it, the leaf has this one."""

    inputs: tuple[Any, ...] = ()
    next_functions: tuple[Any, ...] = ()

    def __init__(self, variable: Tensor):
        self.variable = variable

    @property
    def hooks(self) -> dict[Any, Any] | None:
        """The hooks of the leaf, of which the node's are two kinds."""
        return self.variable._hooks

    @hooks.setter
    def hooks(self, tables: dict[Any, Any]) -> None:
        self.variable._hooks = tables

    def name(self) -> str:
        """PyTorch's name of it."""
        return "torch::autograd::AccumulateGrad"

    def register_hook(self, fn: Callable[..., Any]) -> Any:
        """Calls fn((), (gradient,)) whenever one has been added to the leaf's."""
        return node_hooks.register(self, node_hooks.AFTER, fn)

    def register_prehook(self, fn: Callable[..., Any]) -> Any:
        """Calls fn((gradient,)) before it is added to the leaf's; a tuple replaces it."""
        return node_hooks.register(self, node_hooks.BEFORE, fn)


_held: WeakValueDictionary[int, AccumulateGrad] = WeakValueDictionary()


def accumulator(leaf: Tensor) -> AccumulateGrad:
    """The node of a leaf, by which hooks and walks through the tape tell leaves apart."""
    node = _held.get(id(leaf))
    return _held.setdefault(id(leaf), AccumulateGrad(leaf)) if node is None else node

"""Hooks of tensors: the tables they lie in, and what takes one away again."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from eagerjit.runtime import mode
from eagerjit.runtime.binding import bound

if TYPE_CHECKING:
    from eagerjit.tensors.tensor import Tensor


class Handle:
    """Removes a hook: `remove()`, or at the end of a `with` block. `id` is the hook's key in its table."""

    _numbers = itertools.count()

    def __init__(self, hooks: dict[int, Any], first: int = 0):
        self._hooks, self.id = hooks, first + next(Handle._numbers)

    def remove(self) -> None:
        """Take the hook away."""
        if self._hooks.pop(self.id, None) is not None:
            mode.bump_epoch()

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def add_hook(hooks: dict[int, Any], hook: Any, prepend: bool = False) -> Handle:
    """Put a hook in a table, behind all others or before them."""
    handle, others = Handle(hooks), dict(hooks) if prepend else {}
    for number in others:
        del hooks[number]
    hooks[handle.id] = hook
    hooks.update(others)
    mode.bump_epoch()
    return handle


def node_hooks(tensor: Tensor) -> dict[int, Any]:
    """The hooks of a tensor that is not a leaf: the smaller their numbers, the earlier they are called."""
    bound.refresh(tensor)
    if tensor._node.hooks is None:
        tensor._node.hooks = {}
    return tensor._node.hooks.setdefault(tensor._index, {})


def leaf_hooks(tensor: Tensor, kind: str) -> dict[int, Any]:
    """The hooks of a leaf that are of this kind."""
    if tensor._hooks is None:
        tensor._hooks = {}
    return tensor._hooks.setdefault(kind, {})

"""Arguments and results of transforms as flat lists: containers of Python's, and of classes that programs register."""

from __future__ import annotations

from typing import Any

from eagerjit import pytree
from eagerjit.utils.trees.registry import SUPPORTED_NODES


def is_holder_class(kind: type) -> bool:
    """Whether instances say themselves what becomes of them in a `vmap`: see `holders.py`."""
    return hasattr(kind, "_add_batch_dim") and hasattr(kind, "_maybe_remove_batch_dim")


def _node(kind: type) -> Any:
    return SUPPORTED_NODES.get(kind)


def _node_of_vmap(kind: type) -> Any:
    return None if is_holder_class(kind) else SUPPORTED_NODES.get(kind)


_WAYS, _WAYS_OF_VMAP = pytree.Ways(registered=_node), pytree.Ways(registered=_node_of_vmap)


def flatten(value: Any, leaves: list[Any]) -> pytree.Structure:
    """Append the leaves of a nesting to `leaves`; its structure."""
    return pytree.flatten(value, leaves, _WAYS)


def flatten_for_vmap(value: Any, leaves: list[Any]) -> pytree.Structure:
    """The same, with objects as leaves that say themselves what `vmap` makes of them."""
    return pytree.flatten(value, leaves, _WAYS_OF_VMAP)

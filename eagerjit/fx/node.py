"""Nodes of a graph of Python calls, and what their arguments are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eagerjit.fx.graph import Graph

OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output", "root")
"""What Nodes are; `root` is the end of the ring that a Graph's Nodes are."""


_CHANGING = ("_assert", "_assert_is_none", "setitem")
"""Functions whose Nodes are kept although nothing uses them, by name."""


_registered: list[Any] = []


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Let Nodes that call a function be kept although nothing uses them; returns the function."""
    _registered.append(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """A function of every leaf of nested tuples, lists, dictionaries and slices."""
    if isinstance(a, tuple):
        parts = [map_aggregate(x, fn) for x in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return [map_aggregate(x, fn) for x in a]
    if isinstance(a, dict):
        return {key: map_aggregate(x, fn) for key, x in a.items()}
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """A function of every Node among nested arguments."""
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


class Node:
    """One call, input or output of a Graph.

    op          "placeholder", "get_attr", "call_function", "call_method", "call_module" or "output"
    target      the input's or attribute's name, the function, the method's name or the Module's path
    args        arguments: Nodes, constants and nested containers of both; kwargs likewise
    users       the Nodes that have this one among their arguments
    meta        for what passes want to note
    """

    def __init__(
        self, graph: Graph, name: str, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
        return_type: Any = None,
    ):  # fmt: skip
        if op not in OPS:
            raise AssertionError(f"op must be one of {', '.join(OPS)}, but got {op}")
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self.users: dict[Node, None] = {}
        self._inputs: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._next = self._prev = self
        self._erased = False
        self._args, self._kwargs = args, kwargs
        self._set(args, kwargs)

    def _set(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for node in self._inputs:
            node.users.pop(self, None)
        self._args, self._kwargs, self._inputs = args, kwargs, {}
        map_arg((args, kwargs), lambda node: self._inputs.setdefault(node))
        for node in self._inputs:
            node.users[self] = None

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments."""
        return self._args

    @args.setter
    def args(self, args: tuple[Any, ...]) -> None:
        self._set(tuple(args), self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The named arguments."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Any]) -> None:
        self._set(self._args, dict(kwargs))

    @property
    def all_input_nodes(self) -> list[Node]:
        """The Nodes among the arguments, each once."""
        return list(self._inputs)

    @property
    def next(self) -> Node:
        """The Node after this one; after the last, one that stands for the ends."""
        return self._next

    @property
    def prev(self) -> Node:
        """The Node before this one; before the first, one that stands for the ends."""
        return self._prev

    def append(self, x: Node) -> None:
        """Put a Node of the graph after this one."""
        self._next.prepend(x)

    def prepend(self, x: Node) -> None:
        """Put a Node of the graph before this one. Raises AssertionError for one of another graph."""
        if x.graph is not self.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is self:
            return
        x._leave()
        x._prev, x._next = self._prev, self
        self._prev._next = self._prev = x

    def _leave(self) -> None:
        """Leave the ring; this Node still knows its neighbors, from which loops over the Nodes go on."""
        self._prev._next, self._next._prev = self._next, self._prev

    def update_arg(self, idx: int, arg: Any) -> None:
        """Another positional argument."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Another named argument."""
        self.kwargs = {**self.kwargs, key: arg}

    def insert_arg(self, idx: int, arg: Any) -> None:
        """One more positional argument."""
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] = lambda user: True, *,
        propagate_meta: bool = False,
    ) -> list[Node]:  # fmt: skip
        """Use another Node wherever this one is an argument; returns the Nodes that were changed."""
        if propagate_meta:
            replace_with.meta.update({k: v for k, v in self.meta.items() if k not in replace_with.meta})
        changed = [user for user in list(self.users) if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Use another Node for one among the arguments."""

        def other(node: Node) -> Node:
            return new_input if node is old_input else node

        self._set(map_arg(self.args, other), map_arg(self.kwargs, other))

    def is_impure(self) -> bool:
        """Whether the Node is kept although nothing uses it."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_method":
            return self.target.endswith("_") and not self.target.endswith("__")
        if self.op != "call_function":
            return False
        named = str(getattr(self.target, "__name__", "")) in _CHANGING
        return named or any(self.target is function for function in _registered)

    def format_node(self) -> str:
        """The Node as a line of text."""
        if self.op == "placeholder":
            default = f"(default={self.args[0]!r})" if self.args else ""
            return f"%{self.name} : [num_users={len(self.users)}] = placeholder[target={self.target}]{default}"
        if self.op == "output":
            return f"return {self.args[0]}"
        kind = f"[target={_shown(self.target)}]"
        if self.op == "get_attr":
            return f"%{self.name} : [num_users={len(self.users)}] = get_attr{kind}"
        arguments = f"(args = {_listed(self.args)}, kwargs = {_listed(self.kwargs)})"
        return f"%{self.name} : [num_users={len(self.users)}] = {self.op}{kind}{arguments}"

    def __repr__(self) -> str:
        return self.name


def _shown(target: Any) -> str:
    from eagerjit.fx.graph import public_name

    if isinstance(target, str):
        return target
    return public_name(target) or f"{target.__module__}.{target.__name__}"


def _listed(a: Any) -> str:
    return str(map_arg(a, lambda node: _Named(f"%{node.name}")))


class _Named(str):
    __slots__ = ()
    __repr__ = str.__str__

"""How data is nested."""

from __future__ import annotations

import dataclasses
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from eagerjit.utils.trees.registry import (
    BUILTIN_TYPES,
    STANDARD_DICT_TYPES,
    SUPPORTED_NODES,
    ConstantNode,
    _get_node_type,
)


@dataclass(init=False, frozen=True, eq=False, repr=False)
class TreeSpec:
    """How data is nested: the kind of the container, its keys or class, and the same of the children."""

    type: Any
    _context: Any
    _children: list[TreeSpec]
    num_nodes: int = dataclasses.field(init=False)
    num_leaves: int = dataclasses.field(init=False)
    num_children: int = dataclasses.field(init=False)

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec]):
        is_leaf = type is None
        if is_leaf and (context is not None or children_specs):
            raise AssertionError("leaf node should not have a context or children")
        vars(self).update(
            type=type, _context=context, _children=children_specs, num_children=len(children_specs),
            num_nodes=1 + sum(child.num_nodes for child in children_specs),
            num_leaves=1 if is_leaf else sum(child.num_leaves for child in children_specs),
        )  # fmt: skip

    @property
    def context(self) -> Any:
        """The container's keys, class or the like."""
        return self._context

    @property
    def children_specs(self) -> list[TreeSpec]:
        """How the children are nested."""
        return self._children

    def children(self) -> list[TreeSpec]:
        """How the children are nested, as a list of its own."""
        return self._children.copy()

    def child(self, index: int) -> TreeSpec:
        """How one child is nested."""
        return self._children[index]

    def is_leaf(self) -> bool:
        """Whether there is no container at all."""
        return self.num_nodes == 1 and self.num_leaves == 1

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """What data has where this nesting has its leaves. Raises ValueError for data that is nested otherwise."""
        found: list[Any] = []

        def visit(spec: TreeSpec, node: Any) -> None:
            if spec.is_leaf():
                found.append(node)
                return
            for child, part in zip(spec._children, _children_like(spec, node), strict=True):
                visit(child, part)

        visit(self, tree)
        return found

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Nested data again. Raises ValueError for another number of leaves."""
        values = list(leaves)
        if len(values) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(values)} but the spec refers to a pytree that "
                f"holds {self.num_leaves} items ({self})."
            )
        rest = iter(values)

        def build(spec: TreeSpec) -> Any:
            if spec.type is None:
                return next(rest)
            return SUPPORTED_NODES[spec.type].unflatten_fn([build(c) for c in spec._children], spec._context)

        return build(self)

    def __eq__(self, other: Any) -> Any:
        if self is other:
            return True
        if other.__class__ is not self.__class__:
            return NotImplemented
        return (str(self.type), self._context, self._children) == (str(other.type), other._context, other._children)

    def __hash__(self) -> int:
        return hash((self.type, self._hashed_context(), tuple(self._children)))

    def _hashed_context(self) -> Any:
        """What a hash may have of the context: that of a class of a program's may have none."""
        if self.type is defaultdict:
            return self._context[0], tuple(self._context[1])
        if self.type in STANDARD_DICT_TYPES:
            return tuple(self._context)
        if isinstance(self._context, ConstantNode):
            return self._context.value
        return self._context if self.type is None or self.type in BUILTIN_TYPES else None

    def __repr__(self, indent: int = 0) -> str:
        indent += 2
        parts = [child.__repr__(indent) for child in self._children]  # type: ignore[call-arg]  # ours take it
        children = (",\n" + " " * indent).join(parts)
        return f"TreeSpec({self.type.__name__}, {self._context}, [{children}])"


@dataclass(init=False, frozen=True, eq=False, repr=False)
class LeafSpec(TreeSpec):
    """The nesting of what is no container."""

    def __init__(self) -> None:
        super().__init__(None, None, [])

    def __repr__(self, indent: int = 0) -> str:
        return "*"


_LEAF_SPEC = LeafSpec()


def treespec_leaf() -> LeafSpec:
    """The nesting of what is no container."""
    return _LEAF_SPEC


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The nesting of a tuple of children."""
    children = list(iterable)
    if not all(isinstance(child, TreeSpec) for child in children):
        raise ValueError(f"Expected a tuple of TreeSpec values, got: {children!r}.")
    return TreeSpec(tuple, None, children)


def treespec_dict(mapping: Mapping[Any, TreeSpec] | Iterable[Any] = (), /, **kwargs: TreeSpec) -> TreeSpec:
    """The nesting of a dictionary of children."""
    children = dict(mapping, **kwargs)
    if not all(isinstance(child, TreeSpec) for child in children.values()):
        raise ValueError(f"Expected a dictionary of TreeSpec values, got: {children!r}.")
    return TreeSpec(dict, list(children), list(children.values()))


def _children_like(spec: TreeSpec, node: Any) -> Any:
    """The children of a container of a nesting's kind; dictionaries stand for each other, in the nesting's order."""
    kind = _get_node_type(node)
    if spec.type in STANDARD_DICT_TYPES and kind in STANDARD_DICT_TYPES:
        keys = spec._context[1] if spec.type is defaultdict else spec._context
        _refuse_count(spec, node)
        if set(node) != set(keys):
            missing, extra = set(keys) - set(node), set(node) - set(keys)
            raise ValueError(f"Node keys mismatch; missing key(s): {missing}; extra key(s): {extra}.")
        return [node[key] for key in keys]
    if kind != spec.type:
        raise ValueError(f"Node type mismatch; expected {spec.type!r}, but got {kind!r}.")
    children, context = SUPPORTED_NODES[kind].flatten_fn(node)
    _refuse_count(spec, children)
    if kind is not deque and context != spec._context:
        raise ValueError(
            f"Node context mismatch for node type {spec.type!r}; expected {spec._context!r}, but got {context!r}."
        )
    return children


def _refuse_count(spec: TreeSpec, children: Any) -> None:
    if len(children) != spec.num_children:
        raise ValueError(f"Node arity mismatch; expected {spec.num_children}, but got {len(children)}.")

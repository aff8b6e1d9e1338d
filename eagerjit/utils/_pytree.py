"""Functions on nested data under PyTorch's names: tuples, named tuples, lists and dictionaries of any kind."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

PyTree = Any
Context = Any


@dataclass(frozen=True)
class TreeSpec:
    """How data is nested: the kind of the container, its keys or class, and the same of the children."""

    type: Any
    context: Any
    children_specs: list[TreeSpec] = field(default_factory=list)

    @property
    def num_leaves(self) -> int:
        """How many leaves data of this nesting has."""
        return 1 if self.type is None else sum(c.num_leaves for c in self.children_specs)

    def is_leaf(self) -> bool:
        """Whether there is no container at all."""
        return self.type is None


@dataclass(frozen=True)
class LeafSpec(TreeSpec):
    """The nesting of what is no container."""

    type: Any = None
    context: Any = None


class NodeDef(NamedTuple):
    """A kind of container: flatten_fn(x) gives (children, context), unflatten_fn makes x of both."""

    type: Any
    flatten_fn: Callable[[Any], tuple[Iterable[Any], Any]]
    unflatten_fn: Callable[[Iterable[Any], Any], Any]


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    """A dictionary's values and keys, under PyTorch's name."""
    return list(d.values()), list(d)


def _dict_unflatten(values: Iterable[Any], context: list[Any]) -> dict[Any, Any]:
    """The dictionary again."""
    return dict(zip(context, values, strict=True))


SUPPORTED_NODES: dict[Any, NodeDef] = {
    node.type: node for node in (
        NodeDef(list, lambda x: (x, None), lambda parts, _: list(parts)),
        NodeDef(tuple, lambda x: (x, None), lambda parts, _: tuple(parts)),
        NodeDef(namedtuple, lambda x: (x, type(x)), lambda parts, kind: kind(*parts)),
        NodeDef(dict, _dict_flatten, _dict_unflatten),
        NodeDef(OrderedDict, _dict_flatten, lambda parts, keys: OrderedDict(_dict_unflatten(parts, keys))),
        NodeDef(
            defaultdict, lambda x: (x.values(), (x.default_factory, list(x))),
            lambda parts, context: defaultdict(context[0], _dict_unflatten(parts, context[1])),
        ),
        NodeDef(deque, lambda x: (x, x.maxlen), lambda parts, length: deque(parts, maxlen=length)),
    )
}  # fmt: skip
"""Kinds of containers by class; one entry serves all named tuples."""


def register_pytree_node(cls: type, flatten_fn: Any, unflatten_fn: Any, **described: Any) -> None:
    """Lets instances of a class be containers: flatten_fn(x) gives (children, context), unflatten_fn makes x of both.

    Raises ValueError for a class that is one already.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn)


def _register_pytree_node(cls: type, flatten_fn: Any, unflatten_fn: Any, *described: Any, **options: Any) -> None:
    """`register_pytree_node` under an older name."""
    register_pytree_node(cls, flatten_fn, unflatten_fn)


def _get_node_type(tree: Any) -> Any:
    """What `SUPPORTED_NODES` has an object under, if it is a container."""
    kind = type(tree)
    named = kind not in SUPPORTED_NODES and isinstance(tree, tuple) and hasattr(kind, "_fields")
    return namedtuple if named else kind


def tree_flatten(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of nested data, and how they were nested."""
    leaves: list[Any] = []

    def visit(part: Any) -> TreeSpec:
        kind = _get_node_type(part)
        if kind not in SUPPORTED_NODES or (is_leaf is not None and is_leaf(part)):
            leaves.append(part)
            return LeafSpec()
        children, context = SUPPORTED_NODES[kind].flatten_fn(part)
        return TreeSpec(kind, context, [visit(c) for c in children])

    spec = visit(tree)
    return leaves, spec


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """Nested data again. Raises ValueError for another number of leaves."""
    values = list(leaves)
    if len(values) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten(): got {len(values)} leaves for a nesting of {treespec.num_leaves}")
    rest = iter(values)

    def build(spec: TreeSpec) -> Any:
        if spec.type is None:
            return next(rest)
        return SUPPORTED_NODES[spec.type].unflatten_fn([build(c) for c in spec.children_specs], spec.context)

    return build(treespec)


def tree_leaves(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of nested data."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> Iterator[Any]:
    """The leaves of nested data, one by one."""
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """How data is nested."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: Callable[[Any], bool] | None = None
) -> PyTree:
    """The data with func(leaf, leaves of `rests` at the same place) for every leaf."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_leaves(rest, is_leaf) for rest in rests]
    return tree_unflatten(list(map(func, leaves, *others)), spec)


def tree_map_(func: Callable[..., Any], tree: PyTree, *rests: PyTree) -> PyTree:
    """Call func for every leaf; returns the data itself."""
    tree_map(func, tree, *rests)
    return tree


def tree_map_only(kind: Any, func: Callable[[Any], Any], tree: PyTree) -> PyTree:
    """The data with func(leaf) for leaves of a type, or those for which `kind` is a predicate that holds."""
    chosen = kind if callable(kind) and not isinstance(kind, type) else lambda leaf: isinstance(leaf, kind)
    return tree_map(lambda leaf: func(leaf) if chosen(leaf) else leaf, tree)


def tree_all(pred: Callable[[Any], bool], tree: PyTree) -> bool:
    """Whether a predicate holds for every leaf."""
    return all(map(pred, tree_leaves(tree)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree) -> bool:
    """Whether a predicate holds for some leaf."""
    return any(map(pred, tree_leaves(tree)))


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[Any, Any]], list[Any]]:
    """The dictionary's items, and its keys."""
    return list(d.items()), list(d)

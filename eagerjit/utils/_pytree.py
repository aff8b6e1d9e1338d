"""Functions on nested data under PyTorch's names: tuples, named tuples, lists, dictionaries and registered classes."""

from __future__ import annotations

import functools
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from eagerjit.utils.trees.kinds import (
    is_namedtuple,
    is_namedtuple_class,
    is_namedtuple_instance,
    is_structseq,
    is_structseq_class,
    is_structseq_instance,
)
from eagerjit.utils.trees.registry import (
    BUILTIN_TYPES,
    CONSTANT_NODES,
    NO_SERIALIZED_TYPE_NAME_FOUND,
    SERIALIZED_TYPE_TO_PYTHON_TYPE,
    STANDARD_DICT_TYPES,
    SUPPORTED_NODES,
    SUPPORTED_SERIALIZED_TYPES,
    ConstantNode,
    Context,
    GetAttrKey,
    MappingKey,
    NodeDef,
    SequenceKey,
    _deregister_pytree_node,
    _dict_flatten,
    _dict_flatten_with_keys,
    _dict_unflatten,
    _get_node_type,
    _namedtuple_flatten,
    _namedtuple_unflatten,
    _private_register_pytree_node,
    _register_namedtuple,
    _register_pytree_node,
    is_constant_class,
    register_constant,
    register_dataclass,
    register_pytree_node,
)
from eagerjit.utils.trees.specs import _LEAF_SPEC, LeafSpec, TreeSpec, treespec_dict, treespec_leaf, treespec_tuple
from eagerjit.utils.trees.texts import (
    DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL,
    EnumEncoder,
    enum_object_hook,
    treespec_dumps,
    treespec_loads,
)

__all__ = [
    "BUILTIN_TYPES", "CONSTANT_NODES", "DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL", "NO_SERIALIZED_TYPE_NAME_FOUND",
    "SERIALIZED_TYPE_TO_PYTHON_TYPE", "STANDARD_DICT_TYPES", "SUPPORTED_NODES", "SUPPORTED_SERIALIZED_TYPES",
    "_LEAF_SPEC", "ConstantNode", "Context", "EnumEncoder", "GetAttrKey", "KeyEntry", "KeyPath", "LeafSpec",
    "MappingKey", "NodeDef", "PyTree", "PyTreeSpec", "SequenceKey", "TreeSpec", "_broadcast_to_and_flatten",
    "_deregister_pytree_node", "_dict_flatten", "_dict_flatten_with_keys", "_dict_unflatten", "_get_node_type",
    "_is_leaf", "_namedtuple_flatten", "_namedtuple_unflatten", "_private_register_pytree_node",
    "_register_namedtuple", "_register_pytree_node", "arg_tree_leaves", "enum_object_hook", "is_constant_class",
    "is_namedtuple", "is_namedtuple_class", "is_namedtuple_instance", "is_structseq", "is_structseq_class",
    "is_structseq_instance", "key_get", "keystr", "map_only", "register_constant", "register_dataclass",
    "register_pytree_node", "tree_all", "tree_all_only", "tree_any", "tree_any_only", "tree_flatten",
    "tree_flatten_with_path", "tree_is_leaf", "tree_iter", "tree_leaves", "tree_leaves_with_path", "tree_map",
    "tree_map_", "tree_map_only", "tree_map_only_", "tree_map_with_path", "tree_structure", "tree_unflatten",
    "treespec_dict", "treespec_dumps", "treespec_leaf", "treespec_loads", "treespec_pprint", "treespec_tuple",
]  # fmt: skip

_, _list_flatten, _list_unflatten, _list_flatten_with_keys = SUPPORTED_NODES[list]
_, _tuple_flatten, _tuple_unflatten, _tuple_flatten_with_keys = SUPPORTED_NODES[tuple]
_, _deque_flatten, _deque_unflatten, _deque_flatten_with_keys = SUPPORTED_NODES[deque]
_, _defaultdict_flatten, _defaultdict_unflatten, _defaultdict_flatten_with_keys = SUPPORTED_NODES[defaultdict]
_, _ordereddict_flatten, _ordereddict_unflatten, _ordereddict_flatten_with_keys = SUPPORTED_NODES[OrderedDict]
_odict_flatten, _odict_unflatten = _ordereddict_flatten, _ordereddict_unflatten

PyTree = Any
PyTreeSpec = TreeSpec
KeyEntry = Any
KeyPath = tuple[Any, ...]
IsLeaf = Callable[[Any], bool] | None


def tree_is_leaf(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether data is no container, or `is_leaf` says so."""
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in SUPPORTED_NODES


_is_leaf = tree_is_leaf


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of nested data, and how they were nested."""
    leaves: list[Any] = []

    def visit(part: Any) -> TreeSpec:
        if tree_is_leaf(part, is_leaf):
            leaves.append(part)
            return _LEAF_SPEC
        kind = _get_node_type(part)
        children, context = SUPPORTED_NODES[kind].flatten_fn(part)
        return TreeSpec(kind, context, [visit(c) for c in children])

    spec = visit(tree)
    return leaves, spec


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """Nested data again. Raises ValueError for another number of leaves, TypeError for what is no TreeSpec."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}.")
    return treespec.unflatten(leaves)


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of nested data."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves of nested data, one by one."""
    return iter(tree_leaves(tree, is_leaf))


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    """The leaves of all arguments."""
    return [leaf for part in (*args, *kwargs.values()) for leaf in tree_leaves(part)]


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """How data is nested."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """The data with func(leaf, what `rests` have at the same place) for every leaf.

    Raises ValueError for rests that are nested otherwise, down to the leaves.
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(map(func, leaves, *map(spec.flatten_up_to, rests)))


def tree_map_(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Call func for every leaf; returns the data itself."""
    leaves, spec = tree_flatten(tree, is_leaf)
    for given in zip(leaves, *map(spec.flatten_up_to, rests), strict=True):
        func(*given)
    return tree


def map_only(type_or_types_or_pred: Any, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """A decorator: the function of what is of a type, or what a predicate holds for, and anything else itself."""
    chosen = type_or_types_or_pred
    if isinstance(chosen, (type, tuple, types.UnionType)):
        pred = functools.partial(_is_instance, chosen)
    elif callable(chosen):
        pred = chosen
    else:
        raise TypeError("Argument must be a type, a tuple of types, or a callable.")

    def decorated(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @functools.wraps(func)
        def wrapped(x: Any) -> Any:
            return func(x) if pred(x) else x

        return wrapped

    return decorated


def _is_instance(kinds: Any, value: Any) -> bool:
    return isinstance(value, kinds)


def tree_map_only(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """The data with func(leaf) for leaves of a type, or those for which a predicate holds."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """Call func for leaves of a type, or those for which a predicate holds; returns the data itself."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a predicate holds for every leaf."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a predicate holds for some leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a predicate holds for every leaf of a type."""
    return all(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, type_or_types))


def tree_any_only(type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a predicate holds for some leaf of a type."""
    return any(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, type_or_types))


def _broadcast_to_and_flatten(tree: PyTree, treespec: TreeSpec, is_leaf: IsLeaf = None) -> list[Any] | None:
    """Leaves of data for each leaf of a nesting that goes on below them; None where it is nested otherwise."""
    leaves, spec = tree_flatten(tree, is_leaf)
    try:
        below = spec.flatten_up_to(treespec.unflatten([0] * treespec.num_leaves))
    except ValueError:
        return None
    return [leaf for leaf, part in zip(leaves, below, strict=True) for _ in tree_leaves(part, is_leaf)]


# -- paths -------------------------------------------------------------------------------------------------------------


def tree_leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """Pairs of the keys to a leaf and the leaf. Raises ValueError for a class that was registered without keys."""
    found: list[tuple[KeyPath, Any]] = []

    def visit(path: KeyPath, part: Any) -> None:
        if tree_is_leaf(part, is_leaf):
            found.append((path, part))
            return
        kind = _get_node_type(part)
        with_keys = SUPPORTED_NODES[kind].flatten_with_keys_fn
        if with_keys is None:
            raise ValueError(
                f"Did not find a flatten_with_keys_fn for type: {kind}. Please pass a flatten_with_keys_fn argument to "
                "register_pytree_node."
            )
        for key, child in with_keys(part)[0]:
            visit((*path, key), child)

    visit((), tree)
    return found


def tree_flatten_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """Pairs of the keys to a leaf and the leaf, and how they were nested."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """The data with func(keys to the leaf, leaf, what `rests` have at the same place) for every leaf."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    others = zip(*map(spec.flatten_up_to, rests), strict=True) if rests else [()] * len(found)
    return spec.unflatten(func(*pair, *more) for pair, more in zip(found, others, strict=True))


def keystr(kp: KeyPath) -> str:
    """Keys as text: `.name[0]['key']`."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """What lies behind keys."""
    return functools.reduce(lambda part, key: key.get(part), kp, obj)


class _Asterisk(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return "*"


def treespec_pprint(treespec: TreeSpec) -> str:
    """Data of a nesting, as text with asterisks for its leaves."""
    return repr(tree_unflatten([_Asterisk("*")] * treespec.num_leaves, treespec))

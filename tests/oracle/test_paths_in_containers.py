"""Nested data by paths, and nestings themselves, against PyTorch's `torch.utils._pytree`."""

from __future__ import annotations

import time
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.utils._pytree

import eagerjit
import eagerjit.utils._pytree

LIBRARIES = (torch, eagerjit)
Pair = namedtuple("Pair", "first second")
NESTED: Any = {
    "a": [1, (2, 3)], 4: Pair(5, deque([6], maxlen=2)), "b": OrderedDict(c=7), "d": defaultdict(list, e=[8])
}  # fmt: skip


def paths(t: Any) -> Iterator[Any]:
    tree = t.utils._pytree
    found, spec = tree.tree_flatten_with_path(NESTED)
    yield [(tree.keystr(path), leaf, tree.key_get(NESTED, path)) for path, leaf in found]
    yield tree.tree_leaves_with_path(NESTED) == found and spec == tree.tree_structure(NESTED)
    yield [tree.keystr(path) for path, _ in tree.tree_leaves_with_path(NESTED, lambda x: isinstance(x, tuple))]
    yield tree.tree_map_with_path(lambda path, x, y: (tree.keystr(path), x, y), [1, (2,)], [3, ([4],)])
    yield tree._list_flatten([1, 2]), tree._list_unflatten((1, 2), None)
    for flatten, data in ((tree._dict_flatten_with_keys, {"a": 1}), (tree._list_flatten_with_keys, [1])):
        yield [(str(key), value) for key, value in flatten(data)[0]]


def nestings(t: Any) -> Iterator[Any]:
    tree = t.utils._pytree
    spec = tree.tree_structure(NESTED)
    yield spec.num_nodes, spec.num_leaves, spec.num_children, len(spec.children()), spec.child(0).num_nodes
    yield spec.unflatten(range(spec.num_leaves)), tree.tree_structure(3).num_nodes, tree.tree_structure([]).num_nodes
    yield tree.tree_structure([1, {"a": 2, "b": 3}]).flatten_up_to([[4], OrderedDict(b=(5,), a=6)])
    yield tree.tree_map(lambda x, y: (x, y), (1, [2]), ({"a": 3}, [[4]]))
    yield [tree.tree_is_leaf(x) for x in (1, None, [], {}, "text", Pair(1, 2), NESTED)]
    yield tree.tree_is_leaf((1,), is_leaf=lambda x: isinstance(x, tuple))
    yield [tree.is_structseq_instance(x) for x in (time.localtime(0), Pair(1, 2), (1,), 3)]


@pytest.mark.parametrize("steps", [paths, nestings])
def test_as_pytorch_does(steps: Any) -> None:
    theirs, ours = (list(steps(t)) for t in LIBRARIES)
    assert ours == theirs


@pytest.mark.parametrize("other", [{"a": 1}, [1], [1, 2, 3], [1, (2,)], [1, {"b": 2}]])
def test_data_of_other_nestings_is_refused(other: Any) -> None:
    for t in LIBRARIES:
        with pytest.raises(ValueError, match="mismatch"):
            t.utils._pytree.tree_structure([1, {"a": 2}]).flatten_up_to(other)


class WithKeys:
    def __init__(self, value: Any):
        self.value = value


class WithoutKeys(WithKeys):
    pass


def test_classes_give_their_paths() -> None:
    for t in LIBRARIES:
        tree = t.utils._pytree
        parts: Any = (lambda x: ([x.value], None), lambda values, _: WithKeys(*values))
        key = tree.GetAttrKey("value")
        try:
            tree.register_pytree_node(
                WithKeys, *parts, flatten_with_keys_fn=lambda x, key=key: ([(key, x.value)], None)
            )
            tree.register_pytree_node(WithoutKeys, *parts)
            ((path, leaf),) = tree.tree_leaves_with_path([WithKeys(3)])[:1]
            assert (tree.keystr(path), leaf) == ("[0].value", 3)
            with pytest.raises(ValueError, match="flatten_with_keys_fn"):
                tree.tree_leaves_with_path(WithoutKeys(3))
        finally:
            for kind in (WithKeys, WithoutKeys):
                tree.SUPPORTED_NODES.pop(kind, None)

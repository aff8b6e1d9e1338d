"""Functions on nested data (`torch.utils._pytree`), against PyTorch's."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import os
import pickle
import time
import warnings
from typing import Any

import pytest
import torch
import torch.utils._pytree as theirs

import eagerjit as ej
import eagerjit.utils._pytree as ours

Pair = collections.namedtuple("Pair", "first second")
Named = collections.namedtuple("Named", "value")


class Color(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = None
    label: str = "none"


@dataclasses.dataclass(frozen=True)
class Fixed:
    name: str


class Box:
    def __init__(self, inside: Any, color: Any = Color.RED):
        self.inside, self.color = inside, color

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Box) and (self.inside, self.color) == (other.inside, other.color)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Box({self.inside!r})"


class Bag(list):
    pass


TREES: Any = [
    3,
    None,
    [],
    {},
    (1, [2, {"a": 3, "b": (4, None)}]),
    Pair(1, [2, Pair(3, 4)]),
    collections.OrderedDict([("z", 1), ("a", [2, 3])]),
    collections.defaultdict(list, {"k": [1], 5: 2}),
    collections.deque([1, [2]], maxlen=4),
    [Point(1, [2, 3]), Point(None, 4), Box((5, 6)), Fixed("a")],
    Bag([1, 2]),
    os.stat_result(range(10)),
]


@pytest.fixture(autouse=True)
def registered() -> Any:
    for tree in (theirs, ours):
        tree.register_dataclass(Point, field_names=["x", "y"], drop_field_names=["label"], serialized_type_name="point")
        tree.register_constant(Fixed)
        tree.register_pytree_node(
            Box, lambda b: ([b.inside], b.color), lambda parts, color: Box(*parts, color), serialized_type_name="box",
            flatten_with_keys_fn=lambda b, tree=tree: ([(tree.GetAttrKey("inside"), b.inside)], b.color),
        )  # fmt: skip
        tree._register_namedtuple(Named, serialized_type_name="named")
    yield
    for tree in (theirs, ours):
        for kind in (Point, Fixed, Box, Named):
            tree._deregister_pytree_node(kind)


def answer(function: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function()
        except (ValueError, TypeError, NotImplementedError, KeyError, AttributeError, AssertionError) as error:
            return type(error)


def is_pair(part: Any) -> bool:
    return isinstance(part, (Pair, collections.deque))


def answers(t: Any, tree: Any) -> Any:
    leaves, spec = t.tree_flatten(tree)
    yield leaves, repr(spec), spec.num_leaves, spec.num_nodes, spec.num_children, spec.is_leaf()
    yield t.tree_unflatten(leaves, spec), type(t.tree_unflatten(leaves, spec)), t.treespec_pprint(spec)
    yield [repr(child) for child in spec.children()], hash(spec) == hash(t.tree_structure(tree))
    yield spec == t.tree_structure(tree), spec == t.LeafSpec(), spec != t.tree_structure([tree])
    yield [(t.keystr(path), t.key_get(tree, path), leaf) for path, leaf in t.tree_leaves_with_path(tree)]
    yield t.tree_map_with_path(lambda path, leaf, other: (str(path), leaf, other), tree, tree)
    yield t.tree_leaves(tree, is_leaf=is_pair), repr(t.tree_structure(tree, is_leaf=is_pair)), [*t.tree_iter(tree)]
    yield t.tree_map(lambda a, b: [a, b], tree, tree), t.tree_map_only(int, lambda a: a + 1, tree, is_pair)
    yield t.tree_map_only((int, str), str, tree), t.tree_map_only(lambda leaf: leaf is None, repr, tree)
    yield t.tree_map_only(int | str, str, tree), t.tree_map_only_(int, lambda a: a, tree) is tree
    yield t.tree_all(bool, tree), t.tree_any(bool, tree), t.tree_all_only(int, lambda a: a > 1, tree)
    yield t.tree_any_only(int, lambda a: a > 1, tree), t.tree_is_leaf(tree), t.tree_is_leaf(tree, is_pair)
    yield t.arg_tree_leaves(tree, 1, key=tree), t._get_node_type(tree) in t.SUPPORTED_NODES
    written = answer(lambda: t.treespec_dumps(spec))
    yield written, isinstance(written, str) and (t.treespec_loads(written) == spec)
    yield repr(copy.deepcopy(spec)), pickle.loads(pickle.dumps(spec)) == spec
    yield [answer(lambda k=kind: k(tree)) for kind in (t.is_namedtuple, t.is_structseq, t.is_structseq_instance)]
    for other in TREES:
        yield answer(lambda o=other: spec.flatten_up_to(o)), answer(lambda o=other: t.tree_map(repr, tree, o))
        yield t._broadcast_to_and_flatten(other, spec), answer(lambda o=other: t.tree_map_(repr, tree, o))


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("index", range(len(TREES)))
def test_as_pytorch_does(index: int) -> None:
    for a, b in zip(answers(theirs, TREES[index]), answers(ours, TREES[index]), strict=True):
        assert b == a


def test_dictionaries_stand_for_each_other() -> None:
    given = {"a": 1, "b": 2}
    for t in (theirs, ours):
        spec = t.tree_structure(collections.OrderedDict(b=0, a=0))
        assert spec.flatten_up_to(given) == [2, 1]
        assert t.tree_structure(collections.defaultdict(int, b=0, a=0)).flatten_up_to(given) == [2, 1]
        for wrong in ({"a": 1}, {"a": 1, "c": 2}, [1, 2]):
            with pytest.raises(ValueError, match="mismatch"):
                spec.flatten_up_to(wrong)


def wrong_calls(t: Any) -> Any:
    class Plain:
        pass

    class Without:
        def __eq__(self, other: Any) -> bool:
            return True

    leaf = t.treespec_leaf()
    yield lambda: t.register_pytree_node(list, None, None)
    yield lambda: t.register_dataclass(Plain)
    yield lambda: t.register_dataclass(Point, field_names=["x"])
    yield lambda: t.register_dataclass(Point, field_names=["x", "y", "label", "z"])
    yield lambda: t.register_constant(Plain)
    yield lambda: t.register_constant(Without)
    yield lambda: t.register_pytree_node(Plain, None, None, to_dumpable_context=str)
    yield lambda: t.tree_unflatten([1, 2], leaf)
    yield lambda: t.tree_unflatten([1], 3)
    yield lambda: t.treespec_dumps(t.tree_structure(Pair(1, 2)))
    yield lambda: t.treespec_dumps(t.tree_structure({object(): 1}))
    yield lambda: t.treespec_dumps(leaf, protocol=7)
    yield lambda: t.treespec_loads('[7, {"type": null, "context": null, "children_spec": []}]')
    yield lambda: t.treespec_loads('[1, {"type": "absent", "context": null, "children_spec": []}]')
    yield lambda: t.treespec_tuple([3])
    yield lambda: t.treespec_dict(a=3)
    yield lambda: t.map_only(3)
    yield lambda: t.TreeSpec(None, 3, [])


def test_errors_and_smaller_names() -> None:
    found = [[answer(call) for call in wrong_calls(t)] for t in (theirs, ours)]
    assert found[0] == found[1]
    for t in (theirs, ours):
        leaf = t.treespec_leaf()
        assert t.treespec_tuple([leaf, leaf]) == t.tree_structure((1, 2))
        assert t.treespec_dict({"a": leaf}, b=leaf) == t.tree_structure({"a": 1, "b": 2})
        assert t.is_constant_class(Fixed) and not t.is_constant_class(Box) and not t.is_constant_class(3)
        assert t.tree_flatten(Fixed("a"))[1] == t.tree_flatten(Fixed("a"))[1] != t.tree_flatten(Fixed("b"))[1]
        assert t.is_namedtuple_class(Pair) and t.is_namedtuple(Pair) and not t.is_namedtuple_instance(Pair)
        assert t.is_structseq_class(time.struct_time) and t.is_namedtuple_instance(Pair(1, 2))
    assert {n for n in theirs.__all__ if n[0].islower()} <= set(ours.__all__)


def test_texts_are_pytorchs() -> None:
    tree = [Named((1, 2)), Point(1, None), Box({"a": Color.RED}), collections.defaultdict(int, a=1)]
    written = [t.treespec_dumps(t.tree_structure(tree)) for t in (theirs, ours)]
    assert written[0] == written[1]
    assert ours.treespec_loads(written[0]) == ours.tree_structure(tree)


def test_compiled_functions_go_through_nested_data() -> None:
    def doubled(tree: Any) -> Any:
        return ours.tree_map_with_path(lambda path, x: x * 2 + len(ours.keystr(path)), tree)

    tree = {"a": [ej.ones(2), Pair(ej.zeros(3), ej.arange(4))]}
    compiled = ej.jit(doubled)
    for _ in range(3):
        plain, found = ours.tree_leaves(doubled(tree)), ours.tree_leaves(compiled(tree))
        assert all(ej.equal(a, b) for a, b in zip(plain, found, strict=True))


def test_dictionaries_of_modules_and_optimizers_are_plain_ones() -> None:
    def told(t: Any, trees: Any) -> Any:
        module = t.nn.Linear(2, 1)
        optimizer = t.optim.SGD(module.parameters(), lr=1.0, momentum=0.9)
        module(t.ones(1, 2)).sum().backward()
        optimizer.step()
        shapes = trees.tree_map(lambda x: tuple(x.shape), [module._parameters, optimizer.state])
        same = trees.tree_map(lambda a, b: (tuple(a.shape), b), module._parameters, {"weight": 1, "bias": 2})
        names = [trees.keystr(path) for path, _ in trees.tree_leaves_with_path(module._parameters)]
        counts = [len(trees.tree_leaves(x)) for x in (module._modules, module._buffers, [*optimizer.state.values()])]
        return type(shapes[0]), list(shapes[0].items()), type(shapes[1]), [*shapes[1].values()], same, names, counts

    assert told(ej, ours) == told(torch, theirs)


def test_compiled_functions_see_other_parameters_in_nested_data() -> None:
    module = ej.nn.Linear(2, 1)

    def total(x: Any) -> Any:
        return x + sum(p.sum() for p in ours.tree_leaves(module._parameters))

    compiled, x = ej.jit(total), ej.ones(2)
    for step in range(4):
        module._parameters["weight"] = ej.nn.Parameter(ej.full((1, 2), float(step)))
        if step == 2:
            module.register_parameter("more", ej.nn.Parameter(ej.ones(3)))
        assert ej.equal(compiled(x), total(x))

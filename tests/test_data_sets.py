"""Datasets, samplers and collating, against PyTorch's."""

from __future__ import annotations

import itertools
import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit as ej

Point = namedtuple("Point", ["x", "y"])
LIBRARIES = (ej, torch)


def plain(value: Any) -> Any:
    """Nested data with tensors as (dtype, list), classes included, for comparison between libraries."""
    if isinstance(value, (ej.Tensor, torch.Tensor)):
        return str(value.dtype).rpartition(".")[2], tuple(value.shape), value.tolist()
    if isinstance(value, dict):
        return type(value), {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value), [plain(v) for v in value]
    return value


def outcome(function: Callable[[Any], Any], library: Any) -> Any:
    """What a function gives with a library, or the class and text of its error."""
    try:
        return plain(function(library))
    except Exception as error:
        return type(error), str(error)


def both(function: Callable[[Any], Any]) -> None:
    """Assert that a function does the same with both libraries."""
    found, expected = (outcome(function, library) for library in LIBRARIES)
    assert found == expected


COLLATED: dict[str, Callable[[Any], Any]] = {
    "tensors": lambda t: [t.ones(2), t.zeros(2)],
    "0-d": lambda t: [t.tensor(1), t.tensor(2)],
    "empty": lambda t: [t.ones(0, 3)] * 2,
    "floats": lambda t: [1.0, 2.0],
    "ints": lambda t: [1, 2],
    "bools": lambda t: [True, False],
    "strings": lambda t: ["a", "b"],
    "bytes": lambda t: [b"a", b"b"],
    "arrays": lambda t: [np.ones(2, np.int16), np.zeros(2, np.int16)],
    "float32 scalars": lambda t: [np.float32(1), np.float32(2)],
    "float64 scalars": lambda t: [np.float64(1), np.float64(2)],
    "int32 scalars": lambda t: [np.int32(1), np.int32(2)],
    "bool scalars": lambda t: [np.bool_(True), np.bool_(False)],
    "pairs": lambda t: [(t.ones(1), 3), (t.zeros(1), 4)],
    "lists": lambda t: [[1.0, "a"], [2.0, "b"]],
    "mappings": lambda t: [{"a": t.ones(1), "b": 2}, {"a": t.zeros(1), "b": 3}],
    "ordered mappings": lambda t: [OrderedDict(a=1, b=2.0), OrderedDict(a=3, b=4.0)],
    "named tuples": lambda t: [Point(1, 2.0), Point(3, 4.0)],
    "nested": lambda t: [{"a": [(1, 2), t.ones(2)]}, {"a": [(3, 4), t.ones(2)]}],
    "unequal": lambda t: [[1], [1, 2]],
    "unknown": lambda t: [object, object],
    "none": lambda t: [None, None],
}


@pytest.mark.parametrize("name", COLLATED)
def test_default_collate(name: str) -> None:
    both(lambda t: t.utils.data.default_collate(COLLATED[name](t)))


@pytest.mark.parametrize("name", [n for n in COLLATED if n not in ("unknown", "none")])
def test_default_convert(name: str) -> None:
    both(lambda t: t.utils.data.default_convert(COLLATED[name](t)))


def test_tensors_of_different_shapes_are_refused() -> None:
    for library in LIBRARIES:
        with pytest.raises(RuntimeError, match="size"):
            library.utils.data.default_collate([library.ones(2), library.ones(3)])


def test_collating_keeps_gradients() -> None:
    x = ej.ones(2, requires_grad=True)
    ej.utils.data.default_collate([x, x * 2]).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [3, 3]


class Squares:
    """A dataset of either library."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> int:
        if not -10 <= index < 10:
            raise IndexError(index)
        return index * index


def stream(t: Any, count: int) -> Any:
    """An iterable dataset of a library."""

    class Counted(t.utils.data.IterableDataset):
        def __iter__(self) -> Iterator[int]:
            return iter(range(count))

        def __len__(self) -> int:
            return count

    return Counted()


DATASETS: dict[str, Callable[[Any, Any], Any]] = {
    "TensorDataset": lambda t, d: [*d.TensorDataset(t.arange(4), t.ones(4, 2))][:4],
    "TensorDataset length": lambda t, d: len(d.TensorDataset(t.arange(4), t.ones(4, 2))),
    "TensorDataset mismatch": lambda t, d: d.TensorDataset(t.ones(2), t.ones(3)),
    "Subset": lambda t, d: [d.Subset(Squares(), [3, 1])[i] for i in range(2)],
    "Subset length": lambda t, d: len(d.Subset(Squares(), [3, 1])),
    "ConcatDataset": lambda t, d: [d.ConcatDataset([Squares(), Squares()])[i] for i in (0, 9, 10, 19, -1)],
    "ConcatDataset range": lambda t, d: d.ConcatDataset([Squares()])[-11],
    "ConcatDataset empty": lambda t, d: d.ConcatDataset([]),
    "ConcatDataset iterable": lambda t, d: d.ConcatDataset([stream(t, 2)]),
    "ConcatDataset sum": lambda t, d: len(d.Subset(Squares(), [1]) + Squares()),
    "ChainDataset": lambda t, d: list(d.ChainDataset([stream(t, 2), stream(t, 3)])),
    "ChainDataset sum": lambda t, d: list(stream(t, 2) + stream(t, 1)),
    "ChainDataset length": lambda t, d: len(d.ChainDataset([stream(t, 2), stream(t, 3)])),
    "StackDataset": lambda t, d: d.StackDataset(Squares(), Squares())[2],
    "StackDataset names": lambda t, d: d.StackDataset(a=Squares(), b=Squares())[2],
    "StackDataset batch": lambda t, d: d.StackDataset(a=Squares(), b=Squares()).__getitems__([1, 2]),
    "StackDataset none": lambda t, d: d.StackDataset(),
    "StackDataset mixed": lambda t, d: d.StackDataset(Squares(), a=Squares()),
    "StackDataset mismatch": lambda t, d: d.StackDataset(Squares(), [1]),
    "split lengths": lambda t, d: [len(s) for s in d.random_split(Squares(), [3, 7])],
    "split fractions": lambda t, d: [len(s) for s in d.random_split(Squares(), [0.33, 0.33, 0.34])],
    "split sum": lambda t, d: d.random_split(Squares(), [3, 3]),
    "split fraction": lambda t, d: d.random_split(Squares(), [-0.5, 1.5]),
    "SequentialSampler": lambda t, d: list(d.SequentialSampler(Squares())),
    "BatchSampler": lambda t, d: list(d.BatchSampler(range(7), 3, False)),
    "BatchSampler drop": lambda t, d: list(d.BatchSampler(range(7), 3, True)),
    "BatchSampler lengths": lambda t, d: [len(d.BatchSampler(range(n), 3, b)) for n in (6, 7) for b in (True, False)],
    "BatchSampler size": lambda t, d: d.BatchSampler(range(7), 0, False),
    "BatchSampler flag": lambda t, d: d.BatchSampler(range(7), 1, 1),
    "RandomSampler lengths": lambda t, d: [len(d.RandomSampler(Squares(), num_samples=n)) for n in (None, 3, 25)],
    "RandomSampler number": lambda t, d: d.RandomSampler(Squares(), num_samples=-1),
    "RandomSampler flag": lambda t, d: d.RandomSampler(Squares(), replacement=1),
    "WeightedRandomSampler number": lambda t, d: d.WeightedRandomSampler([1.0], 0),
    "WeightedRandomSampler flag": lambda t, d: d.WeightedRandomSampler([1.0], 1, 1),
    "WeightedRandomSampler shape": lambda t, d: d.WeightedRandomSampler([[1.0]], 1),
    "WeightedRandomSampler one": lambda t, d: list(d.WeightedRandomSampler([0, 0, 1.0], 4)),
    "SubsetRandomSampler": lambda t, d: sorted(d.SubsetRandomSampler([5, 7, 9])),
    "DistributedSampler": lambda t, d: [list(d.DistributedSampler(Squares(), 3, r, False)) for r in range(3)],
    "DistributedSampler drop": lambda t, d: [
        list(d.DistributedSampler(Squares(), 3, r, False, 0, True)) for r in range(3)
    ],
    "DistributedSampler rank": lambda t, d: d.DistributedSampler(Squares(), 3, 3),
    "no worker": lambda t, d: d.get_worker_info(),
    "iterator": lambda t, d: next(iter(d.IterableDataset())),
    "item": lambda t, d: d.Dataset()[0],
}


@pytest.mark.parametrize("name", DATASETS)
def test_datasets_and_samplers(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both(lambda t: DATASETS[name](t, t.utils.data))


def test_random_samplers_are_permutations_that_a_seed_repeats() -> None:
    data = ej.utils.data
    for make in (
        lambda g: data.RandomSampler(Squares(), generator=g),
        lambda g: data.SubsetRandomSampler(range(10), generator=g),
        lambda g: data.WeightedRandomSampler([1.0] * 10, 10, False, generator=g),
        lambda g: data.random_split(Squares(), [10], generator=g)[0].indices,
    ):
        first, again, other = (list(make(ej.Generator().manual_seed(s))) for s in (1, 1, 2))
        assert sorted(first) == list(range(10)) and first == again != other
    ej.manual_seed(3)
    drawn = [list(data.RandomSampler(Squares())) for _ in range(2)]
    ej.manual_seed(3)
    assert drawn == [list(data.RandomSampler(Squares())) for _ in range(2)] and drawn[0] != drawn[1]
    several = list(data.RandomSampler(Squares(), num_samples=25))
    assert sorted(several[:10]) == sorted(several[10:20]) == list(range(10)) and len(several) == 25
    assert len(list(data.RandomSampler(Squares(), replacement=True, num_samples=50))) == 50


def test_weights_decide_how_often_an_index_is_drawn() -> None:
    sampler = ej.utils.data.WeightedRandomSampler([1, 3, 0, 4], 8000, generator=ej.Generator().manual_seed(0))
    counts = np.bincount(list(sampler), minlength=4) / 8000
    np.testing.assert_allclose(counts, [1 / 8, 3 / 8, 0, 1 / 2], atol=0.02)


def test_distributed_samplers_share_a_shuffled_epoch() -> None:
    parts = [ej.utils.data.DistributedSampler(Squares(), 2, rank) for rank in range(2)]
    epochs = []
    for epoch in range(2):
        for part in parts:
            part.set_epoch(epoch)
        epochs.append([i for pair in zip(*map(list, parts), strict=True) for i in pair])
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(10)) and epochs[0] != epochs[1]


TREES: list[Any] = [
    3,
    [1, (2, [3])],
    {"b": 1, "a": [2]},
    OrderedDict(b=1, a=2),
    Point(1, [2, 3]),
    [],
    {"a": {}},
    None,
]


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_pytrees(tree: Any) -> None:
    ours, theirs = ej.utils._pytree, torch.utils._pytree
    leaves, spec = ours.tree_flatten(tree)
    assert sorted(leaves, key=str) == sorted(theirs.tree_leaves(tree), key=str)
    assert ours.tree_unflatten(leaves, spec) == tree and type(ours.tree_unflatten(leaves, spec)) is type(tree)
    doubled = [library.tree_map(lambda leaf: (leaf, leaf), tree) for library in (ours, theirs)]
    assert doubled[0] == doubled[1]
    only = [library.tree_map_only(int, lambda leaf: leaf + 1, tree) for library in (ours, theirs)]
    assert only[0] == only[1]


def test_pytrees_of_another_shape_are_refused() -> None:
    spec = ej.utils._pytree.tree_structure([1, 2])
    with pytest.raises(ValueError, match="`leaves` has length 3 but the spec refers to a pytree that holds 2 items"):
        ej.utils._pytree.tree_unflatten([1, 2, 3], spec)
    assert list(itertools.islice(ej.utils._pytree.tree_iter({"a": [4]}), 2)) == [4]

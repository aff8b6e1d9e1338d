"""Samples of data pipes in PyTorch's random order."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import pytest
import torch

import eagerjit as ej


def pipes(library: Any) -> Any:
    home = "utils.data.datapipes" if library is ej else "utils.data.datapipes.iter.combinatorics"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(f"{library.__name__}.{home}")


@pytest.mark.parametrize("size", [1, 3, 10000])
def test_shuffled_samples(size: int) -> None:
    found = []
    for library in (torch, ej):
        shuffled = pipes(library).ShufflerIterDataPipe(range(10), buffer_size=size).set_seed(3)
        orders = [list(shuffled), list(shuffled.set_seed(4)), list(shuffled.set_shuffle(False))]
        found.append([*orders, len(shuffled), sorted(shuffled.set_shuffle())])
    assert found[0] == found[1]


def test_shuffled_samples_follow_the_librarys_seed() -> None:
    shuffled = pipes(ej).ShufflerIterDataPipe(range(20))
    orders = []
    for seed in (0, 0, 1):
        ej.manual_seed(seed)
        orders.append(list(shuffled))
    assert orders[0] == orders[1] != orders[2]


def test_what_is_refused() -> None:
    with pytest.raises(AssertionError):
        pipes(ej).ShufflerIterDataPipe(range(3), buffer_size=0)
    with pytest.raises(TypeError):
        len(pipes(ej).ShufflerIterDataPipe(iter([])))
    with pytest.raises(NotImplementedError, match="unbatch_level"):
        pipes(ej).ShufflerIterDataPipe(range(3), unbatch_level=1)

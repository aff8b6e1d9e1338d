"""Tensors without elements, written in place."""

from __future__ import annotations

from typing import Any

import pytest

import eagerjit as torch


def test_an_empty_tensor_is_added_to_itself() -> None:
    for x in (torch.zeros(4, 0, 3), torch.zeros(3, 0, 4).transpose(0, 2)):
        view = x[:2]
        assert view.add_(view) is view
        assert view._version == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.index_select(0, torch.zeros(x.shape[0], dtype=torch.int64)),
        lambda x: x[torch.zeros(x.shape[0], dtype=torch.int64)],
        lambda x: x.gather(0, torch.zeros_like(x, dtype=torch.int64)),
        lambda x: x[:, 0][torch.zeros(x.shape[0], dtype=torch.int64)],
        lambda x: torch.zeros_like(x).index_add(0, torch.zeros(x.shape[0], dtype=torch.int64), x),
        lambda x: torch.zeros_like(x).index_copy_(0, torch.zeros(x.shape[0], dtype=torch.int64), x),
        lambda x: torch.zeros_like(x).scatter_add(0, torch.zeros_like(x, dtype=torch.int64), x),
        lambda x: torch.zeros_like(x).index_put((torch.zeros(x.shape[0], dtype=torch.int64),), x),
    ],
)
def test_no_index_is_out_of_range_where_there_is_none(function: Any) -> None:
    """The number that all of them would be is known all the same."""
    compiled = torch.jit(lambda x: function(x[1:]))
    for size in (1, 2, 1):
        x = torch.arange(float(3 * size)).reshape(size, 3)
        assert compiled(x).tolist() == function(x[1:]).tolist()


@pytest.mark.parametrize("function", [lambda x, i: x.index_select(1, i), lambda x, i: x[:, i]])
def test_an_index_is_out_of_range_also_where_nothing_is_selected(function: Any) -> None:
    for f in (function, torch.jit(function), torch.jit(lambda x, i: function(x, torch.full((3,), 99)))):
        with pytest.raises(IndexError, match="the dimension has size 5"):
            f(torch.zeros(0, 5), torch.full((3,), 99))

"""Keys of dictionaries that are equal and of different types are different arguments."""

from __future__ import annotations

import pytest

import eagerjit as torch


class Text(str):
    """A text of a class of its own."""


KEYS = [
    [1, True, 1.0],
    [0.0, -0.0, 0, False],
    ["a", Text("a")],
    [(1, 2), (True, 2), (1, 2.0)],
    [float("nan"), float("nan")],
]


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("nested", [False, True])
def test_results_have_the_keys_of_each_call(keys, nested) -> None:
    def plain(table):
        (found,) = table["inner"] if nested else (table,)
        return {key: value * 2 for key, value in found.items()}, [(type(key), str(key)) for key in found]

    jitted = torch.jit(plain)
    x = torch.arange(3.0)
    for key in [*keys, *keys, *reversed(keys)]:
        for _ in range(3):
            table = {"inner": [{key: x}]} if nested else {key: x}
            assert repr(jitted(table)) == repr(plain(table))


def test_tables_with_keys_that_are_no_texts_are_compiled_once() -> None:
    jitted = torch.jit(lambda table: table[1] + table[2.5, "a"])
    for size in (3, 3, 3, 3):
        jitted({1: torch.ones(size), (2.5, "a"): torch.ones(size)})
    assert jitted.cache_info().compiles == 1

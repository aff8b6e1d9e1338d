"""What lies in containers that the garbage collector does not track, found natively and in Python."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import eagerjit
from eagerjit.runtime import holders, layout

eagerjit.ones(1) + 1  # from here on native execution is on


class Holder:
    """An object with attributes."""


@pytest.fixture(params=["native", "python"])
def native(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    assert layout.ready()
    if request.param == "python":
        monkeypatch.setattr(layout, "ready", lambda: False)
    return request.param == "native"


def held(*containers: Any) -> set[int]:
    return holders.held_unseen(list(containers))


def test_what_untracked_containers_hold_at_any_depth(native: bool) -> None:
    a, b, c = (np.ones(2) for _ in range(3))
    nested = ((a,), b)
    inner: Any = {"nested": nested, "c": c}
    if gc.is_tracked({"c": 1}):  # as all dictionaries are since CPython 3.14
        inner = (nested, c)
    for _ in range(3):
        gc.collect()  # which stops tracking tuples of what it does not track
    assert not gc.is_tracked(nested) and not gc.is_tracked(inner)
    found = {id(nested), id(nested[0]), id(a), id(b), id(c)}
    owner = Holder()
    owner.inner = inner
    assert held([inner]) == held([0], [inner], [inner, nested]) == found
    assert found <= held(owner) and held([nested]) == {id(nested[0]), id(a), id(b)}


def test_what_tracked_objects_hold_themselves_is_not_among_it(native: bool) -> None:
    array = np.ones(2)
    assert held([array], [{"list": [array]}], Holder()) & {id(array)} == set()
    assert held() == held([]) == held([()]) == set()


def test_both_find_the_same_in_all_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.ones(3)
    kept = [(array,)]
    gc.collect()
    objects = gc.get_objects()
    natively = holders.held_unseen(objects)
    monkeypatch.setattr(layout, "ready", lambda: False)
    in_python = holders.held_unseen(objects)
    assert id(array) in natively and kept
    assert len(natively ^ in_python) < 50  # frames and the like come and go

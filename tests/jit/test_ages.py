"""Recordings look at young objects while other threads make some."""

import contextlib
import gc
import sys
import threading
import time

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.watching.ages import Ages


def test_tuples_that_other_threads_are_making_stay_theirs() -> None:
    """CPython gives a tuple its final length only while nobody else holds it, but the collector knows it before."""
    problems, done = [], threading.Event()

    def make() -> None:
        while not done.is_set() and not problems:
            try:
                tuple(i for i in range(300))
            except SystemError as error:
                problems.append(error)

    makers = [threading.Thread(target=make) for _ in range(2)]
    interval, ages = sys.getswitchinterval(), Ages()
    gc.disable()
    sys.setswitchinterval(1e-6)
    try:
        for maker in makers:
            maker.start()
        end = time.perf_counter() + 1.5
        while time.perf_counter() < end and not problems:
            ages._look_again()
    finally:
        done.set()
        for maker in makers:
            maker.join()
        sys.setswitchinterval(interval)
        gc.enable()
    assert not problems


def test_all_objects_are_asked_once_about_a_dictionary(monkeypatch) -> None:
    """Who holds a dictionary that the collector does not track takes a look at every object there is."""
    asked = []
    find = gc.get_referrers
    monkeypatch.setattr(gc, "get_referrers", lambda *objects: asked.append(objects) or find(*objects))

    def work(x):
        options = {}
        for k in range(20):
            options[f"scale {k}"] = k
            if "scale 3" in options:
                x = x + options["scale 3"]
        return x

    expected = work(torch.ones(2))
    assert torch.jit(work)(torch.ones(2)).equal(expected)
    assert len([objects for objects in asked if type(objects[0]) is dict and "scale 0" in objects[0]]) <= 2


def test_no_objects_are_asked_about_what_recordings_make_and_keys_that_are_no_objects(monkeypatch) -> None:
    """A change of a list has keyword arguments, of which the journal makes an empty dictionary."""
    asked = []
    find = gc.get_referrers
    monkeypatch.setattr(gc, "get_referrers", lambda *objects: asked.append(objects) or find(*objects))
    history = []

    def work(x):
        history.append(x.sum())
        return {"scaled": x * 2, 3: {"shifted": x + 1}}

    result = torch.jit(work)(torch.ones(2))
    assert result["scaled"].tolist() == [2.0, 2.0] and len(history) == 1
    assert not asked


def test_no_objects_are_asked_about_answers(monkeypatch) -> None:
    asked = []
    find = gc.get_referrers
    monkeypatch.setattr(gc, "get_referrers", lambda *objects: asked.append(objects) or find(*objects))

    def work(x):
        return x * 2, np.isnan(1.0), None, np.isfinite(1.0)

    result = torch.jit(work)(torch.ones(2))
    assert result[0].tolist() == [2.0, 2.0] and result[1:] == (np.False_, None, np.True_)
    assert not asked


def test_no_objects_are_asked_about_keyword_arguments_of_context_managers(monkeypatch) -> None:
    """Whatever makes the manager gets a dictionary of them, which it might change."""
    asked = []
    find = gc.get_referrers
    monkeypatch.setattr(gc, "get_referrers", lambda *objects: asked.append(objects) or find(*objects))

    @contextlib.contextmanager
    def scaled(by=2):
        yield by

    def work(x):
        with scaled() as two, scaled(by=3) as three:
            return x * two + three

    assert torch.jit(work)(torch.ones(2)).tolist() == [5.0, 5.0]
    assert not asked


def test_options_of_a_call_that_are_none_yet_are_asked_for_again() -> None:
    """What is given as no keyword arguments at all may hold some before the next call."""
    names, options = [2, 3], {}

    def work(x):
        names.append(1)
        names.sort(**options)
        return x * names[0]

    compiled = torch.jit(work)
    assert compiled(torch.ones(1)).tolist() == [1.0]
    options["reverse"] = True
    assert compiled(torch.ones(1)).tolist() == [3.0] and names == [3, 2, 1, 1]


TABLE = np.float32([1, 2])
SCALES = {"one": 1, "two": 2}


def test_no_objects_are_asked_about_what_lies_in_variables_from_before(monkeypatch) -> None:
    """What code has read where an object from before holds it is from before too, whoever else holds it."""
    monkeypatch.setattr(gc, "get_referrers", lambda *objects: pytest.fail(f"who holds {objects}?"))
    shift = np.float32([3, 4])

    def work(x, name):
        return x * torch.from_numpy(TABLE) + torch.from_numpy(shift) * SCALES.get(name, 3) + np.add(x, [1, 2])

    compiled, x = torch.jit(work, fullgraph=True), torch.ones(2)
    for _ in range(2):
        for name in SCALES:
            assert compiled(x, name).equal(work(x, name))
        shift += 1


def test_what_the_code_puts_where_it_has_read_before_is_its_own() -> None:
    table = {"kept": np.float32([1, 2])}

    def work(x):
        first = x * torch.from_numpy(table["kept"])
        table["kept"] = np.float32([5, 6])
        return first + torch.from_numpy(table["kept"])

    compiled = torch.jit(work)
    for kept in ([1, 2], [3, 4]):
        table["kept"] = np.float32(kept)
        assert compiled(torch.ones(2)).tolist() == [kept[0] + 5, kept[1] + 6]
        assert table["kept"].tolist() == [5, 6]

"""What goes wrong in watching code is no error of this code, which runs eagerly, with a warning that says so."""

from __future__ import annotations

import pytest

import eagerjit as torch
from eagerjit.runtime import frames
from eagerjit.watching.observer import Observer


class Holder:
    """Something that has an attribute."""

    scale = 3.0


def test_errors_of_the_observer_reach_no_handler_of_the_program(monkeypatch):
    def fails(*_):
        raise KeyError("scale")

    holder = Holder()

    def function(x):
        try:
            return x * holder.scale
        except KeyError:
            return x * 100

    monkeypatch.setattr(Observer, "load_attribute", fails)
    compiled = torch.jit(function)
    with pytest.warns(match="KeyError: 'scale'"):
        assert compiled(torch.ones(2)).tolist() == [3.0, 3.0]
    holder.scale = 5.0
    assert compiled(torch.ones(2)).tolist() == [5.0, 5.0]


def test_nothing_is_compiled_where_the_interpreter_does_not_show_what_code_does(monkeypatch):
    monkeypatch.setattr(frames, "_readable", [False])
    counts = {"calls": 0}

    def function(x):
        counts["calls"] += 1
        return x * counts["calls"]

    compiled = torch.jit(function)
    with pytest.warns(match="does not show what instructions read and change"):
        assert compiled(torch.ones(2)).tolist() == [1.0, 1.0]
    assert [compiled(torch.ones(2)).tolist() for _ in range(3)] == [[n, n] for n in (2.0, 3.0, 4.0)]
    assert compiled.cache_info().compiles == 0
    with pytest.raises(RuntimeError, match="does not show"):
        torch.jit(function, fullgraph=True)(torch.ones(2))

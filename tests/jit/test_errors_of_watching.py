"""What goes wrong in watching code is no error of this code, which runs eagerly, with a warning that says so."""

from __future__ import annotations

import pytest

import eagerjit as torch
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

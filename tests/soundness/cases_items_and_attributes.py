"""Containers with attributes beside their items, and tuples of the program's own classes that hold containers."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import eagerjit as torch
from tests.soundness.framework import case


class Row(tuple):
    """One that no call takes apart."""


@case(versions=4)
def a_list_in_a_tuple_of_a_class_of_its_own(jit):
    row = Row(([torch.ones(2)], {"scale": 2.0}))
    f = jit(lambda row, x: x * row[0][0] * row[1]["scale"])
    for i in (1, 1, 2):
        row[0][0] = torch.ones(2) * i
        yield f(row, torch.arange(2.0))
    row[1]["scale"] = 3.0
    yield f(row, torch.arange(2.0))

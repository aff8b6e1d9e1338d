"""Where the user's code is, noted in Python and natively, and shown as a line."""

from __future__ import annotations

import gc
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eagerjit
from eagerjit.runtime import source
from eagerjit.runtime.source import here, is_library, line_of


def line(text: str) -> str:
    """`file:line` of the line of this file that ends with a comment."""
    lines = Path(__file__).read_text().splitlines()
    (number,) = [i for i, content in enumerate(lines, 1) if content.endswith(f"# {text}")]
    return f"{__file__}:{number}"


def test_here_is_the_innermost_line_of_the_user() -> None:
    def inner() -> Any:
        return (
            None,
            here(),  # in a long statement
        )[1]

    assert line_of(inner()) == line("in a long statement")
    (through_numpy,) = np.vectorize(lambda _: here(), otypes=[object])(np.zeros(1))  # through NumPy
    assert line_of(through_numpy) == line("through NumPy")


def test_a_line_stays_as_it_is_and_no_place_is_no_line() -> None:
    assert line_of("file.py:3") == "file.py:3" and line_of(None) == ""


@pytest.mark.parametrize(
    "file, expected",
    [
        (source.__file__, True),
        (eagerjit.__file__, True),
        (np.__file__, True),
        (gc.__name__, False),
        (weakref.__file__, True),
        (__file__, False),
        (pytest.__file__, False),
        (str(Path(eagerjit.__file__).parent) + "_extras/module.py", False),
        ("<stdin>", False),
        ("<frozen importlib._bootstrap>", True),
    ],
)
def test_libraries_are_told_from_the_user(file: str, expected: bool) -> None:
    assert is_library(file) is expected
    assert is_library(file) is expected  # known by now


def test_recorded_operations_know_their_line() -> None:
    x = eagerjit.ones(3, requires_grad=True)
    for _ in range(3):  # the first call compiles, others are native
        y = x * 2  # multiplied
        assert y.grad_fn.source == line("multiplied")
    layer = eagerjit.nn.Linear(3, 3)
    for _ in range(3):
        y = layer(x)  # through a module
        assert y.grad_fn.source == line("through a module")
        parts = y.split(2)  # several results
        assert parts[1].grad_fn.source == line("several results")


def test_writes_in_place_know_their_line() -> None:
    x = eagerjit.zeros(3)
    for _ in range(3):
        x.add_(1)  # added
        assert line_of(x._storage.source) == line("added")
        x[1:] = 5  # assigned
        assert line_of(x._storage.source) == line("assigned")


def test_no_frame_outlives_its_call() -> None:
    class Local:
        """Something that only the frame holds."""

    def made() -> tuple[Any, Any]:
        local = Local()
        y = eagerjit.ones(3, requires_grad=True).exp()
        y.add_(0)
        return y, weakref.ref(local)

    made()
    y, reference = made()
    assert y.requires_grad and reference() is None


def test_code_made_at_run_time_has_lines_too() -> None:
    names: dict[str, Any] = {"torch": eagerjit}
    exec(compile("x = torch.ones(2, requires_grad=True)\n\ny = x + 1\ny = x + 1\n", "made up", "exec"), names)
    assert names["y"].grad_fn.source == "made up:4"


def test_references_of_code_are_released() -> None:
    x = eagerjit.ones(3, requires_grad=True)

    def operate() -> None:
        x * 2

    operate()
    code = operate.__code__
    before = sys.getrefcount(code)
    for _ in range(100):
        operate()
    assert sys.getrefcount(code) == before

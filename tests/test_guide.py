"""The guide's examples give what it says they give."""

import doctest
from pathlib import Path

GUIDE = Path(__file__).resolve().parent.parent / "docs" / "guide.md"


def test_every_example_of_the_guide() -> None:
    failed, tried = doctest.testfile(str(GUIDE), module_relative=False)
    assert tried > 30
    assert not failed

"""Every soundness case comes out as it declares, and the table in the documentation says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.soundness.framework import DIFFERENT, RIGHT, Case, all_cases, first_difference, run, table

TABLE = Path(__file__).parents[2] / "docs" / "soundness.md"


@pytest.mark.parametrize("name", all_cases())
def test_case(name: str) -> None:
    case: Case = all_cases()[name]
    outcome, _, jitted = run(case)
    for function in jitted.functions:
        function.clear()
    assert outcome.kind == case.outcome, outcome.reason
    if case.versions is not None:
        assert outcome.versions <= case.versions


def test_the_table_is_up_to_date() -> None:
    if os.environ.get("EAGERJIT_UPDATE_TABLES"):
        TABLE.write_text(table())
    assert TABLE.read_text() == table()


def test_a_difference_is_seen() -> None:
    """The comparison itself: one bit, a dtype, an alias, the sign of a zero."""
    assert first_difference([1, 0.5], [1, 0.5]) is None
    assert first_difference([1], [1, 2]) is not None

    def script(jit):  # type: ignore[no-untyped-def]
        yield 0.0 if jit.__self__.jitted else -0.0

    outcome, _, _ = run(Case("zero", "none", script, RIGHT, None, "test_cases.py"))
    assert outcome.kind == DIFFERENT and "-0.0" in outcome.reason

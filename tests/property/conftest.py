"""What the tests of random programs share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from eagerjit.compiled import machine_code
from eagerjit.runtime import cpu
from tests.property import programs


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Code that is generated quickly, and of which nothing is kept."""
    monkeypatch.setenv("EAGERJIT_CACHE", "0")
    monkeypatch.setattr(cpu, "_target_machine", programs.hasty_machine)
    machine_code.forget()
    yield
    machine_code.forget()

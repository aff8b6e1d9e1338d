"""The functions in `golden` with arguments: what their texts there are texts of."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).resolve().parent / "golden"


def _calls() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    specification = importlib.util.spec_from_file_location("golden_functions", GOLDEN / "functions.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.CALLS


CALLS = _calls()

"""Libraries written for the array API standard take tensors as they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from array_consumers import CALLS

PROGRAM = Path(__file__).with_name("array_consumers.py")
ROOT = PROGRAM.parents[2]


@pytest.fixture(scope="module")
def outcomes() -> dict[str, list[Any]]:
    environment = os.environ | {"SCIPY_ARRAY_API": "1", "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True, check=True, env=environment)
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", CALLS)
def test_scipy_and_scikit_learn_compute_on_tensors(name: str, outcomes: dict[str, list[Any]]) -> None:
    numbers = name in ("mean squared error", "r2 score")  # scikit-learn's scores are Python's
    assert outcomes[name] == ["float" if numbers else "Tensor", True]

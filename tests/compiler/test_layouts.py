"""The order of elements in memory changes no result, whatever the width of vectors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize("bits", ["128", "256", "512"])
def test_results_of_other_layouts(bits) -> None:
    script, environment = Path(__file__).parent / "layouts.py", {**os.environ, "EAGERJIT_VECTOR_BITS": bits}
    environment["PYTHONPATH"] = os.pathsep.join((str(ROOT), environment.get("PYTHONPATH", "")))
    run = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True)
    assert run.stdout == "the end\n", run.stdout[-4000:] + run.stderr[-4000:]
    assert run.returncode == 0

"""Programs that import torch give the same losses on eagerjit and on PyTorch."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = sorted(p for p in (ROOT / "examples" / "torch_programs").glob("*.py") if p.stem != "common")
STEPS = 20


def losses(*command: str) -> list[float]:
    """What a program prints of its first steps."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *command, "--steps", str(STEPS)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [float(value) for value in re.findall(r"^step \d+: loss (\S+)$", done.stdout, re.MULTILINE)]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_losses_agree(program: Path) -> None:
    ours = losses("-m", "eagerjit", "run", str(program))
    theirs = losses(str(program))
    assert len(ours) == len(theirs) == STEPS
    assert ours == pytest.approx(theirs, rel=1e-4)


def test_there_are_ten() -> None:
    assert len(PROGRAMS) == 10

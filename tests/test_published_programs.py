"""Programs as people publish them give PyTorch's losses, and when compiled their own, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "tests" / "published" / "programs.py"


def losses(*command: str) -> dict[str, list[float]]:
    """What each program prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    return {name: list(map(float, values)) for name, *values in lines}


def test_losses_agree(tmp_path: Path) -> None:
    theirs = losses(str(PROGRAMS), "save", str(tmp_path))
    ours = losses("-m", "eagerjit", "run", str(PROGRAMS), "load", str(tmp_path))
    compiled = losses("-m", "eagerjit", "run", str(PROGRAMS), "compiled", str(tmp_path))
    assert len(theirs) == 24 and list(ours) == list(theirs)
    for name, expected in theirs.items():
        assert len(expected) == 5
        assert ours[name] == pytest.approx(expected, rel=1e-4), name
    assert compiled == ours

"""Programs that import torch give the same losses on eagerjit and on PyTorch."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import re
import runpy
import subprocess
import sys
import traceback
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = sorted(p for p in (ROOT / "examples" / "torch_programs").glob("*.py") if p.stem != "common")
STEPS = 20
PYTORCH = ["torch", "torch._dynamo", "torch.distributions", "torch.optim"]


def losses(printed: str) -> list[float]:
    """What a program prints of its first steps."""
    return [float(value) for value in re.findall(r"^step \d+: loss (\S+)$", printed, re.MULTILINE)]


@pytest.fixture(scope="module")
def pytorch() -> ForkServerContext:
    """PyTorch is imported once, which takes as long as a program does: each program runs in a fork of that process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PYTORCH)
    return context


def run(program: Path, output: Path) -> None:
    """Run a program on PyTorch as `python program` does."""
    import torch

    assert "eagerjit" not in sys.modules
    torch.set_num_threads(1)
    sys.argv = [str(program), "--steps", str(STEPS)]
    sys.path.insert(0, str(program.parent))
    with output.open("w") as file, contextlib.redirect_stdout(file):
        try:
            runpy.run_path(str(program), run_name="__main__")
        except BaseException:
            traceback.print_exc(file=file)
            raise


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_losses_agree(program: Path, pytorch: ForkServerContext, tmp_path: Path) -> None:
    output = tmp_path / "losses"
    process = pytorch.Process(target=run, args=(program, output))
    process.start()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "eagerjit", "run", str(program), "--steps", str(STEPS)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    process.join(300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert process.exitcode == 0, output.read_text()
    ours, theirs = losses(done.stdout), losses(output.read_text())
    assert len(ours) == len(theirs) == STEPS
    assert ours == pytest.approx(theirs, rel=1e-4)


def test_there_are_ten() -> None:
    assert len(PROGRAMS) == 10

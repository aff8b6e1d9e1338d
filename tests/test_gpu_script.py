"""`benchmarks/gpu.sh` where there is no GPU: it says what is missing, and what it runs can be imported."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from eagerjit.runtime.gpu.devices import available

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "benchmarks" / "gpu.sh"
ABSENT = ("matplotlib", "sklearn", "scipy_openblas32", "jax", "numba", "drjit")
"""What a machine with a GPU may not have: what the script runs does without."""


def environment(tmp_path: Path) -> dict[str, str]:
    for package in ABSENT:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise ImportError('not here')")
    return {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "PYTHON": sys.executable}


@pytest.mark.skipif(available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", str(SCRIPT), str(tmp_path / "results")], env=environment(tmp_path), capture_output=True, text=True
    )
    assert done.returncode == 1 and done.stdout.startswith("no GPU: ") and "libcuda" in done.stdout, done


def test_its_tests_can_be_imported(tmp_path: Path) -> None:
    (selection,) = re.findall(r"< <\((grep .*)\)", SCRIPT.read_text())
    files = subprocess.run(["bash", "-c", selection], cwd=ROOT, capture_output=True, text=True).stdout.split()
    assert {"tests/test_examples.py", "tests/runtime/gpu/test_gpu_op_table.py"} <= {*files}
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "--collect-only", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True)
    assert "error" not in done.stdout.lower(), done.stdout
    counted = re.search(r"(\d+) tests need a GPU", done.stdout) or re.search(r"(\d+)/\d+ tests collected", done.stdout)
    assert counted is not None and int(counted[1]) > 90, done.stdout


def test_its_benchmarks_can_be_imported(tmp_path: Path) -> None:
    names = re.findall(r"-m benchmarks[. ]([a-z_ ]+?) --output", SCRIPT.read_text())
    modules = ["benchmarks." + name for line in names for name in line.split()]
    assert {f"benchmarks.gpu{part}" for part in ("", "_kernels", "_timeline", "_models")} <= {*modules}
    code = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"
    done = subprocess.run(
        [sys.executable, "-c", code, *modules], cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr

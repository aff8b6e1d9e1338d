"""The native runtime and the kernels of all ops become object code for AArch64, which can be linked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
PARTS = 2


def compiled(*arguments: str) -> int:
    """How many texts a program of `compiled_for_arm.py` has compiled."""
    folders = (HERE, HERE.parent, HERE.parents[1])
    options = {"PYTHONPATH": ":".join(map(str, folders)), "EAGERJIT_CACHE": "0", "EAGERJIT_VECTOR_BITS": "128"}
    command = [sys.executable, HERE / "compiled_for_arm.py", *arguments]
    return int(subprocess.run(command, env=os.environ | options, capture_output=True, text=True, check=True).stdout)


def test_the_native_runtime() -> None:
    assert compiled("runtime") == 10


@pytest.mark.parametrize("part", range(PARTS))
def test_kernels_of_all_ops(part: int) -> None:
    assert compiled("kernels", str(part), str(PARTS)) > 50

"""A recording does not see what this library does at its own first calls."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import warnings
warnings.simplefilter("error")
import eagerjit as torch

@torch.jit(fullgraph=True)
def first(x):
    y = x.transpose(0, 1)[1:].reshape(-1)
    return y * y.shape[0] + x.dim() + x.size(0) + x.stride(0)

@torch.jit(fullgraph=True)
def second(x):
    return x.numel() * x.view(-1).unsqueeze(0) + x.permute(1, 0).contiguous().flatten()

@torch.jit(fullgraph=True)
def third(x, rate):
    return x * rate if rate > 0.5 else x + rate

x = torch.ones(3, 4)
for f in (first, second, first):
    f(x)
assert third(x, 1.0).tolist() == (x * 1.0).tolist() and third(x, 0.1).tolist() == (x + 0.1).tolist()
print(len(first.variants), len(second.variants))
"""


def test_views_and_sizes_first_met_in_a_recording(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    environment = {**os.environ, "EAGERJIT_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "1"]

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

WITH_A_FINDER = """
import sys
import warnings
warnings.simplefilter("error")
import eagerjit as torch

class Settings:
    def __init__(self):
        self.names = []

class Finder:
    def __init__(self):
        self.settings = Settings()

    def find_spec(self, name, path=None, target=None):
        self.settings.names.append(name)
        return repr(vars(self.settings).get("none"))[:0] or None

finder = Finder()
sys.meta_path.insert(0, finder)

@torch.jit(fullgraph=True)
def function(x):
    return x.diagonal() * torch.linalg.det(x)

x = torch.eye(3)
before = len(finder.settings.names)
assert function(x).tolist() == [1.0] * 3
after = len(finder.settings.names)
assert after > before, "nothing was imported"
function(x)
print(len(function.variants), len(finder.settings.names) - after)
"""


def _printed(program: str, tmp_path: Path) -> list[str]:
    script = tmp_path / "program.py"
    script.write_text(program)
    environment = {**os.environ, "EAGERJIT_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_views_and_sizes_first_met_in_a_recording(tmp_path: Path) -> None:
    assert _printed(PROGRAM, tmp_path) == ["1", "1"]


def test_finders_of_modules_that_the_library_imports_in_a_recording(tmp_path: Path) -> None:
    assert _printed(WITH_A_FINDER, tmp_path) == ["1", "0"]

"""What `import eagerjit` costs and what it leaves alone, each seen from a fresh process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def fresh(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run code in a new interpreter that finds the checkout."""
    command = [sys.executable, *options, "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)


def test_import_time_is_reported() -> None:
    code = "import time; t = time.perf_counter(); import numpy; n = time.perf_counter(); import eagerjit; "
    code += "print(n - t, time.perf_counter() - n)"
    fresh(code)  # writes the byte code
    numpy_time, own_time = map(float, fresh(code).stdout.split())
    print(f"\nimport numpy {numpy_time * 1e3:.0f} ms, then import eagerjit {own_time * 1e3:.0f} ms")
    assert numpy_time > 0 and own_time > 0


def test_import_loads_no_framework() -> None:
    code = "import sys, eagerjit; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = set(fresh(code).stdout.split())
    assert "eagerjit" in loaded
    assert not loaded & {"triton", "torch", "jax", "numba", "scipy", "sklearn", "matplotlib", "tqdm", "hypothesis"}


def test_import_and_programs_on_the_disk_need_no_compiler(tmp_path: Path) -> None:
    code = "import sys, eagerjit as torch; print(torch.jit(lambda x: (x * 2 + 1).sum())(torch.ones(3)).item(), "
    code += "*(m for m in sys.modules if m.startswith(('eagerjit.compiler.lower', 'eagerjit.compiler.codegen.llvm'))))"
    kept = f"import os; os.environ.update(EAGERJIT_CACHE='1', EAGERJIT_CACHE_DIR={str(tmp_path)!r}); {code}"
    first, second = fresh(kept).stdout.split(), fresh(kept).stdout.split()
    assert first[0] == second[0] == "9.0" and "eagerjit.compiler.lower.assemble" in first and len(second) == 1


def test_compiling_imports_no_generators_of_numpys() -> None:
    code = "import sys, eagerjit as torch; torch.jit(lambda x: x * 2 + 1)(torch.ones(3)); "
    code += "print('numpy.random' in sys.modules)"
    assert fresh(code).stdout.strip() == "False"


def test_import_compiles_nothing() -> None:
    # With llvmlite out of reach every attempt to compile would raise; importing must not make one.
    code = "import sys; sys.modules['llvmlite.binding'] = None; import eagerjit; print(eagerjit.__name__)"
    assert fresh(code).stdout.strip() == "eagerjit"


def test_import_generates_no_methods() -> None:
    # Classes of named fields that importing defines are records, which wait for their first instance.
    code = "import dataclasses as d; made = d._process_class; "
    code += "d._process_class = lambda cls, *a: print(cls) or made(cls, *a); import eagerjit"
    assert fresh(code).stdout == ""


def test_import_says_nothing() -> None:
    result = fresh("import eagerjit", "-W", "error")
    assert result.stdout == result.stderr == ""


@pytest.mark.parametrize(
    "first", ["import eagerjit.jit", "from eagerjit.jit import jit", "import eagerjit; eagerjit.jit"]
)
def test_jit_compiles_however_it_was_imported(first: str) -> None:
    code = f"{first}\nimport eagerjit\nf = eagerjit.jit(lambda x: x + 1)\n"
    code += "print(f(eagerjit.ones(2)).tolist(), f.cache_info().compiles)"
    assert fresh(code).stdout == "[2.0, 2.0] 1\n"


_LOCKS_TAKEN = """
import importlib, pkgutil, sys, traceback
import eagerjit
from eagerjit.runtime import once

class Noted(type(once.lock)):
    def __enter__(self):
        if self is once.lock:
            frames = traceback.extract_stack()
            print(*(f.filename for f in frames if f.name == "<module>" and "eagerjit" in f.filename), file=sys.stderr)
        return super().__enter__()

once.lock.__class__ = Noted
for name in ("eagerjit", "eagerjit.compiler", "eagerjit.runtime"):
    for found in pkgutil.walk_packages(importlib.import_module(name).__path__, name + "."):
        importlib.import_module(found.name)
print(len(sys.modules))
"""


def test_no_import_waits_for_the_lock() -> None:
    """A thread that holds the lock may wait for an import of another's."""
    result = fresh(_LOCKS_TAKEN)
    assert int(result.stdout) > 900
    assert result.stderr == ""

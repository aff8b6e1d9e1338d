"""The native runtime is compiled quickly first and well meanwhile; both compute the same, in memory that they share."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eagerjit.runtime.native import parts
from eagerjit.runtime.native.library import CONVOLUTIONS, CORE, PRODUCTS, ROUTINES

PARTS = [CORE, PRODUCTS, CONVOLUTIONS, *ROUTINES.values()]
ROOT = Path(__file__).resolve().parents[2]

WORK = """
import sys
import eagerjit as torch
from eagerjit.runtime import cache, cpu
from eagerjit.runtime.native import improving, library

def results():
    x, y = torch.linspace(-2, 2, 24).reshape(4, 6), torch.arange(24.0).reshape(4, 6).requires_grad_()
    f = torch.jit(lambda x, y, n: (x * n + y).sin() @ y.t())
    out = f(x, y, 3)
    out.sum().backward()
    z = x[1:, ::2].clone()
    z += 1
    found = [out, y.grad, z, x.sort().values, x.cumsum(1), x.max(0).indices, x.reshape(3, 8)[2], x.sum()]
    return b"".join(t.detach().numpy().tobytes() for t in found)
"""


def run(text: str, folder: Path, **environment: str) -> str:
    merged = {**os.environ, "PYTHONPATH": str(ROOT), "EAGERJIT_CACHE_DIR": str(folder), **environment}
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", WORK + text]  # of forks, 3.12 on
    ran = subprocess.run(command, env=merged, capture_output=True, text=True)
    assert ran.returncode == 0 and not ran.stderr, ran.stderr
    return ran.stdout.strip()


@pytest.mark.parametrize("enabled", ["1", "0"])
def test_better_code_takes_over_in_the_same_process(tmp_path: Path, enabled: str) -> None:
    text = """
improving.IDLE_SECONDS = 3
x = torch.ones(3)
first = results()
assert not library.native().is_improved
improving.IDLE_SECONDS = 0.01
improving.wait()
assert library.native().is_improved
assert results() == first
print(hash((x + x).tolist()[0]), cache.stats()["writes"] > 0)
"""
    assert run(text, tmp_path, EAGERJIT_CACHE=enabled) == f"{hash(2.0)} {enabled == '1'}"


def test_the_next_process_finds_it(tmp_path: Path) -> None:
    first = run("a = results(); improving.wait(); print(a.hex())", tmp_path)
    text = "a = results(); print(len(improving._threads), cache.stats()['misses']); print(a.hex())"
    assert run(text, tmp_path).splitlines() == ["0 0", first]


def test_what_a_killed_process_has_compiled_is_kept(tmp_path: Path) -> None:
    text = "results(); print('ready', flush=True); improving.wait()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "EAGERJIT_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", WORK + text]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        before = natives(tmp_path)
        while natives(tmp_path) < before + 3:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    kept = natives(tmp_path)
    run("results(); improving.wait()", tmp_path)
    assert natives(tmp_path) > kept
    assert run("results(); print(len(improving._threads))", tmp_path) == "0"


def natives(folder: Path) -> int:
    return sum(path.is_file() and path.suffix != ".tmp" for path in (folder / "native").rglob("*"))


def test_a_process_that_ends_drops_the_rest(tmp_path: Path) -> None:
    run("results(); improving.IDLE_SECONDS = 60", tmp_path)
    assert run("results(); print(len(improving._threads))", tmp_path) == "1"


def test_children_of_a_fork_go_on(tmp_path: Path) -> None:
    text = """
import os, time
first = results()
for _ in range(6):
    child = os.fork()
    if not child:
        torch.jit(lambda x: x.cosh() + 3)(torch.ones(3))
        os._exit(results() != first)
    assert os.waitpid(child, 0)[1] == 0
    time.sleep(0.05)
improving.wait()
assert results() == first
"""
    run(text, tmp_path)


def test_calls_of_other_threads_go_on_meanwhile(tmp_path: Path) -> None:
    text = """
import threading
improving.PATIENCE_SECONDS = 1
first, failed = results(), []
def work():
    while improving._threads[0].is_alive():
        if results() != first:
            failed.append(1)
others = [threading.Thread(target=work) for _ in range(3)]
for other in others: other.start()
for other in others: other.join()
assert not failed and library.native().is_improved
"""
    run(text, tmp_path)


def test_a_fork_while_others_begin_to_record(tmp_path: Path) -> None:
    text = """
import os, signal, threading, warnings
from eagerjit.runtime import busy
warnings.simplefilter("ignore")
going = True
def work():
    while going:
        busy.begin()
        busy.end()
others = [threading.Thread(target=work, daemon=True) for _ in range(4)]
for other in others: other.start()
for _ in range(150):
    child = os.fork()
    if not child:
        signal.alarm(20)
        busy.begin()
        busy.end()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
going = False
for other in others: other.join()
"""
    run(text, tmp_path)


def test_a_process_that_finds_it_imports_none_of_its_modules(tmp_path: Path) -> None:
    text = """
results(); improving.wait()
loaded = {name.rpartition(".")[2] for name in sys.modules if name.startswith("eagerjit.runtime.native.")}
parts = [library.CORE, library.PRODUCTS, library.CONVOLUTIONS, *library.ROUTINES.values()]
print(*sorted(loaded & {name for part in parts for name in part._names}))
"""
    assert len(run(text, tmp_path).split()) > 30
    assert run(text, tmp_path) == "context products"


def test_every_module_whose_constants_are_folded_in_counts() -> None:
    folder = Path(parts.__file__).parent
    native = {path.stem for path in folder.glob("*.py")}
    compiled = {name for part in PARTS for name in part._names}
    outside = set()
    for name in compiled:
        for node in ast.walk(ast.parse((folder / f"{name}.py").read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("eagerjit"):
                given = {f"{node.module}.{alias.name}" for alias in node.names}
                outside |= {full.removeprefix("eagerjit.runtime.").split(".")[0] for full in given}
    assert outside - {"native"} <= {*parts._CONSTANTS, *parts._LINKERS} and compiled <= native

"""`jit(background=True)`: eager calls until the compiled version is there, the same bits before and after."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

import eagerjit as torch
from eagerjit.compiled import machine_code
from eagerjit.jit import JitWarning
from eagerjit.runtime import cpu

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EAGERJIT_CACHE", "0")
    machine_code.forget()


@pytest.fixture
def compiling(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """The compiler of the background thread waits until the event is set."""
    go, compile_text = threading.Event(), cpu.compile_text

    def waiting(*args: Any, **kwargs: Any) -> bytes:
        if threading.current_thread().name == "eagerjit-compiler":
            assert go.wait(60)
        return compile_text(*args, **kwargs)

    monkeypatch.setattr(cpu, "compile_text", waiting)
    return go


def test_calls_run_eagerly_until_the_version_is_ready(compiling: threading.Event) -> None:
    function = torch.jit(lambda x: (x.sin() * 2).sum(0), background=True)
    x = torch.linspace(0, 1, 12).reshape(3, 4)
    before = [function(x) for _ in range(3)]
    info = function.cache_info()
    assert (info.compiles, info.hits, info.eager_calls) == (0, 0, 0)
    assert not function.wait(0.01)
    compiling.set()
    assert function.wait(60)
    assert function.cache_info().compiles == 1
    after = function(x)
    assert function.cache_info().compiles == 1
    assert {r.numpy().tobytes() for r in [*before, after]} == {function.__wrapped__(x).numpy().tobytes()}
    assert len(function.executables) == 1  # native code serves the next ones


def test_each_kind_of_arguments_is_compiled_once(compiling: threading.Event) -> None:
    function = torch.jit(lambda x, n: x * n + 1, background=True)
    for _ in range(3):
        for x in (torch.ones(3), torch.ones(1, 2), torch.ones(4)):
            assert function(x, 2).tolist() == (x * 2 + 1).tolist()
    compiling.set()
    function.wait()
    assert function.cache_info().compiles == 2
    assert function(torch.ones(9), 5).tolist() == [6.0] * 9
    assert function.cache_info().compiles == 2


def test_gradients_and_writes_before_and_after() -> None:
    weight, steps = torch.linspace(-1, 1, 4).requires_grad_(), torch.zeros(())

    def loss(x: Any) -> Any:
        steps.add_(1)
        return ((x * weight).tanh() ** 2).mean()

    function = torch.jit(loss, background=True)
    x = torch.linspace(0, 2, 12).reshape(3, 4)
    grads = []
    for call in range(3):
        weight.grad = None
        function(x).backward()
        grads.append(weight.grad.numpy().tobytes())
        assert steps.item() == call + 1
        function.wait()
    assert len(set(grads)) == 1
    assert function.cache_info().compiles == 1


def test_the_version_is_of_the_state_that_the_recording_saw(compiling: threading.Event) -> None:
    state = {"scale": 2.0}
    layer = torch.nn.Dropout(0.5)
    function = torch.jit(lambda x: layer(x) * state["scale"], background=True)
    layer.eval()
    x = torch.ones(3)
    assert function(x).tolist() == [2.0] * 3
    state["scale"] = 3.0
    layer.train()
    compiling.set()
    function.wait()
    torch.manual_seed(0)
    found = function(x)
    torch.manual_seed(0)
    assert found.tolist() == function.__wrapped__(x).tolist()
    function.wait()
    layer.eval()
    assert function(x).tolist() == [3.0] * 3


def test_what_compiling_raises_the_next_call_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> bytes:
        raise MemoryError("no code today")

    function = torch.jit(lambda x: x.sin() + 1, background=True)
    x = torch.ones(3)
    expected = function.__wrapped__(x).tolist()
    with monkeypatch.context() as patch:
        patch.setattr(cpu, "compile_text", broken)
        assert function(x).tolist() == expected
        with pytest.raises(MemoryError, match="no code today"):
            function.wait()
        assert function(x).tolist() == expected
        for _, job in function._pending.jobs:
            job.ended.wait(60)
        with pytest.raises(MemoryError, match="no code today"):
            function(x)
    assert function(x).tolist() == expected
    assert function.wait()
    assert function(x).tolist() == expected and function.cache_info().compiles == 1


def test_what_cannot_be_compiled_is_said_at_the_first_call() -> None:
    seen: list[Any] = []

    def function(x: Any) -> Any:
        seen.append(float(x.data_ptr() > 0))
        return x + 1

    compiled = torch.jit(function, background=True)
    with pytest.warns(JitWarning, match=f"{Path(__file__).name}:"):
        compiled(torch.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(torch.ones(2))
    assert len(seen) == 2
    with pytest.raises(RuntimeError, match="cannot be compiled"):
        torch.jit(lambda x: x + float(x.data_ptr() > 0), background=True, fullgraph=True)(torch.ones(2))


def test_recompiles_can_be_errors(compiling: threading.Event) -> None:
    function = torch.jit(lambda x: x + 1, background=True, on_recompile="error")
    compiling.set()
    function(torch.ones(2))
    function.wait()
    function(torch.ones(1))
    with pytest.raises(RuntimeError, match="compiled again"):
        function.wait()


def test_forgotten_versions_do_not_come_back(compiling: threading.Event) -> None:
    function = torch.jit(lambda x: x + 1, background=True)
    function(torch.ones(2))
    jobs = [job for _, job in function._pending.jobs]
    function.clear()
    compiling.set()
    for job in jobs:
        assert job.ended.wait(60)
    assert function.variants == [] and function.cache_info().compiles == 0


def test_modules_and_explain() -> None:
    layer = torch.jit(torch.nn.Linear(3, 2), background=True)
    x = torch.ones(4, 3)
    first = layer(x)
    assert layer.wait()
    assert layer(x).tolist() == first.tolist() and layer.cache_info().compiles == 1
    function = torch.jit(lambda x: x.exp().sum(), background=True)
    function(x)
    assert len(function.explain(x).kernels) > 0 and function.cache_info().compiles == 1


@pytest.mark.parametrize("ending", ["", "sys.exit(3)", "raise KeyError('end')", "os.kill(os.getpid(), 2)"])
def test_a_process_ends_cleanly_while_compiling(ending: str) -> None:
    script = f"""
import os, signal, sys, eagerjit as torch
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell has its processes ignore it
def model(x, n):
    for i in range(40):
        x = torch.sin(x) * 0.5 + x.sum() * 0.01
    return x
functions = [torch.jit(model, background=True) for _ in range(12)]
for n, f in enumerate(functions):
    f(torch.ones(4, n + 2), float(n))
{ending}
"""
    environment = {**os.environ, "PYTHONFAULTHANDLER": "1"}
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    status, end = {
        "": (0, ""), "sys.exit(3)": (3, ""), "raise KeyError('end')": (1, "KeyError: 'end'"),
        "os.kill(os.getpid(), 2)": (-2, "KeyboardInterrupt"),
    }[ending]  # fmt: skip
    assert (run.returncode, run.stderr.strip().rpartition("\n")[2]) == (status, end), run.stderr


FORK = """
pid = os.fork()
if pid == 0:
    good = f.wait(30) and f(x).tolist() == expected and f.wait(30) and f(x).tolist() == expected
    os._exit(0 if good and f.cache_info().compiles == 1 else 1)
assert os.waitpid(pid, 0)[1] == 0
assert f.wait(30) and f(x).tolist() == expected
"""


def test_a_child_of_a_fork_compiles_for_itself() -> None:
    script = """
import os, eagerjit as torch
def model(x):
    for i in range(100):
        x = torch.sin(x) * 0.5 + x.sum() * 0.01
    return x
f = torch.jit(model, background=True)
x = torch.ones(4)
expected = f(x).tolist()
"""
    subprocess.run([sys.executable, "-c", script + FORK], cwd=ROOT, check=True, timeout=60)


@pytest.mark.parametrize("n", [1, 20, 50])
def test_a_fork_waits_for_what_the_compiler_imports(n: int, tmp_path: Path) -> None:
    eager = """
import os, sys, threading, time
import eagerjit as torch
def model(x):
    return torch.sin(x) * 0.5
x = torch.ones(4)
expected = model(x).tolist()
"""
    compiled = f"""
class Slow:
    n = 0
    reached = threading.Event()
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is not threading.main_thread():
            self.n += 1
            if self.n == {n}:
                self.reached.set()
                time.sleep(0.05)
slow = Slow()
sys.meta_path.insert(0, slow)
f = torch.jit(model, background=True)
f(x)
assert slow.reached.wait(30)
"""
    environment = {**os.environ, "EAGERJIT_CACHE": "1", "EAGERJIT_CACHE_DIR": str(tmp_path)}
    for script in (eager, eager + compiled + FORK):  # the first one leaves the code of the operations in the cache
        subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, timeout=60, env=environment)

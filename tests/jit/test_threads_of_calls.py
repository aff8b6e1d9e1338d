"""Several threads: tracing, calling, compiling and going backward at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import eagerjit as torch
from eagerjit import jit as jit_module
from eagerjit.autograd import accumulation
from tests.jit.thread_stress import Stress

ROOT = Path(__file__).resolve().parents[2]


def test_eight_threads_agree_with_the_plain_calls() -> None:
    stress = Stress(3.0)
    stress.run()
    assert stress.problems == []
    assert min(stress.rounds) > 0
    assert stress.shapes.cache_info().eager_calls == stress.gradients.cache_info().eager_calls == 0


def test_a_version_serves_a_call_while_another_thread_forgets_all() -> None:
    function = torch.jit(lambda x: x + 1)
    function(torch.ones(2))
    (served,) = function.variants
    function.clear()
    function._put_first(served)
    assert function.variants == []


def test_the_comparison_notices_a_wrong_thread() -> None:
    stress = Stress(1.0)
    right = stress.values.__wrapped__
    stress.values.__wrapped__ = lambda x: right(x) + (threading.current_thread().name.endswith("(_work)"))
    stress.run()
    assert any("differs" in problem for problem in stress.problems)


def test_a_new_process_starts_in_many_threads_at_once() -> None:
    """Nothing is loaded yet: LLVM, native code, BLAS and the first versions are made by threads that race."""
    script = """
import sys, threading
sys.setswitchinterval(1e-5)
import eagerjit as torch
start, problems = threading.Barrier(8), []
f = torch.jit(lambda x: (x @ x.t()).exp().sum(0))
def work():
    try:
        start.wait()
        x = torch.ones(3, 4)
        assert f(x).tolist() == f.__wrapped__(x).tolist()
        w = torch.ones(3, requires_grad=True)
        (w * 2).sum().backward()
        assert w.grad.tolist() == [2.0] * 3
    except BaseException as error:
        problems.append(repr(error))
threads = [threading.Thread(target=work) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
assert not problems, problems
assert f.cache_info().compiles == 1, f.cache_info()
"""
    environment = {**os.environ, "EAGERJIT_CACHE": "0"}
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environment, check=True, timeout=120)


def test_waiting_for_a_recording_that_waits_for_us_ends(monkeypatch: Any) -> None:
    """The recorded code takes a lock that another caller of the function holds: that one runs eagerly."""
    monkeypatch.setattr(jit_module, "PATIENCE", 0.05)
    inside, lock = threading.Event(), threading.Lock()
    gate = {"use": lambda: None}

    @torch.jit
    def function(x: Any) -> Any:
        gate["use"]()
        return x + 1

    def hold() -> None:
        if threading.current_thread() is recorder:
            inside.set()
            with lock:
                pass

    results: list[Any] = []
    recorder = threading.Thread(target=lambda: results.append(function(torch.ones(2))))
    function(torch.ones(()))
    function.clear()
    gate["use"] = hold
    with lock:
        recorder.start()
        assert inside.wait(30)
        results.append(function(torch.ones(2)))
    recorder.join(30)
    assert [r.tolist() for r in results] == [[2.0, 2.0]] * 2


def test_a_fork_does_not_wait_for_other_threads_locks() -> None:
    script = """
import os, threading, eagerjit as torch
torch.jit(lambda x: x.sum())(torch.ones(2, requires_grad=True)).backward()  # nothing is left to be imported
stop = False
def work():
    n = 0
    while not stop:
        n += 1
        torch.jit(lambda x, n=n: x * n + n)(torch.ones(2))
thread = threading.Thread(target=work)
thread.start()
for _ in range(10):
    pid = os.fork()
    if pid == 0:
        f = torch.jit(lambda x: (x.sin() + 1).sum())
        good = f(torch.ones(3)).item() == f.__wrapped__(torch.ones(3)).item()
        w = torch.ones(3, requires_grad=True)
        w.sum().backward()
        os._exit(0 if good and w.grad.tolist() == [1.0] * 3 else 1)
    assert os.waitpid(pid, 0)[1] == 0
stop = True
thread.join()
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], cwd=ROOT, check=True, timeout=60)


def test_gradients_of_many_threads_are_all_added(monkeypatch: Any) -> None:
    """A walk that is interrupted between reading a gradient and adding to it loses nothing."""
    add = accumulation._add

    def slowly(leaf: Any, grad: Any, known: Any, *rest: Any) -> None:
        time.sleep(0.001)
        add(leaf, grad, known, *rest)

    monkeypatch.setattr(accumulation, "_add", slowly)
    weight = torch.zeros(3, requires_grad=True)
    threads = [threading.Thread(target=lambda: [weight.sum().backward() for _ in range(5)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert weight.grad.tolist() == [40.0] * 3


def test_writes_of_other_threads_are_counted_during_a_recording() -> None:
    buffer = torch.zeros(2)
    buffer.add_(1)
    other = threading.Thread(target=lambda: buffer.add_(1))
    runs = {"start": lambda: None}

    @torch.jit
    def function(x: Any) -> Any:
        buffer.add_(1)
        runs["start"]()
        return x + 1

    def start() -> None:
        if other.ident is None:
            other.start()
            other.join()

    runs["start"] = start
    before = buffer._version
    function(torch.ones(2))
    assert buffer._version == before + 2

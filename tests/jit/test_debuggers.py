"""Debuggers stop in jitted functions: calls that one follows are plain. Tools that only watch change nothing."""

from __future__ import annotations

import bdb
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import eagerjit as torch
from eagerjit import nn
from eagerjit.jit import JitWarning

FIRST = sys._getframe().f_lineno + 4


def doubled(x: Any, scale: float = 2.0) -> Any:
    y = x * scale
    return y + 1


class Debugger(bdb.Bdb):
    """Stops at a line of this file, and notes what the variable `y` is there."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line, self.seen = line, list[Any]()

    def user_line(self, frame: FrameType) -> None:
        if frame.f_lineno == self.line and frame.f_code.co_filename == __file__:
            self.seen.append(frame.f_locals["y"].tolist())
        self.set_continue()

    def follow(self, call: Callable[[], Any]) -> Any:
        before = sys.gettrace()
        self.set_break(__file__, self.line)
        try:
            return self.runcall(call)
        finally:
            self.clear_all_breaks()
            sys.settrace(before)


def test_breakpoints_in_compiled_functions_stop():
    f = torch.jit(doubled, fullgraph=True)
    for _ in range(3):
        f(torch.ones(2))
    calls = f.cache_info().compiles
    debugger = Debugger(FIRST + 1)
    assert debugger.follow(lambda: [f(torch.ones(2)), f(torch.zeros(1), scale=3.0)])[0].tolist() == [3.0, 3.0]
    assert debugger.seen == [[2.0, 2.0], [0.0]]
    assert f(torch.ones(2)).tolist() == [3.0, 3.0] and len(debugger.seen) == 2
    assert f.cache_info().compiles == calls == 1


def test_breakpoints_stop_in_functions_that_have_not_been_compiled():
    f = torch.jit(doubled, fullgraph=True)
    debugger = Debugger(FIRST + 1)
    debugger.follow(lambda: f(torch.ones(2)))
    assert debugger.seen == [[2.0, 2.0]] and f.cache_info().compiles == 0
    assert f(torch.ones(2)).tolist() == [3.0, 3.0] and f.cache_info().compiles == 1


def test_breakpoints_stop_in_what_modules_and_compiled_functions_call():
    class Double(nn.Module):
        def forward(self, x: Any) -> Any:
            return doubled(x)

    module = torch.jit(Double())
    step = torch.jit(lambda x: torch.jit(doubled)(x) * 2)
    for call in (module, step):
        for _ in range(3):
            call(torch.ones(1))
        debugger = Debugger(FIRST + 1)
        debugger.follow(lambda call=call: call(torch.ones(1)))
        assert debugger.seen == [[2.0]]


def test_other_threads_stay_compiled():
    f = torch.jit(doubled)
    f(torch.ones(1))
    hits: list[int] = []

    def other() -> None:
        f(torch.ones(1), scale=2.0)
        hits.append(f.cache_info().hits + f.cache_info().compiles)

    def both() -> None:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        f(torch.ones(1))

    before = f.cache_info().hits + f.cache_info().compiles
    debugger = Debugger(FIRST + 1)
    debugger.follow(both)
    assert len(debugger.seen) == 1 and hits[0] > before


def test_tools_that_watch_change_nothing():
    f = torch.jit(doubled)
    f(torch.ones(1))
    entered: list[str] = []
    before = sys.gettrace()
    sys.settrace(lambda frame, *_: entered.append(frame.f_code.co_name))  # type: ignore[arg-type]
    try:
        f(torch.ones(1))
    finally:
        sys.settrace(before)
    assert "doubled" not in entered


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with CPython 3.12")
def test_debuggers_that_monitor_stop():
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    f = torch.jit(doubled)
    for _ in range(3):
        f(torch.ones(1))
    lines: list[int] = []
    tool = monitoring.DEBUGGER_ID
    monitoring.use_tool_id(tool, "debugger")
    try:
        monitoring.register_callback(tool, monitoring.events.LINE, lambda _code, line: lines.append(line))
        monitoring.set_local_events(tool, doubled.__code__, monitoring.events.LINE)
        f(torch.ones(1))
    finally:
        monitoring.set_local_events(tool, doubled.__code__, 0)
        monitoring.free_tool_id(tool)
    f(torch.ones(1))
    assert lines == ([FIRST, FIRST + 1] if "bdb" in sys.modules else [])


def run(program: str, *arguments: str, commands: str = "") -> str:
    done = subprocess.run(
        [sys.executable, *arguments, program], input=commands, capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def test_a_debugger_that_comes_late_stops(tmp_path):
    program = tmp_path / "late.py"
    program.write_text(textwrap.dedent("""
        import sys
        import eagerjit as torch

        @torch.jit
        def f(x):
            y = x * 2
            return y

        for _ in range(3):
            f(torch.ones(1))
        print("bdb" in sys.modules)
        import pdb
        pdb.Pdb(nosigint=True).set_trace()
        for _ in range(3):
            f(torch.ones(1))
        print("done")
    """))
    shown = run(str(program), commands="b 8\nc\np y.tolist()\nc\np y.tolist()\ncl 1\nc\n")
    assert shown.startswith("False\n") and shown.count("[2.0]") == 2 and "done" in shown


def test_programs_run_by_the_debugger_stop(tmp_path):
    program = tmp_path / "run.py"
    program.write_text(textwrap.dedent("""
        import eagerjit as torch

        @torch.jit
        def f(x):
            y = x * 2
            return y

        for i in range(3):
            print("result", f(torch.ones(1) + i).tolist())
    """))
    shown = run(str(program), "-m", "pdb", commands="b 7\nc\np 'y', y.tolist()\nc\np 'y', y.tolist()\nc\nc\nq\n")
    assert "('y', [2.0])" in shown and "('y', [4.0])" in shown and "result [6.0]" in shown


@pytest.mark.parametrize("value", [1, None])
def test_generators_that_tools_let_go_while_they_wait(value: int | None):
    """What closing them does nobody has watched, whatever they gave last."""
    closed = []

    def waiting() -> Any:
        try:
            yield value
        finally:
            closed.append(value)

    @torch.jit
    def f(x: Any) -> Any:
        held = [waiting()]
        next(held[0])
        y = x * 2
        return y

    def let_go(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code is f.__wrapped__.__code__ and event == "line" and "y" in frame.f_locals:
            frame.f_locals["held"].clear()
        return let_go

    before = sys.gettrace()
    with pytest.warns(JitWarning, match="a generator that waits inside of `try` or `with`"):
        sys.settrace(let_go)
        try:
            f(torch.ones(2))
        finally:
            sys.settrace(before)
    done = len(closed)
    f(torch.ones(2))
    assert len(closed) == done + 1

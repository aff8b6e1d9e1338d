"""What tools that measure coverage see of plain calls, and of compiled ones: all lines that the recorded call runs."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from types import FrameType
from typing import Any

import pytest

import eagerjit as torch

PROGRAM = """
    import sys
    import eagerjit as torch

    decorated = torch.jit if sys.argv[1] == "compiled" else lambda f: f

    @decorated
    def f(x, flag):
        y = x * 2
        if flag:
            y = y + 1
        else:
            y = helper(y)
        return y

    def helper(y):
        z = y - 1
        try:
            z.view(77)
        except RuntimeError:
            z = z + 1
        for i in range(3):
            z = z * sum(g(z) for _ in range(2))
        return z

    def g(x):
        return x.mean() + 1

    def main():
        for i in range(3):
            f(torch.ones(1 + i), False)
            a = i
            if a == 2:
                b = 1
            else:
                b = 3
        return b

    main()
    f(torch.ones(1), True)
    c = 2
    d = 3
"""


@pytest.mark.parametrize("core", ["ctrace", "pytrace", *["sysmon"] * (sys.version_info >= (3, 12))])
@pytest.mark.parametrize("how", ["plain", "compiled"])
def test_every_line_and_branch_counts(tmp_path: Any, how: str, core: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, data = tmp_path / "program.py", tmp_path / "data"
    program.write_text(textwrap.dedent(PROGRAM))
    monkeypatch.setenv("COVERAGE_CORE", core)

    def coverage(*arguments: str) -> str:
        command = [sys.executable, "-m", "coverage", arguments[0], f"--data-file={data}", *arguments[1:]]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, cwd=tmp_path).stdout

    coverage("run", "--branch", f"--include={program}", str(program), how)
    (report,) = json.loads(coverage("json", "--quiet", "-o", "-"))["files"].values()
    assert not report["missing_lines"] and not report["missing_branches"]


def stepped(x: Any) -> Any:
    total = 0.0
    for scale in (2.0, 3.0):
        total = total + (x * scale).sum()
    try:
        x.view(5)
    except RuntimeError:
        total = total * 2
    return sum(part for part in (total, total))


def heard(call: Any, x: Any) -> list[Any]:
    """The events of this file that a trace function is told of in a call."""
    events: list[Any] = []

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != __file__:
            return None
        kind = argument[0].__name__ if event == "exception" else ""
        events.append((frame.f_code.co_name, event, frame.f_lineno, kind))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call(x)
    finally:
        sys.settrace(before)
    return events


def test_trace_functions_hear_of_a_recorded_call_what_they_hear_of_a_plain_one() -> None:
    compiled = torch.jit(stepped, fullgraph=True)
    x = torch.ones(4)
    plain = heard(stepped, x)
    assert heard(compiled, x) == plain and len(plain) > 20
    assert heard(compiled, x) == []
    assert compiled.cache_info().compiles == 1


def test_trace_functions_hear_the_end_of_what_cannot_be_compiled() -> None:
    def outer(x: Any) -> Any:
        def inner() -> Any:
            open(__file__).close()
            return x * 2

        return inner()

    compiled, open_calls = torch.jit(outer), list[str]()
    with pytest.warns(torch.jit.JitWarning):
        events = heard(compiled, torch.ones(1))
    for name, event, *_ in events:
        if event == "call":
            open_calls.append(name)
        elif event == "return":
            assert open_calls.pop() == name
    assert not open_calls and sum(name == "inner" and event == "call" for name, event, *_ in events) == 2

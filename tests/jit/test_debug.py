"""Prints in compiled functions, and checks of values with EAGERJIT_CHECK."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import eagerjit as torch
from eagerjit import debug


def test_prints_happen_in_every_call_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    @torch.jit(fullgraph=True)
    def function(x: Any, rate: float) -> Any:
        debug.print("first {} of {}", x.sum(), "x")
        y = x * rate
        debug.print("unused {:.1f} {} {}", rate, x.shape[0], (y + 1).max())
        debug.print("last")
        return y

    for rate in (2.0, 3.0, 4.0):
        assert function(torch.ones(3), rate).tolist() == [rate] * 3
        lines = capsys.readouterr().out.splitlines()
        assert lines == ["first 3.0 of x", f"unused {rate:.1f} 3 {rate + 1}", "last"]
    assert function.cache_info().compiles == 1


def test_prints_see_values_before_they_are_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    def function(x: Any) -> Any:
        debug.print("{}", x)
        x += 1
        debug.print("{}", x)
        return (x * 2).sum()

    texts = []
    for call in (function, torch.jit(function, fullgraph=True)):
        call(torch.zeros(2))
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] == "tensor([0., 0.])\ntensor([1., 1.])\n"


def test_prints_do_not_disturb_gradients(capsys: pytest.CaptureFixture[str]) -> None:
    @torch.jit(fullgraph=True)
    def function(x: Any) -> Any:
        y = x * x
        debug.print("{}", y)
        return y.sum()

    x = torch.ones(2, requires_grad=True)
    function(x).backward()
    assert x.grad.tolist() == [2.0, 2.0] and capsys.readouterr().out == "tensor([1., 1.])\n"


def test_breakpoints_stop_in_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: seen.append(sys._getframe(1).f_locals["values"][0].tolist()))

    @torch.jit(fullgraph=True)
    def function(x: Any) -> Any:
        debug.breakpoint(x + 1)
        return x

    function(torch.zeros(1))
    function(torch.ones(1))
    assert seen == [[1.0], [2.0]]


def test_prints_before_an_error_are_not_lost(capsys: pytest.CaptureFixture[str]) -> None:
    """A call whose kernel fails prints what the plain call prints, and leaves what it leaves."""

    def function(x: Any, index: Any) -> Any:
        debug.print("before {}", x.sum())
        x.add_(1)
        total.add_(1)
        debug.print("between {} {}", x.sum(), total)
        y = x[index] * 2
        debug.print("after {}", y)
        return y

    texts = []
    for call in (function, torch.jit(function)):
        total = torch.zeros(())
        x = torch.ones(3)
        for index in ([0, 2], [1, 7], [1, 1]):
            try:
                call(x, torch.tensor(index))
            except IndexError as error:
                print(type(error))
            print(x.tolist(), total.item())
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] and texts[0].count("before") == 3 and texts[0].count("after") == 2


def test_names_of_checks() -> None:
    assert debug.checks_of("nan, bounds,inf") == ("inf", "nan") and debug.checks_of("") == ()
    with pytest.raises(ValueError, match="unknown check 'nams'"):
        debug.checks_of("nams")


PROGRAM = """
import eagerjit as torch
def function(x, y):
    z = torch.log(x)
    return (z + y).sum()
for call in (torch.jit(function), torch.jit(lambda x, y: function(x, y) * 2)):
    print(call(torch.ones(40), torch.ones(40)).item())
    try:
        print(call(torch.full((40,), VALUE), torch.ones(40)).item())
    except FloatingPointError as error:
        print(error)
"""


@pytest.mark.parametrize(("checks", "value", "expected"), [
    ("nan", "-1.0", "NaN in log (PATH:4)"), ("nan", "0.0", "-inf"), ("inf", "0.0", "an infinity in log (PATH:4)"),
    ("", "-1.0", "nan"),
])  # fmt: skip
@pytest.mark.parametrize("native", ["1", "0"])
def test_checks_name_the_line(tmp_path: Path, checks: str, value: str, expected: str, native: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(PROGRAM.replace("VALUE", value))
    environment = {**os.environ, "EAGERJIT_CHECK": checks, "EAGERJIT_NATIVE": native}
    environment["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])
    found = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True)
    message = expected.replace("PATH", str(script))
    assert found.stdout.splitlines() == ["40.0", message, "80.0", message], found.stdout + found.stderr


UNSEEN = """
import eagerjit as torch
a, b = torch.ones(3, 4), torch.ones(4, 2)
functions = [
    lambda a, b: a @ b,
    lambda a, b: (a @ b).t(),
    lambda a, b: a.sum(),
    lambda a, b: a.sum(1),
    lambda a, b: a.amax(0),
    lambda a, b: (a.amin(1) + 1, a @ b),
]
for f in functions:
    for call in (torch.jit(f), f):
        call(a, b)
        try:
            call(torch.tensor([[1.0, 2.0, float("nan"), 3.0]] * 3), b)
            print("nothing")
        except FloatingPointError as error:
            print(str(error).replace(__file__, "PATH"))
"""


def test_checks_see_what_no_elementwise_operation_computes(tmp_path: Path) -> None:
    """Matrix products and reductions, also where their values are results; eager ops name no line."""
    script = tmp_path / "script.py"
    script.write_text(UNSEEN)
    environment = {**os.environ, "EAGERJIT_CHECK": "nan", "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    found = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True)
    names = ["matmul", "matmul", "sum", "sum", "amax", "amin"]
    lines = found.stdout.splitlines()
    assert lines[::2] == [f"NaN in {name} (PATH:{line})" for line, name in enumerate(names, 5)], found.stdout
    assert [line.partition(" (")[0] for line in lines[1::2]] == [f"NaN in {name}" for name in names]


COMPLEX = """
import eagerjit as torch
function = torch.jit(lambda z: (z.abs() + z.sqrt().real + z.exp().imag).sum())
print(function(torch.zeros(3, dtype=torch.complex64)).item())
try:
    torch.jit(lambda z: z.log().real)(torch.zeros(3, dtype=torch.complex64))
except FloatingPointError as error:
    print(str(error).rpartition(" in ")[0], str(error).rpartition(":")[2])
"""


def test_checks_see_complex_results_and_not_the_steps_to_them(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(COMPLEX)
    environment = {**os.environ, "EAGERJIT_CHECK": "nan,inf", "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    found = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == ["0.0", "an infinity 6)"], found.stdout

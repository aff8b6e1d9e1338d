"""The command line: what it prints, writes and refuses."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

SCRIPT = """
import sys
import eagerjit as torch
import beside


@torch.jit
def scaled(x, c):
    return x * c + 1


class Model(torch.nn.Module):
    def forward(self, x):
        return x.sum()


print(sys.argv[1:], __name__, beside.VALUE)
print(scaled(torch.ones(3), 2.0).tolist(), scaled(torch.ones(2, 2), 2.0).tolist())
print(torch.jit(Model())(torch.ones(3)).item())
"""


def command(*arguments: str, cache: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """One call of the command line with its own cache."""
    given = {"EAGERJIT_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT), "EAGERJIT_CACHE": "1", **environment}
    call = [sys.executable, "-m", "eagerjit", *arguments]
    return subprocess.run(call, env={**os.environ, **given}, capture_output=True, text=True, cwd=cache, timeout=120)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script in a folder of its own, with a module beside it."""
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "beside.py").write_text("VALUE = 7\n")
    (folder / "program.py").write_text(SCRIPT)
    return folder / "program.py"


def test_env_reports_what_eagerjit_runs_on(tmp_path: Path) -> None:
    result = command("env", cache=tmp_path, EAGERJIT_NUM_THREADS="3", EAGERJIT_NATIVE="1")
    assert result.returncode == 0, result.stderr
    facts = dict(re.split(r":\s+", line, maxsplit=1) for line in result.stdout.splitlines())
    assert list(facts) == "eagerjit python packages processor threads blas native memory cache".split()
    assert re.search(r"numpy \d+\.\d+.*, llvmlite 0\.\d+", facts["packages"])
    assert re.search(r"vectors of (128|256|512) bits", facts["processor"])
    assert facts["threads"] == "3" and facts["native"] == "on"
    assert "kernels" in facts["blas"]
    assert facts["cache"].startswith(f"{tmp_path}: ")


def test_env_says_why_native_execution_is_off(tmp_path: Path) -> None:
    result = command("env", cache=tmp_path, EAGERJIT_NATIVE="0", EAGERJIT_BLAS="0", EAGERJIT_CACHE="0")
    assert "native:    off: EAGERJIT_NATIVE=0" in result.stdout
    assert "blas:      no BLAS: plain compiled loops" in result.stdout
    assert "cache:     off (EAGERJIT_CACHE=0)" in result.stdout


def test_scripts_run_as_python_runs_them_and_leave_reports(script: Path, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    result = command("run", "--explain", str(reports), str(script), "--flag", "x", cache=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "['--flag', 'x'] __main__ 7",
        "[3.0, 3.0, 3.0] [[3.0, 3.0], [3.0, 3.0]]",
        "3.0",
    ]
    names = ["__main__.Model.1.txt", "__main__.scaled.1.txt", "__main__.scaled.2.txt"]
    assert sorted(p.name for p in reports.iterdir()) == names
    text = (reports / "__main__.scaled.2.txt").read_text()
    assert "program.py:9" in text and "guards:" in text and "kernel " in text and "f32[s0, s1]" in text
    assert "f32[s0, s1]" not in (reports / "__main__.scaled.1.txt").read_text()


def test_an_exception_of_the_script_is_its_own(script: Path, tmp_path: Path) -> None:
    script.write_text("import eagerjit\nraise OSError('of the script')\n")
    result = command("run", str(script), cache=tmp_path)
    assert result.returncode == 1
    assert "program.py\", line 2" in result.stderr and "OSError: of the script" in result.stderr
    script.write_text("import sys\nsys.exit(3)\n")
    assert command("run", str(script), cache=tmp_path).returncode == 3


def test_the_cache_travels_in_one_file(script: Path, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    command("run", str(script), cache=here)
    stats = command("cache", "stats", cache=here).stdout
    found = re.fullmatch(rf"{re.escape(str(here))}: (\d+) entries, \d+\.\d of 512 MiB\n", stats)
    assert found and int(found[1]) >= 3
    count = found[1]
    assert command("cache", "export", "all.zip", cache=here).stdout == f"wrote {count} entries to all.zip\n"
    imported = command("cache", "import", str(here / "all.zip"), cache=there)
    assert imported.stdout == f"added {count} entries to {there}\n"
    log = command("run", str(script), cache=there, EAGERJIT_LOG="compile").stderr
    assert log.count("from the disk cache") >= 3 and "compiled in" not in log
    assert command("cache", "clear", cache=there).stdout == f"deleted {count} entries of {there}\n"
    assert ": 0 entries" in command("cache", "stats", cache=there).stdout


LIMITED = """
import eagerjit.compiled.warm as w, eagerjit.__main__ as m
w.DTYPES, w._BINARY, w._UNARY, w._REDUCTIONS, w._INPLACE, w._COMPOSITE = w.DTYPES[:2], ["add"], ["exp"], ["sum"], [], []
m.main(["cache", "warm"])
"""


def test_warm_compiles_what_a_later_process_finds(tmp_path: Path) -> None:
    environment = {**os.environ, "EAGERJIT_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT), "EAGERJIT_CACHE": "1"}

    def run(text: str, **extra: str) -> subprocess.CompletedProcess[str]:
        call = [sys.executable, "-c", text]
        given = {**environment, **extra}
        return subprocess.run(call, env=given, capture_output=True, text=True, check=True, timeout=120)

    summary = re.compile(r"(\d+) calls in .* s: (\d+) programs compiled, (\d+) were there already\n")
    first, again = summary.fullmatch(run(LIMITED).stdout), summary.fullmatch(run(LIMITED).stdout)
    assert first and int(first[1]) > 30 and int(first[2]) > 30
    assert again and again[1] == first[1] and again[2] == "0"
    log = run("import eagerjit as t; t.randn(7).exp() + t.ones(7); t.ones(5, 6).sum(-1)", EAGERJIT_LOG="compile").stderr
    for name in ("exp", "add", "sum"):
        assert re.search(rf"compile\] {name}: .* from the disk cache", log), log


@pytest.mark.parametrize(
    "arguments, text",
    [
        ((), "the following arguments are required: command"),
        (("paint",), "invalid choice: 'paint'"),
        (("cache",), "the following arguments are required: action"),
        (("cache", "import", "absent.zip"), "No such file or directory: 'absent.zip'"),
        (("cache", "import", "damaged.zip"), "damaged.zip: File is not a zip file"),
        (("cache", "export", "no/folder/all.zip"), "No such file or directory"),
        (("run", "absent.py"), "there is no script absent.py"),
    ],
)
def test_wrong_commands_say_what_is_wrong(arguments: tuple[str, ...], text: str, tmp_path: Path) -> None:
    (tmp_path / "damaged.zip").write_bytes(b"PK nothing of the kind")
    result = command(*arguments, cache=tmp_path)
    assert result.returncode != 0 and text in result.stderr and "Traceback" not in result.stderr


def test_warming_without_a_cache_is_refused(tmp_path: Path) -> None:
    result = command("cache", "warm", cache=tmp_path, EAGERJIT_CACHE="0")
    assert result.returncode == 1 and "the cache is off" in result.stderr

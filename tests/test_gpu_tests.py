"""`benchmarks/gpu_tests.py`: files of tests one after the other, whatever becomes of each."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parent.parent))

from benchmarks import gpu_tests

FILES = {
    "test_right.py": "def test_a(): pass\ndef test_b(): pass\n",
    "test_wrong.py": "def test_a(): pass\ndef test_b(): assert 1 == 2\n",
    "test_crash.py": "import os\ndef test_a(): os.abort()\n",
    "test_hangs.py": "import time\ndef test_a(): pass\ndef test_b(): time.sleep(60)\n",
    "test_import.py": "import no_such_module\n",
}


def test_every_file_is_run_whatever_becomes_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(gpu_tests, "ROOT", tmp_path)
    monkeypatch.setattr(gpu_tests, "GRACE", 4.0)
    run = gpu_tests.run
    monkeypatch.setattr(gpu_tests, "run", lambda file, limit: run(file, 10.0 if "hangs" in file.name else limit))
    every = [part for part in gpu_tests.PYTEST if part != "gpu"]
    del every[2]  # -m of gpu
    monkeypatch.setattr(gpu_tests, "PYTEST", every)
    monkeypatch.setattr(gpu_tests, "files", lambda: sorted(tmp_path.glob("test_*.py")))
    assert gpu_tests.main(["--output", str(tmp_path / "out"), "--seconds", "400"]) == 1
    found = json.loads((tmp_path / "out" / "gpu_tests.json").read_text())
    counts = {name: (r["passed"], r["failed"], r["errors"]) for name, r in found.items() if name != "test_hangs.py"}
    assert counts == {
        "test_right.py": (2, 0, 0), "test_wrong.py": (1, 1, 0), "test_crash.py": (0, 0, 0), "test_import.py": (0, 0, 1),
    }  # fmt: skip
    assert found["test_crash.py"]["problem"] == "ended with status -6"
    assert found["test_hangs.py"]["problem"] == "took more than 10 s" and not found["test_right.py"]["problem"]
    assert "test_wrong.py::test_b" in found["test_wrong.py"]["failures"][0]
    said = (tmp_path / "out" / "gpu_tests.txt").read_text()
    assert "==== test_crash.py" in said and "no_such_module" in said
    printed = capsys.readouterr().out
    assert " passed, 1 failed, 1 errors" in printed and "test_hangs.py: took more than 10 s" in printed


def test_what_finds_no_time_is_told(tmp_path: Path) -> None:
    assert gpu_tests.main(["--output", str(tmp_path), "--seconds", "0"]) == 1
    found = json.loads((tmp_path / "gpu_tests.json").read_text())
    assert {result["problem"] for result in found.values()} == {"no time left"} and len(found) > 8


def test_its_files_are_those_with_such_tests() -> None:
    names = [path.name for path in gpu_tests.files()]
    assert {"test_examples.py", "test_gpu_descriptors.py"} <= {*names} and tuple(names[-3:]) == gpu_tests.LAST
    assert "test_triton_text.py" not in names

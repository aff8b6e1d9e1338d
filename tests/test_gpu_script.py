"""`benchmarks/gpu.sh` where there is no GPU: it says what is missing, and what it runs can be imported."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from eagerjit.runtime.gpu.devices import available

sys.path.append(str(Path(__file__).resolve().parent.parent))

from benchmarks import gpu, gpu_all, gpu_kernels, gpu_models, gpu_tests, gpu_timeline, harness
from benchmarks.harness import Rows
from benchmarks.idle import compile_nothing, idle, preparing
from tests import conftest
from tests.test_gpu_networks import THIN

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "benchmarks" / "gpu.sh"
ABSENT = ("matplotlib", "sklearn", "scipy_openblas32", "jax", "numba", "drjit")
"""What a machine with a GPU may not have: what the script runs does without."""


def environment(tmp_path: Path) -> dict[str, str]:
    for package in ABSENT:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise ImportError('not here')")
    return {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "PYTHON": sys.executable}


@pytest.mark.skipif(available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", str(SCRIPT), str(tmp_path / "results")], env=environment(tmp_path), capture_output=True, text=True
    )
    assert done.returncode == 1 and done.stdout.startswith("no GPU: ") and "libcuda" in done.stdout, done


def collected(files: list[str], surroundings: dict[str, str]) -> int:
    """How many tests for GPUs files have."""
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "--collect-only", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=ROOT, env=surroundings, capture_output=True, text=True)
    assert done.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED), done.stdout
    counted = re.search(r"(\d+) tests need a GPU", done.stdout) or re.search(r"(\d+)/\d+ tests collected", done.stdout)
    assert counted is not None, done.stdout
    return int(counted[1])


def test_its_tests_can_be_imported(tmp_path: Path) -> None:
    files = [str(path.relative_to(ROOT)) for path in gpu_tests.files()]
    assert {"tests/test_examples.py", "tests/runtime/gpu/test_gpu_op_table.py"} <= {*files}
    assert collected(files, environment(tmp_path)) > 90


def test_its_tests_are_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test that needs a GPU lies in a file that the script does not run: else no test is collected."""
    monkeypatch.setattr(gpu_tests, "files", lambda: [])
    monkeypatch.setattr(conftest, "why_no_gpu", lambda: "there is none")
    config, item = cast(Any, None), cast(Any, SimpleNamespace(path=Path("test_it.py"), get_closest_marker=bool))
    with pytest.raises(pytest.UsageError, match=r"would not find .*test_it[.]py"):
        conftest.pytest_collection_modifyitems(config, [item])


def test_its_benchmarks_can_be_imported(tmp_path: Path) -> None:
    names = re.findall(r"-m benchmarks[.]([a-z_ ]+)", SCRIPT.read_text())
    modules = ["benchmarks." + name for line in names for name in line.split()]
    parts = ("", "_all", "_kernels", "_timeline", "_models", "_tests")
    assert {f"benchmarks.gpu{part}" for part in parts} == {*modules}
    code = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"
    done = subprocess.run(
        [sys.executable, "-c", code, *modules], cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def attempts(monkeypatch: pytest.MonkeyPatch, measure: Callable[[str, str], Rows]) -> list[tuple[str, ...]]:
    """Instead of processes: what each would have measured, by peer and phase; the calls, and whether they prepared."""
    calls: list[tuple[str, ...]] = []

    def attempt(name: str, peer: str, phase: str, environment: dict[str, str], limit: float) -> Rows:
        calls.append((environment.get(harness.PREPARE, ""), peer, phase))
        return Rows() if harness.PREPARE in environment else measure(peer, phase)

    monkeypatch.setattr(harness, "attempt", attempt)
    monkeypatch.setattr(harness, "is_installed", lambda peer: True)
    return calls


def run_all(monkeypatch: pytest.MonkeyPatch, output: Path, *arguments: str) -> dict[str, Any]:
    monkeypatch.setattr(sys, "argv", ["gpu_all", "gpu_models", "--output", str(output), *arguments])
    gpu_all.main()
    return json.loads((output / "gpu_models.json").read_text())


def test_one_failure_costs_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(peer: str, phase: str) -> Rows:
        if peer == "torch" and phase == "NCF":
            return Rows(failed={"": "CUDA out of memory"})
        if peer == "torch.compile" and phase == "GPT-2":
            raise KeyboardInterrupt
        return Rows({phase: 0.5}, {phase: [2.0 if (peer, phase) == ("eagerjit", "AlexNet") else 1.0]})

    attempts(monkeypatch, measure)
    with pytest.raises(KeyboardInterrupt):
        run_all(monkeypatch, tmp_path)
    record = json.loads((tmp_path / "gpu_models.json").read_text())  # what was known before the end
    assert record["missing"]["torch, NCF"] == "CUDA out of memory" and "NCF" not in record["medians"]["torch"]
    assert record["missing"]["eagerjit, AlexNet"] == "another result than the others'"
    assert {*record["medians"]["eagerjit eager"]} == {*gpu_models.SIZES}


def test_what_is_compiled_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = attempts(monkeypatch, lambda peer, phase: Rows())
    monkeypatch.setattr(gpu, "has_gpu", lambda: True)
    monkeypatch.setattr(sys, "argv", ["gpu_all", "gpu_models", "gpu", "--compile", "--cache", str(tmp_path / "kept")])
    gpu_all.main()
    assert (tmp_path / "kept").is_dir() and {*gpu_models.SIZES} == {phase for _, _, phase in calls}
    assert {how for how, peer, _ in calls if peer.startswith("eagerjit")} == {"idle"}
    assert {how for how, peer, _ in calls if peer == "torch.compile"} == {"device"}
    assert not any(how for how, peer, _ in calls if peer == "torch")


def test_a_cache_that_was_moved_is_of_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = tmp_path / "triton" / "KEY"
    entry.mkdir(parents=True)
    (entry / "k.cubin").write_bytes(b"code")
    notes = entry / "__grp__k.json"
    names = {name: f"/elsewhere/KEY/{name}" for name in ("k.cubin", "k.llir")}
    notes.write_text(json.dumps({"child_paths": names}))
    monkeypatch.setattr(sys, "argv", ["gpu_all", "--moved", "--cache", str(tmp_path)])
    gpu_all.main()
    assert json.loads(notes.read_text()) == {"child_paths": {"k.cubin": str(entry / "k.cubin")}}


def test_a_benchmark_that_fails_costs_none_of_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []

    def measure(name: str, *others: Any) -> None:
        measured.append(name)
        raise OSError("the picture could not be drawn")

    monkeypatch.setattr(gpu_all, "measure", measure)
    monkeypatch.setattr(gpu_all, "prepare", lambda *arguments: [])
    monkeypatch.setattr(sys, "argv", ["gpu_all", "gpu_kernels", "gpu", "--output", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        gpu_all.main()
    assert ended.value.code == 1 and measured == ["gpu_kernels", "gpu"]


def test_pictures_are_compiled_ahead(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpu_timeline, "SIZES", THIN["ResNet-50"])
    compiled = []

    def compile(launch: Any, device: Any) -> Any:
        compiled.append(launch)
        return compile_nothing(launch, device)

    monkeypatch.setattr(gpu_timeline, "preparing", lambda: idle(compile))
    monkeypatch.setattr(sys, "argv", ["gpu_timeline", "--prepare", "--output", str(tmp_path)])
    gpu_timeline.main()
    assert len(compiled) > 50 and not [*tmp_path.iterdir()]


def test_kernels_are_compiled_ahead_by_other_processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import eagerjit

    monkeypatch.setenv("EAGERJIT_CACHE_DIR", str(tmp_path / "own"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "compiled"))
    with preparing(2):
        x = eagerjit.ones(64, 64, device="cuda")
        eagerjit.jit(lambda x: (x * 2).softmax(1), fullgraph=True)(x)
    found = {path.stem for path in (tmp_path / "compiled").rglob("*.cubin")}
    assert any("exp" in name for name in found), found


def test_what_finds_no_time_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = attempts(monkeypatch, lambda peer, phase: Rows({phase: 0.5}))
    record = run_all(monkeypatch, tmp_path, "--seconds", "1")
    assert not calls and record["missing"]["eagerjit, VGG-19"] == "no time left"
    assert "no time left" in (tmp_path / "gpu_models.md").read_text()


def test_processes_that_fail_or_take_too_long_say_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environment = {**harness.environment(tmp_path), "CUDA_VISIBLE_DEVICES": ""}
    failed = harness.attempt("gpu", "torch", "all", environment, 120)
    assert "" in failed.failed and not failed.numbers
    late = harness.attempt("latency", "eagerjit", "all", environment, 0.1)
    assert late.failed == {"": "took more than 0 s"}


def test_a_process_that_ends_costs_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one goes on behind that row; where nothing new is found, it is the library that fails."""
    cases = ("a", "crashes", "b", "loses the device", "c")

    def attempt(name: str, peer: str, phase: str, environment: dict[str, str], limit: float) -> Rows:
        rows, known = Rows(), json.loads(environment[harness.SKIP])
        for case in cases:
            if case in known:
                continue
            if case == "crashes":
                rows.failed |= {case: harness.ENDED, "": "exit status -11"}
                return rows
            if case == "loses the device":
                rows.failed |= {case: "AcceleratorError: CUDA error", "": "exit status 1"}
                return rows
            rows.numbers[case] = 1.0
        if peer == "broken":
            rows.failed[""] = "no module"
        return rows

    monkeypatch.setattr(harness, "attempt", attempt)
    rows = gpu_all.attempts("gpu_kernels", "eagerjit", "all", {}, 60)
    assert rows.numbers == {"a": 1.0, "b": 1.0, "c": 1.0}
    assert rows.failed == {"crashes": "exit status -11", "loses the device": "AcceleratorError: CUDA error"}
    cases = ()
    assert gpu_all.attempts("gpu_kernels", "broken", "all", {}, 60).failed == {"": "no module"}
    cases = ("crashes",)  # a network is a phase, and a row of this name: it is not tried again
    assert gpu_all.attempts("gpu_models", "eagerjit", "crashes", {}, 60).failed == {"crashes": "exit status -11"}


def test_an_error_of_the_device_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> float:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    rows = Rows()
    with pytest.raises(SystemExit):
        harness.each(rows, {"a": lambda: 1.0, "lost": lost, "b": lambda: 2.0})
    assert rows.numbers == {"a": 1.0} and {*rows.failed} == {"lost"}
    monkeypatch.setenv(harness.SKIP, json.dumps(["a", "lost"]))
    again = Rows()
    harness.each(again, {"a": lost, "lost": lost, "b": lambda: 2.0})
    assert again.numbers == {"b": 2.0} and not again.failed


def test_cases_fail_one_by_one_and_numbers_are_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    rows = Rows()
    harness.each(rows, {"a": lambda: 1.0, "b": lambda: 1 / 0, "c": lambda: float("nan"), "d": lambda: 2.0})
    assert rows.numbers["a"] == 1.0 and rows.numbers["d"] == 2.0 and "division by zero" in rows.failed["b"]
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 8  # before and after each
    last = json.loads(printed[-1].removeprefix(harness.MARK))
    assert last["numbers"] == {"a": 1.0, "d": 2.0} and {*last["failed"]} == {"b", "c"}


class Event:
    """PyTorch's, where there is no GPU."""

    def __init__(self, enable_timing: bool = False):
        self.recorded = False

    def record(self) -> None:
        self.recorded = True

    def synchronize(self) -> None:
        assert self.recorded

    def elapsed_time(self, end: Event) -> float:
        return 1.0


SMALL = {
    "CHAIN": 64, "ROWS": 8, "COLUMNS": 16, "CLASSES": 7, "PARAMETERS": 32, "SIDE": 32, "HEADS": 2, "LENGTH": 20,
    "FEATURES": 8, "REPEATS": 1,
}  # fmt: skip


@pytest.mark.parametrize("peer", ["torch", "torch.compile", "torch.compile with CUDA graphs"])
def test_the_lines_of_torch_run_without_a_gpu(monkeypatch: pytest.MonkeyPatch, peer: str) -> None:
    for name, value in SMALL.items():
        monkeypatch.setattr(gpu_kernels, name, value)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch, "compile", lambda function, mode=None: function)
    rows = gpu_kernels.measure(peer, "all", "cpu")
    chosen = {name for name in gpu_kernels.cases(torch) if gpu_kernels.FLASH in name}
    assert not rows.failed and {*rows.numbers} >= {*gpu_kernels.cases(torch)} - chosen
    assert bool(chosen & {*rows.numbers}) == (peer == "torch")
    assert (gpu_kernels.ADD in rows.numbers) == (peer == "torch")
    assert (gpu_kernels.CALL in rows.numbers) == (peer != "torch")


@pytest.mark.parametrize("peer", ["eagerjit", "eagerjit with CUDA graphs"])
def test_kernels_are_prepared_on_an_idle_device(monkeypatch: pytest.MonkeyPatch, peer: str) -> None:
    for name, value in SMALL.items():
        monkeypatch.setattr(gpu_kernels, name, value)
    with idle(compile_nothing):
        rows = gpu_kernels.prepare(peer, "all")
        assert not rows.failed and {*rows.numbers} == {*gpu_kernels.cases(torch)}
        lines = gpu_kernels.footer({peer: rows.numbers})
        assert lines[0] == "idle, driver for CUDA 13.0" and "of a copy's" in lines[2]


@pytest.mark.parametrize("name", THIN)
def test_networks_are_prepared_on_an_idle_device(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(gpu_models, "SIZES", THIN)
    with idle(compile_nothing), warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing of a step is left to plain calls
        for peer in ("eagerjit", "eagerjit eager"):
            assert gpu_models.prepare(peer, name).numbers.keys() == {name}

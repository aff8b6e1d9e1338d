"""The benchmarks' own arithmetic, and one of them from the command line to its files."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))

from benchmarks import eager, eager_operations, harness, report  # noqa: E402

NO_OPERATIONS = frozenset(
    """torch.nn.Module Tensor.shape torch.Tensor torch.nn.Sequential Tensor.device torch.device torch.nn.Parameter
    Module.parameters torch.nn.ModuleList Optimizer/Scheduler.step torch.no_grad Optimizer/Scheduler.zero_grad
    Module.zero_grad Tensor.size torch.Size Module.eval Module.train torch.optim.Adam Tensor.dtype torch.dtype
    torch.utils.data.DataLoader Module|Optimizer.state_dict Module.state_dict torch.float32
    Module.register_buffer torch.save torch.jit.ignore torch.cuda.is_available torch.accelerator.is_available
    torch.manual_seed torch.long torch.load Module|Optimizer.load_state_dict torch.float torch.jit.is_scripting
    Module.apply Module|Function.apply""".split()
)
"""What most programs use that gives no tensor's values: descriptions, classes, and what acts on modules and files."""


def record(**medians: dict[str, float]) -> dict:
    machine = {"cores": 2, "cpu": "a CPU", "python": "3.11"}
    return {
        "benchmark": "test", "title": "T", "unit": "s", "machine": machine, "medians": medians, "footer": [],
        "missing": {"jax": "not installed"},
    }  # fmt: skip


def test_amounts_have_three_digits_and_a_prefix() -> None:
    shown = [report.amount(value, "s") for value in (7.7e-8, 1.234e-6, 0.0456, 0.789, 12.34)]
    assert shown == ["77.0 ns", "1.23 µs", "45.6 ms", "789 ms", "12.3 s"]
    assert report.amount(3 * 2**20, "B") == "3.00 MiB"


def test_table_gives_ratios_to_eagerjit_and_names_the_absent() -> None:
    text = report.table(record(eagerjit={"a": 2e-6}, torch={"a": 5e-6, "b": 1.0}))
    assert "2.00 µs" in text and "5.00 µs (2.50x)" in text
    lone = next(line for line in text.splitlines() if line.startswith("| b"))
    assert "1.00 s" in lone and "x)" not in lone, "without eagerjit's number there is no ratio"
    assert "jax: not installed" in text


def test_another_result_than_the_others_is_found() -> None:
    def rows(value: float) -> list[harness.Rows]:
        return [harness.Rows({}, {"sum": [1.0, value]})]

    assert not harness.disagreements({"a": rows(2.0), "b": rows(2.0001), "c": rows(2.0)})
    assert list(harness.disagreements({"a": rows(2.0), "b": rows(2.1), "c": rows(2.0)})) == ["b"]
    assert len(harness.disagreements({"a": rows(2.0), "b": rows(2.1)})) == 2
    assert harness.disagreements({"a": rows(2.0), "b": rows(float("nan")), "c": rows(2.0)})


def test_seconds_per_call_counts_calls_not_loops() -> None:
    calls = []
    seconds = harness.seconds_per_call(calls.append, 1, budget=0.02, repeats=3)
    assert 0 < seconds * len(calls) < 5


def test_command_line_writes_results(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "coldstart", "--peers", "eagerjit,numpy", "--rounds", "1"]
    done = subprocess.run([*command, "--output", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "coldstart.json").read_text())
    assert found["missing"] == {}
    assert set(found["medians"]) == {"eagerjit", "numpy"}
    assert "import" in (tmp_path / "coldstart.md").read_text()


def test_unknown_names_are_refused() -> None:
    for arguments in (["nosuch"], ["latency", "--peers", "nosuch"]):
        command = [sys.executable, "-m", "benchmarks", *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and "nosuch" in done.stderr


def test_the_fifty_operations_are_those_that_programs_use_most() -> None:
    with (ROOT / "benchmarks" / "most_used.tsv").open(newline="") as file:
        listed = list(csv.DictReader(file, delimiter="\t"))
    with (ROOT / "tests" / "data" / "torch_names.tsv").open(newline="") as file:
        programs = {line["name"]: int(line["programs"]) for line in csv.DictReader(file, delimiter="\t")}
    assert len(listed) == 50
    assert [int(line["programs"]) for line in listed] == [
        sum(programs.pop(name) for name in line["names"].split(",")) for line in listed
    ]
    others: dict[str, int] = {}
    for name, count in programs.items():
        if name not in NO_OPERATIONS:
            same = name.rpartition(".")[2].lower()
            others[same] = others.get(same, 0) + count
    assert max(others.values()) < int(listed[-1]["programs"])


def test_each_of_the_fifty_operations_is_measured_at_both_sizes() -> None:
    import eagerjit

    table = eager_operations.operations(eagerjit, eager_operations.SIZES["16"])
    assert {row for rows in eager.most_used().values() for row in rows} <= table.keys()


def test_the_slowest_row_stands_for_an_operation() -> None:
    ratios = {f"{row}, 16": 2.0 for rows in eager.most_used().values() for row in rows}
    ratios["nn.Softmax, 16"] = 0.5
    lines = eager.table_of_most_used(ratios)
    assert "| softmax | 0.50x (nn.Softmax) | - | - | - |" in lines
    assert lines[-1] == (
        "Of these 50, slower than torch: 1 at 16, 0 at 2^20, 0 at 16, recording, 0 at 2^20, recording."
    )

"""How many of the names that public programs use exist, and that no name is lost again."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import eagerjit as ej
from eagerjit.tools import names

TABLE = Path(__file__).resolve().parents[1] / "data" / "torch_names.tsv"
LEAST = 0.97


def test_names_in_use_exist() -> None:
    total, missing = names.coverage(TABLE.read_text().splitlines())
    assert total > 340
    assert len(missing) <= (1 - LEAST) * total, [name for _, name, _ in missing]


def test_coverage_counts_names_in_scope_only() -> None:
    table = ["name\tprograms", "torch.ones\t9\t4\tdtype", "torch.absent\t5", "torch.cuda.Stream\t8", "torch.rare\t2"]
    assert names.coverage(table) == (2, [(2, "torch.absent", 5)])
    assert names.coverage(table, programs=1) == (3, [(2, "torch.absent", 5), (4, "torch.rare", 2)])


@pytest.mark.parametrize(
    "entry, there",
    [
        ("operator @", True),
        ("Tensor|Module.to", True),
        ("Tensor|Module.register_buffer", False),
        ("Optimizer/Scheduler.step", True),
        ("Optimizer/Scheduler.zero_grad", True),
        ("Module|Function.apply", True),
        ("torch.nn.Linear", True),
        ("torch.nn.Linear.nothing", False),
    ],
)
def test_entries(entry: str, there: bool) -> None:
    assert names.exists(entry) is there


def test_find_gives_what_a_name_stands_for() -> None:
    assert names.find("torch.nn.functional.relu") is ej.nn.functional.relu
    with pytest.raises(AttributeError, match=r"no torch\.zeroes; the nearest name it has is torch\.zeros$"):
        names.find("torch.zeroes")


ORDERED = ["1.0a1", "1.0b2", "1.0rc1", "1.0", "1.0.1", "1.2.dev3", "1.2", "1.10", "2.0.post1", "2.13.0", "3"]


@pytest.mark.parametrize("other", [*ORDERED, "2.13.0+cpu", "2.13.0+zzz", "parrot"])
def test_versions_compare_as_torchs_do(other: str) -> None:
    for text in ORDERED:
        ours, theirs = ej.version.TorchVersion(text), torch.torch_version.TorchVersion(text)
        found = (ours < other, ours <= other, ours == other, ours != other, ours >= other, ours > other)
        assert found == (theirs < other, theirs <= other, theirs == other, theirs != other, theirs >= other,
                         theirs > other), (text, other)  # fmt: skip
    assert (ej.__version__ >= (2, 13)) and ej.__version__ < (2, 14) and ej.__version__.split(".")[:2] == ["2", "13"]


def test_what_is_tested_is_counted() -> None:
    lines = list(names.summary(["torch.exp", "torch.multiprocessing.spawn", "torch.absent"]))
    exp = names.account()["torch.exp"]
    assert lines[0] == f"2 have a test against PyTorch, on {exp.samples} samples:"
    assert "    1 compare gradients" in lines
    assert "    1 on empty inputs, of 1 of them gradients; 0 refuse such, as PyTorch does" in lines
    assert lines[-2:] == ["    1 kernels", "    1 no work: it starts processes"]


def test_accounts_are_lines() -> None:
    account = names.Account("torch.exp", "7", "ue", errors="2", gpu="kernels")
    assert names.Account.parse(account.line()) == account
    assert account.changed(gpu="none").line().split("\t")[0::8] == ["torch.exp", "none"]
    assert names.Account.heading().split("\t")[0] == "name"

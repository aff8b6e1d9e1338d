"""The operations that programs use most, run eagerly at 16 elements and at a million, plain and recording."""

from __future__ import annotations

import csv
import importlib
import math
from pathlib import Path
from typing import Any

from benchmarks.eager_operations import BACKWARD, RANDOM, SIZES, WRITTEN, operations
from benchmarks.harness import Rows, seconds_per_call

TITLE = "Eager operations, 16 elements and 2^20 elements, plain and recording a gradient"
UNIT = "s"
PEERS = ("eagerjit", "torch")
ROUNDS = 3
PHASES = ("plain", "recording")

BUDGET = 0.1  # seconds for one row

Medians = dict[str, dict[str, float]]


def most_used() -> dict[str, tuple[str, ...]]:
    """The fifty operations that programs use most, with the rows that measure each.

    The file names what counts as one operation: a method, a function, a layer and an operator of one kind. The programs
    are those of `tests/data/torch_names.tsv`, for all these names together; arithmetic and subscripts are not counted
    there. What only describes a tensor (`shape`), classes, and what acts on modules or files are no operations.
    """
    with Path(__file__).with_name("most_used.tsv").open(newline="") as file:
        return {line["operation"]: tuple(line["rows"].split("; ")) for line in csv.DictReader(file, delimiter="\t")}


def summary(result: Any) -> list[float]:
    """Return a few numbers that show what was computed, of complex ones both parts."""
    flat = result.detach().reshape(-1)
    return [float(part) for value in flat[:4].tolist() for part in (value.real, value.imag)]


def recording(torch: Any, name: str, call: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The arguments with all floating point ones requiring gradients; None where nothing is recorded."""
    if name in WRITTEN | BACKWARD or name == "numpy":
        return None
    leaves = tuple(
        a.detach().clone().requires_grad_() if isinstance(a, torch.Tensor) and a.is_floating_point() else a
        for a in arguments
    )
    return leaves if call(*leaves).requires_grad else None


def measure(peer: str, phase: str) -> Rows:
    torch = importlib.import_module(peer)
    rows, check = {}, {}
    for label, side in SIZES.items():
        for name, (call, arguments) in operations(torch, side).items():
            if phase == "recording":
                leaves = recording(torch, name, call, arguments)
                if leaves is not None:
                    rows[f"{name}, {label}, recording"] = seconds_per_call(call, *leaves, budget=BUDGET, repeats=7)
                continue
            with torch.set_grad_enabled(name in BACKWARD):
                if name not in RANDOM:
                    check[f"{name}, {label}"] = summary(call(*arguments))
                rows[f"{name}, {label}"] = seconds_per_call(call, *arguments, budget=BUDGET, repeats=7)
    return Rows(rows, check)


def footer(medians: Medians) -> list[str]:
    """How the two compare over all operations of a size, where torch takes less time, and those used most."""
    if not {"eagerjit", "torch"} <= medians.keys():
        return []
    ratios = {row: medians["torch"][row] / seconds for row, seconds in medians["eagerjit"].items()}
    return [*summaries(ratios), "", *table_of_most_used(ratios)]


def endings() -> list[str]:
    """What the names of rows end in, by size and phase."""
    return [f", {label}{phase}" for phase in ("", ", recording") for label in SIZES]


def summaries(ratios: dict[str, float]) -> list[str]:
    """A line for each size and phase."""
    lines = []
    for ending in endings():
        found = {row.removesuffix(ending): ratio for row, ratio in ratios.items() if row.endswith(ending)}
        mean = math.exp(sum(map(math.log, found.values())) / len(found))
        slower = {name: ratio for name, ratio in found.items() if ratio < 1}
        named = ", ".join(f"{name} ({ratio:.2f}x)" for name, ratio in sorted(slower.items(), key=lambda x: x[1]))
        lines.append(
            f"{ending[2:]}: torch takes {mean:.2f}x (geometric mean of {len(found)}), less on {len(slower)}"
            + (f": {named}" if named else "")
        )
    return lines


def table_of_most_used(ratios: dict[str, float]) -> list[str]:
    """torch's time over eagerjit's for the operations used most: the least over the rows that measure one."""
    columns, slower = [ending[2:] for ending in endings()], []
    lines = ["The 50 operations that programs use most: torch's time over eagerjit's, the least of an operation's rows"]
    lines += ["", "| " + " | ".join(["operation", *columns]) + " |", "|---" * (1 + len(columns)) + "|"]
    for operation, rows in most_used().items():
        least = []
        for column in columns:
            found = [(ratios[f"{row}, {column}"], row) for row in rows if f"{row}, {column}" in ratios]
            least.append(min(found, default=None))
            if found and min(found)[0] < 1:
                slower.append(column)
        lines.append("| " + " | ".join([operation, *(f"{x[0]:.2f}x ({x[1]})" if x else "-" for x in least)]) + " |")
    counts = ", ".join(f"{slower.count(column)} at {column}" for column in columns)
    return [*lines, "", f"Of these 50, slower than torch: {counts}."]

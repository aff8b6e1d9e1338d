"""The operations that programs use most, run eagerly at 16 elements and at a million, plain and recording."""

from __future__ import annotations

import importlib
import math
from typing import Any

from benchmarks.eager_operations import RANDOM, SIZES, WRITTEN, operations
from benchmarks.harness import Rows, seconds_per_call

TITLE = "Eager operations, 16 elements and 2^20 elements, plain and recording a gradient"
UNIT = "s"
PEERS = ("eagerjit", "torch")
ROUNDS = 3
PHASES = ("plain", "recording")

BUDGET = 0.1  # seconds for one row


def summary(result: Any) -> list[float]:
    """Return a few numbers that show what was computed."""
    flat = result.detach().reshape(-1)
    return [float(value) for value in flat[:4].tolist()]


def recording(torch: Any, name: str, call: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The arguments with all floating point ones requiring gradients; None where nothing is recorded."""
    if name in WRITTEN or name == "numpy":
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
            with torch.no_grad():
                if name not in RANDOM:
                    check[f"{name}, {label}"] = summary(call(*arguments))
                rows[f"{name}, {label}"] = seconds_per_call(call, *arguments, budget=BUDGET, repeats=7)
    return Rows(rows, check)


def footer(medians: dict[str, dict[str, float]]) -> list[str]:
    """Say how the two compare over all operations of a size, and where torch takes less time."""
    if not {"eagerjit", "torch"} <= medians.keys():
        return []
    lines = []
    for ending in [f", {label}{phase}" for phase in ("", ", recording") for label in SIZES]:
        ratios = {
            row.removesuffix(ending): medians["torch"][row] / seconds
            for row, seconds in medians["eagerjit"].items()
            if row.endswith(ending)
        }
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        slower = {name: ratio for name, ratio in ratios.items() if ratio < 1}
        named = ", ".join(f"{name} ({ratio:.2f}x)" for name, ratio in sorted(slower.items(), key=lambda x: x[1]))
        lines.append(
            f"{ending[2:]}: torch takes {mean:.2f}x (geometric mean of {len(ratios)}), less on {len(slower)}"
            + (f": {named}" if named else "")
        )
    return lines

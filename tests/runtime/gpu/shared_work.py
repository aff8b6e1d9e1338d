"""Checks by name on a device, in parts, each by several processes that share it: compiling takes longest."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor

PARTS = 6


def part_of(names: Sequence[str], part: int) -> list[str]:
    """Names a fixed distance apart: neighbours take equally long."""
    return list(names[part::PARTS])


def problems(check: Callable[[str, str], list[str]], names: Sequence[str]) -> list[str]:
    """What is wrong with these names on a GPU."""
    workers = min(12, len(os.sched_getaffinity(0)))
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        found = pool.map(check, ["gpu"] * len(names), names, chunksize=4)
        return [problem for wrong in found for problem in wrong]

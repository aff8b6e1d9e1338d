"""What a process may use of its machine, by control groups as containers and schedulers make them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from eagerjit.runtime import allowance

GIB = 1 << 30


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of 64 processors and 256 GiB, whose control groups are in this folder."""
    sizes = {"SC_PHYS_PAGES": 64 << 20, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(64)))
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
    monkeypatch.setattr(allowance, "_ROOT", str(tmp_path))
    monkeypatch.setattr(allowance, "_OWN", str(tmp_path / "own"))
    return tmp_path


def made(machine: Path, own: str, files: dict[str, str]) -> tuple[int, int]:
    """The processors and the GiB that a process may use in groups with these files."""
    (machine / "own").write_text(own)
    for name, text in files.items():
        (machine / name).parent.mkdir(parents=True, exist_ok=True)
        (machine / name).write_text(text + "\n")
    return allowance.processors(), allowance.memory() // GIB


def test_a_container_of_the_second_version(machine: Path) -> None:
    files = {"cpu.max": "250000 100000", "memory.max": str(4 * GIB)}
    assert made(machine, "0::/\n", files) == (3, 4)


def test_groups_without_limits(machine: Path) -> None:
    files = {"a/cpu.max": "max 100000", "a/memory.max": "max"}
    assert made(machine, "0::/a\n", files) == (64, 256)


def test_limits_of_outer_groups_hold(machine: Path) -> None:
    files = {"a/b/cpu.max": "800000 100000", "a/cpu.max": "200000 100000", "a/memory.max": str(16 * GIB)}
    assert made(machine, "0::/a/b\n", files | {"a/b/memory.max": "max"}) == (2, 16)


def test_less_than_a_processor_is_one(machine: Path) -> None:
    assert made(machine, "0::/\n", {"cpu.max": "10000 100000"}) == (1, 256)


def test_the_first_version(machine: Path) -> None:
    own = "5:memory:/job\n4:cpu,cpuacct:/job\n3:freezer:/\n"
    files = {"cpu/job/cpu.cfs_quota_us": "400000", "cpu/job/cpu.cfs_period_us": "100000"}
    files |= {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}
    files |= {"memory/job/memory.limit_in_bytes": str(8 * GIB), "memory/memory.limit_in_bytes": str((1 << 63) - 4096)}
    assert made(machine, own, files) == (4, 8)


def test_a_container_whose_path_is_the_machines(machine: Path) -> None:
    own = "4:cpu,cpuacct:/docker/0123\n5:memory:/docker/0123\n"
    files = {"cpu/cpu.cfs_quota_us": "150000", "cpu/cpu.cfs_period_us": "100000"}
    assert made(machine, own, files | {"memory/memory.limit_in_bytes": str(2 * GIB)}) == (2, 2)


def test_what_cannot_be_read_sets_no_limit(machine: Path) -> None:
    assert (allowance.processors(), allowance.memory() // GIB) == (64, 256)
    assert made(machine, "0::/\n", {"cpu.max": "", "memory.max": ""}) == (64, 256)

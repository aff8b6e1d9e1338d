"""Every op and every name that programs use on tensors of a GPU; a few of them on a fake device."""

from __future__ import annotations

import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2]))

import device_programs
import device_table

WITHOUT = frozenset({"linspace", "long_arange", "arange", "filled"})
"""Ops that make tensors of nothing."""
ELSEWHERE = frozenset({"torch.amp.autocast", "Module.to"})
"""Names whose samples say themselves that it is the CPU."""


@pytest.mark.parametrize("name", ["softmax", "mul_", "addmm", "var", "sort", "linalg_qr", "unfold", "scatter_add"])
def test_an_op_on_a_fake_device(name: str) -> None:
    assert device_programs.op_problems("fake", name) == []


NAMES = ["Tensor.view", "torch.cat", "torch.nn.functional.cross_entropy", "torch.nn.Conv2d", "Tensor.masked_fill_"]


@pytest.mark.parametrize("name", [*NAMES, "torch.einsum"])
def test_a_name_on_a_fake_device(name: str) -> None:
    assert device_programs.name_problems("fake", name) == []


def test_what_lies_elsewhere_is_seen() -> None:
    import eagerjit as ej

    x = ej.ones(2)
    assert list(device_programs.compared("results", [x], [x], False)) == ["results 0 lie on the CPU"]
    assert list(device_programs.compared("results", [x], [x + 1], True)) == ["results 0 are others"]


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["op", "name"])
def test_all_on_a_gpu(kind: str) -> None:
    # Compiling takes longest: several processes share the device.
    from catalog.entries import ENTRIES

    work = device_programs.op_problems if kind == "op" else device_programs.name_problems
    names = [n for n in device_table.names() if n not in WITHOUT] if kind == "op" else sorted({*ENTRIES} - ELSEWHERE)
    workers = min(12, len(os.sched_getaffinity(0)))
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        found = pool.map(work, ["gpu"] * len(names), names, chunksize=4)
        wrong = [problem for problems in found for problem in problems]
    assert not wrong, "\n".join(wrong)
    assert len(names) > 300

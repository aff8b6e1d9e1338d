"""Every op and every name that programs use on tensors of a GPU; a few of them on a fake device."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2]))

import device_programs
import device_table
import shared_work

WITHOUT = frozenset({"linspace", "long_arange", "arange", "filled", "triangle_indices", "fft_frequencies"})
"""Ops that make tensors of nothing."""
ELSEWHERE = frozenset({"torch.amp.autocast", "Module.to"})
"""Names whose samples say themselves that it is the CPU."""


FEW = "softmax mul_ addmm var sort linalg_qr unfold scatter_add fft_half".split()


@pytest.mark.parametrize("name", FEW)
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


def all_of(kind: str) -> list[str]:
    """What the tests on a device run."""
    from catalog.entries import ENTRIES

    return [n for n in device_table.names() if n not in WITHOUT] if kind == "op" else sorted({*ENTRIES} - ELSEWHERE)


@pytest.mark.parametrize("kind", ["op", "name"])
def test_parts_are_all(kind: str) -> None:
    parts = [shared_work.part_of(all_of(kind), part) for part in range(shared_work.PARTS)]
    assert sorted(n for part in parts for n in part) == all_of(kind)
    assert len(all_of(kind)) > 300


@pytest.mark.gpu
@pytest.mark.parametrize("part", range(shared_work.PARTS))
@pytest.mark.parametrize("kind", ["op", "name"])
def test_all_on_a_gpu(kind: str, part: int) -> None:
    work = device_programs.op_problems if kind == "op" else device_programs.name_problems
    wrong = shared_work.problems(work, shared_work.part_of(all_of(kind), part))
    assert not wrong, "\n".join(wrong)

"""Rows added to rows on a GPU: in parallel, with the bits of one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.compiled import gpu_kernels
from eagerjit.compiler import loops
from eagerjit.compiler.codegen.triton import ordered
from eagerjit.compiler.lower import routines
from eagerjit.jit import jit

RANDOM = np.random.default_rng(6)
Function = torch.nn.functional


def real(*shape: int, dtype: str = "float32") -> Any:
    return torch.tensor(RANDOM.normal(size=shape)).to(getattr(torch, dtype))


def whole(high: int, *shape: int) -> Any:
    return torch.tensor(RANDOM.integers(0, high, shape))


def looked_up(at: Any, table: Any) -> Any:
    table = table.detach().requires_grad_()
    (Function.embedding(at, table, padding_idx=2) * 1.5).exp().sum().backward()
    return table.grad


CASES: dict[str, tuple[Any, list[Any]]] = {
    "rows": (lambda x, at, y: x.index_add(0, at, y), [real(5, 7), whole(5, 40), real(40, 7)]),
    "one row": (lambda x, at, y: x.index_add(0, at, y), [real(3, 5), whole(1, 30), real(30, 5)]),
    "each its own": (lambda x, at, y: x.index_add(0, at, y), [real(9, 5), torch.arange(9), real(9, 5)]),
    "from the end": (
        lambda x, at, y: x.index_put((at - 3,), y, accumulate=True), [real(5, 3), whole(5, 20), real(20, 3)]
    ),
    "elements": (lambda x, at, y: x.scatter_add(0, at, y), [real(6), whole(6, 50), real(50)]),
    "replaced": (lambda x, at, y: x.index_copy(0, at, y), [real(5, 3), whole(5, 20), real(20, 3)]),
    "computed": (
        lambda x, at, y: x.index_add(0, at, (y * 2.0).sin(), alpha=3), [real(5, 3), whole(5, 20), real(20, 3)]
    ),
    "a number": (lambda x, at: x.index_put((at,), torch.tensor(7.0)), [real(5), whole(5, 3)]),
    "always the same": (lambda x, y: x.index_add(0, torch.zeros(20, dtype=torch.int64), y), [real(5, 3), real(20, 3)]),
    "bfloat16": (
        lambda x, at, y: x.index_add(0, at, y),
        [real(5, 3, dtype="bfloat16"), whole(5, 20), real(20, 3, dtype="bfloat16")],
    ),
    "integers": (lambda x, at, y: x.index_add(0, at, y), [whole(9, 5, 3), whole(5, 20), whole(9, 20, 3)]),
    "small index": (lambda x, at, y: x.index_add(0, at.int(), y), [real(5, 3), whole(5, 20), real(20, 3)]),
    "rows of rows": (lambda x, at, y: x.scatter_add(0, at, y), [real(6, 9), whole(6, 11, 9), real(11, 9)]),
    "within rows": (lambda x, at, y: x.scatter_add(1, at, y), [real(5, 6), whole(6, 5, 11), real(5, 12)]),
    "in the middle": (lambda x, at, y: x.scatter_add(1, at, y), [real(2, 6, 5), whole(6, 2, 9, 4), real(2, 9, 5)]),
    "one entry": (lambda x, at, y: x.scatter_add(1, at, y), [real(5, 6), whole(6, 5, 1), real(5, 1)]),
    "largest": (lambda x, at, y: x.scatter_reduce(1, at, y, "amax"), [real(5, 6), whole(6, 5, 9), real(5, 9)]),
    "embedding": (looked_up, [whole(6, 4, 6), real(6, 10)]),
}  # fmt: skip
LINES = ("rows of rows", "within rows", "in the middle", "one entry", "largest", "a number")
"""Cases without a key, or with few entries."""


@pytest.mark.parametrize("look", [8, 1024])
@pytest.mark.parametrize("name", CASES)
def test_bits_are_those_of_one_after_the_other(name: str, look: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered, "LOOK", look)
    if look == 8:
        monkeypatch.setattr(ordered, "INT32", 0)
        monkeypatch.setattr(ordered, "TILE", 4)
    call, arguments = CASES[name]
    expected = call(*arguments)
    with gpu_kernels.interpreted() as made:
        actual = jit(call, fullgraph=True)(*arguments)
    assert actual.dtype is expected.dtype and actual._data.tobytes() == expected._data.tobytes()
    assert any("entry" in launch.source.text for m in made for launch in m.launched)


@pytest.mark.parametrize("name", CASES)
def test_many_entries_are_taken_in_the_order_of_where_they_go(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "FEW", 4)
    monkeypatch.setattr(ordered, "FEW", 4)
    monkeypatch.setattr(ordered, "NEIGHBOURS", 2)
    monkeypatch.setattr(routines, "RUN", 8)
    call, arguments = CASES[name]
    expected = call(*arguments)
    with gpu_kernels.interpreted() as made:
        actual = jit(call, fullgraph=True)(*arguments)
    assert actual.dtype is expected.dtype and actual._data.tobytes() == expected._data.tobytes()
    launches = [launch for m in made for launch in m.launched]
    assert any("position" in launch.source.text for launch in launches) == (name not in LINES)


def test_few_entries_need_no_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a call that serves any number of them."""
    monkeypatch.setattr(loops, "FEW", 8)
    monkeypatch.setattr(ordered, "FEW", 8)
    calls = [(real(4, 3), whole(4, n), real(n, 3)) for n in (5, 12, 8)]
    expected = [x.index_add(0, at, y)._data.tobytes() for x, at, y in calls]
    with gpu_kernels.interpreted() as made:
        add = jit(lambda x, at, y: x.index_add(0, at, y), fullgraph=True)
        assert [add(*call)._data.tobytes() for call in calls] == expected
    texts = [launch.source.text for m in made for launch in m.launched]
    assert sum("precedes" in text for text in texts) == 1


def test_an_index_out_of_range_is_the_cpus_error() -> None:
    with gpu_kernels.interpreted():
        add = jit(lambda x, at, y: x.index_add(0, at, y))
        with pytest.raises((IndexError, RuntimeError), match="out of range"):
            add(real(3, 2), torch.tensor([0, 5, 1]), real(3, 2))


def test_a_program_per_entry() -> None:
    with gpu_kernels.interpreted() as made:
        jit(lambda x, at, y: x.index_add(0, at, y))(real(5, 1500), whole(5, 6), real(6, 1500))
    (launch,) = [launch for m in made for launch in m.launched if "entry" in launch.source.text]
    assert launch.programs == 6 * 2 and launch.constants["LANES"] == 1024
    for architecture in (80, 90):
        assert gpu_kernels.binary(launch, architecture).cubin[:4] == b"\x7fELF"


def test_machine_code_for_many_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "FEW", 4)
    monkeypatch.setattr(ordered, "FEW", 4)
    with gpu_kernels.interpreted() as made:
        jit(lambda x, at, y: x.index_add(0, at, y))(real(5, 3), whole(5, 20), real(20, 3))
    (launch,) = [launch for m in made for launch in m.launched if "position" in launch.source.text]
    assert launch.programs == 20
    for architecture in (80, 90):
        assert gpu_kernels.binary(launch, architecture).spilled == 0

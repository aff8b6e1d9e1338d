"""Random programs give the same plain and compiled on a device too, bit for bit, whatever shape their kernels have."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import device_programs
import numpy as np
import pytest

import eagerjit as ej
from eagerjit.compiler.codegen.triton import source
from eagerjit.tensors.placement import host_array

sys.path.append(str(Path(__file__).resolve().parents[3]))

from tests.property import programs

GROUPS, EACH = 6, 5


def there(given: Sequence[Any]) -> list[Any]:
    """The tensors on the device, those that are one tensor as one."""
    moved = {id(t): t.detach().to("cuda").requires_grad_(t.requires_grad) for t in given}
    return [moved[id(t)] for t in given]


def bits(tensor: Any) -> Any:
    """A tensor of the device for comparison."""
    if tensor is None:
        return None
    array = np.ascontiguousarray(host_array(tensor.detach().contiguous()._data))
    if array.dtype.kind in "fV":
        array = np.where(array != array, array.dtype.type(np.nan), array)
    return str(tensor.dtype), tuple(tensor.shape), array.tobytes()


@pytest.fixture
def on_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The programs' tensors lie on a fake device."""
    arguments, observe = programs.arguments, programs.observe

    def observed(function: Callable[..., Any], tensors: Sequence[Any], numbers: Sequence[Any]) -> dict[str, Any]:
        try:
            seen = observe(function, tensors, numbers)
            ej.cuda.synchronize()
        except RuntimeError:  # what kernels find is said by whoever waits for them next
            return {"error": "of a kernel"}
        return seen

    monkeypatch.setattr(programs, "arguments", lambda *given: there(arguments(*given)))
    monkeypatch.setattr(programs, "observe", observed)
    monkeypatch.setattr(programs, "bits", bits)
    monkeypatch.setattr(programs, "misfit", lambda *_: None)
    with warnings.catch_warnings(), device_programs.devices("fake"), ej.device("cuda"):
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("group", range(GROUPS))
def test_decorating_changes_no_bit(on_device: None, group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a few elements count as long ones in every other group: they are taken in steps and shared."""
    if group % 2:
        for name, number in {"WHOLE": 4, "STEP": 2, "PART": 4, "FULL": 3}.items():
            monkeypatch.setattr(source, name, number)
    first = 500 + group * 1_000_003
    found = [programs.difference(seed, 2 + seed % 8, 2)[0] for seed in range(first, first + EACH)]
    assert [f for f in found if f is not None] == []


def test_the_comparison_notices_differences(on_device: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(function: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*given: Any) -> Any:
            result = function(*given)
            for tensor in programs.tensors_of(result):
                tensor.detach().logical_not_() if tensor.dtype is ej.bool else tensor.detach().add_(1)
            return result

        return changed

    monkeypatch.setattr(programs, "jit", wrong)
    assert all(programs.difference(seed, 3, 1)[0] is not None for seed in range(3))

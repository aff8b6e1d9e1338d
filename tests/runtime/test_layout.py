"""Native execution turns itself off where an object is not laid out as expected, and on request."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from program_tools import Storage, Tensor, adding, kernel, tensor

from eagerjit.runtime import heap_types, layout
from eagerjit.runtime.execute import NativeExecutable, load
from eagerjit.runtime.interpret import PythonExecutable
from eagerjit.runtime.native import context as c

pytestmark = pytest.mark.usefixtures("classes")


@pytest.fixture
def verifying_again(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """As if nothing had been verified yet; afterwards all is as it was."""
    monkeypatch.setattr(layout, "_filled_for", -1)
    monkeypatch.setattr(layout, "_failure", "")
    return monkeypatch


def loaded() -> Any:
    return load(adding(), [kernel(name) for name in adding().kernels], [])


def test_verification_passes_here(verifying_again: pytest.MonkeyPatch) -> None:
    assert layout.ready() and type(loaded()) is NativeExecutable and layout.status() == "on"


FIELDS = {"DATA": 48, "NDIM": 64, "DIMS": 40, "STRIDES": 32, "BASE": 56, "DESCRIPTOR": 16}


@pytest.mark.parametrize("field", FIELDS)
def test_a_moved_field_of_ndarrays_is_noticed(
    verifying_again: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], field: str
) -> None:
    verifying_again.setattr(c, f"ARRAY_{field}", FIELDS[field])
    assert type(loaded()) is PythonExecutable
    assert "native execution is off: ndarrays of NumPy" in capsys.readouterr().err
    assert type(loaded()) is PythonExecutable and not capsys.readouterr().err, "it is said once"
    x = tensor([1.0, 2.0])
    assert loaded().run((x, x))._data.tolist() == [2.0, 4.0]


@pytest.mark.parametrize("flag", ["CONTIGUOUS_FLAG", "OWNS_DATA_FLAG", "ALIGNED_FLAG", "WRITEABLE_FLAG"])
def test_a_changed_flag_is_noticed(verifying_again: pytest.MonkeyPatch, flag: str) -> None:
    verifying_again.setattr(c, flag, 0x800)
    assert not layout.ready()


def test_another_memory_handler_field_is_noticed(verifying_again: pytest.MonkeyPatch) -> None:
    verifying_again.setattr(c, "ARRAY_HANDLER", 80)
    assert not layout.ready()


def test_an_unknown_numpy_is_noticed(verifying_again: pytest.MonkeyPatch) -> None:
    verifying_again.setattr(layout, "_ABI", 0x3000000)
    assert not layout.ready()
    assert layout.status().startswith("off: NumPy") and "ABI 0x2000000" in layout.status()


def test_a_moved_file_name_of_code_is_noticed(verifying_again: pytest.MonkeyPatch) -> None:
    class Shifted:
        co_filename = "elsewhere"

    verifying_again.setattr(layout, "_CODES", (Shifted(), Shifted()))
    assert layout.status() == "off: code objects keep the name of their file elsewhere"


def test_slots_are_found() -> None:
    x = tensor([1.0])
    x._storage = Storage()
    for name in ("_data", "_storage", "_extra"):
        assert heap_types.slot_offset(Tensor, name) % 8 == 0
    assert len({heap_types.slot_offset(Tensor, name) for name in ("_data", "_storage", "_extra", "_grad")}) == 4


def test_a_slot_that_is_no_word_of_its_own_is_refused() -> None:
    class Computed:
        __slots__ = ("_held",)

        @property
        def name(self) -> object:
            return self._held[0]

        @name.setter
        def name(self, value: object) -> None:
            self._held = (value,)

    with pytest.raises(RuntimeError, match="cannot find slot name"):
        heap_types.slot_offset(Computed, "name")


def test_native_off_by_environment() -> None:
    code = """
import sys
sys.path.insert(0, "tests/runtime")
from program_tools import *
from eagerjit.runtime.binding import bind
from eagerjit.runtime.entry import OpCall
from eagerjit.runtime.function import Function
bind((Tensor, Parameter), Node, Storage)
run = load(adding(), [kernel(name) for name in adding().kernels], [])
f, g = Function(None), OpCall("add", None, None, ("a", "b"))
x = tensor([1.0, 2.0], grad=True)
f.insert(run), g.insert((x, x), run)
print(type(run).__name__, f(x, x)._data, g(x, x)._data, type(g(x, x)._node).__name__, sep=";")
"""
    environment = {**os.environ, "EAGERJIT_NATIVE": "0"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == f"PythonExecutable;{np.array([2.0, 4.0])};{np.array([2.0, 4.0])};Node"

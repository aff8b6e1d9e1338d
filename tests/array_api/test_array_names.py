"""The array API's namespace has what the standard names, with its parameters, and nothing else."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from array_api_names import ATTRIBUTES, CONSTANTS, DTYPES, EXTENSIONS, FUNCTIONS, METHODS
from array_oracle import array_api_strict

import eagerjit as torch
from eagerjit import array_api as xp

DECLARED = {line.partition("(")[0]: line.partition("(")[2][:-1] for line in FUNCTIONS.split("\n") if line}


def looked_up(name: str, namespace: Any = xp) -> Any:
    """What a namespace or one of its extensions has under a name."""
    found = namespace
    for part in name.split("."):
        found = getattr(found, part)
    return found


def parameters(function: Any) -> tuple[list[Any], set[Any]]:
    """(those with a position, those without), each as name, kind and default."""
    given = [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]
    keywords = {p for p in given if p[1] is inspect.Parameter.KEYWORD_ONLY}
    return [p for p in given if p not in keywords], keywords


@pytest.mark.parametrize("name", DECLARED)
def test_functions_take_what_the_standard_says(name):
    scope: dict[str, Any] = {}
    exec(f"def declared({DECLARED[name]}): pass", scope)
    assert parameters(looked_up(name)) == parameters(scope["declared"])
    if name not in ("astype", "from_dlpack"):  # their defaults are objects of the reference implementation's own
        assert parameters(looked_up(name, array_api_strict)) == parameters(scope["declared"])
    assert looked_up(name).__doc__
    assert looked_up(name).__name__ == name.rpartition(".")[2]


def test_constants():
    for name, value in CONSTANTS.items():
        found = getattr(xp, name)
        assert found == value or (math.isnan(found) and math.isnan(value))
    assert xp.__array_api_version__ == "2024.12"


def test_nothing_else_is_in_the_namespace():
    functions = {name for name in DECLARED if "." not in name}
    assert set(dir(xp)) == {*functions, *DTYPES, *CONSTANTS, *EXTENSIONS, "__array_api_version__"}
    assert sorted(xp.__all__) == sorted(set(xp.__all__)) == dir(xp)
    for extension in EXTENSIONS:
        names = {name.partition(".")[2] for name in DECLARED if name.startswith(f"{extension}.")}
        assert set(getattr(xp, extension).__all__) == names
    for name in ("matmul", "matrix_transpose", "tensordot", "vecdot"):
        assert getattr(xp, name) is getattr(xp.linalg, name)
    with pytest.raises(AttributeError, match=r"2024\.12 has no einsum"):
        xp.einsum  # noqa: B018


def test_star_import_and_late_parts():
    code = "import sys, eagerjit; assert 'eagerjit.array_api' not in sys.modules; from eagerjit.array_api import *; "
    code += "print(add(ones(2), e).shape, linalg.det(eye(2)).item(), fft.fftfreq(2).tolist())"
    root = Path(__file__).resolve().parents[2]
    run = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert run.stdout == "torch.Size([2]) 1.0 [0.0, -0.5]\n"


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_are_eagerjits(name):
    assert getattr(xp, name) is getattr(torch, name)


@pytest.mark.parametrize("name", [*ATTRIBUTES, *METHODS])
def test_tensors_have_the_attributes_of_arrays(name):
    if name == "__imatmul__":  # PyTorch has none: `x @= y` is `x = x @ y`
        x = y = xp.eye(2)
        x @= xp.asarray([[2.0, 0.0], [0.0, 3.0]])
        assert x.tolist() == [[2.0, 0.0], [0.0, 3.0]] and y.tolist() == [[1.0, 0.0], [0.0, 1.0]]
        return
    assert hasattr(xp.eye(2), name)

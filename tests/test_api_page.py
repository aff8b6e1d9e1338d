"""The page of all public names is what the library says now, and says something of every name."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import eagerjit as torch
from eagerjit.ops.pointwise import POINTWISE
from eagerjit.tools import catalogue
from eagerjit.tools.differences import DIFFERENCES

ROOT = Path(__file__).resolve().parent.parent


def test_page_is_up_to_date() -> None:
    written = (ROOT / "docs" / "api.md").read_text()
    assert written == catalogue.page(), "run `python -m eagerjit api docs/api.md`"


def test_every_name_is_described() -> None:
    silent = re.findall(r"^\| (`\S+`) \|\s*\|$", catalogue.page(), re.MULTILINE)
    assert not silent


def test_differences_are_told_once_each() -> None:
    names = [d.names for d in DIFFERENCES]
    assert len(set(names)) == len(names)
    assert all(d.names and d.what and d.why for d in DIFFERENCES)
    assert all(f"| {d.what} |" in catalogue.page() for d in DIFFERENCES)


def test_command_prints_the_page() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "eagerjit", "api"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.startswith("# The API") and "## eagerjit.nn.functional" in done.stdout


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (torch.mul, ["input", "other"]),
        (torch.add, ["input", "other", "scaled", "alpha", "out"]),
        (torch.sum, ["input", "dim", "keepdim", "dtype"]),
        (torch.softmax, ["input", "dim", "dtype", "_stacklevel"]),
        (torch.reshape, ["input", "shape"]),
        (torch.zeros, ["size", "dtype", "device", "requires_grad"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_signatures_can_be_asked_for(function: object, parameters: list[str]) -> None:
    signature = inspect.signature(function)  # type: ignore[arg-type]
    assert list(signature.parameters) == parameters
    assert signature.return_annotation in (inspect.Signature.empty, "Tensor")


KINDS = {
    "complex numbers": torch.tensor([0.5 + 0.5j]),
    "bools": torch.tensor([True]),
    "floating point": torch.tensor([0.5]),
}


@pytest.mark.parametrize("name", [name for name, op in POINTWISE.items() if "For every" in str(op.call.__doc__)])
def test_docstrings_of_elementwise_ops_name_the_errors(name: str) -> None:
    op = POINTWISE[name]
    described = str(op.call.__doc__)
    _, _, errors = described.partition("Raises")
    for kind, numbers in KINDS.items():
        arguments = [numbers] * op.required
        if kind not in errors:
            op.call(*arguments)
            continue
        with pytest.raises(RuntimeError) as raised:
            op.call(*arguments)
        assert f"{type(raised.value).__name__} for" in errors

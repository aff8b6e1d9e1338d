"""A package that goes through nested data by classes alone is told of the dictionaries of Modules."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = """
from types import SimpleNamespace
known = {}
registry = SimpleNamespace(__GLOBAL_NAMESPACE="all")
def register_pytree_node(kind, flatten, unflatten, *, namespace):
    if kind in known:
        raise ValueError(kind)
    assert namespace == "all"
    known[kind] = flatten, unflatten
"""
IMPORTS = {"before": "import optree, torch", "behind": "import torch, optree"}
PROGRAM = """
module = torch.nn.Linear(2, 1)
flatten, unflatten = optree.known[type(module._parameters)]
children, context, keys = flatten(module._parameters)
assert keys == ("bias", "weight") and children == [module.bias, module.weight]
made = unflatten(context, [1, 2])
assert type(made) is type(module._parameters) and list(made.items()) == [("weight", 2), ("bias", 1)]
print("told", optree.__spec__.loader.get_source("optree") is not None)
"""


@pytest.mark.parametrize("order", IMPORTS)
def test_the_package_is_told(order: str, tmp_path: Path) -> None:
    (tmp_path / "optree.py").write_text(PACKAGE)
    (tmp_path / "program.py").write_text(IMPORTS[order] + PROGRAM)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "eagerjit", "run", str(tmp_path / "program.py")]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert found.stdout == "told True\n", found.stderr

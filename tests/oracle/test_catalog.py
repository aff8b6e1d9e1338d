"""Every name that public programs use, on samples of every kind: as PyTorch, and compiled as eagerly, bit for bit."""

from __future__ import annotations

import pytest
import torch
from catalog import wrong
from catalog.account import agrees, cells
from catalog.entries import ENTRIES, MORE
from catalog.running import Compared, failures

OF_THE_BUILD = ("torch.accelerator.current_accelerator", "Tensor|Module.cuda")


@pytest.mark.parametrize("name", [n for n, e in ENTRIES.items() if e.variations])
def test_as_pytorch_and_compiled_as_eagerly(name: str) -> None:
    if name in OF_THE_BUILD and torch.version.cuda is not None:
        pytest.skip("PyTorch is built with CUDA; what it answers without is on record: test_passing_names.py")
    compared = Compared()
    found = list(failures(name, ENTRIES[name].variations, MORE.get(name, "").split(), compared))
    refused = list(wrong.failures(name))
    found += filter(None, refused)
    compared.errors += len(refused)
    assert not found, "\n" + "\n".join(found)
    agrees(name, cells(compared))

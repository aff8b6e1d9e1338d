"""Every name that public programs use, as kernels for GPUs, which Triton's interpreter runs: as on the CPU."""

from __future__ import annotations

import pytest
from catalog.account import agrees
from catalog.entries import ENTRIES
from catalog.on_gpu import Work, failures


@pytest.mark.parametrize("name", [n for n, e in ENTRIES.items() if e.variations])
def test_kernels_for_gpus_do_what_the_cpu_does(name: str) -> None:
    work = Work()
    found = list(failures(name, ENTRIES[name].variations, work))
    assert not found, "\n" + "\n".join(found)
    agrees(name, {"gpu": str(work)})

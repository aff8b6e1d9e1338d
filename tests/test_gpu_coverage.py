"""Which ops kernels compute for GPUs: all but a few, each of which says why the host does."""

from __future__ import annotations

import sys
from pathlib import Path

from op_samples import EAGER

sys.path.append(str(Path(__file__).resolve().parent.parent))

from benchmarks import gpu_coverage
from eagerjit.dispatch import OPS
from eagerjit.ops.host import HostOp


def test_ops_lower_to_kernels_or_say_why_not():
    names = gpu_coverage.names()
    host = {name: calls for name in names if (calls := gpu_coverage.lowered(name))}
    assert not {name: calls for name, calls in host.items() if not OPS[name].on_host}
    assert len(host) <= 0.05 * len(names), f"{len(names) - len(host)} of {len(names)} ops are kernels on a GPU"


def test_what_numpy_computes_says_why():
    assert all(op.on_host for op in OPS.values() if isinstance(op, HostOp))
    assert all(EAGER.values())

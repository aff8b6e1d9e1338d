"""From an interpreter that has just started to the first result of a one-line function."""

from __future__ import annotations

import importlib
import time

from benchmarks.harness import Rows

TITLE = "Import, and import with the first two calls of x*2+1 on 16 floats"
UNIT = "s"
PEERS = ("eagerjit", "eagerjit eager", "numpy", "torch", "torch.compile", "jax", "numba")
ROUNDS = 5
PHASES = ("nothing cached", "second process")


def line(x):
    return x * 2 + 1


def measure(peer: str, phase: str) -> Rows:
    start = time.perf_counter()
    module = {"eagerjit eager": "eagerjit", "torch.compile": "torch"}.get(peer, peer)
    library = importlib.import_module(module)
    imported = time.perf_counter()
    values = [float(value) for value in range(16)]
    if peer in ("numpy", "numba"):
        import numpy as np

        x = np.array(values, dtype=np.float32)
        two, one = np.float32(2), np.float32(1)
        function = line if peer == "numpy" else library.njit(lambda x: x * two + one)
    elif peer == "jax":
        x, compiled = library.numpy.asarray(values), library.jit(line)

        def function(x):
            return compiled(x).block_until_ready()

    else:
        x = library.tensor(values)
        compilers = {"eagerjit": "jit", "torch.compile": "compile"}
        function = getattr(library, compilers[peer])(line) if peer in compilers else line
    function(x)
    result = function(x)
    done = time.perf_counter()
    rows = {"import": imported - start} if phase == "second process" else {}
    rows[f"import and two calls, {phase}"] = done - start
    return Rows(rows, {"result": [float(value) for value in result.tolist()]})

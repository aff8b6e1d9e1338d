"""What a call costs when there is almost nothing to compute: 16 floats."""

from __future__ import annotations

from benchmarks.harness import Rows, seconds_per_call

TITLE = "Calls on 16 floats"
UNIT = "s"
PEERS = ("eagerjit", "numpy", "torch", "torch.compile", "jax", "numba")
ROUNDS = 5
PHASES = ("calls",)

SIZE = 16
COMPILED = "compiled x*2+1"
ADD, ADD_GRAD, BACKWARD = "eager x+y", "eager x+y, recording", "eager (p*y).sum().backward()"


def line(x):
    return x * 2 + 1


def add(x, y):
    return x + y


def measure(peer: str, phase: str) -> Rows:
    import numpy as np

    x = np.random.default_rng(0).standard_normal(SIZE, dtype=np.float32)
    if peer == "numpy":
        return Rows({ADD: seconds_per_call(add, x, x)}, {"add": (x + x).tolist()})
    if peer == "numba":
        import numba

        two, one = np.float32(2), np.float32(1)
        compiled = numba.njit(lambda x: x * two + one)
        return Rows({COMPILED: seconds_per_call(compiled, x)}, {"line": compiled(x).tolist()})
    if peer == "jax":
        import jax

        x, compiled = jax.numpy.asarray(x), jax.jit(line)
        blocked = {COMPILED: lambda x: compiled(x).block_until_ready(), ADD: lambda x: (x + x).block_until_ready()}
        rows = {name: seconds_per_call(function, x) for name, function in blocked.items()}
        return Rows(rows, {"line": compiled(x).tolist(), "add": (x + x).tolist()})
    return measure_torch(peer, x)


def measure_torch(peer: str, array) -> Rows:
    """Measure a library with PyTorch's API."""
    if peer == "eagerjit":
        import eagerjit as torch

        compiled = torch.jit(line)
    else:
        import torch

        compiled = torch.compile(line)
    x = torch.tensor(array)
    if peer == "torch.compile":
        return Rows({COMPILED: seconds_per_call(compiled, x)}, {"line": compiled(x).tolist()})

    p = torch.tensor(array, requires_grad=True)

    def backward(p, y):
        (p * y).sum().backward()

    rows = {
        ADD: seconds_per_call(add, x, x),
        ADD_GRAD: seconds_per_call(add, p, x),
        BACKWARD: seconds_per_call(backward, p, x),
    }
    check = {"add": (x + x).tolist()}
    if peer == "eagerjit":
        rows = {COMPILED: seconds_per_call(compiled, x), **rows}
        check["line"] = compiled(x).tolist()
    p.grad = None
    backward(p, x)
    check["backward"] = p.grad.tolist()
    return Rows(rows, check)

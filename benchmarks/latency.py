"""What a call costs when there is almost nothing to compute: 16 floats."""

from __future__ import annotations

from benchmarks.harness import Rows, seconds_per_call

TITLE = "Calls on 16 floats"
UNIT = "s"
PEERS = ("eagerjit", "numpy", "torch", "torch.compile", "jax", "numba")
ROUNDS = 5
PHASES = ("calls",)

SIZE = 16
PARAMETERS = 20
COMPILED = "compiled x*2+1"
GUARDED = f"compiled, two tensors and a Module of {PARAMETERS} parameters"
ADD, ADD_GRAD, BACKWARD = "eager x+y", "eager x+y, recording", "eager (p*y).sum().backward()"


def line(x):
    return x * 2 + 1


def add(x, y):
    return x + y


def scaled(torch):
    """A Module with many parameters and next to no work."""

    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scales = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(SIZE)) for _ in range(PARAMETERS)])

        def forward(self, x, y):
            for scale in self.scales:
                x = x * scale
            return x + y

    return Scaled()


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
    rows, check = {}, {}
    if peer in ("eagerjit", "torch.compile"):
        module = (torch.jit if peer == "eagerjit" else torch.compile)(scaled(torch))
        with torch.no_grad():
            check = {"line": compiled(x).tolist(), "scaled": module(x, x).tolist()}
            guarded = seconds_per_call(module, x, x)
        rows = {COMPILED: seconds_per_call(compiled, x), GUARDED: guarded}
    if peer == "torch.compile":
        return Rows(rows, check)

    p = torch.tensor(array, requires_grad=True)

    def backward(p, y):
        (p * y).sum().backward()

    rows |= {
        ADD: seconds_per_call(add, x, x),
        ADD_GRAD: seconds_per_call(add, p, x),
        BACKWARD: seconds_per_call(backward, p, x),
    }
    check["add"] = (x + x).tolist()
    p.grad = None
    backward(p, x)
    check["backward"] = p.grad.tolist()
    return Rows(rows, check)

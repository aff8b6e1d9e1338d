"""A chain of elementwise operations, `tanh(2*x+1)*exp(-x*x)+log1p(abs(x))`, on a thousand floats to sixteen million."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.harness import Rows, seconds_once, seconds_per_call

TITLE = "tanh(2*x+1)*exp(-x*x)+log1p(abs(x)), float32"
UNIT = "s"
PEERS = ("eagerjit", "numpy", "torch", "torch.compile", "jax", "numba", "numba parallel", "drjit")
ROUNDS = 3
PHASES = ("calls",)

EXPONENTS = (10, 16, 20, 24)
COLD = "first two calls in a new process, nothing cached"
COMPILE = "first call of another function, not cached"


def prepare(peer: str, k: int = 2) -> tuple[Callable, Callable, Callable]:
    """Return how a peer makes its array, its function (blocking until all is done), and how to get floats back.

    `k` is the chain's factor 2; another one makes another function to compile.
    """
    if peer == "numpy":
        import numpy as np

        return lambda x: x, lambda x: np.tanh(k * x + 1) * np.exp(-x * x) + np.log1p(np.abs(x)), lambda y: y
    if peer == "jax":
        import jax
        from jax import numpy as jnp

        chain = jax.jit(lambda x: jnp.tanh(k * x + 1) * jnp.exp(-x * x) + jnp.log1p(jnp.abs(x)))
        return jnp.asarray, lambda x: chain(x).block_until_ready(), lambda y: y
    if peer.startswith("numba"):
        return lambda x: x, numba_chain(k, parallel=peer == "numba parallel"), lambda y: y
    if peer == "drjit":
        return drjit_chain(k)
    if peer == "eagerjit":
        import eagerjit as torch
    else:
        import torch

    def chain(x):
        return torch.tanh(k * x + 1) * torch.exp(-x * x) + torch.log1p(torch.abs(x))

    compiled = {"eagerjit": torch.jit, "torch.compile": getattr(torch, "compile", None)}.get(peer, lambda f: f)(chain)
    return torch.tensor, compiled, lambda y: y.numpy()


def numba_chain(k: int, parallel: bool) -> Callable:
    import numba
    import numpy as np

    one, two = np.float32(1), np.float32(k)

    @numba.njit(parallel=parallel)
    def chain(x):
        y = np.empty_like(x)
        for i in numba.prange(x.size):
            y[i] = np.tanh(two * x[i] + one) * np.exp(-x[i] * x[i]) + np.log1p(np.abs(x[i]))
        return y

    return chain


def drjit_chain(k: int) -> tuple[Callable, Callable, Callable]:
    """Dr.Jit needs a libLLVM of its own; any that lies on the machine will do."""
    if "DRJIT_LIBLLVM_PATH" not in os.environ:
        found = sorted(path for folder in ("/usr/lib", "/usr/lib64") for path in Path(folder).rglob("libLLVM*.so*"))
        if not found:
            raise SystemExit("drjit found no libLLVM.so on this machine; set DRJIT_LIBLLVM_PATH")
        os.environ["DRJIT_LIBLLVM_PATH"] = str(found[-1])
    ctypes.CDLL(os.environ["DRJIT_LIBLLVM_PATH"])
    import drjit
    from drjit.llvm import Float

    def chain(x: Any) -> Any:
        y = drjit.tanh(k * x + 1) * drjit.exp(-x * x) + drjit.log(1 + drjit.abs(x))
        drjit.eval(y)
        drjit.sync_thread()
        return y

    return Float, chain, lambda y: y.numpy()


def measure(peer: str, phase: str) -> Rows:
    import numpy as np

    to_own, chain, to_numpy = prepare(peer)
    generator = np.random.default_rng(0)
    inputs = {e: generator.standard_normal(2**e, dtype=np.float32) for e in EXPONENTS}
    own = to_own(inputs[EXPONENTS[0]])
    rows = {}
    if peer not in ("numpy", "torch"):
        rows[COLD] = seconds_once(chain, own, calls=2)
        rows[COMPILE] = seconds_once(prepare(peer, k=3)[1], own, calls=1)
    check = {}
    for exponent, array in inputs.items():
        own = to_own(array)
        rows[f"2^{exponent} floats"] = seconds_per_call(chain, own)
        result = np.asarray(to_numpy(chain(own)))
        assert result.dtype == np.float32, f"computed in {result.dtype}"
        check[f"2^{exponent} floats"] = [float(result.sum(dtype=np.float64)), *map(float, result[:8])]
    return Rows(rows, check)

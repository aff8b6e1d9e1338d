"""Transforms of functions and their nestings, against PyTorch, and compiled against eager bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import func as theirs

import eagerjit
from eagerjit import func as ours

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((5, 3))
W = RANDOM.standard_normal((3, 4))
V = RANDOM.standard_normal((5, 3))
INDEX = np.array([[0, 2], [1, 1], [2, 0], [0, 1], [2, 2]])


def scalar(lib: Any, x: Any, w: Any) -> Any:
    return lib.tanh(x @ w).pow(2).sum() + (x * x).prod() + lib.logsumexp(x, 0)


def vector(lib: Any, x: Any, w: Any) -> Any:
    return lib.softmax(x @ w, -1) * lib.sin(x.sum())


def mixed(lib: Any, x: Any, w: Any) -> Any:
    y = lib.cat([x, x[1:] * 2, lib.stack([x.amax(), x.amin()])])
    return {"y": y.reshape(7, 1).expand(7, 2).sum(1), "z": (w.t() * x).permute(1, 0)[::2]}


def matrix(lib: Any, x: Any, w: Any) -> Any:
    return lib.where(w > 0, w, w * 0.5).T @ (x.unsqueeze(1) * w)


SINGLE: dict[str, Callable[..., Any]] = {"scalar": scalar, "vector": vector, "mixed": mixed, "matrix": matrix}


def transforms(t: Any, f: Callable[..., Any], scalar_only: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Functions of (batch of x, w, batch of v), made of a library's transforms."""
    return {
        "vmap": lambda x, w, v: t.vmap(f, (0, None))(x, w),
        "vmap_dims": lambda x, w, v: t.vmap(f, in_dims=(1, None), out_dims=-1)(x.transpose(0, 1), w),
        "vmap_both": lambda x, w, v: t.vmap(f)(x, w.expand(5, 3, 4) * v.unsqueeze(-1)),
        "vmap_vmap": lambda x, w, v: t.vmap(lambda w: t.vmap(f, (0, None))(x, w * 2), 0, 1)(w.expand(2, 3, 4)),
        "vmap_chunks": lambda x, w, v: t.vmap(f, (0, None), chunk_size=2)(x, w),
        "jvp": lambda x, w, v: t.jvp(lambda x: f(x, w), (x[0],), (v[0],)),
        "jvp_two": lambda x, w, v: t.jvp(f, (x[0], w), (v[0], w * 0.5)),
        "vmap_jvp": lambda x, w, v: t.vmap(lambda x, v: t.jvp(lambda x: f(x, w), (x,), (v,))[1])(x, v),
        "jvp_vmap": lambda x, w, v: t.jvp(lambda x: t.vmap(f, (0, None))(x, w), (x,), (v,)),
        "jacrev": lambda x, w, v: t.jacrev(f)(x[0], w),
        "jacrev_both": lambda x, w, v: t.jacrev(f, (0, 1))(x[0], w),
        "jacfwd": lambda x, w, v: t.jacfwd(f, 1)(x[0], w),
        "jacfwd_jacrev": lambda x, w, v: t.jacfwd(t.jacrev(f))(x[0], w),
        "jacrev_jacfwd": lambda x, w, v: t.jacrev(t.jacfwd(f))(x[0], w),
        "vmap_jacfwd": lambda x, w, v: t.vmap(t.jacfwd(f), (0, None))(x, w),
        "vmap_jacrev": lambda x, w, v: t.vmap(t.jacrev(f), (0, None))(x, w),
        "grad": lambda x, w, v: t.grad(scalar_only)(x[0], w),
        "grad_two": lambda x, w, v: t.grad(scalar_only, (0, 1))(x[0], w),
        "grad_and_value": lambda x, w, v: t.grad_and_value(scalar_only)(x[0], w),
        "per_sample": lambda x, w, v: t.vmap(t.grad(scalar_only, 1), (0, None))(x, w),
        "grad_vmap": lambda x, w, v: t.grad(lambda w: t.vmap(scalar_only, (0, None))(x, w).sum())(w),
        "grad_grad": lambda x, w, v: t.grad(lambda x: t.grad(scalar_only)(x, w).pow(3).sum())(x[0]),
        "hessian": lambda x, w, v: t.hessian(scalar_only)(x[0], w),
        "vmap_hessian": lambda x, w, v: t.vmap(t.hessian(scalar_only), (0, None))(x, w),
        "hvp": lambda x, w, v: t.jvp(lambda x: t.grad(scalar_only)(x, w), (x[0],), (v[0],))[1],
        "vhp": lambda x, w, v: t.vjp(lambda x: t.grad(scalar_only)(x, w), x[0])[1](v[0]),
        "grad_of_jvp": lambda x, w, v: t.grad(lambda x: t.jvp(lambda x: scalar_only(x, w), (x,), (v[0],))[1])(x[0]),
        "grad_vmap_grad": lambda x, w, v: t.grad(lambda w: t.vmap(t.grad(scalar_only), (0, None))(x, w).sum())(w),
        "jvp_jvp": lambda x, w, v: t.jvp(
            lambda x: t.jvp(lambda x: scalar_only(x, w), (x,), (v[0],))[1], (x[0],), (v[1],)
        ),
    }  # fmt: skip


def flat(value: Any) -> list[np.ndarray]:
    if isinstance(value, dict):
        return [a for v in value.values() for a in flat(v)]
    if isinstance(value, (tuple, list)):
        return [a for v in value for a in flat(v)]
    assert not value.requires_grad
    return [value.numpy()]


NAMES = list(transforms(ours, scalar, scalar))
SCALAR_ONLY = NAMES[NAMES.index("grad") :]
PAIRS = [(n, f) for n in NAMES if n not in SCALAR_ONLY for f in SINGLE] + [(n, "scalar") for n in SCALAR_ONLY]
THEIR_BUGS = {("vmap_vmap", "mixed")}
"""PyTorch refuses an out_dim of 1 for a result that does not depend on the outer batch."""


def bound(lib: Any, t: Any, name: str, function: str) -> Callable[..., Any]:
    def f(x: Any, w: Any) -> Any:
        return SINGLE[function](lib, x, w)

    def s(x: Any, w: Any) -> Any:
        return scalar(lib, x, w)

    return transforms(t, f, s)[name]


@pytest.mark.parametrize(("name", "function"), [p for p in PAIRS if p not in THEIR_BUGS], ids=str)
def test_against_torch_and_compiled(name: str, function: str):
    arrays = (X, W, V)
    expected = flat(bound(torch, theirs, name, function)(*map(torch.tensor, arrays)))
    mapped = bound(eagerjit, ours, name, function)
    tensors = tuple(map(eagerjit.tensor, arrays))
    actual = flat(mapped(*tensors))
    assert [a.shape for a in actual] == [e.shape for e in expected]
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-9, atol=1e-9)
    compiled = eagerjit.jit(mapped, fullgraph=True)
    for _ in range(2):
        for a, c in zip(actual, flat(compiled(*tensors)), strict=True):
            assert a.tobytes() == c.tobytes()

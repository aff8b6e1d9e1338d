"""Transforms under `no_grad` differentiate what they are given, also tensors that require grad, as PyTorch's do."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit

W, X = np.array([1.0, 2.0]), np.array([[1.0, 3.0], [2.0, -1.0], [0.5, 4.0]])


def loss(w: Any, x: Any) -> Any:
    return ((w * x) ** 3).sum()


TRANSFORMS: dict[str, Callable[..., Any]] = {
    "grad": lambda f, w, x: f.grad(loss)(w, x),
    "grad_and_value": lambda f, w, x: f.grad_and_value(loss)(w, x),
    "grad of grad": lambda f, w, x: f.grad(lambda w: f.grad(loss)(w, x).sum())(w),
    "vmap of grad": lambda f, w, x: f.vmap(f.grad(loss), (None, 0))(w, x),
    "vjp": lambda f, w, x: [r[1](r[0]) for r in [f.vjp(loss, w, x)]],
    "jvp": lambda f, w, x: f.jvp(lambda w: loss(w, x), (w,), (w,)),
    "jacrev": lambda f, w, x: f.jacrev(lambda w: w * x)(w),
    "jacfwd": lambda f, w, x: f.jacfwd(lambda w: w * x)(w),
    "hessian": lambda f, w, x: f.hessian(loss)(w, x),
    "linearize": lambda f, w, x: [r[1](w) for r in [f.linearize(lambda w: loss(w, x), w)]],
}


CASES = [(n, m) for n in TRANSFORMS for m in ("no_grad", "inference_mode") if (n, m) != ("linearize", "inference_mode")]
"""PyTorch's `linearize` gives zeros in inference mode."""


def leaves(value: Any) -> list[Any]:
    return [part for v in value for part in leaves(v)] if isinstance(value, (tuple, list)) else [value]


@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize(("name", "mode"), CASES)
def test_as_pytorch_does(name: str, mode: str, requires_grad: bool) -> None:
    found = []
    for t in (eagerjit, torch):
        w, x = t.tensor(W, requires_grad=requires_grad), t.tensor(X)
        with getattr(t, mode)(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(leaves(TRANSFORMS[name](t.func, w, x)))
            if t is eagerjit:
                jitted = leaves(t.jit(lambda w, x: TRANSFORMS[name](eagerjit.func, w, x))(w, x))
    for ours, theirs, compiled in zip(*found, jitted, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12)
        assert not ours.requires_grad and compiled.numpy().tobytes() == ours.numpy().tobytes()

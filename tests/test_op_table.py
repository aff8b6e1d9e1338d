"""Tests made from the op table: every elementwise op jitted against eager, its gradients against finite differences."""

from __future__ import annotations

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.autograd.check import gradcheck, gradgradcheck
from eagerjit.compiler.ops import TABLE
from eagerjit.jit import jit
from eagerjit.ops.pointwise import POINTWISE

NAMES = [n for n in POINTWISE if n in TABLE and TABLE[n].family == "elementwise" and n not in ("where", "cast")]
STEPS = ("floor", "ceil", "trunc", "round", "sign", "floordiv", "remainder")


def operands(name: str, shape: tuple[int, ...], dtype: str) -> list:
    """Values of the op's domain."""
    generator = np.random.default_rng(len(name))
    promotion = TABLE[name].promotion
    dtype = {"logical": "bool", "bitwise": "int64"}.get(promotion, dtype)
    out = [generator.uniform(low, high, shape) for low, high in TABLE[name].domain]
    return [torch.tensor(x).to(getattr(torch, dtype)) for x in out]


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1,), (5, 33)])
@pytest.mark.parametrize("name", NAMES)
def test_jitted_is_eager_and_the_types_hold(name, shape):
    op = POINTWISE[name].call
    for dtype in ("float32", "bfloat16"):
        arguments = operands(name, shape, dtype)
        eager, jitted = op(*arguments), jit(lambda *x: op(*x))(*arguments)
        assert eager.dtype is jitted.dtype and tuple(eager.shape) == tuple(jitted.shape) == shape
        assert eager._data.tobytes() == jitted._data.tobytes()


DIFFERENTIABLE = [n for n in NAMES if any(rule is not None for rule in TABLE[n].derivative) and n not in STEPS]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients(name):
    op = POINTWISE[name].call
    arguments = [x.requires_grad_() for x in operands(name, (2, 3), "float64")]
    assert gradcheck(op, tuple(arguments))
    assert gradgradcheck(op, tuple(arguments))
    assert gradcheck(jit(lambda *x: op(*x)), tuple(arguments))

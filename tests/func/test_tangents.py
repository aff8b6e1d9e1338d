"""Forward and reverse mode of every differentiable primitive: against each other and against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from primitives import Case, cases

import eagerjit
from eagerjit.compiler.ops import TABLE
from eagerjit.func import jvp, vjp
from eagerjit.func.evaluate import GraphOp
from eagerjit.tensors.tensor import Tensor

STEP = 1e-6


def is_differentiable(case: Case) -> bool:
    (out,) = case.graph().outputs
    if case.name in COMPLEX or not any(TABLE[case.name].derivative):
        return False
    return out.dtype.is_floating_point and out.dtype.bits == 64


COMPLEX = {name for name, op in TABLE.items() if "wirtinger" in op.traits}
"""Forward mode refuses complex numbers; `tests/oracle/test_complex.py` compares their gradients with PyTorch's."""
CASES = [c for c in cases() if is_differentiable(c)]


def test_the_families_are_covered():
    rules = {name for name, op in TABLE.items() if any(op.derivative)}
    assert rules == {c.name for c in CASES} | COMPLEX & rules | {"random_bits"} & rules


class Applied(GraphOp):
    """A graph as an operation whose gradient is derived from the primitives' rules."""

    fused_rules, differentiable = True, True


def applied(case: Case, arrays: list[Tensor]) -> Tensor:
    """The primitive on these arrays as one operation, in a place of its own per call."""
    return Applied(case.graph()).run(tuple(arrays))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_tangents(case: Case):
    random = np.random.default_rng(2)
    tensors = [eagerjit.tensor(a) for a in case.arrays]
    real = [i for i, t in enumerate(tensors) if t.dtype.is_floating_point]
    points = tuple(tensors[i] for i in real)
    tangents = tuple(eagerjit.tensor(random.standard_normal(p.shape)) for p in points)

    def function(*given: Tensor) -> Tensor:
        values = list(tensors)
        for position, x in zip(real, given, strict=True):
            values[position] = x
        return applied(case, values)

    out, pushed = jvp(function, points, tangents)
    assert not out.requires_grad
    assert not pushed.requires_grad
    sides = [function(*(p + s * t for p, t in zip(points, tangents, strict=True))).numpy() for s in (STEP, -STEP)]
    difference = (sides[0] - sides[1]) / (2 * STEP)
    np.testing.assert_allclose(pushed.numpy(), difference, rtol=1e-6, atol=1e-6)
    again, pullback = vjp(function, *points)
    assert (again.numpy() == out.numpy()).all()
    cotangent = eagerjit.tensor(random.standard_normal(out.shape))
    left = float((cotangent * pushed).sum())
    right = sum(float((g * t).sum()) for g, t in zip(pullback(cotangent), tangents, strict=True))
    assert left == pytest.approx(right, rel=1e-9, abs=1e-9)

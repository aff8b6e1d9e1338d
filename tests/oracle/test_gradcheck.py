"""`gradcheck` and `gradgradcheck` with their options, as PyTorch answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import eagerjit as ej

ALL = {
    "check_forward_ad": True, "check_batched_grad": True, "check_batched_forward_grad": True, "check_grad_dtypes": True,
    "check_undefined_grad": False, "nondet_tol": 1e-9, "fast_mode": True, "masked": True,
}  # fmt: skip


def real(t: Any, *shape: int) -> Any:
    return t.linspace(0.3, 1.7, math.prod(shape), dtype=t.float64).reshape(shape).requires_grad_()


def parts(t: Any, *shape: int) -> Any:
    """Complex numbers."""
    return t.complex(real(t, *shape).detach(), real(t, *shape).detach() * 2 - 1).requires_grad_()


def unsteady(t: Any, change: float) -> Any:
    """A square whose gradient grows by `change` in every run."""
    runs = []

    class Square(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            runs.append(0)
            return g * 2 * ctx.saved_tensors[0] * (1 + change * len(runs))

    return Square.apply


CHECKS: dict[str, Callable[[Any], Any]] = {
    "all": lambda t: t.autograd.gradcheck(lambda x: x.sin() * x, real(t, 3), **ALL),
    "several": lambda t: t.autograd.gradcheck(
        lambda x, y: (x @ y, x.sum(), y), (real(t, 2, 3), real(t, 3, 2)), check_forward_ad=True, check_batched_grad=True
    ),
    "complex": lambda t: t.autograd.gradcheck(lambda x: x * x.conj(), parts(t, 3), check_forward_ad=True),
    "complex products": lambda t: t.autograd.gradcheck(t.matmul, (parts(t, 2, 2), parts(t, 2, 3))),
    "complex results": lambda t: t.autograd.gradcheck(lambda x: t.complex(x, x * x), real(t, 3)),
    "wrong for complex": lambda t: t.autograd.gradcheck(unsteady(t, 1.0), parts(t, 2), raise_exception=False),
    "wrong complex results": lambda t: t.autograd.gradcheck(
        lambda x: t.complex(unsteady(t, 1.0)(x), x), real(t, 2), raise_exception=False
    ),
    "whole numbers among results": lambda t: t.autograd.gradcheck(lambda x: (x * 2, x.argmax()), real(t, 3)),
    "unsteady": lambda t: t.autograd.gradcheck(
        unsteady(t, 1e-5), real(t, 2), nondet_tol=1e-9, atol=1e-2, raise_exception=False
    ),
    "nearly steady": lambda t: t.autograd.gradcheck(unsteady(t, 1e-8), real(t, 2), nondet_tol=1e-2),
    "raises": lambda t: t.autograd.gradcheck(unsteady(t, 1.0), real(t, 2)),
    "nothing to check": lambda t: t.autograd.gradcheck(t.sin, real(t, 2), check_backward_ad=False),
    "second": lambda t: t.autograd.gradgradcheck(
        t.sin, real(t, 3), gen_non_contig_grad_outputs=True, check_fwd_over_rev=True, check_batched_grad=True
    ),
    "second of complex": lambda t: t.autograd.gradgradcheck(lambda x: x * x * x, parts(t, 3)),
    "second with gradients of complex": lambda t: t.autograd.gradgradcheck(
        lambda x: x * x * x, parts(t, 3), parts(t, 3)
    ),
    "unknown": lambda t: t.autograd.gradcheck(t.sin, real(t, 2), tolerance=1),
}


def outcome(check: Callable[[Any], Any], library: Any) -> Any:
    """The answer, or of which of these classes the error is."""
    try:
        return check(library)
    except (RuntimeError, TypeError, AssertionError) as error:
        return next(kind for kind in (RuntimeError, TypeError, AssertionError) if isinstance(error, kind))


@pytest.mark.parametrize("name", CHECKS)
def test_as_pytorch(name: str) -> None:
    assert outcome(CHECKS[name], ej) == outcome(CHECKS[name], torch)

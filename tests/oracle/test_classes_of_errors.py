"""What PyTorch refuses is refused by an error of the very same class, and of no class derived from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import eagerjit as ej


def _three(a: Any, b: Any, c: Any) -> Any:
    return (a * b * c).sum()


def _numbers(t: Any) -> Any:
    return t.complex(t.ones(3), t.ones(3))


def _with_argnums(t: Any, name: str, argnums: Any) -> Any:
    return getattr(t.func, name)(_three, argnums=argnums)(*[t.ones(2)] * 3)


CALLS: dict[str, Callable[[Any], Any]] = {
    **{
        f"{name} of complex numbers": lambda t, name=name: getattr(t, name)(_numbers(t))
        for name in "argmax argmin max min amax isposinf isneginf deg2rad rad2deg signbit floor".split()
    },
    **{
        f"{name} of complex numbers along a dimension": lambda t, name=name: getattr(t, name)(_numbers(t), 0)
        for name in "argmax argmin max min amax cummax".split()
    },
    **{
        f"{name} of two complex tensors": lambda t, name=name: getattr(t, name)(_numbers(t), _numbers(t))
        for name in "maximum minimum fmax fmin heaviside atan2 bucketize searchsorted lt".split()
    },
    **{
        f"{name} with {value!r}": lambda t, name=name, value=value: getattr(t.ones(3), name)(t.ones(3) > 0, value)
        for name in ("masked_fill", "masked_fill_")
        for value in ("a", None, [1], (1,))
    },
    **{
        f"{name} of a complex tensor and {other}": lambda t, name=name, other=other: getattr(t.special, name)(
            *((_numbers(t), t.ones(3)) if other == "floats" else (0.5, _numbers(t)))
        )
        for name in ("xlogy", "xlog1py")
        for other in ("floats", "a number")
    },
    "gumbel_softmax of integers": lambda t: t.nn.functional.gumbel_softmax(t.ones(3, dtype=t.int64)),
    "gumbel_softmax of bools": lambda t: t.nn.functional.gumbel_softmax(t.ones(3) > 0),
    "more dimensions than baddbmm": lambda t: t.baddbmm(t.ones(1, 2, 2, 2), t.ones(2, 2, 2), t.ones(2, 2, 2)),
    "more dimensions than addbmm": lambda t: t.addbmm(t.ones(2, 2, 2), t.ones(2, 2, 2), t.ones(2, 2, 2)),
    "more dimensions, which count for nothing": lambda t: t.addbmm(
        t.ones(1, 2, 2), t.ones(2, 2, 2), t.ones(2, 2, 2), beta=0
    ),
    **{
        f"{name} of arguments {argnums}": lambda t, name=name, argnums=argnums: _with_argnums(t, name, argnums)
        for name in ("grad", "grad_and_value", "jacrev")
        for argnums in ([0, 1], 1.0, None, slice(0, 2), (), (0, -3), (0, 1.0), 3, "a")
    },
    **{
        f"{name} of a number": lambda t, name=name: getattr(t.func, name)(lambda a: a)(3.0)
        for name in ("grad", "jacrev")
    },
    "vjp of a number": lambda t: t.func.vjp(lambda a: a, 3.0),
    "vjp that gives whole numbers": lambda t: t.func.vjp(lambda a: (a, a > 1), t.ones(2)),
    "jacrev that gives whole numbers": lambda t: t.func.jacrev(lambda a: a.long())(t.ones(2)),
    "a complex cotangent": lambda t: t.func.vjp(lambda a: a * 2, t.ones(3))[1](_numbers(t)),
    "a real cotangent": lambda t: t.func.vjp(lambda a: a * 2, _numbers(t))[1](t.ones(3)),
    "a complex gradient": lambda t: t.ones(3, requires_grad=True).exp().backward(_numbers(t)),
    "a real gradient": lambda t: t.autograd.grad((z := _numbers(t).requires_grad_()) * 2, z, t.ones(3)),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_class_is_pytorchs(name: str) -> None:
    kinds = []
    for library in (torch, ej):
        with pytest.raises(Exception) as error:
            CALLS[name](library)
        kinds.append(error.type)
    assert kinds[0] is kinds[1], error.value


@pytest.mark.parametrize("dtype", ["float16", "float64", "int64"])
@pytest.mark.parametrize("function", [lambda a: a.view(3, 1), lambda a: a * 2, lambda a: a.exp()])
def test_cotangents_become_what_the_result_is(function: Callable[[Any], Any], dtype: str) -> None:
    value, pull = ej.func.vjp(function, ej.ones(3))
    assert pull(ej.ones(value.shape).to(getattr(ej, dtype)))[0].dtype is ej.float32

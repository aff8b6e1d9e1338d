"""Operations on lists of tensors against PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
from oracle import compare, draw

CASES: dict[str, Any] = {
    **{name: lambda t, x, y, name=name: getattr(t, f"_foreach_{name}")([x, y])
       for name in ("neg", "sqrt", "exp", "abs")},
    **{name: lambda t, x, y, name=name: getattr(t, f"_foreach_{name}")([x, y], [y, x])
       for name in ("add", "sub", "mul", "div", "maximum", "minimum", "pow")},
    "add number": lambda t, x, y: t._foreach_add([x, y], 2.0),
    "mul numbers": lambda t, x, y: t._foreach_mul([x, y], [2.0, 3.0]),
    "add alpha": lambda t, x, y: t._foreach_add([x, y], [y, x], alpha=2),
    "addcmul": lambda t, x, y: t._foreach_addcmul([x, y], [y, x], [x, x], value=0.5),
    "addcdiv": lambda t, x, y: t._foreach_addcdiv([x, y], [y, x], [x, x], value=0.5),
    "lerp": lambda t, x, y: t._foreach_lerp([x, y], [y, x], 0.3),
    "norm": lambda t, x, y: t._foreach_norm([x, y]),
    "lengths": lambda t, x, y: t._foreach_add([x, y], [y]),
    "nothing": lambda t, x, y: t._foreach_add([], []),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_new_lists(name: str) -> None:
    compare(
        lambda t, x, y: tuple(CASES[name](t, x, y)),
        draw((2, 3), "float64", 0.5, 2, 1),
        draw((3,), "float64", 0.5, 2, 2),
    )


WRITES: dict[str, Any] = {
    "add_": lambda t, x, y: t._foreach_add_([x, y], [y, y], alpha=2),
    "mul_": lambda t, x, y: t._foreach_mul_([x, y], 0.5),
    "lerp_": lambda t, x, y: t._foreach_lerp_([x], [y], 0.25),
    "maximum_": lambda t, x, y: t._foreach_maximum_([x, y], 1.0),
    "sqrt_": lambda t, x, y: t._foreach_sqrt_([x, y]),
    "zero_": lambda t, x, y: t._foreach_zero_([x]),
    "copy_": lambda t, x, y: t._foreach_copy_([x], [y]),
    "addcdiv_": lambda t, x, y: t._foreach_addcdiv_([x], [y], [x], value=-0.1),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes(name: str) -> None:
    def run(t: Any, x: Any, y: Any) -> Any:
        x, y = x.clone(), y.clone()
        assert WRITES[name](t, x, y) is None or t.__name__ == "torch"
        return x, y

    compare(run, draw((2, 3), "float64", 0.5, 2, 1), draw((3,), "float64", 0.5, 2, 2), grad=False)

"""Operations on lists of tensors against PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
from oracle import compare, draw

CASES: dict[str, Any] = {
    **{name: lambda t, x, y, name=name: getattr(t, f"_foreach_{name}")([x, y])
       for name in ("neg", "sqrt", "exp", "abs", "erfc", "frac", "lgamma", "atan")},
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
    "number by name": lambda t, x, y: t._foreach_mul([x, y], scalar=2.0),
    "numbers by name": lambda t, x, y: t._foreach_sub([x, y], scalars=(2.0, 3.0)),
    "list by name": lambda t, x, y: t._foreach_div(self=[x, y], other=[y, x]),
    "tensor of one number": lambda t, x, y: t._foreach_add([x, y], t.tensor(2.0), alpha=3),
    "tensor of two": lambda t, x, y: t._foreach_mul([x, y], t.ones(2)),
    "exponents": lambda t, x, y: t._foreach_pow([x, y], exponent=[2, 3]),
    "powers of a number": lambda t, x, y: t._foreach_pow(2.0, [x, y]),
    "weights by name": lambda t, x, y: t._foreach_lerp([x, y], tensors1=[x, x], weights=[x, x]),
    "lerp numbers": lambda t, x, y: t._foreach_lerp([x, x], [y, y], [0.25, 0.5]),
    "addcmul numbers": lambda t, x, y: t._foreach_addcmul([x, y], [y, x], [x, x], scalars=[1.0, 2.0]),
    "addcdiv alone": lambda t, x, y: t._foreach_addcdiv([x, y], tensor1=[y, x], tensor2=[x, x]),
    "addcdiv too many": lambda t, x, y: t._foreach_addcdiv([x, y], [y, x], [x, x], t.ones(3)),
    "minimum number": lambda t, x, y: t._foreach_minimum([x, y], scalar=1.0),
    "powsum of integers": lambda t, x, y: t._foreach_powsum([x.long()]),
    "max": lambda t, x, y: t._foreach_max([x, y]),
    "max of nothing": lambda t, x, y: t._foreach_max([x[:0]]),
    "mm": lambda t, x, y: t._foreach_mm([x, y.unsqueeze(0)], [x.t(), y.unsqueeze(1)]),
    "clone": lambda t, x, y: t._foreach_clone([x, y]),
    "unknown": lambda t, x, y: t._foreach_mul([x, y], bogus=2),
    "missing": lambda t, x, y: t._foreach_addcmul([x, y], [x, y]),
    "too many": lambda t, x, y: t._foreach_sqrt([x], [y]),
    "alpha of a number": lambda t, x, y: t._foreach_add([x, y], 1.0, alpha=2),
    "a tensor": lambda t, x, y: t._foreach_sqrt(x),
    "numbers alone": lambda t, x, y: t._foreach_sqrt([1.0]),
    "nothing at all": lambda t, x, y: t._foreach_norm([]),
    "nothing": lambda t, x, y: t._foreach_add([], []),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_new_lists(name: str) -> None:
    compare(
        lambda t, x, y: tuple(CASES[name](t, x, y)),
        draw((2, 3), "float64", 0.5, 2, 1),
        draw((3,), "float64", 0.5, 2, 2),
    )


WITHOUT_GRADIENTS: dict[str, Any] = {
    "addcmul tensor": lambda t, x, y: t._foreach_addcmul([x, y], [y, x], [x, x], t.tensor([1.0, 2.0])),
    "powsum": lambda t, x, y: t._foreach_powsum([x, y], 3),
    "powsum in float32": lambda t, x, y: t._foreach_powsum([x, y], ord=1, dtype=t.float32),
}


@pytest.mark.parametrize("name", WITHOUT_GRADIENTS)
def test_values(name: str) -> None:
    operands = draw((2, 3), "float64", 0.5, 2, 1), draw((3,), "float64", 0.5, 2, 2)
    compare(lambda t, x, y: tuple(WITHOUT_GRADIENTS[name](t, x, y)), *operands, grad=False)


WRITES: dict[str, Any] = {
    "add_": lambda t, x, y: t._foreach_add_([x, y], [y, y], alpha=2),
    "mul_": lambda t, x, y: t._foreach_mul_([x, y], 0.5),
    "lerp_": lambda t, x, y: t._foreach_lerp_([x], [y], 0.25),
    "maximum_": lambda t, x, y: t._foreach_maximum_([x, y], 1.0),
    "scalar_": lambda t, x, y: t._foreach_mul_([x, y], scalar=0.5),
    "erfc_": lambda t, x, y: t._foreach_erfc_([x, y]),
    "sqrt_": lambda t, x, y: t._foreach_sqrt_([x, y]),
    "zero_": lambda t, x, y: t._foreach_zero_([x]),
    "copy_": lambda t, x, y: t._foreach_copy_([x], [y]),
    "addcdiv_": lambda t, x, y: t._foreach_addcdiv_([x], [y], [x], value=-0.1),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes(name: str) -> None:
    def run(t: Any, x: Any, y: Any) -> Any:
        x, y = x.clone(), y.clone()
        written = WRITES[name](t, x, y)
        assert isinstance(written, list) and written[0] is x
        return x, y

    compare(run, draw((2, 3), "float64", 0.5, 2, 1), draw((3,), "float64", 0.5, 2, 2), grad=False)

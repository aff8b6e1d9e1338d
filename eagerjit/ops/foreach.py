"""The same operation on every tensor of a list, as optimizers written by hand use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerjit.ops.reduce import norm
from eagerjit.tensors.tensor import Tensor

_UNARY = """abs ceil cos cosh exp expm1 erf floor log log10 log1p log2 neg reciprocal round rsqrt sigmoid sign sin sinh
sqrt tan tanh trunc""".split()
_BINARY = ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_min", "clamp_max")
_LIMITS = {"maximum": "clamp_min", "minimum": "clamp_max"}
"""What those that take tensors alone are where a number is given."""

_TERNARY = ("addcmul", "addcdiv", "lerp")


def _each(name: str, count: int, argument: Any) -> list[Any]:
    """One argument per tensor."""
    if isinstance(argument, (list, tuple)):
        if len(argument) != count:
            counts = f"got {count} and {len(argument)}"
            raise RuntimeError(f"_foreach_{name}: Tensor lists must have the same number of tensors, {counts}")
        return list(argument)
    return [argument] * count


def _function(name: str, in_place: bool) -> Callable[..., Any]:
    method = f"{name}_" if in_place and name not in ("maximum", "minimum") else name

    def function(self: Any, *others: Any, **options: Any) -> Any:
        tensors = list(self)
        if not tensors:
            raise RuntimeError(f"_foreach_{name}: Tensor list must have at least one tensor.")
        rest = [_each(name, len(tensors), other) for other in others]
        options = {key: _each(name, len(tensors), value) for key, value in options.items()}
        made = []
        for i, x in enumerate(tensors):
            given = [r[i] for r in rest]
            called = method if not given or isinstance(given[0], Tensor) else _LIMITS.get(name, method)
            found = getattr(x, called)(*given, **{key: value[i] for key, value in options.items()})
            made.append(x.copy_(found) if in_place and found is not x else found)
        return None if in_place else tuple(made)

    function.__name__ = function.__qualname__ = f"_foreach_{name}{'_' * in_place}"
    function.__doc__ = f"`{method}` on every tensor of a list."
    return function


for _name in (*_UNARY, *_BINARY, *_TERNARY):
    globals()[f"_foreach_{_name}"], globals()[f"_foreach_{_name}_"] = _function(_name, False), _function(_name, True)


def _foreach_zero_(self: Any) -> None:
    """Set all tensors of a list to 0."""
    for x in self:
        x.zero_()


def _foreach_copy_(self: Any, src: Any, non_blocking: bool = False) -> None:
    """Copy every tensor of a list into one of another."""
    for x, y in zip(self, src, strict=True):
        x.copy_(y)


def _foreach_norm(self: Any, ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """The norm of every tensor of a list."""
    return tuple(norm(x, ord, dtype=dtype) for x in self)


NAMES = [name for name in globals() if name.startswith("_foreach_")]
"""All of them."""

"""The same operation on every tensor of a list, as optimizers written by hand use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerjit.ops.reduce import norm
from eagerjit.tensors.tensor import Tensor

_UNARY = """abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal
round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc""".split()
_SECOND = (("other", "scalar", "scalars"),)
_THIRD = (("tensor1",), ("tensor2",), ("value", "scalars"))
_ARGUMENTS: dict[str, tuple[tuple[str, ...], ...]] = {
    **dict.fromkeys(_UNARY, ()),
    **dict.fromkeys("add sub mul div maximum minimum clamp_min clamp_max".split(), _SECOND),
    "pow": (("exponent",),), "lerp": (("tensors1",), ("weight", "weights")), "addcmul": _THIRD, "addcdiv": _THIRD,
}  # fmt: skip
"""The arguments after the list, each by the names of all its forms: a list, a number, numbers."""

_OPTIONS = {**dict.fromkeys(("add", "sub"), "alpha"), **dict.fromkeys(("addcmul", "addcdiv"), "value")}
_LIMITS = {"maximum": "clamp_min", "minimum": "clamp_max"}
"""What those that take tensors alone are where a number is given."""


def _tensors(name: str, given: Any) -> list[Tensor]:
    if not isinstance(given, (tuple, list)):
        kind = type(given).__name__
        raise TypeError(f"_foreach_{name}(): argument 'self' (position 1) must be tuple of Tensors, not {kind}")
    for i, tensor in enumerate(given):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {type(tensor).__name__}")
    if not given:
        raise RuntimeError(f"_foreach_{name}: Tensor list must have at least one tensor.")
    return list(given)


def _bound(name: str, others: tuple[Any, ...], options: dict[str, Any]) -> list[Any]:
    """The arguments after the list in order, those that have a name taken from the options."""
    forms, found = _ARGUMENTS[name], list(others)
    for names in forms[len(found) :]:
        found += [options.pop(key) for key in names if key in options][:1]
    least = len(forms) - ("value" in forms[-1] if forms else 0)
    scaled = "alpha" not in options or _of_tensors(found[0])
    if not least <= len(found) <= len(forms) or not {*options} <= {_OPTIONS.get(name)} or not scaled:
        kinds = ", ".join(["list", *(type(other).__name__ for other in found), *options])
        raise TypeError(f"_foreach_{name}() received an invalid combination of arguments - got ({kinds})")
    return found


def _of_tensors(argument: Any) -> bool:
    return isinstance(argument, Tensor) or (
        isinstance(argument, (tuple, list)) and all(isinstance(a, Tensor) for a in argument)
    )


def _each(name: str, count: int, argument: Any, numbers: bool) -> list[Any]:
    """One argument per tensor; `numbers` may be a tensor of as many."""
    if isinstance(argument, Tensor) and numbers:
        argument = argument.tolist()
    elif isinstance(argument, Tensor) and argument.ndim:
        raise RuntimeError(f"scalar tensor expected to be 0 dim but it has {argument.ndim} dimensions")
    if not isinstance(argument, (list, tuple)):
        return [argument] * count
    if len(argument) != count:
        counts = f"got {count} and {len(argument)}"
        raise RuntimeError(f"_foreach_{name}: Tensor lists must have the same number of tensors, {counts}")
    return list(argument)


def _function(name: str, in_place: bool) -> Callable[..., Any]:
    method = f"{name}_" if in_place and name not in _LIMITS else name

    def function(self: Any, *others: Any, **options: Any) -> Any:
        if name == "pow" and isinstance(self, (int, float, complex)) and not in_place:
            return tuple(self**exponent for exponent in _tensors(name, *_bound(name, others, options)))
        tensors = _tensors(name, self)
        bound = _bound(name, others, options)
        rest = [_each(name, len(tensors), other, i == 2) for i, other in enumerate(bound)]
        values = rest.pop() if len(rest) == 3 else None
        made = []
        for i, (x, *given) in enumerate(zip(tensors, *rest, strict=True)):
            if values is not None:
                options["value"] = values[i]
            called = _LIMITS[name] if name in _LIMITS and not isinstance(given[0], Tensor) else method
            found = getattr(x, called)(*given, **options)
            made.append(x.copy_(found) if in_place and found is not x else found)
        return self if in_place else tuple(made)

    function.__name__ = function.__qualname__ = f"_foreach_{name}{'_' * in_place}"
    function.__doc__ = f"`{method}` on every tensor of a list."
    return function


for _name in _ARGUMENTS:
    globals()[f"_foreach_{_name}"], globals()[f"_foreach_{_name}_"] = _function(_name, False), _function(_name, True)


def _foreach_zero_(self: Any) -> Any:
    """Set all tensors of a list to 0."""
    for x in _tensors("zero_", self):
        x.zero_()
    return self


def _foreach_copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Copy every tensor of a list into one of another."""
    tensors = _tensors("copy_", self)
    for x, y in zip(tensors, _each("copy_", len(tensors), src, False), strict=True):
        x.copy_(y)
    return self


def _foreach_clone(self: Any, *, memory_format: Any = None) -> tuple[Tensor, ...]:
    """A copy of every tensor of a list."""
    return tuple(x.clone(memory_format=memory_format) for x in _tensors("clone", self))


def _foreach_norm(self: Any, ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """The norm of every tensor of a list."""
    return tuple(norm(x, ord, dtype=dtype) for x in _tensors("norm", self))


def _foreach_powsum(self: Any, ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """The sum of the absolute values' powers of every tensor of a list. Raises NotImplementedError for integers."""
    tensors = _tensors("powsum", self)
    for x in tensors:
        if not (x.dtype.is_floating_point or x.dtype.is_complex):
            raise NotImplementedError(f'"powsum_cpu" not implemented for {x.dtype}')
    return tuple(x.to(dtype or x.dtype).abs().pow(ord).sum() for x in tensors)


def _foreach_max(self: Any) -> tuple[Tensor, ...]:
    """The largest element of every tensor of a list. Raises RuntimeError for one without elements."""
    return tuple(x.max() for x in _tensors("max", self))


def _foreach_mm(self: Any, mat2: Any) -> tuple[Tensor, ...]:
    """The products of the matrices of two lists."""
    tensors = _tensors("mm", self)
    return tuple(x.mm(y) for x, y in zip(tensors, _each("mm", len(tensors), mat2, False), strict=True))


NAMES = [name for name in globals() if name.startswith("_foreach_")]
"""All of them."""

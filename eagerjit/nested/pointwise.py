"""Element by element: the values' operation, with what is dense brought to the rows that it belongs to."""

from __future__ import annotations

from typing import Any

from eagerjit.nested.components import without_gaps, without_padding
from eagerjit.nested.tensor import NestedTensor, alike, described
from eagerjit.tensors.tensor import Tensor

NAMES = frozenset(
    """abs absolute acos acosh add addcdiv addcmul angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh
    atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil celu
    clamp clamp_max clamp_min clip conj_physical copysign cos cosh deg2rad digamma div divide dropout elu eq erf erfc
    erfinv exp exp2 expm1 float_power floor floor_divide fmax fmin fmod frac frexp ge gelu greater greater_equal gt
    hardshrink hardsigmoid hardswish hardtanh heaviside hypot igamma igammac imag isclose isfinite isinf isnan isneginf
    isposinf isreal ldexp le leaky_relu lerp less less_equal lgamma log log10 log1p log2 logaddexp logaddexp2
    logical_and logical_not logical_or logical_xor logit logsigmoid lt masked_fill maximum minimum mish mul multiply
    nan_to_num ne neg negative nextafter not_equal polygamma positive pow rad2deg real reciprocal relu relu6
    remainder round rrelu rsqrt rsub selu sgn sigmoid sign signbit silu sin sinc sinh softplus softshrink softsign sqrt
    square sub subtract tan tanh tanhshrink threshold true_divide trunc fix where xlogy
    zeros_like ones_like empty_like full_like rand_like randn_like randint_like bernoulli
    to type float double half bfloat16 int long short char byte bool cpu cuda detach clone alpha_dropout
    __and__ __or__ __xor__ __invert__ __eq__ __rsub__ __rdiv__ __rpow__ __floordiv__
    __rfloordiv__ __rmod__ __lshift__ __rshift__ __rand__ __ror__ __rxor__ requires_grad_ fill zero
    pin_memory""".split()
)  # fmt: skip
IN_PLACE = frozenset({
    *(f"{name}_" for name in NAMES if not name.endswith("_")), "__iand__", "__ior__", "__ixor__", "__ifloordiv__",
    "copy_", "zero_", "fill_", "normal_", "uniform_", "random_", "exponential_", "dropout_",
})  # fmt: skip


def pointwise(func: Any, *args: Any, **kwargs: Any) -> Any:
    """A function's result for the values of nested tensors with the same components, as a nested tensor."""
    given = [a for a in (*args, *kwargs.values()) if isinstance(a, NestedTensor)]
    if kwargs.get("out") is not None:
        raise NotImplementedError(f"{func.__name__}(): out= is not supported for nested tensors")
    first = given[0]
    if not all(alike(first, other) for other in given[1:]):
        raise _do_not_fit(func, args)
    has_gaps = first._is_jagged and first._places_.rows.lengths is not None
    if has_gaps and _has_dense_rows(first, (*args, *kwargs.values())):
        if func.__name__ in IN_PLACE:
            raise NotImplementedError(f"{func.__name__}(): a nested tensor with rows between its components")
        first, args, kwargs = _filled(args, kwargs)

    def values(one: Any) -> Any:
        if isinstance(one, NestedTensor):
            return one._entries
        return _for_rows(func, first, one, args) if isinstance(one, Tensor) and one.ndim else one

    result = func(*map(values, args), **{name: values(one) for name, one in kwargs.items()})
    return _nested(first, result, given)


def _nested(first: NestedTensor, result: Any, given: list[NestedTensor]) -> Any:
    if isinstance(result, tuple):
        parts = [_nested(first, part, given) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
    same = [one for one in given if one._entries is result]
    return same[0] if same else first.with_values(result)


def _do_not_fit(func: Any, args: Any) -> RuntimeError:
    shapes = " and ".join(described(one) for one in args if isinstance(one, Tensor))
    return RuntimeError(f"cannot call binary pointwise function {func.__name__} with inputs of {shapes}")


def _filled(args: Any, kwargs: Any) -> Any:
    """Arguments whose nested tensors have no gaps between components."""
    known: dict[Any, Any] = {}

    def dense(one: Any) -> Any:
        if not isinstance(one, NestedTensor):
            return one
        found = without_gaps(one)
        places = known.setdefault(one._places_.rows, found._places_)
        found._places_ = places
        return found

    args, kwargs = tuple(map(dense, args)), {name: dense(one) for name, one in kwargs.items()}
    return next(one for one in (*args, *kwargs.values()) if isinstance(one, NestedTensor)), args, kwargs


def _has_dense_rows(first: NestedTensor, operands: Any) -> bool:
    """Whether a dense operand has something of its own for each component."""
    return any(isinstance(o, Tensor) and not isinstance(o, NestedTensor) and o.ndim == first.ndim for o in operands)


def _for_rows(func: Any, first: NestedTensor, dense: Tensor, args: Any) -> Tensor:
    """A dense operand as it meets the values: what it has for each component, at each of its rows."""
    if not first._is_jagged:
        return _for_blocks(func, first, dense, args)
    rows, dim = first._places_.rows, first._places_.dim
    from_right = first.ndim - dim
    if dense.ndim < first.ndim:
        if dense.ndim >= from_right and dense.shape[dense.ndim - from_right] != 1:
            raise _do_not_fit(func, args)
        return dense
    if dense.ndim > first.ndim:
        raise NotImplementedError(f"{func.__name__}(): {described(dense)} has more dimensions than {described(first)}")
    if dense.shape[0] not in (1, len(rows)):
        raise _do_not_fit(func, args)
    if dense.shape[0] == 1 and dense.shape[dim] == 1:
        return dense.squeeze(0)
    if dense.shape[dim] == 1:
        return dense.movedim(dim, 1)[:, 0][rows.components()].movedim(0, dim - 1)  # type: ignore[no-any-return]
    if dense.shape[dim] < rows.longest:
        raise _do_not_fit(func, args)
    dense = dense.expand(len(rows), *dense.shape[1:])
    return without_padding(dense, rows, dim)._entries  # type: ignore[no-any-return]


def _for_blocks(func: Any, first: NestedTensor, dense: Tensor, args: Any) -> Tensor:
    from eagerjit.ops.index import cat

    shapes = first._places_.shapes
    if dense.ndim == len(shapes[0]) + 1 and dense.shape[0] in (1, len(shapes)):
        parts = list(dense.expand(len(shapes), *dense.shape[1:]).unbind())
    elif dense.ndim <= len(shapes[0]):
        parts = [dense] * len(shapes)
    else:
        raise _do_not_fit(func, args)
    return cat.call([part.expand(shape).reshape(-1) for part, shape in zip(parts, shapes, strict=True)])  # type: ignore[no-any-return]

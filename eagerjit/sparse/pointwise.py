"""Element by element: what keeps zeros zero, sums, and products with what may be dense."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.ops.index import cat
from eagerjit.sparse.conversion import become, coalesce, flat, to_layout, to_sparse_coo
from eagerjit.sparse.pattern import Coordinates
from eagerjit.sparse.tensor import SparseTensor, like, made, unsupported
from eagerjit.tensors.making import sparse_coo
from eagerjit.tensors.promotion import result_type
from eagerjit.tensors.tensor import Tensor

KEEPING_ZERO = """abs absolute sqrt sin sinh tan tanh asin arcsin asinh arcsinh atan arctan atanh arctanh expm1 log1p
    sign sgn floor ceil round trunc fix frac erf erfinv relu deg2rad rad2deg nan_to_num isnan isinf isneginf isposinf
    signbit square angle""".split()
LINEAR = "neg negative positive conj conj_physical".split()
"""What may be done to values of equal places one by one."""


def unary(name: str) -> Any:
    """A function of the values; those of equal places are added up first, unless the function is linear."""

    def apply(input: SparseTensor, *arguments: Any, **options: Any) -> Any:
        source = input if name in LINEAR or input.layout is not sparse_coo else coalesce(input)
        return like(source, getattr(source._entries, name)(*arguments, **options))

    return apply


def unary_(name: str) -> Any:
    """A function that writes the values. Raises RuntimeError if places come twice."""

    def write(input: SparseTensor, *arguments: Any, **options: Any) -> Any:
        if name not in LINEAR and input.layout is sparse_coo and not input._pattern.coalesced:  # type: ignore[attr-defined]
            raise RuntimeError(f"{name}_: in-place on uncoalesced tensors is not supported")
        getattr(input._entries, f"{name}_")(*arguments, **options)
        return input

    return write


def power(input: Any, exponent: Any) -> Any:
    """Values to a power that is a number."""
    if not isinstance(input, SparseTensor) or isinstance(exponent, Tensor):
        raise unsupported("pow", input if isinstance(input, SparseTensor) else exponent)
    if exponent == 0:
        raise RuntimeError("cannot raise to zeroth power on sparse tensor; it would make the result tensor dense")
    return unary("pow")(input, exponent)


# -- sums -------------------------------------------------------------------------------------------------------------
def add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """input + alpha * other: of two sparse tensors a sparse one, of a dense and a sparse one a dense one."""
    if isinstance(input, SparseTensor) and isinstance(other, SparseTensor):
        return _sum(input, other, alpha)
    if isinstance(other, SparseTensor) and isinstance(input, Tensor):
        return _into_dense(input, other, alpha)
    if isinstance(input, SparseTensor) and input.layout is not sparse_coo and isinstance(other, Tensor):
        return _into_dense(other if alpha == 1 else other * alpha, input, 1)
    raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")


def _scaled(entries: Tensor, alpha: Any) -> Tensor:
    return entries if type(alpha) is int and alpha == 1 else entries * alpha


def _sum(input: SparseTensor, other: SparseTensor, alpha: Any) -> Any:
    if tuple(input._sizes) != tuple(other._sizes):
        raise RuntimeError(
            f"add: expected sizes of 'self' and 'other' to match, but {list(input._sizes)} != {list(other._sizes)}"
        )
    if input._pattern is other._pattern:
        return like(input, input._entries + _scaled(other._entries, alpha))
    layout = input.layout
    a, b = to_sparse_coo(input), to_sparse_coo(other)
    if len(a._pattern.sizes) != len(b._pattern.sizes):
        raise RuntimeError("add: expected 'self' and 'other' to have same density")
    dtype = result_type(a._entries, b._entries)
    entries = cat.call((a._entries.to(dtype), _scaled(b._entries.to(dtype), alpha)))
    pattern = Coordinates(cat.call((a._pattern.indices, b._pattern.indices), 1), a._pattern.sizes, False)
    found = made(pattern, entries, input._sizes)
    if a._pattern.coalesced and b._pattern.coalesced:
        found = coalesce(found)
    return found if layout is sparse_coo else to_layout(found, layout)


def _rows(dense: Tensor, pattern: Any, sizes: Any) -> tuple[tuple[int, ...], Tensor]:
    """The shape in which a dense tensor has one dimension for all sparse ones, and the entries' places there."""
    if len(pattern.sizes) == 1:
        return tuple(sizes), pattern.checked()[0]
    count = math.prod(pattern.sizes)
    return (count, *sizes[len(pattern.sizes) :]), pattern.kept("flat", lambda: flat(pattern.checked(), pattern.sizes))


def _into_dense(dense: Tensor, other: SparseTensor, alpha: Any) -> Tensor:
    if tuple(dense.shape) != tuple(other._sizes):
        if dense.numel() == 1 and other.layout is not sparse_coo:
            return dense + other.to_dense() * alpha
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same size, but self has size {list(dense.shape)} while other "
            f"has size {list(other._sizes)} (FYI: dense-sparse addition does not currently support broadcasting)"
        )
    dtype = result_type(dense, other._entries)
    shape, places = _rows(dense, other._pattern, other._sizes)
    added = _scaled(other._entries.to(dtype), alpha)
    return dense.to(dtype).reshape(shape).index_add(0, places, added).reshape(tuple(other._sizes))


def add_(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """`add`, in place."""
    if isinstance(input, SparseTensor):
        return become(input, add(input, other, alpha=alpha))
    if tuple(input.shape) != tuple(other._sizes) or not input.is_contiguous():
        return input.copy_(add(input, other, alpha=alpha))
    shape, places = _rows(input, other._pattern, other._sizes)
    added = _scaled(other._entries, alpha).to(input.dtype)
    (input if shape == tuple(input.shape) else input.view(shape)).index_add_(0, places, added)
    return input


def sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """input - alpha * other."""
    return add(input, other, alpha=-alpha)


def sub_(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """`sub`, in place."""
    return add_(input, other, alpha=-alpha)


# -- products ---------------------------------------------------------------------------------------------------------
def is_single(value: Any) -> bool:
    """Whether something is a number, or a dense tensor of no dimensions."""
    return not isinstance(value, SparseTensor) and (not isinstance(value, Tensor) or value.ndim == 0)


def mul(input: Any, other: Any) -> Any:
    """Products of elements: at the places of the sparse tensor, or of both."""
    if not isinstance(input, SparseTensor):
        input, other = other, input
    if is_single(other):
        return like(input, input._entries * other)
    if isinstance(other, SparseTensor):
        return _common(input, other)
    sizes, pattern = input._sizes, input._pattern
    other = other.expand(tuple(sizes)) if tuple(other.shape) != tuple(sizes) else other
    shape, places = _rows(other, pattern, sizes)
    return like(input, input._entries * other.reshape(shape)[places])


def _common(input: SparseTensor, other: SparseTensor) -> Any:
    if tuple(input._sizes) != tuple(other._sizes):
        raise RuntimeError(
            f"mul operands have incompatible sizes: {list(input._sizes)} and {list(other._sizes)} must be equal"
        )
    layout = input.layout
    a, b = coalesce(to_sparse_coo(input)), coalesce(to_sparse_coo(other))
    if a._pattern is b._pattern:
        found = like(a, a._entries * b._entries)
    else:
        if len(a._pattern.sizes) != len(b._pattern.sizes):
            raise RuntimeError("mul(sparse, sparse): both must have as many sparse dimensions")
        from eagerjit.ops.bins import searchsorted

        first, second = (flat(x._pattern.checked(), x._pattern.sizes) for x in (a, b))
        if not second.numel():
            first = first[:0]
        at = searchsorted(second, first).clamp(max=max(second.numel() - 1, 0))
        hit = (second[at] == first).nonzero().squeeze(1) if first.numel() else first
        pattern = Coordinates(a._pattern.indices[:, hit], a._pattern.sizes, True)
        found = made(pattern, a._entries[hit] * b._entries[at[hit] if hit.numel() else hit], input._sizes)
    return found if layout is sparse_coo else to_layout(found, layout)


def mul_(input: Any, other: Any) -> Any:
    """`mul`, in place: of a dense tensor with a sparse one all other elements become zero."""
    if not isinstance(input, SparseTensor):
        return input.copy_(mul(input, other).to_dense())
    if is_single(other):
        input._entries.mul_(other)
        return input
    return become(input, mul(input, other))


def _divisor(input: Any, other: Any) -> Any:
    if not isinstance(input, SparseTensor):
        raise unsupported("reciprocal", other)
    if not is_single(other):
        raise RuntimeError(
            "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
            f"{list(other.shape)} for divisor)"
        )
    return other


def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """Values divided by a number."""
    divisor = _divisor(input, other)
    source = input if rounding_mode is None or input.layout is not sparse_coo else coalesce(input)
    return like(source, source._entries.div(divisor, rounding_mode=rounding_mode))


def div_(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """`div`, in place."""
    input._entries.div_(_divisor(input, other), rounding_mode=rounding_mode)
    return input


def floor_divide(input: Any, other: Any) -> Any:
    """Values divided by a number and rounded down."""
    return div(input, other, rounding_mode="floor")


def refuse(name: str) -> Any:
    """An operation whose result would be dense."""

    def call(input: Any, other: Any, **options: Any) -> Any:
        raise unsupported(name, input if isinstance(input, SparseTensor) else other)

    return call


HANDLERS: dict[str, Any] = {
    **{name: unary(name) for name in (*KEEPING_ZERO, *LINEAR)},
    **{f"{name}_": unary_(name) for name in (*KEEPING_ZERO, *LINEAR) if name not in ("isnan", "isinf", "angle")},
    "pow": power, "add": add, "add_": add_, "sub": sub, "sub_": sub_, "subtract": sub, "subtract_": sub_,
    "mul": mul, "mul_": mul_, "multiply": mul, "multiply_": mul_, "div": div, "div_": div_, "divide": div,
    "divide_": div_, "true_divide": div, "true_divide_": div_, "floor_divide": floor_divide,
    "__floordiv__": floor_divide, "__rdiv__": refuse("reciprocal"),
    "__rsub__": lambda input, other: add(other, input),
}  # fmt: skip

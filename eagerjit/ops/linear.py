"""Matrix products over the matmul primitive."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.calling.casts import converting
from eagerjit.calling.dispatch import Op, emit
from eagerjit.compiler.ops import elementwise, linear, reductions
from eagerjit.ops.pointwise import as_dtype, wide
from eagerjit.ops.views import reshaped
from eagerjit.runtime import dtypes
from eagerjit.runtime.planned import Plan
from eagerjit.tensors.mistakes import planned_of_ranks
from eagerjit.tensors.promotion import TYPE_NAMES, result_type
from eagerjit.tensors.tensor import Tensor


def _fold(a: Tensor, b: Tensor) -> bool:
    """Whether batches of a times one matrix b are one product of a taller matrix."""
    return a.ndim > 2 and b.ndim == 2 and a.is_contiguous()


def _matmul(input: Tensor, other: Tensor) -> Tensor:
    """Matrix product; vectors are rows on the left and columns on the right, dimensions before the last two broadcast.

    (..., n, k) @ (..., k, m) is (..., n, m); (k) @ (k) is a number. Raises RuntimeError for sizes that do not fit,
    dtypes that differ and tensors without dimensions, NotImplementedError for bools.
    """
    for x in (input, other):
        if not isinstance(x, Tensor):
            raise TypeError(f"matmul(): argument must be Tensor, not {type(x).__name__}")
    if input.ndim == 0 or other.ndim == 0:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {input.ndim}D and {other.ndim}D"
        )
    if input.dtype is not other.dtype:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {input.dtype} != {other.dtype}")
    if input.dtype is dtypes.bool_:
        raise NotImplementedError("\"addmm_impl_cpu_\" not implemented for 'Bool'")
    if input.ndim == 1 and other.ndim == 1:
        return _inner(input, other)
    a = input.unsqueeze(0) if input.ndim == 1 else input
    b = other.unsqueeze(1) if other.ndim == 1 else other
    if _fold(a, b):
        rows = a.view(-1, a.shape[-1]) if a.shape[-1] != 0 else a.view(math.prod(a.shape[:-1]), 0)
        out = emit(linear.matmul, rows, b).view(*a.shape[:-1], b.shape[-1])
    else:
        batch = _batch(a.shape[:-2], b.shape[:-2], input, other)
        out = emit(linear.matmul, a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:]))
    if input.ndim == 1:
        out = out.squeeze(-2)
    if other.ndim == 1:
        out = out.squeeze(-1)
    return out


def _inner(input: Tensor, other: Tensor) -> Tensor:
    """The sum of two vectors' products, which threads share as any other sum."""
    (n,), (m,) = input.shape, other.shape
    if n != m:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{n}] and src [{m}] to have the same number of elements, but "
            f"got {n} and {m} elements respectively"
        )
    computed = wide(input.dtype) if input.dtype.is_differentiable else dtypes.int64
    products = as_dtype(input, computed) * as_dtype(other, computed)
    return as_dtype(emit(reductions.sum_, products, axes=(0,)), input.dtype)


def _batch(a: Any, b: Any, input: Tensor, other: Tensor) -> list[Any]:
    """The broadcast batch shape."""
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b)
    out = []
    for axis, (p, q) in enumerate(zip(a, b, strict=True)):
        if p != 1 and q != 1 and p != q:
            raise RuntimeError(
                f"The size of tensor a ({p}) must match the size of tensor b ({q}) at non-singleton dimension {axis} "
                f"(matmul of {list(input.shape)} and {list(other.shape)})"
            )
        out.append(q if p == 1 or (q != 1 and type(q) is int) else p)
    return out


def _left(g: Any, out: Any, input: Any, other: Any) -> Any:
    if input.ndim == 1 and other.ndim == 1:
        return g * other
    if other.ndim == 1:
        grad = g.unsqueeze(-1).matmul(other.unsqueeze(0))
        return grad.squeeze(-2) if input.ndim == 1 else grad
    if input.ndim == 1:
        return g.unsqueeze(-2).matmul(other.mT).sum_to_size((*other.shape[:-2], 1, input.shape[0])).reshape(
            *other.shape[:-2], input.shape[0]
        )
    return g.matmul(other.mT)


def _right(g: Any, out: Any, input: Any, other: Any) -> Any:
    if input.ndim == 1:
        row = g.unsqueeze(-2) if other.ndim > 1 else g
        return input.unsqueeze(-1).matmul(row) if other.ndim > 1 else input * g
    if other.ndim == 1:
        return (input.mT.matmul(g.unsqueeze(-1))).squeeze(-1)
    if input.ndim > 2 and other.ndim == 2:
        rows = math.prod(input.shape[:-1])
        return reshaped(input, rows, input.shape[-1]).mT.matmul(reshaped(g, rows, g.shape[-1]))
    return input.mT.matmul(g)


matmul = Op("matmul", _matmul, (_left, _right))


@planned_of_ranks
def mm(input: Tensor, mat2: Tensor) -> Plan:
    """Product of two matrices, (n, k) and (k, m). Raises RuntimeError for other tensors; see `matmul`."""
    if input.ndim != 2 or mat2.ndim != 2:
        raise RuntimeError(f"mm: self must be a matrix, got {input.ndim}D and {mat2.ndim}D")
    return matmul.call, (input, mat2)


def _bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Products of two batches of matrices."""
    if input.ndim != 3 or mat2.ndim != 3:
        raise RuntimeError(f"batch1 must be a 3D tensor, got {input.ndim}D and {mat2.ndim}D")
    if input.shape[0] != mat2.shape[0]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{input.shape[0]}, {input.shape[2]}] "
            f"but got: [{mat2.shape[0]}, {mat2.shape[1]}]."
        )
    return _matmul(input, mat2)


_bmm_op = Op("bmm", _bmm, (_left, _right))


@planned_of_ranks
def bmm(input: Tensor, mat2: Tensor) -> Plan:
    """Products of two batches of matrices, (batch, n, k) and (batch, k, m): (batch, n, m). RuntimeError for others."""
    return _bmm_op.call, (input, mat2)


@converting
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """Inner product of two vectors of one length, without conjugation. Raises RuntimeError for other tensors."""
    if input.ndim != 1 or tensor.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {input.ndim}D and {tensor.ndim}D tensors")
    return matmul.call(input, tensor)


def _product_alone(product: Tensor, input: Tensor) -> Tensor:
    """product; what was not added to it has a gradient of zeros."""
    return emit(elementwise.cast, product, dtype=product.dtype)


_beside_nothing = Op(
    "product_alone",
    _product_alone,
    (lambda g, out, product, input: g, lambda g, out, product, input: g.new_zeros(input.shape)),
)


def require_dtype(input: Tensor, product: Tensor) -> None:
    """Refuse what is to be added to a product of another dtype."""
    if input.dtype is not product.dtype:
        names = f"{TYPE_NAMES[input.dtype]} and {TYPE_NAMES[product.dtype]}"
        raise RuntimeError(f"self and mat2 must have the same dtype, but got {names}")


def _addmm(input: Tensor, mat1: Tensor, mat2: Tensor, beta: complex = 1, alpha: complex = 1) -> Tensor:
    """beta * input + alpha * mat1 @ mat2; input broadcasts to (n, m), and does not count where beta is 0.

    Raises RuntimeError unless mat1 is (n, k) and mat2 (k, m), of one dtype.
    """
    for name, x in (("mat1", mat1), ("mat2", mat2)):
        if x.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix, got {x.ndim}-D tensor")
    require_dtype(input, product := mat1.matmul(mat2))
    return weighted_sum(input, product, beta, alpha)


def _baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, beta: complex = 1, alpha: complex = 1) -> Tensor:
    """beta * input + alpha * batch1 @ batch2."""
    require_dtype(input, product := _bmm(batch1, batch2))
    _require_to_fit("baddbmm", input, product)
    return weighted_sum(input, product, beta, alpha)


def _addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, beta: complex = 1, alpha: complex = 1) -> Tensor:
    """beta * input + alpha * the sum of the products batch1[i] @ batch2[i]."""
    require_dtype(input, product := _bmm(batch1, batch2))
    total = product.sum(0, dtype=product.dtype)
    _require_to_fit("addbmm", input, total)
    return weighted_sum(input, total, beta, alpha)


def _require_to_fit(name: str, input: Tensor, product: Tensor) -> None:
    """Raise RuntimeError for an input that has more dimensions than the product to which it is added."""
    if input.ndim > product.ndim:
        raise RuntimeError(f"{name}: input of shape {list(input.shape)} cannot be expanded to {list(product.shape)}")


def weighted_sum(input: Tensor, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    """beta * input + alpha * product; with beta 0 input does not count, NaN or not. Of integers factors are whole.

    Halves are rounded once more than the product was, not by each factor.
    """
    dtype = result_type(input, product)
    if not dtype.is_complex and (isinstance(beta, complex) or isinstance(alpha, complex)):
        raise RuntimeError(f"value cannot be converted to type {dtype} without overflow")
    input, product = input.to(wide(input.dtype)), product.to(wide(product.dtype))
    if not (input.dtype.is_differentiable or product.dtype.is_differentiable):
        beta, alpha = int(beta), int(alpha)
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        input.expand(tuple(product.shape))  # raises where it does not fit
        return (_beside_nothing.call(product, input) if input.requires_grad else product).to(dtype)
    return (product + (input if beta == 1 else input * beta)).to(dtype)


def factors_last(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments in their order: older programs give beta before the input and alpha before what is multiplied."""
    if len(args) < 4 or all(isinstance(a, Tensor) for a in args[:3]):
        return args
    tensors = [a for a in args if isinstance(a, Tensor)]
    factors = [a for a in args if not isinstance(a, Tensor)]
    if len(tensors) != 3 or len(factors) > 2:
        raise TypeError(f"received an invalid combination of {len(args)} arguments")
    return *tensors, *factors


addmm = Op("addmm", _addmm, numbers=("beta", "alpha"))
baddbmm = Op("baddbmm", _baddbmm, numbers=("beta", "alpha"))
addbmm = Op("addbmm", _addbmm, numbers=("beta", "alpha"))
for _op in (addmm, baddbmm, addbmm):
    _op.steady, _op.ordered, _op.saved_by = _op.numbers, factors_last, ((), (2,), (1,))


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias: (..., in), weight (out, in) and bias (out) give (..., out).

    Raises RuntimeError for sizes and dtypes that do not fit.
    """
    if input.ndim and weight.ndim == 2 and input.shape[-1] != weight.shape[1]:
        raise RuntimeError(
            f"linear: mat1 and mat2 shapes cannot be multiplied ({math.prod(input.shape[:-1])}x{input.shape[-1]} and "
            f"{weight.shape[1]}x{weight.shape[0]})"
        )
    out = _matmul(input, weight.t() if weight.ndim == 2 else weight)
    if bias is not None and weight.ndim == 2:
        require_dtype(bias, out)
    return out if bias is None else out + bias


def _linear_weight(g: Any, out: Any, input: Any, weight: Any, bias: Any) -> Any:
    if weight.ndim == 1:
        return _right(g, None, input, weight)
    if input.ndim == 2:
        return g.mT.matmul(input)
    rows = math.prod(input.shape[:-1])
    return reshaped(g, rows, weight.shape[0]).mT.matmul(reshaped(input, rows, weight.shape[1]))


linear_ = Op(
    "linear",
    _linear,
    (
        lambda g, out, input, weight, bias: g.unsqueeze(-1) * weight if weight.ndim == 1 else g.matmul(weight),
        _linear_weight,
        lambda g, out, input, weight, bias: g,
    ),
)

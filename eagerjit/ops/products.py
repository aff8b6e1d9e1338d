"""Products of vectors and matrices beside matmul."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from eagerjit.calling.dispatch import Op
from eagerjit.calling.public import public, written
from eagerjit.ops import index, linear, views
from eagerjit.runtime import dtypes
from eagerjit.runtime.planned import Plan
from eagerjit.tensors.mistakes import only_tensors, planned_of_ranks
from eagerjit.tensors.outputs import write_out
from eagerjit.tensors.promotion import TYPE_NAMES, result_type
from eagerjit.tensors.tensor import Tensor


def _with_factors(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function, which takes beta before the input and alpha before what is multiplied too, as older programs do."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Tensor:
        if len(args) < 4:
            return function(*args, **kwargs)
        tensors, factors = (args := linear.factors_last(args))[:3], args[3:]
        return function(*tensors, **dict(zip(("beta", "alpha"), factors, strict=False)), **kwargs)

    return call


def _sized(name: str, input: Tensor, rank: int, argument: str) -> None:
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): argument '{argument}' must be Tensor, not {type(input).__name__}")
    if input.ndim != rank:
        kind = {1: "vector", 2: "matrix", 3: "3D tensor"}[rank]
        raise RuntimeError(f"{name}: {argument} must be a {kind}, but got {input.ndim}D of shape {list(input.shape)}")


@_with_factors
@public
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * mat @ vec: (n) or what is broadcast to it, (n, m) and (m) give (n).

    With beta=0 the input counts for nothing. Raises RuntimeError for other dimensions and for several dtypes.
    """
    _sized("addmv", mat, 2, "mat")
    _sized("addmv", vec, 1, "vec")
    linear.require_dtype(input, product := linear.matmul.call(mat, vec))
    return linear.weighted_sum(input, product, beta, alpha)


@_with_factors
@public
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * the outer product of vec1 and vec2; of truth values one of which holds."""
    _sized("addr", vec1, 1, "vec1")
    _sized("addr", vec2, 1, "vec2")
    product = vec1.unsqueeze(1) * vec2
    dtype = result_type(input, product)
    for name, factor in (("beta", beta), ("alpha", alpha)):
        if isinstance(factor, float) and not dtype.is_differentiable:
            raise RuntimeError(f"For integral input tensors, argument {name} must not be a floating point number.")
        if isinstance(factor, bool) and dtype is not dtypes.bool_:
            raise RuntimeError(f"Boolean {name} only supported for Boolean results.")
    if dtype is dtypes.bool_:
        product = product if alpha else product & False
        return product.logical_or(input) if beta else product
    return linear.weighted_sum(input, product, beta, alpha).to(dtype)


@_with_factors
@public
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * the sum of the products batch1[i] @ batch2[i]."""
    return linear.addbmm.call(input, batch1, batch2, beta, alpha)


@_with_factors
@public
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * batch1 @ batch2."""
    return linear.baddbmm.call(input, batch1, batch2, beta, alpha)


addmv_, addr_, addbmm_, baddbmm_ = map(written, (addmv, addr, addbmm, baddbmm))


@_with_factors
@public
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * mat1 @ mat2."""
    return linear.addmm.call(input, mat1, mat2, beta, alpha)


addmm_ = written(addmm)


@public
def _int_mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Product of two matrices of int8 or uint8, (n, k) and (k, m), summed in int32. Raises RuntimeError for others."""
    for name, x in (("self", input), ("mat2", mat2)):
        if x.dtype not in (dtypes.int8, dtypes.uint8):
            raise RuntimeError(f"_int_mm: Expected {name} dtype to be int8 or uint8 but got {x.dtype}")
        if x.ndim != 2:
            raise RuntimeError(f"_int_mm: Expected {name} to be of dimension 2 but got {x.ndim}")
    return linear.matmul.call(input.int(), mat2.int())


@public
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """The inner product of two vectors, the first one conjugated. Raises RuntimeError for other tensors."""
    return linear.dot(input.conj(), other)


@public
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Sums of products over the last dimension of both: the other dimensions of input, then those of other.

    Raises RuntimeError for last sizes that differ.
    """
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(input.shape)} and {list(other.shape)}"
        )
    rows = input.reshape(-1, input.shape[-1])
    out = linear.matmul.call(rows, other.reshape(-1, other.shape[-1]).mT)
    return out.reshape((*input.shape[:-1], *other.shape[:-1]))


@planned_of_ranks
def outer(input: Tensor, vec2: Tensor) -> Plan:
    """The outer product of two vectors (n) and (m): (n, m). RuntimeError for other tensors."""
    if input.ndim != 1 or vec2.ndim != 1:
        raise RuntimeError(f"outer: Expected 1-D argument self, but got {input.ndim}-D and {vec2.ndim}-D")
    return _outer_op.call, (input, vec2)


def _outer(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of an element of one vector and one of another."""
    return input.unsqueeze(1) * vec2


_outer_op = Op("outer", _outer)


ger = outer


@public
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The sum of conj(x) * y along a dimension: x and y, which are broadcast, lose it.

    Raises RuntimeError for two dtypes and for two vectors of different sizes.
    """
    if not isinstance(x, Tensor) or x.dtype is not y.dtype:
        raise RuntimeError(f"linalg.vecdot: Expected tensors of the same dtype, but got {x.dtype} and {y.dtype}")
    if x.ndim == y.ndim == 1 and x.shape != y.shape:
        raise RuntimeError(
            f"linalg.vecdot: inconsistent tensor size, expected tensor {list(x.shape)} and src {list(y.shape)} to have "
            "the same number of elements"
        )
    return (x.conj() * y).sum(dim)


@public
def kron(input: Tensor, other: Tensor) -> Tensor:
    """Kronecker's product: every element of input times other."""
    rank = max(input.ndim, other.ndim)
    a = (1,) * (rank - input.ndim) + tuple(input.shape)
    b = (1,) * (rank - other.ndim) + tuple(other.shape)
    left = input.reshape([x for d in a for x in (d, 1)])
    right = other.reshape([x for d in b for x in (1, d)])
    return (left * right).reshape([p * q for p, q in zip(a, b, strict=True)])


def multi_dot(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """The product of several matrices, in the order of multiplication that takes the fewest operations."""
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"multi_dot(): argument 'tensors' must be tuple of Tensors, not {type(tensors).__name__}")
    parts = list(tensors)
    only_tensors(parts)
    if len(parts) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(parts)}")
    first, last = parts[0].ndim == 1, parts[-1].ndim == 1
    if first:
        parts[0] = parts[0].unsqueeze(0)
    if last:
        parts[-1] = parts[-1].unsqueeze(1)
    for x in parts:
        if x.ndim != 2:
            raise RuntimeError(f"multi_dot(): the tensors must be matrices, but one of them is {x.ndim}D")
    product = _chained(parts, [x.shape[0] for x in parts] + [parts[-1].shape[1]])
    product = product.squeeze(0) if first else product
    product = product.squeeze(-1) if last else product
    return product if out is None else write_out("multi_dot", product, out)


def _chained(parts: list[Tensor], sizes: list[Any]) -> Tensor:
    """The best split of a chain by dynamic programming over its intervals."""
    n = len(parts)
    cost: list[list[Any]] = [[0] * n for _ in range(n)]
    split = [[0] * n for _ in range(n)]
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            options = [(cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)]
            cost[i][j], split[i][j] = min(options, key=operator.itemgetter(0))

    def product(i: int, j: int) -> Tensor:
        return parts[i] if i == j else linear.mm(product(i, split[i][j]), product(split[i][j] + 1, j))

    return product(0, n - 1)


def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """The product of several matrices."""
    if len(matrices) == 1 and isinstance(matrices[0], Tensor):
        return matrices[0]
    only_tensors(matrices)
    return multi_dot(matrices, out=out)


def _cross(a: Tensor, b: Tensor, dim: int) -> Tensor:
    """Cross products of vectors along a dimension of three."""
    x, y = ([v.narrow(dim, i, 1) for i in range(3)] for v in (a, b))
    parts = [x[(i + 1) % 3] * y[(i + 2) % 3] - x[(i + 2) % 3] * y[(i + 1) % 3] for i in range(3)]
    return index.cat.call(parts, dim)


_cross_op = Op(
    "cross",
    _cross,
    (lambda g, out, a, b, dim: _cross_op.call(b, g, dim), lambda g, out, a, b, dim: _cross_op.call(g, a, dim), None),
)


@public
def cross(input: Tensor, other: Tensor, dim: int | None = -1) -> Tensor:
    """Cross products of vectors of three elements along a dimension; None means the first of size 3."""
    if dim is None:
        found = [i for i, d in enumerate(input.shape) if d == 3]
        if not found:
            raise RuntimeError("no dimension of size 3 in input")
        dim = found[0]
    if input.ndim != other.ndim:
        raise RuntimeError(
            f"linalg.cross: inputs must have the same number of dimensions, got {input.ndim} and {other.ndim}"
        )
    d = views.dimension(dim, input.ndim)
    if input.shape[d] != 3 or other.shape[d] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[d]} and {other.shape[d]}"
        )
    if input.dtype is dtypes.bool_:
        raise NotImplementedError("\"cross\" not implemented for 'Bool'")
    if input.dtype is not other.dtype:
        raise RuntimeError(f"expected scalar type {TYPE_NAMES[input.dtype]} but found {TYPE_NAMES[other.dtype]}")
    return _cross_op.call(input, other, d)


@public
def cross_of_namespace(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """Cross products of vectors of three elements along a dimension, the first of size 3 unless it is given."""
    return cross(input, other, dim)

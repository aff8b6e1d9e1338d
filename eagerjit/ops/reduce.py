"""Reductions and what is made of them."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.calling.dispatch import Op, emit
from eagerjit.calling.results import RETURNED, ValuesIndices
from eagerjit.compiler.ops import elementwise, reductions
from eagerjit.compiler.ops.declare import Primitive
from eagerjit.ops.exponents import decided, is_one_of_many
from eagerjit.ops.one_of_all import of_all
from eagerjit.ops.ordering import products_before
from eagerjit.ops.pointwise import POINTWISE, as_dtype, wide
from eagerjit.ops.views import dimension
from eagerjit.recording.numbers import TracedFloat
from eagerjit.runtime import dtypes, mode
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.planned import Plan
from eagerjit.state import Defaults
from eagerjit.tensors.mistakes import planned_of_ranks
from eagerjit.tensors.tensor import Tensor


def axes_of(dim: Any, rank: int) -> tuple[int, ...]:
    """Sorted, non-negative dimensions; None and () mean all."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(rank))
    axes = [dimension(d, rank) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]
    if len(set(axes)) != len(axes):
        raise RuntimeError(f"dim {axes[0]} appears multiple times in the list of dims")
    return tuple(sorted(axes)) if rank else ()


def reduce(primitive: Primitive, x: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """Apply a reduction over any set of dimensions: runs of adjacent ones, innermost first."""
    axes = axes_of(dim, x.ndim)
    runs: list[list[int]] = []
    for axis in axes:
        if runs and axis == runs[-1][-1] + 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    out = x
    for run in reversed(runs):
        out = emit(primitive, out, axes=tuple(run))
    if not axes:
        return emit(elementwise.cast, x, dtype=x.dtype)
    if keepdim:
        out = out.view(tuple(1 if i in axes else d for i, d in enumerate(x.shape)))
    return out


def kept(g: Any, input: Any, dim: Any, keepdim: bool) -> Any:
    """A reduced tensor with its dimensions back, of size 1."""
    return _kept_of(g, input.shape, dim, keepdim)


def _kept_of(g: Any, shape: Any, dim: Any, keepdim: bool) -> Any:
    """`kept` for a rule that reads no more of the tensor than its shape."""
    if keepdim:
        return g
    axes = axes_of(dim, len(shape))
    return g.reshape(tuple(1 if i in axes else d for i, d in enumerate(shape)))


def _sum(input: Tensor, dim: Any = None, keepdim: bool = False, dtype: DType | None = None) -> Tensor:
    """Sum of elements over dimensions; integers are summed as int64.

    `dim` is a dimension, several, or none for all; reduced ones go away, or have size 1 with `keepdim`. Halves are
    summed in float32, in an order that the sizes decide. Raises IndexError for a dimension out of range, RuntimeError
    for one named twice.
    """
    target = dtype or (input.dtype if input.dtype.is_differentiable else dtypes.int64)
    wide = dtypes.float32 if target in (dtypes.float16, dtypes.bfloat16) else target
    return as_dtype(reduce(reductions.sum_, as_dtype(input, wide), dim, keepdim), target)


sum_ = Op(
    "sum",
    _sum,
    (
        lambda g, out, input, dim, keepdim, dtype: _kept_of(g, input.shape, dim, keepdim).expand(input.shape),
        *(None,) * 3,
    ),
)


def _mean(input: Tensor, dim: Any = None, keepdim: bool = False, dtype: DType | None = None) -> Tensor:
    """Arithmetic mean over dimensions, given as in `sum`; of no elements it is NaN.

    Raises RuntimeError for integers without a floating `dtype`.
    """
    target = dtype or input.dtype
    if not target.is_differentiable:
        raise RuntimeError(
            f"mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: "
            f"{input.dtype}"
        )
    wide = dtypes.float32 if target in (dtypes.float16, dtypes.bfloat16) else target
    total = reduce(reductions.sum_, as_dtype(input, wide), dim, keepdim)
    return as_dtype(total / extent(input, dim), target)


def extent(input: Tensor, dim: Any) -> Any:
    """How many elements a reduction over `dim` combines."""
    return _extent_of(input.shape, dim)


def _extent_of(shape: Any, dim: Any) -> Any:
    return math.prod(shape[axis] for axis in axes_of(dim, len(shape)))


mean = Op(
    "mean",
    _mean,
    (
        lambda g, out, input, dim, keepdim, dtype: (
            _kept_of(g, input.shape, dim, keepdim) / _extent_of(input.shape, dim)
        ).expand(input.shape),
        *(None,) * 3,
    ),
)


def _prod(input: Tensor, dim: int | None = None, keepdim: bool = False, dtype: DType | None = None) -> Tensor:
    """Product of elements over one dimension or all; integers are multiplied as int64, halves in float32."""
    target = dtype or (input.dtype if input.dtype.is_differentiable else dtypes.int64)
    wide = dtypes.float32 if target in (dtypes.float16, dtypes.bfloat16) else target
    return as_dtype(reduce(reductions.prod, as_dtype(input, wide), dim, keepdim), target)


def _prod_rule(g: Any, out: Any, input: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    """The product of all others; no quotient, for which zeros are exceptions, where it is differentiated in turn."""
    if mode.grad_mode() and input.ndim and not input.dtype.is_complex:
        return kept(g, input, dim, keepdim) * _products_of_others(input * 1.0, dim)
    zero = input == 0.0
    rest = (input * 1.0).where(zero.logical_not(), 1.0)
    others = rest.prod(dim, keepdim=True) / rest if dim is not None else rest.prod() / rest
    flags = zero.to(g.dtype)
    hidden = flags.sum(dim, keepdim=True) - flags
    # With one other zero it is 0, but as a product with that zero: it has a derivative.
    left = (input * flags).sum(dim, keepdim=True) - input * flags
    return kept(g, input, dim, keepdim) * others.where(hidden == 0.0, (left * others).where(hidden == 1.0, 0.0))


def _products_of_others(x: Any, dim: Any) -> Any:
    if dim is None:
        return _products_of_others(x.reshape(-1), 0).reshape(x.shape)
    d = dimension(dim, x.ndim)
    return products_before(x, d) * products_before(x.flip(d), d).flip(d)


prod = Op("prod", _prod, (_prod_rule, None, None, None))


def _extreme(name: str, primitive: Primitive) -> Op:
    def body(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
        if input.dtype.is_complex:
            raise NotImplementedError(f'"{name}" not implemented for {input.dtype}')
        if input.numel() == 0 and any(input.shape[a] == 0 for a in axes_of(dim, input.ndim)):
            if dim is None or dim == ():
                raise RuntimeError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0.")
            raise IndexError(f"{name}(): Expected reduction dim to have non-zero size.")
        if input.dtype is dtypes.bool_:
            return reduce(reductions.any_ if primitive is reductions.amax else reductions.all_, input, dim, keepdim)
        return reduce(primitive, input, dim, keepdim)

    def rule(g: Any, out: Any, input: Any, dim: Any, keepdim: bool) -> Any:
        hit = input == kept(out, input, dim, keepdim)
        return kept(g, input, dim, keepdim).where(hit, 0.0) / hit.to(g.dtype).sum(dim, keepdim=True)

    body.__doc__ = (
        f"{primitive.doc} Equal extremes share the gradient.\n\nOver dimensions given as in `sum`. Raises "
        "NotImplementedError for complex numbers, RuntimeError of no\nelements (IndexError with a dimension)."
    )
    return Op(name, body, (rule, None, None))


amax = _extreme("amax", reductions.amax)
amin = _extreme("amin", reductions.amin)


def _truth(name: str, primitive: Primitive, doc: str) -> Op:
    def body(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
        x = input if input.dtype is dtypes.bool_ else emit(elementwise.ne, input, as_dtype(0, input.dtype))
        none = dim in ((), [])  # unlike in sums, where no dimensions are all
        out = emit(elementwise.cast, x, dtype=x.dtype) if none else reduce(primitive, x, dim, keepdim)
        return as_dtype(out, dtypes.uint8) if input.dtype is dtypes.uint8 else out

    body.__doc__ = doc
    return Op(name, body, None, differentiable=False)


all_ = _truth("all", reductions.all_, "Whether all elements are true: not 0. Dimensions as in `sum`.")
any_ = _truth("any", reductions.any_, "Whether any element is true: not 0. Dimensions as in `sum`.")


def _position(name: str, primitive: Primitive) -> Op:
    def body(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        if input.dtype is dtypes.bool_ or input.dtype.is_complex:
            raise RuntimeError(f"{name}(): does not support {input.dtype.kind} input")
        axis = 0 if dim is None else dimension(dim, input.ndim)
        if input.numel() == 0 and (dim is None or input.shape[axis] == 0):
            raise IndexError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0.")
        if dim is None:
            flat = emit(primitive, input.reshape(-1), axes=(0,))
            return flat.view((1,) * input.ndim) if keepdim else flat
        if input.ndim == 0:
            return as_dtype(0, dtypes.int64)
        out = emit(primitive, input.movedim(axis, -1), axes=(input.ndim - 1,))
        return out.unsqueeze(axis) if keepdim else out

    body.__doc__ = (
        f"{primitive.doc}\n\nint64, along a dimension, or of the flattened tensor without one. Raises RuntimeError for "
        "bools and\ncomplex numbers, IndexError where there are no elements."
    )
    return Op(name, body, None, differentiable=False)


argmax = _position("argmax", reductions.argmax)
argmin = _position("argmin", reductions.argmin)


def _with_indices(extreme: Op, position: Op, elementwise_name: str) -> Any:
    def body(input: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
        if input.dtype.is_complex:
            raise RuntimeError(f"{extreme.name[1:]}(): does not support complex input")
        comparable = as_dtype(input, dtypes.uint8) if input.dtype is dtypes.bool_ else input
        indices = position.body(comparable, dim, True)
        if input.ndim == 0:
            return emit(elementwise.cast, input, dtype=input.dtype), indices
        values = input.gather(dim, indices)
        return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))

    def rule(g: Any, out: Any, input: Any, dim: int, keepdim: bool) -> Any:
        if input.ndim == 0:
            return g[0]
        places, values = (x if keepdim else x.unsqueeze(dim) for x in (out[1], g[0]))
        return values.new_zeros(input.shape).scatter_add(dim, places, values)

    whole, both = of_all(extreme), Op(f"{extreme.name}_with_index", body, (rule, None, None))
    both.absent_gradients, both.results_read = True, (1,)
    kind = RETURNED[extreme.name[1:]]

    def found(input: Tensor, dim: int, keepdim: bool) -> ValuesIndices:
        return kind(*both.call(input, dim, keepdim))

    def function(input: Tensor, dim: Any = None, keepdim: bool = False, other: Any = None) -> Plan:
        dim = dim if other is None else other
        if dim is None:
            return whole.call, (input,)
        if isinstance(dim, Tensor):
            return POINTWISE[elementwise_name].call, (input, dim)
        return found, (input, dim, keepdim)

    function.__name__ = extreme.name[1:]
    function.__doc__ = (
        f"{str(extreme.body.__doc__).partition('.')[0]}.\n\nOf all elements a number, whose gradient equal ones share; "
        "with `dim` (values, indices) along it, the first of\nequal ones; with another tensor what "
        f"`{elementwise_name}` gives. Raises NotImplementedError for complex numbers (RuntimeError with\n`dim`), "
        "RuntimeError of no elements (IndexError with `dim`)."
    )
    return planned_of_ranks(function)


max_ = _with_indices(amax, argmax, "maximum")
min_ = _with_indices(amin, argmin, "minimum")


def _logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """log(sum(exp(input))) over dimensions, without overflow; of nothing it is -inf."""
    input = input if input.dtype.is_differentiable else as_dtype(input, Defaults.dtype)
    if any(input.shape[axis] == 0 for axis in axes_of(dim, input.ndim)):
        return reduce(reductions.sum_, input.exp(), dim, keepdim).log()
    x = as_dtype(input, wide(input.dtype))
    top = reduce(reductions.amax, x.real if x.dtype.is_complex else x, dim, True)
    top = top.where(top.isfinite(), 0.0)
    exponentials = (x - top).exp() if x.dtype.is_complex else emit(elementwise.exp_sub, x, top)
    total = as_dtype(reduce(reductions.sum_, exponentials, dim, True).log() + top, input.dtype)
    return total if keepdim else total.squeeze(axes_of(dim, input.ndim))


logsumexp = Op(
    "logsumexp",
    _logsumexp,
    (
        lambda g, out, input, dim, keepdim: kept(g, input, dim, keepdim)
        * (input - kept(out, input, dim, keepdim)).exp(),
        None,
        None,
    ),
)


def _norm(input: Tensor, p: float, dim: Any, keepdim: bool) -> Tensor:
    """Vector norm of order p, 0 < p < infinity, over dimensions."""
    p = _order(p)
    wide = dtypes.float32 if input.dtype in (dtypes.float16, dtypes.bfloat16) else input.dtype
    x = as_dtype(input, wide)
    if p == 0.0:
        out = reduce(reductions.sum_, as_dtype(x != 0.0, wide), dim, keepdim)
    elif p == 2.0:
        out = reduce(reductions.sum_, x * x, dim, keepdim).sqrt()
    elif p == 1.0:
        out = reduce(reductions.sum_, x.abs(), dim, keepdim)
    else:
        total, root = reduce(reductions.sum_, x.abs() ** p, dim, keepdim), 1.0 / p
        out = total**root if _is_half(p) else emit(elementwise.pow_, total, as_dtype(root, wide))
    return as_dtype(out, input.dtype)


def _order(p: Any) -> Any:
    """The order of a norm: a float that is one, or stands for all between the same two halves."""
    return decided(p) if type(p) is TracedFloat else float(p)


def _is_half(p: Any) -> bool:
    """Whether an order is a multiple of 1/2: only one that is not may vary, and then its root has to be any power."""
    return type(p) is float and (2.0 * p).is_integer()


def _norm_rule(g: Any, out: Any, input: Any, p: float, dim: Any, keepdim: bool) -> Any:
    """Zero where the norm is zero."""
    p = _order(p)
    g, out = kept(g, input, dim, keepdim), kept(out, input, dim, keepdim)
    if p == 0.0:
        return g.new_zeros(input.shape)
    if p == 1.0:
        return g * input.sign()
    if p == 2.0:
        return (g * input / out.where(out != 0.0, 1.0)).where(out != 0.0, 0.0)
    inside = (out != 0.0).logical_and(input != 0.0)
    x, size = input.where(inside, 1.0), out.where(out != 0.0, 1.0)
    return (g * (x.sign() * x.abs() ** (p - 1.0) / size ** (p - 1.0))).where(inside, 0.0)


_norm_op = Op("norm", _norm, (_norm_rule, None, None, None))
_norm_of_many = Op("norm_of_many", _norm, _norm_op.rules, ("p",))
_norm_of_many.name = _norm_op.name


@planned_of_ranks
def norm(input: Tensor, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: DType | None = None) -> Plan:
    """Vector norm over dimensions: sum(|input|**p)**(1/p), the largest or least |input| for p = inf or -inf.

    `p` may be "fro" (2) or "nuc", the sum of singular values over two dimensions. All dimensions without `dim`; they go
    away, or have size 1 with `keepdim`. p = 0 counts what is not 0. Raises RuntimeError for integers and other names of
    norms.
    """
    p = decided(p)
    if type(p) is TracedFloat and dtype is None and input.dtype.is_floating_point:
        return _norm_op.call, (input, p, dim, keepdim)
    if dtype is None and type(p) in (int, float) and math.isfinite(p) and input.dtype.is_floating_point:
        op = _norm_of_many if is_one_of_many(p) else _norm_op
        return op.call, (input, int(p) if _is_exact(p) else p, dim, keepdim)
    return _any_norm, (input, p, dim, keepdim, dtype)


def _is_exact(p: float) -> bool:
    """Whether an order is an integer that is written as one: larger ones need not fit into 64 bits."""
    return abs(p) < 2**53 and float(p).is_integer()


def _any_norm(input: Tensor, p: Any, dim: Any, keepdim: bool, dtype: DType | None) -> Tensor:
    if dtype is not None:
        input = input.to(dtype)
    if p != "nuc" and input.dtype.is_complex:
        input = input.abs()
    if not input.dtype.is_differentiable:
        raise RuntimeError(f"norm(): the input must be floating point, but got {input.dtype}")
    if p == "nuc":
        if input.dtype in (dtypes.float16, dtypes.bfloat16):
            raise RuntimeError(f"linalg.matrix_norm: Low precision dtypes not supported. Got {input.dtype}")
        from eagerjit.ops.norms import nuclear_norm

        return nuclear_norm(input, (0, 1) if dim is None and input.ndim == 2 else dim, keepdim)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"linalg.matrix_norm: Order {p} not supported.")
    p = 2.0 if p in (None, "fro") else float(p)
    if p == math.inf:
        return amax.call(input.abs(), () if dim is None else dim, keepdim)
    if p == -math.inf:
        return amin.call(input.abs(), () if dim is None else dim, keepdim)
    return _norm_op.call(input, int(p) if p.is_integer() else p, dim, keepdim)

"""`out=`: which dtypes operations write, which they compute in, and how results get there."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from eagerjit.effects.cautions import caution
from eagerjit.runtime import dtypes, mode
from eagerjit.tensors.placement import check_together
from eagerjit.tensors.promotion import TYPE_NAMES, can_cast
from eagerjit.tensors.tensor import Tensor

_EXACT = frozenset(
    "ceil conj_physical floor frac neg negative sign sgn trunc fix round nan_to_num float_power heaviside "
    "isposinf isneginf signbit hardshrink where bitwise_not amax amin argmax argmin "
    "norm vector_norm matrix_norm nuclear_norm logcumsumexp quantile nanquantile histc msort renorm softmax "
    "log_softmax mm matmul bmm mv dot vdot vecdot inner addmm addmv addbmm baddbmm cross cross_of_namespace "
    "tensordot multi_dot matrix_power gather index_select take take_along_dim masked_select nonzero tril triu diag "
    "scatter scatter_add scatter_reduce index_add index_copy bucketize searchsorted isin multinomial cholesky "
    "cholesky_ex inv inverse det solve svdvals eigvalsh complex polar aminmax slice_scatter alias_copy as_strided_copy "
    "detach_copy diagonal_copy expand_copy narrow_copy permute_copy select_copy split_with_sizes_copy squeeze_copy "
    "t_copy transpose_copy unbind_copy unfold_copy unsqueeze_copy view_copy gelu index_reduce ldl_solve linear "
    "lu_solve ormqr softplus softshrink solve_triangular".split()
)
"""Operations that write no dtype but their result's."""

_LIMITING = frozenset(("clamp", "clamp_min", "clamp_max"))
_COMPUTED_IN = frozenset("sum nansum prod cumsum cumprod".split())
"""Operations that compute in the dtype of what they write."""

_AVERAGES = frozenset(("mean", "nanmean"))
"""Operations that do so where elements can be converted to it."""

_WITHOUT = frozenset("clone conj isfinite isinf isnan isreal positive relu".split())
"""Operations that have no such option."""

_TRUTHS = frozenset(("all", "any"))
_JOINS = frozenset("cat concat concatenate stack hstack vstack dstack column_stack".split())


def taken_out(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Callable[[Any], Any] | None:
    """What writes the result to where the option `out` says, which is removed; the dtype that it asks for is set."""
    if name in _WITHOUT and "out" in options:
        raise TypeError(f"{name}() got an unexpected keyword argument 'out'")
    out = options.pop("out", None)
    if out is None:
        return None
    exactly = options.get("dtype") is not None
    if name in ("cumsum", "cumprod") and not exactly and isinstance(out, Tensor) and out.dtype is dtypes.bool_:
        raise NotImplementedError(f"\"{name}_out_cpu\" not implemented for 'Bool'")
    given = arguments[0] if arguments else options.get("input")
    if not exactly and isinstance(out, Tensor) and _computes_in(out.dtype, name, given):
        options["dtype"] = out.dtype
    operands = [x for x in (*arguments, *options.values()) if x is not None]
    if name == "pow" and operands and type(operands[0]) in (int, float, complex) and operands[0] == 1:
        return lambda result: write_out(name, result.to(out.dtype), out)  # PyTorch fills it with ones
    exactly = exactly or _exact_for(name, operands, out)
    return functools.partial(write_out, name, out=out, exactly=exactly)


def _exact_for(name: str, operands: list[Any], out: Any) -> bool:
    """Whether it is for its operands that an operation writes no dtype but its result's."""
    if name in _LIMITING:
        return not all(isinstance(x, Tensor) for x in operands)
    if name != "abs" or not operands or not isinstance(out, Tensor):
        return False
    return not operands[0].dtype.is_complex or (out.dtype.is_complex and out.dtype is not operands[0].dtype)


def _computes_in(dtype: Any, name: str, input: Any) -> bool:
    """Whether an operation computes in the dtype of what it writes."""
    if name in _COMPUTED_IN:
        return True
    if name not in _AVERAGES or not isinstance(input, Tensor):
        return False
    return input.dtype.is_differentiable and can_cast(input.dtype, dtype)


def write_out(name: str, result: Any, out: Any, exactly: bool = False, filled: bool = False) -> Any:
    """Store a result where `out=` says, which gets the result's shape, and a warning unless it is only `filled`.

    `exactly` says that it must have the result's dtype. Raises RuntimeError, TypeError where tensors are joined, as
    PyTorch does for dtypes that the operation does not write, and for gradients.
    """
    if isinstance(result, tuple):
        if not isinstance(out, (tuple, list)) or len(out) != len(result):
            raise TypeError(f"{name}(): argument 'out' must be tuple of {len(result)} Tensors")
        for each, one in zip(result, out, strict=True):
            _check_out(name, each, one, True)  # all before the first is written
        written = [_written(each, one, filled) for each, one in zip(result, out, strict=True)]
        return type(result)(*written) if hasattr(result, "_fields") else tuple(written)
    _check_out(name, result, out, exactly)
    return _written(result, out, filled)


def _check_out(name: str, result: Any, out: Any, exactly: bool) -> None:
    """Refuse what a result cannot be written into."""
    if not isinstance(out, Tensor):
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if mode.grad_mode() and (result._requires_grad or out._requires_grad):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    check_together(result, out)
    _check_dtype(name, result.dtype, out.dtype, exactly or name in _EXACT)


def _written(result: Any, out: Any, filled: bool) -> Any:
    """Where a result is written, in its shape."""
    if out.shape != result.shape:
        if out.numel() and not filled:
            _warn_of_resizing(out, result)
        out.resize_(result.shape)
    return out.copy_(result)


def _check_dtype(name: str, source: Any, wanted: Any, exactly: bool) -> None:
    """Refuse a dtype that an operation does not write."""
    if name in _TRUTHS:
        if wanted not in (dtypes.bool_, dtypes.uint8):
            raise RuntimeError(f"{name} only supports bool tensor for result, got: {TYPE_NAMES[wanted]}")
    elif exactly and source is not wanted:
        raise RuntimeError(f"{name}(): Expected out tensor to have dtype {source}, but got {wanted} instead")
    elif not can_cast(source, wanted):
        kind = TypeError if name in _JOINS else RuntimeError
        names = f"{TYPE_NAMES[source]} can't be cast to the desired output type {TYPE_NAMES[wanted]}"
        raise kind(f"{name}(): result type {names}")


def _warn_of_resizing(out: Tensor, result: Tensor) -> None:
    caution(
        f"An output with one or more elements was resized since it had shape {list(out.shape)}, which does not match "
        f"the required output shape {list(result.shape)}. This behavior is deprecated, and in a future release outputs "
        "will not be resized unless they have zero elements. You can explicitly reuse an out tensor t by resizing it, "
        "inplace, to zero elements with t.resize_(0)."
    )

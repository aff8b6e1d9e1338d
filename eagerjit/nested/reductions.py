"""Sums and their like along dimensions of nested tensors of layout `jagged`.

Along the ragged dimension results are dense, one for each component; along others they are nested.
"""

from __future__ import annotations

from typing import Any

from eagerjit.nested.components import padded, without_gaps, without_padding
from eagerjit.nested.tensor import Jagged, NestedTensor, described, made
from eagerjit.ops import views
from eagerjit.runtime import dtypes
from eagerjit.tensors.limits import iinfo
from eagerjit.tensors.tensor import Tensor


def _least(dtype: Any) -> Any:
    """What is no larger than any element."""
    if dtype.is_floating_point:
        return -float("inf")
    return False if dtype is dtypes.bool_ else iinfo(dtype).min


def _most(dtype: Any) -> Any:
    """What is no smaller than any element."""
    if dtype.is_floating_point:
        return float("inf")
    return True if dtype is dtypes.bool_ else iinfo(dtype).max


NEUTRAL: dict[str, Any] = {
    "sum": lambda dtype: 0, "nansum": lambda dtype: 0, "prod": lambda dtype: 1, "any": lambda dtype: False,
    "all": lambda dtype: True, "count_nonzero": lambda dtype: 0, "amax": _least, "max": _least, "argmax": _least,
    "logsumexp": _least, "amin": _most, "min": _most, "argmin": _most,
}  # fmt: skip
"""What leaves each unchanged, by dtype: the padding along a ragged dimension."""


def reduced(func: Any, input: NestedTensor, dim: Any = None, keepdim: bool = False, **options: Any) -> Any:
    """Any of `NEUTRAL`, and `mean`."""
    name = func.__name__
    if isinstance(dim, Tensor):
        raise NotImplementedError(f"{name}(): a tensor beside a nested one of {described(input)}")
    input = without_gaps(input)
    values, ragged = input._entries, input._places_.dim
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return func(values, **options)
    dims = sorted({views.dimension(d, input.ndim) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))})
    _check(name, dims, ragged)
    if len(dims) == input.ndim:
        found = func(values, **options)
        return found.reshape((1,) * input.ndim) if keepdim else found
    if 0 in dims:
        found = func(values, [d - 1 for d in dims[1:]] if len(dims) > 2 else ragged - 1, keepdim, **options)
        return found.unsqueeze(0) if keepdim else found
    if ragged in dims:
        return _along_rows(func, input, keepdim, options)
    places = [d - 1 for d in dims]
    found = func(values, places if isinstance(dim, (tuple, list)) else places[0], keepdim, **options)
    moved = Jagged(input._places_.rows, ragged if keepdim else ragged - sum(d < ragged for d in dims))
    if isinstance(found, tuple):
        return type(found)(*(made(moved, part) for part in found))
    return made(moved, found)


def _check(name: str, dims: list[int], ragged: int) -> None:
    if 0 in dims and ragged not in dims:
        raise RuntimeError(
            f"{name}(): reducing along the batch dimension but not the ragged dimension is not supported for nested "
            "tensors"
        )
    if ragged in dims and 0 not in dims and len(dims) > 1:
        raise RuntimeError(
            f"{name}(): reducing along a ragged and non-batch dimension is not supported for nested tensors"
        )


def _along_rows(func: Any, input: NestedTensor, keepdim: bool, options: dict[str, Any]) -> Any:
    """One result for each component."""
    ragged, name = input._places_.dim, func.__name__
    if name == "mean":
        total = padded(input, 0).sum(ragged, keepdim, **options)
        lengths = input._places_.rows.lengths_of_all().view(-1, *(1,) * (total.ndim - 1))
        return total / lengths.to(total.dtype)
    return func(padded(input, NEUTRAL[name](input.dtype)), ragged, keepdim, **options)


def softmax(func: Any, input: NestedTensor, dim: int, *rest: Any, **options: Any) -> Any:
    """`softmax` and `log_softmax`: along the ragged dimension over each component's rows."""
    place = views.dimension(dim, input.ndim)
    if place == 0:
        text = "not supported when reducing across the batch dimension for NestedTensor"
        raise RuntimeError(f"{func.__name__}(): {text}")
    if place != input._places_.dim:
        return input.with_values(func(input._entries, place - 1, *rest, **options))
    input = without_gaps(input)
    found = func(padded(input, _least(input.dtype)), place, *rest, **options)
    return without_padding(found, input._places_.rows, place)


def norm_of(func: Any, input: NestedTensor, normalized_shape: Any, *rest: Any, **options: Any) -> Any:
    """`layer_norm` and `rms_norm`, over dimensions after the ragged one."""
    count = len(normalized_shape)
    if count >= input.ndim - input._places_.dim:
        raise RuntimeError(
            f"Given normalized_shape={list(normalized_shape)}, expected input with shape [*, "
            f"{', '.join(map(str, normalized_shape))}] after its ragged dimension, but got {described(input)}"
        )
    return input.with_values(func(input._entries, normalized_shape, *rest, **options))


def equal(func: Any, input: Any, other: Any) -> bool:
    """Whether both have the same components. A dense tensor has others."""
    if not isinstance(input, NestedTensor) or not isinstance(other, NestedTensor):
        return False
    from eagerjit.nested.components import unbind
    from eagerjit.ops.arithmetic import equal as equals

    parts, others = unbind(input), unbind(other)
    return len(parts) == len(others) and all(map(equals, parts, others))


def allclose(func: Any, input: Any, other: Any, *rest: Any, **options: Any) -> bool:
    """Whether components are close to those of another nested tensor with the same rows."""
    from eagerjit.nested.pointwise import pointwise
    from eagerjit.ops.arithmetic import isclose

    return bool(pointwise(isclose.call, input, other, *rest, **options)._entries.all())


HANDLERS: dict[str, Any] = {
    **dict.fromkeys((*NEUTRAL, "mean"), reduced), **dict.fromkeys(("softmax", "log_softmax"), softmax),
    **dict.fromkeys(("layer_norm", "rms_norm"), norm_of), "equal": equal, "allclose": allclose,
}  # fmt: skip

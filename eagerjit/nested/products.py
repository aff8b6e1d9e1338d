"""Products of nested tensors of layout `jagged`, rows of a table, attention between components."""

from __future__ import annotations

from typing import Any

from eagerjit.nested.components import padded, without_gaps, without_padding
from eagerjit.nested.rows import Rows
from eagerjit.nested.tensor import NestedTensor, described
from eagerjit.tensors.tensor import Tensor


def linear(func: Any, input: NestedTensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """`linear` of the rows."""
    if input._places_.dim == input.ndim - 1:
        raise ValueError(f"linear(): not supported for NestedTensor on ragged dim, here of {described(input)}")
    return input.with_values(func(input._entries, weight, bias))


def matmul(func: Any, input: Any, other: Any) -> Any:
    """Products of matrices: of all rows with one, or component by component."""
    if not isinstance(input, NestedTensor):
        raise _no_product(func, input, other)
    input = without_gaps(input)
    places, ndim = input._places_, input.ndim
    contracted = places.dim == ndim - 1
    if isinstance(other, NestedTensor):
        other = without_gaps(other)
        if contracted and other._places_.dim == other.ndim - 2 and other.ndim == ndim:
            _check_rows(func, input, other)
            return func(padded(input, 0), padded(other, 0))
        if places.dim < ndim - 2 and other._places_.dim == places.dim and other.ndim == ndim:
            _check_rows(func, input, other)
            return input.with_values(func(input._entries, other._entries))
        raise _no_product(func, input, other)
    if contracted:
        raise _no_product(func, input, other)
    if other.ndim == 2 and func.__name__ != "bmm":
        return input.with_values(func(input._entries, other))
    if other.ndim != ndim or other.shape[0] not in (1, len(places.rows)):
        raise _no_product(func, input, other)
    return without_padding(func(padded(input, 0), other), places.rows, places.dim)


def _check_rows(func: Any, input: NestedTensor, other: NestedTensor) -> None:
    one, two = input._places_.rows, other._places_.rows
    if one is not two and one.counts != two.counts:
        raise _no_product(func, input, other)


def _no_product(func: Any, input: Any, other: Any) -> RuntimeError:
    return RuntimeError(
        f"{func.__name__}(): not supported between inputs of {described(input)} and {described(other)}"
    )


def embedding(func: Any, input: Any, weight: Any, *rest: Any, **options: Any) -> Any:
    """Rows of a dense table by nested numbers."""
    if not isinstance(input, NestedTensor) or isinstance(weight, NestedTensor):
        raise NotImplementedError(f"{func.__name__}(): the table is a nested tensor")
    return input.with_values(func(input._entries, weight, *rest, **options))


def attention(
    func: Any, query: Any, key: Any, value: Any, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Any:
    """Attention within each component: (components, heads, ragged, features), keys and values with the same rows."""
    tensors = (query, key, value)
    if attn_mask is not None or not all(isinstance(t, NestedTensor) and t.ndim == 4 for t in tensors):
        raise RuntimeError(
            "scaled_dot_product_attention(): of nested tensors all three are nested, of four dimensions, and there is "
            f"no mask; here {', '.join(map(described, tensors))}"
        )
    if any(t._places_.dim != 2 for t in tensors):
        raise RuntimeError("scaled_dot_product_attention(): nested tensors are (components, heads, ragged, features)")
    query, key, value = map(without_gaps, tensors)
    rows, others = query._places_.rows, key._places_.rows
    if others.counts != value._places_.rows.counts or len(rows) != len(others):
        raise RuntimeError(f"scaled_dot_product_attention(): keys of {described(key)}, values of {described(value)}")
    mask = _mask(rows, others, is_causal)
    inputs = [padded(t, 0) for t in (query, key, value)]
    found = func(*inputs, attn_mask=mask, dropout_p=dropout_p, scale=scale, enable_gqa=enable_gqa)
    return without_padding(found, rows, 2)


def _mask(rows: Rows, others: Rows, is_causal: bool) -> Tensor:
    """Which keys queries look at, for all heads: those that there are, and of causal attention none that come later."""
    from eagerjit.tensors.creation import arange

    places = arange(others.longest, device=others.offsets.device)
    found = (places < others.lengths_of_all().unsqueeze(1))[:, None, None]
    if not is_causal:
        return found  # type: ignore[no-any-return]
    return found & (places <= arange(rows.longest, device=places.device).unsqueeze(1))  # type: ignore[no-any-return]


HANDLERS: dict[str, Any] = {
    "linear": linear, "matmul": matmul, "__matmul__": matmul, "bmm": matmul, "embedding": embedding,
    "scaled_dot_product_attention": attention,
}  # fmt: skip

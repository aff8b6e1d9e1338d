"""PyTorch's formulas of operations, from shapes: a product and a sum are two."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from eagerjit.tensors.tensor import Tensor

Sizes = Sequence[int]


def shape_of(value: Any) -> Any:
    """A tensor's shape, anything else as it is."""
    return value.shape if isinstance(value, Tensor) else value


def _agreeing(what: str, fits: bool, *shapes: Any) -> None:
    if not fits:
        raise AssertionError(f"{what}: shapes do not fit, got {' and '.join(map(str, shapes))}")


def mm_flop(a_shape: Sizes, b_shape: Sizes, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Of a product of two matrices."""
    (m, k), (inner, n) = a_shape, b_shape
    _agreeing("matmul", k == inner, a_shape, b_shape)
    return m * n * 2 * k


def addmm_flop(self_shape: Any, a_shape: Sizes, b_shape: Sizes, out_shape: Any = None, **kwargs: Any) -> int:
    """The same of one that is added to something."""
    return mm_flop(a_shape, b_shape)


def bmm_flop(a_shape: Sizes, b_shape: Sizes, out_shape: Any = None, **kwargs: Any) -> int:
    """Of products of two batches of matrices."""
    (b, m, k), (batches, inner, n) = a_shape, b_shape
    _agreeing("bmm", b == batches and k == inner, a_shape, b_shape)
    return b * m * n * 2 * k


def baddbmm_flop(self_shape: Any, a_shape: Sizes, b_shape: Sizes, out_shape: Any = None, **kwargs: Any) -> int:
    """The same of some that are added to something."""
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(x_shape: Sizes, w_shape: Sizes, out_shape: Sizes, transposed: bool = False) -> int:
    """Of a convolution: every tap counts at every place, those in the padding too. A bias is not counted."""
    places = (x_shape if transposed else out_shape)[2:]
    return prod(places) * prod(w_shape) * x_shape[0] * 2


def conv_flop(
    x_shape: Sizes, w_shape: Sizes, _bias: Any, _stride: Any, _padding: Any, _dilation: Any, transposed: bool,
    *args: Any, out_shape: Any = None, **kwargs: Any,
) -> int:  # fmt: skip
    """The same from a call's arguments."""
    return conv_flop_count(x_shape, w_shape, out_shape, transposed)


def conv_backward_flop(
    grad_out_shape: Sizes, x_shape: Sizes, w_shape: Sizes, _bias: Any, _stride: Any, _padding: Any, _dilation: Any,
    transposed: bool, _output_padding: Any, _groups: Any, output_mask: Sequence[bool], out_shape: Any = None,
    **kwargs: Any,
) -> int:  # fmt: skip
    """Of a convolution's gradients: of its input where output_mask[0], of its weight where output_mask[1].

    That of a weight counts all pairs of channels, those of different groups too.
    """
    count = 0
    if output_mask[0]:
        count += conv_flop_count(grad_out_shape, w_shape, shape_of(out_shape[0]), not transposed)
    if output_mask[1]:
        taps = shape_of(out_shape[1])[2:]
        places = x_shape[2:] if transposed else grad_out_shape[2:]
        count += prod(taps) * prod(places) * x_shape[0] * x_shape[1] * grad_out_shape[1] * 2
    return count


def sdpa_flop_count(query_shape: Sizes, key_shape: Sizes, value_shape: Sizes) -> int:
    """Of an attention's two products; what a mask hides counts too."""
    batch, heads, queries, features, keys, values = _attention_sizes(query_shape, key_shape, value_shape)
    return 2 * batch * heads * queries * keys * (features + values)


def sdpa_flop(
    query_shape: Sizes, key_shape: Sizes, value_shape: Sizes, *args: Any, out_shape: Any = None, **kwargs: Any
) -> int:
    """The same from a call's arguments."""
    return sdpa_flop_count(query_shape, key_shape, value_shape)


def sdpa_backward_flop_count(grad_out_shape: Sizes, query_shape: Sizes, key_shape: Sizes, value_shape: Sizes) -> int:
    """Of an attention's gradients: five products, as scores are computed again."""
    batch, heads, queries, features, keys, values = _attention_sizes(query_shape, key_shape, value_shape)
    return 2 * batch * heads * queries * keys * (3 * features + 2 * values)


def sdpa_backward_flop(
    grad_out_shape: Sizes, query_shape: Sizes, key_shape: Sizes, value_shape: Sizes, *args: Any,
    out_shape: Any = None, **kwargs: Any,
) -> int:  # fmt: skip
    """The same from a call's arguments."""
    return sdpa_backward_flop_count(grad_out_shape, query_shape, key_shape, value_shape)


def _attention_sizes(query_shape: Sizes, key_shape: Sizes, value_shape: Sizes) -> tuple[int, ...]:
    """(batch, heads of the query, queries, features, keys, features of a value)."""
    (batch, heads, queries, features), (_, shared, keys, _), values = query_shape, key_shape, value_shape[-1]
    fits = key_shape[0] == value_shape[0] == batch and value_shape[1] == shared and key_shape[3] == features
    fits = fits and value_shape[2] == keys and heads >= shared and heads % shared == 0
    _agreeing("sdpa_flop_count", fits, query_shape, key_shape, value_shape)
    return batch, heads, queries, features, keys, values


_KERNELS = "efficient", "flash", "cudnn"
FORMULAS = {
    "mm": mm_flop, "addmm": addmm_flop, "bmm": bmm_flop, "baddbmm": baddbmm_flop, "_scaled_mm": mm_flop,
    **dict.fromkeys(
        ("convolution", "_convolution", "cudnn_convolution", "_slow_conv2d_forward", "convolution_overrideable"),
        conv_flop,
    ),
    "convolution_backward": conv_backward_flop,
    **{f"_scaled_dot_product_{kind}_attention": sdpa_flop for kind in _KERNELS},
    **{f"_scaled_dot_product_{kind}_attention_backward": sdpa_backward_flop for kind in _KERNELS},
}  # fmt: skip
"""By the operator's name."""

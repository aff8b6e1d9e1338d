"""What autocast converts the arguments of, by name: ops, and functions marked `@converting`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from eagerjit.state import set_casting, state

LOWER = frozenset(
    "matmul bmm linear addmm addbmm baddbmm convolution convolution_input depthwise_convolution conv1d conv2d conv3d "
    "conv_transpose1d conv_transpose2d conv_transpose3d prelu".split()
)
"""What computes in the lower precision."""

WIDE = frozenset(
    "avg_pool3d binary_cross_entropy grid_sample prod quantile nanquantile cdist trace cholesky cholesky_inverse "
    "cholesky_solve inverse lu_solve pinverse max_pool3d max_unpool2d max_unpool3d adaptive_avg_pool3d mse_loss "
    "cosine_embedding_loss nll_loss hinge_embedding_loss poisson_nll_loss smooth_l1_loss cross_entropy "
    "soft_cross_entropy l1_loss huber_loss margin_ranking_loss soft_margin_loss triplet_margin_loss multi_margin_loss "
    "kl_div multilabel_margin_loss binary_cross_entropy_with_logits ctc_step polar view_as_complex geqrf orgqr ormqr "
    "qr svd triangular_solve cond matrix_rank solve svdvals eigvals eigvalsh inv householder_product tensorinv "
    "tensorsolve cholesky_ex eig eigh lstsq inv_ex fft ifft fft2 ifft2 fftn ifftn rfft irfft rfft2 irfft2 rfftn irfftn "
    "hfft ihfft fake_quantize_per_tensor_affine fractional_max_pool2d fractional_max_pool3d mirrored".split()
)
"""What computes in float32."""

ALIKE = frozenset({"cat", "stack", "index_copy"})
"""Those whose arguments all get the widest dtype among them."""

CASTS = LOWER | WIDE | ALIKE


def converted(name: str, *arguments: Any) -> tuple[Any, ...]:
    """The arguments of a function in the dtypes that it computes with."""
    return arguments if state.casting is None else state.casting.convert(name, arguments)  # type: ignore[no-any-return]


def converting(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose arguments autocast converts, rather than those of what it calls."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        before = state.casting
        if before is None:
            return function(*args, **kwargs)
        values = before.convert(function.__name__, (*args, *kwargs.values()))
        set_casting(None)
        try:
            return function(*values[: len(args)], **dict(zip(kwargs, values[len(args) :], strict=True)))
        finally:
            set_casting(before)

    return call

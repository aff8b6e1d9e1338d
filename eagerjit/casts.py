"""Which ops autocast converts the arguments of, by name."""

from __future__ import annotations

LOWER = frozenset(
    "matmul bmm linear addmm addbmm baddbmm convolution convolution_input depthwise_convolution conv1d conv2d conv3d "
    "conv_transpose1d conv_transpose2d conv_transpose3d".split()
)
"""Ops that compute in the lower precision."""

WIDE = frozenset(
    "avg_pool3d binary_cross_entropy grid_sample prod quantile nanquantile cdist trace cholesky cholesky_inverse "
    "cholesky_solve inverse lu_solve pinverse max_pool3d max_unpool2d max_unpool3d adaptive_avg_pool3d mse_loss "
    "cosine_embedding_loss nll_loss hinge_embedding_loss poisson_nll_loss smooth_l1_loss cross_entropy "
    "soft_cross_entropy l1_loss huber_loss margin_ranking_loss soft_margin_loss triplet_margin_loss multi_margin_loss "
    "kl_div multilabel_margin_loss binary_cross_entropy_with_logits ctc_step".split()
)
"""Ops that compute in float32."""

ALIKE = frozenset({"cat", "stack", "index_copy"})
"""Ops whose arguments all get the widest dtype among them."""

CASTS = LOWER | WIDE | ALIKE

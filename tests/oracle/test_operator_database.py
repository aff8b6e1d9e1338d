"""PyTorch's own database of operators as oracle: every operator on a few samples, and what is known to differ."""

from __future__ import annotations

import pytest
import torch
from database import Comparison, operators

STATED: dict[str, dict[str, str]] = {
    "PyTorch leaves the shape of out= as it is": {
        "out": "fft_ihfft2 fft_ihfftn",
    },
    "PyTorch's gradient is that of other elements than those that are read": {
        "gradient": "as_strided_scatter cholesky_inverse cholesky_solve",
    },
    "eagerjit has no such function": {
        "missing": "hash_tensor",
    },
    "not a public function of PyTorch's": {
        "missing": """
            _batch_norm_with_update _chunk_cat _native_batch_norm_legit _softmax_backward_data _unsafe_masked_index
            _unsafe_masked_index_put_accumulate _upsample_bilinear2d_aa native_batch_norm
            native_dropout_backward native_group_norm native_layer_norm slice torch__scaled_mm_v2
            torch_ops_aten__efficient_attention_forward torch_ops_aten__flash_attention_forward
            torch_ops_aten__safe_softmax_default
        """,
    },
    "not for these dtypes, or no such function": {
        "method": "matrix_exp",
        "result": "matrix_exp max_pool2d_with_indices_backward",
    },
    "two numbers are operands where PyTorch takes a tensor at least: the array API and NumPy's functions give them": {
        "error": """
            __radd__ __rand__ __rdiv__ __rmul__ __ror__ __rxor__ bitwise_and bitwise_left_shift bitwise_or
            bitwise_right_shift bitwise_xor float_power pow remainder special_xlog1py special_zeta xlogy
        """,
    },
    "operands in place keep their shape": {
        "in place": "addbmm",
    },
    "other last places: PyTorch's polynomials and halves are less exact": {
        "method": "polygamma_polygamma_n_3",
        "out": "polygamma_polygamma_n_3",
        "result": "nn_functional_grid_sample polygamma_polygamma_n_3",
    },
    "results are row-major, and views are of what was given": {
        "layout": "mH pca_lowrank svd_lowrank",
    },
    "results are written over what they are computed of, as if it had been copied": {
        "error": "cat gather index_select kthvalue masked_select take",
    },
    "there are no tensors of torch.complex32": {
        "method": "chalf",
        "result": "chalf complex view_as_complex",
    },
    "there is no out=": {
        "out": "nn_functional_avg_pool2d nn_functional_avg_pool3d",
    },
    "what means nothing is refused by another class of error, or computed with": {
        "error": "masked_fill narrow narrow_copy",
    },
    "what no element depends on requires no gradient": {
        "gradient": "linalg_householder_product",
    },
}
"""Why an operator differs, by the kind of difference: a table of names. What no longer differs has to leave it."""

GROUPS, SAMPLES = 12, 1


@pytest.mark.parametrize("group", range(GROUPS))
def test_operators(group: int) -> None:
    torch.set_num_threads(1)
    known = operators()
    stated = {(n, kind) for kinds in STATED.values() for kind, names in kinds.items() for n in names.split()}
    assert {name for name, _ in stated} <= set(known)
    chosen = sorted(known)[group::GROUPS]
    found = {(n, kind): what for n in chosen for kind, what in Comparison(known[n]).run(SAMPLES).items()}
    assert {pair: what for pair, what in found.items() if pair not in stated} == {}
    assert sorted(pair for pair in stated if pair[0] in chosen and pair not in found) == []
